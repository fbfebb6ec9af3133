"""Pages: of a search, of suggestions and of changes."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from msgspec import Meta, field

from overlay.answers.items import KINDS, FaultNote, Item
from overlay.answers.record import Count, Record, TestNetwork, Time, words
from overlay.search.query import FACETS
from overlay.search.sorting import AMOUNT, COST, PER_DAY


class FacetValue(TypedDict):
    """A value of a facet, and how many results have it."""

    value: str
    count: Count


class _Narrowed(TypedDict):
    parameters: tuple[str, ...]
    total: Count


class Narrowing(_Narrowed, total=False):
    """Filters without which there are results, and how many; `detail` says how many of all listings meet each alone,
    and which values are in use where none does; `near` has other values by parameter: skills, tags, currencies and
    intervals of nearly this spelling, and the most frequent currencies and intervals."""

    detail: str
    near: dict[str, tuple[FacetValue, ...]]


class Respelling(TypedDict):
    """An alternative text, and the number of its results."""

    q: str
    total: Count


class RelatedWords(Record, kw_only=True):
    """A word, and words near to it in meaning, which count less."""

    word: str
    terms: tuple[str, ...]


class SavedSearch(TypedDict, total=False):
    """Where a search can be followed: paths of its feeds, and the path to POST a subscription of a webhook to; those
    that this server has."""

    atom: str
    json: str
    webhook: str


class Correction(Record, kw_only=True):
    """A word that no listing, or hardly any, contains, and the word that was searched for instead, or too."""

    word: str
    to: str


class UnderstoodPhrase(Record, kw_only=True):
    """A phrase of `q` that is a preference: the parameter and value that it means; `filterUrl` is the search with that
    as a filter or order instead, `withoutUrl` the search without the phrase."""

    phrase: str
    parameter: str
    value: str
    applied: Annotated[str, words("preferred")]
    filter_url: str
    without_url: str


class AnswerRates(Record, kw_only=True):
    """The exchange rates that an answer used, and their age in seconds."""

    source: str
    quoted_at: Time | None = field(name="at")
    age: Count | None
    base: str = ""


class IndexGeneration(TypedDict):
    """The change that the index has read up to, and its heights by chain."""

    seq: Count
    heights: dict[str, Count]


class SearchPage(Record, kw_only=True):
    """A page of items."""

    test_network: TestNetwork = ""
    items: tuple[Item, ...]
    total: Count
    matched: Annotated[Count, Meta(description="How many of the results hold all words of `q` but stop words.")]
    total_relation: Annotated[str, words("eq", "gte")]
    limit: Count
    offset: Count
    next_cursor: str | None
    query_type: Annotated[str, words(*KINDS)] = "all"
    query: str
    index: IndexGeneration | None = None
    facets: Annotated[
        dict[str, tuple[FacetValue, ...]], Meta(extra_json_schema={"propertyNames": {"enum": list(FACETS)}})
    ] = field(default_factory=dict)
    facet_totals: Annotated[
        dict[str, Count],
        Meta(description="How many values a facet has, up to 20,000; absent where not all were counted."),
    ] = field(default_factory=dict)
    unapplied_filters: tuple[str, ...] = ()
    price_comparison: Annotated[
        str,
        words(
            AMOUNT, PER_DAY, COST,
            description="Where prices are compared: as amounts, whatever their interval, by their value for "
            "one day, or by the cost of a month with `calls`. `minPrice` and `maxPrice` bound amounts in any case.",
        ),
    ] | None = None  # fmt: skip
    rates: AnswerRates | None = None
    corrected: Annotated[
        tuple[Correction, ...],
        Meta(description="Words of `q` that no listing, or hardly any, contains, and what was searched for instead."),
    ] = ()
    related: Annotated[
        tuple[RelatedWords, ...],
        Meta(description="Words of `q` in place of which items of this page have words that are near in meaning."),
    ] = ()
    understood: Annotated[
        tuple[UnderstoodPhrase, ...],
        Meta(description="Phrases of `q` by which, without leaving any out, listings that meet them come first."),
    ] = ()
    notes: tuple[FaultNote, ...] = ()
    explain: Annotated[
        dict[str, Any] | None, Meta(description="With `explain`: the query, and the alternatives of its words.")
    ] = None
    emptied_by: Annotated[
        tuple[Narrowing, ...], Meta(description="Where nothing is found: filters without which there is something.")
    ] = ()
    did_you_mean: Annotated[
        tuple[Respelling, ...],
        Meta(description="Where nothing is found, or `weak`: other texts that find something under the same filters."),
    ] = ()
    weak: Annotated[bool, Meta(description="No listing has all words of `q`, and none is near to it in meaning.")] = (
        False
    )
    follow: Annotated[
        SavedSearch | None, Meta(description="With `weak`: where listings that meet the search later are reported.")
    ] = None


class SuggestedText(Record, kw_only=True):
    """A text that continues the one typed; `id` of a listing or skill."""

    text: str
    kind: str
    id: str = ""


class SuggestionPage(Record, kw_only=True):
    """Texts that continue the one typed."""

    items: tuple[SuggestedText, ...]


class RegistryChange(Record, kw_only=True):
    """A change: `upsert`, `remove` or `revert` of the listing `id`, or `reset`: discard everything, all changes follow
    again."""

    seq: Count
    epoch: str
    op: Annotated[str, words("upsert", "remove", "revert", "reset")]
    id: str | None
    height: Count | None
    reason: str


class ChangePage(Record, kw_only=True):
    """Changes in order, without gaps; `more` follow after (`epoch`, `next_since`)."""

    changes: tuple[RegistryChange, ...]
    epoch: str
    next_since: Count
    more: bool
