"""Facets, filters and alternative searches as links, and a cache of facet counts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from overlay.api.parameters import FILTERS, SEARCH
from overlay.api.problems import ProblemError
from overlay.api.search_answer import alternatives
from overlay.api.values import folded
from overlay.engines import IndexPosition
from overlay.search import query_syntax
from overlay.search.facet_counts import prices_it, without_own
from overlay.search.facts import MOST_VALUES
from overlay.search.query import FACETS, Hits, Query
from overlay.search.value_lists import parts
from overlay.text.interval_words import per
from overlay.web.links import Pairs, link, name_of, named, setting, without
from parsers.cards.intervals import interval_key, meant

if TYPE_CHECKING:
    from overlay.api.search_request import SearchRequest
    from overlay.projection.search_index import SearchIndex

MAX_CACHED = 256
"""Searches in the cache, at some 5 kB each."""

REST = 300.0
"""Seconds for which facets are not counted after a count that took too long."""

_TOO_LONG = 503
Facets = dict[str, tuple[tuple[str, int], ...]]
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class FacetCache:
    """A cache of facet counts by search and index generation: paging and sorting count nothing again. Used in one
    thread."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._cached: OrderedDict[tuple[IndexPosition | None, Query], Facets] = OrderedDict()
        self._rests: OrderedDict[Query, float] = OrderedDict()

    async def ask(
        self,
        query: Query,
        index: IndexPosition | None,
        names: tuple[str, ...],
        search: Callable[[Query], Awaitable[Hits]],
    ) -> Hits:
        """The hits of `search`, with facets of these names from the cache or counted now; with `{}` where counting
        takes too long, as it may with a million listings."""
        alike = query._replace(
            limit=0, offset=0, after=None, sort="relevance", descending=None, facets=(), facet_limit=None,
            facet_prefix="",
        )  # fmt: skip
        key = (index, alike)
        if (facets := self._cached.get(key)) is not None:
            self._cached.move_to_end(key)
            return replace(await search(query._replace(facets=())), facets=facets)
        if self._rests.get(alike, 0.0) <= self._clock():
            try:
                hits = await search(query._replace(facets=names, facet_limit=None, facet_prefix=""))
            except ProblemError as problem:
                if problem.status != _TOO_LONG:
                    raise
                _remember(self._rests, alike, self._clock() + REST)
            else:
                _remember(self._cached, key, hits.facets or {})
                return hits
        return replace(await search(query._replace(facets=())), facets={})


def _remember(cache: OrderedDict[_Key, _Value], key: _Key, value: _Value) -> None:
    cache[key] = value
    if len(cache) > MAX_CACHED:
        cache.popitem(last=False)


_LABELS = {name: parameter.label for name, parameter in FILTERS.items()}
TITLES = {name: _LABELS[name] for name in FACETS}
_SHOWN, _MORE, _LONGEST = 6, 18, 80
_BUDGET = 20_000
"""Characters of all URLs: each link repeats the whole search."""

_MOST_CHIPS, _CHIPS_BUDGET = 20, 10_000
_TYPED = {"tag": "tags", "skillId": "skills"}
"""Facets with values that may be typed in `q`, as `tag:pay`."""


class Choice(NamedTuple):
    """A value of a facet: its label, its number of listings (None: not counted), the link, and whether it is chosen."""

    label: str
    listings: int | None
    url: str
    chosen: bool


class Group(NamedTuple):
    """A facet: the choices shown, and those under "more"."""

    name: str
    title: str
    choices: Sequence[Choice]
    more: Sequence[Choice]


class Chip(NamedTuple):
    """A filter in use, and the link that removes it."""

    label: str
    value: str
    url: str


def groups(parameters: Pairs, query: Query, counts_by_facet: Mapping[str, Sequence[tuple[str, int]]]) -> list[Group]:
    """The facets of an answer as links; a facet with one value is left out unless that is chosen. `query` has no
    lists any more (`SearchIndex.resolved`)."""
    parameters = _one_by_one(parameters, query)
    room = _BUDGET // (len(link(parameters)) + 60)
    groups_ = []
    for name, title in TITLES.items():
        counted = counts_by_facet.get(name)
        values: dict[str, int | None] = {value: count for value, count in counted or () if len(value) <= _LONGEST}
        spellings = {value.casefold(): value for value in values} if name == "skillId" else {}
        chosen = tuple(spellings.get(value, value) for value in _chosen(query, name))
        rarer = 0 if counted is not None and len(counted) < MOST_VALUES else None
        values = {**dict.fromkeys(chosen, rarer), **values}
        if not chosen and len(values) < 2:
            continue
        ordered = sorted(values, key=lambda value: value not in chosen)
        most = min(_SHOWN + _MORE, room)
        room -= min(len(ordered), most)
        choices = [_choice(parameters, query, name, value, values[value], value in chosen) for value in ordered[:most]]
        if choices:
            groups_.append(Group(name, title, choices[:_SHOWN], choices[_SHOWN:]))
    return [*groups_, _verified(parameters, query)]


def _one_by_one(parameters: Pairs, query: Query) -> Pairs:
    """The parameters with the values of each list one by one."""
    pairs: list[tuple[str, str]] = []
    for key, text in parameters:
        name = name_of(key)
        if "," in text and name in _TYPED:
            is_whole = folded(text) in getattr(query, _TYPED[name])
            pairs += [(key, part) for part in ([text] if is_whole else parts(text))]
        else:
            split = SEARCH.names[name].parts if name in SEARCH.names else None
            pairs += [(key, part) for part in (split(text) if split else [text])]
    return pairs


def _verified(parameters: Pairs, query: Query) -> Group:
    """The facet of verified listings, which the index does not count."""
    chosen = query.verified is True
    leads = without(parameters, "verified") if chosen else setting(parameters, "verified", "true")
    return Group("verified", "Verified", (Choice("domain or hash", None, link(leads), chosen),), ())


def _choice(parameters: Pairs, query: Query, name: str, value: str, count: int | None, chosen: bool) -> Choice:
    if chosen:
        leads = _unchosen(parameters, name, value)
    else:
        alone = name in ("type", "status") or prices_it(without_own(query, name), name)
        leads = setting(parameters, name, value) if alone else [*parameters, (name, value)]
    label = per(value) if name == "interval" else f"{value}s" if name == "type" else value
    return Choice(label, count, link(leads), chosen)


def _unchosen(parameters: Pairs, name: str, value: str) -> Pairs:
    """The parameters without a value of a facet, typed in `q` or not."""
    kind, rest = _TYPED.get(name, ""), without(parameters, name, value)
    if kind:
        return [(key, query_syntax.without(text, kind, value) if name_of(key) == "q" else text) for key, text in rest]
    # what is there in other words is a chain by its CAIP-2 id, or `status=all`
    return rest if len(rest) < len(parameters) else without(parameters, name)


def _chosen(query: Query, name: str) -> tuple[str, ...]:
    """The values of a facet that are chosen; defaults do not count."""
    chosen_values: dict[str, Any] = {
        "type": (query.kind,) if query.kind else (), "skillId": query.skills, "acceptedCurrency": query.currencies,
        "interval": query.intervals, "tag": query.tags, "chain": query.chains,
        "status": () if set(query.statuses) == {"live", "pending"} else query.statuses, "access": query.access,
        "transport": query.transports, "auth": query.auth, "protocol": query.protocols, "launcher": query.launchers,
        "health": query.health,
    }  # fmt: skip
    return tuple(chosen_values[name])


def chips(parameters: Pairs) -> list[Chip]:
    """The filters of a search with links that remove them, as many as there is room for."""
    most = max(1, _CHIPS_BUDGET // (len(link(parameters)) + 60))
    return list(islice(_chips(parameters), min(most, _MOST_CHIPS)))


def _chips(parameters: Pairs) -> Iterator[Chip]:
    for number, (key, value) in enumerate(parameters):
        parameter = SEARCH.names.get(key)
        if (
            parameter is None
            or parameter.name not in FILTERS
            or not value.strip()
            or (parameter.name, value) == ("type", "all")
        ):
            continue
        shown = _value_text(parameters, parameter.name, value)
        rest = [*parameters[:number], *parameters[number + 1 :]]
        yield Chip(_LABELS.get(parameter.name, parameter.name), shown, link(rest))


def _value_text(parameters: Pairs, name: str, value: str) -> str:
    """A filter's value in words; prices with their currency, where the URL names one."""
    short = value if len(value) <= _LONGEST else f"{value[:_LONGEST]}…"
    if name in ("maxPrice", "minPrice"):
        currency = next(iter(named(parameters, "priceCurrency")), "")
        return f"{short} {currency.strip().upper()[:20]}".rstrip()
    return per(interval_key(short)) if name == "interval" and meant(short) else short


def filter_text(parameters: Pairs, name: str) -> str:
    """A filter in words, with its values: `Tag “rust” or “go”`."""
    values = " or ".join(f"“{_value_text(parameters, name, value)}”" for value in named(parameters, name)[:_MOST_CHIPS])
    return f"{_LABELS.get(name, name)} {values}".rstrip()


def cleared(parameters: Pairs) -> str:
    """The link to the search without filters: words and order only."""
    remaining = {"q", "sort", "limit", "priceCurrency"}
    return link([pair for pair in parameters if name_of(pair[0]) in remaining])


class AlternativeSearch(NamedTuple):
    """A link to a search with results: label, text, address, and number of listings."""

    label: str
    text: str
    href: str
    total: int


def alternative_searches(
    engine: SearchIndex, parameters: Pairs, search_request: SearchRequest, hits: Hits
) -> list[AlternativeSearch]:
    """Alternatives to a search without good results: other texts first, then the search without the filters that
    emptied it; filters typed in `q` are left."""
    proposals = alternatives(engine, search_request, hits)
    meant = [(proposal["q"], proposal["total"]) for proposal in proposals.get("didYouMean", ())]
    ways = [AlternativeSearch("Did you mean", q, link(setting(parameters, "q", q)), total) for q, total in meant]
    for proposal in proposals.get("emptiedBy", ()):
        others = [pair for pair in parameters if name_of(pair[0]) not in proposal["parameters"]]
        ways += [
            AlternativeSearch(
                "Did you mean",
                f"{_LABELS[name]} “{_value_text((), name, value['value'])}”",
                link([*others, (name, value["value"])]),
                value["count"],
            )
            for name, values in proposal.get("near", {}).items()
            for value in values
        ]
        if others != list(parameters):
            words = " and ".join(filter_text(parameters, name) for name in proposal["parameters"])
            ways.append(AlternativeSearch("Leave out", words, link(others), proposal["total"]))
    return ways
