"""What to say when nothing is found: which filter emptied the answer, and what may have been meant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice, pairwise, product
from typing import Any, NamedTuple

from overlay.query import Query
from overlay.search.analysis import Compound, allowed_edits, is_spelt, query_words, stem
from overlay.search.query_syntax import ParsedText, read
from overlay.search.term_dictionary import TermDictionary

MOST_PROPOSALS = 3
_MOST_TRIED = 12  # texts that are put to the index
_MOST_FOR_A_WORD = 3
_LONGEST = 24  # letters of a word that is corrected or cut in two
_USUAL = ("live", "pending")

Count = Callable[[Query], int]
"""How many listings a query finds."""


class Emptied(NamedTuple):
    """Parameters that leave nothing, and how many listings there are without them."""

    parameters: tuple[str, ...]
    total: int


_FILTERS: dict[str, tuple[tuple[str, Any], ...]] = {
    "type": (("kind", None),),
    "skillId": (("skills", ()),),
    "acceptedCurrency": (("currencies", ()),),
    "interval": (("intervals", ()),),
    "minPrice": (("min_price", None),),
    "maxPrice": (("max_price", None),),
    "tag": (("tags", ()),),
    "chain": (("chains", ()),),
    "domain": (("domains", ()),),
    "owner": (("owners", ()),),
    "duplicatesOf": (("group", None),),
    "verified": (("verified", None),),
    "status": (("statuses", _USUAL),),
    "fromBlock": (("from_height", None),),
    "toBlock": (("to_height", None),),
    "updatedSince": (("updated_since", None),),
    "asOfHeight": (("as_of", None),),
}
"""The parameters that narrow an answer, and what of a query stands for none."""


def emptied_by(query: Query, count: Count) -> list[Emptied]:
    """The filters each of which alone keeps everything away; when it takes several, all of them."""
    bare = _counting(query)
    given = {name: dict(_FILTERS[name]) for name in narrowing(query)}
    alone = [Emptied((name,), count(bare._replace(**without))) for name, without in given.items()]
    found = [each for each in alone if each.total]
    if found or len(given) < 2:
        return found
    everything = {field: value for without in given.values() for field, value in without.items()}
    total = count(bare._replace(**everything))
    return [Emptied(tuple(given), total)] if total else []


def narrowing(query: Query) -> list[str]:
    """The parameters that narrow what a query finds."""
    return [name for name, without in _FILTERS.items() if _narrows(query, dict(without))]


def _narrows(query: Query, without: dict[str, Any]) -> bool:
    return any(
        frozenset(getattr(query, field)) != frozenset(value) if field == "statuses" else getattr(query, field) != value
        for field, value in without.items()
    )


def _counting(query: Query) -> Query:
    """The query as it is asked to count: nothing is shown."""
    return query._replace(limit=0, offset=0, after=None, facets=(), sort="relevance", descending=None)


class Proposal(NamedTuple):
    """Another text to ask for, and how many listings that finds under the same filters."""

    q: str
    total: int


def proposals(query: Query, words: ParsedText, respelt: list[str], count: Count) -> list[Proposal]:
    """What may have been meant: the words without what must be said or must not, or spelt as in `respelt`, with the
    filters that stand among them. Only what finds anything, and is understood as it is counted."""
    bare = _counting(query)._replace(operators=None)
    found: dict[str, Proposal] = {}
    tries = [*([words.text] if query.operators is not None else []), *respelt]
    for text in tries[:_MOST_TRIED]:
        said = " ".join([*text.split(), *_filters(words)])
        if text.strip() and len(found) < MOST_PROPOSALS and said not in found and _means(said, text, words):
            total = count(bare._replace(text=text))
            found |= {said: Proposal(said, total)} if total else {}
    return list(found.values())


_TYPED = ("tags", "owners", "skills")


def _filters(words: ParsedText) -> Iterator[str]:
    """The filters that stand among the words, as they are typed."""
    for name in _TYPED:
        for value in getattr(words, name):
            yield f'{name[:-1]}:"{value}"' if any(letter.isspace() for letter in value) else f"{name[:-1]}:{value}"


def _means(said: str, text: str, words: ParsedText) -> bool:
    """Whether a text asks for these words with these filters, and nothing else."""
    understood = read(said)
    wanted = ParsedText(text=understood.text, **{name: getattr(words, name) for name in _TYPED})
    return understood == wanted and understood.text.split() == text.split()


def respelt(text: str, vocabulary: TermDictionary) -> list[str]:
    """Spellings of a text in words that are in use, the likeliest first: words with more errors than a search forgives,
    cut in two, or written together with their neighbour. Empty when there are none."""
    compounds = query_words(text)
    options = [_options(each, vocabulary) for each in compounds]
    written = [each.written for each in compounds]
    ways = (" ".join(way) for way in product(*options))
    found = [*_joined(written, vocabulary), *islice(ways, _MOST_TRIED)]
    return [each for each in dict.fromkeys(found) if each != " ".join(written)][:_MOST_TRIED]


def _options(compound: Compound, vocabulary: TermDictionary) -> list[str]:
    """What may be meant by a word: itself when it is in use."""
    known = any(vocabulary.frequency(stem(each)) for each in (*compound.parts, compound.whole or compound.parts[0]))
    word = compound.parts[0]
    if known or len(compound.parts) > 1 or not is_spelt(word) or not 3 < len(word) <= _LONGEST:
        return [compound.written]
    near = [
        each.word for each in vocabulary.similar(word, allowed_edits(compound.written, word) + 1)[:_MOST_FOR_A_WORD]
    ]
    return [*_cut(word, vocabulary), *near][:_MOST_FOR_A_WORD] or [compound.written]


def _cut(word: str, vocabulary: TermDictionary) -> Iterator[str]:
    """A word as two that are in use, of which the rarer is the commonest."""
    cuts = [(word[:at], word[at:]) for at in range(2, len(word) - 1)]
    weighed = [(min(vocabulary.frequency(stem(each)) for each in cut), cut) for cut in cuts]
    rarer, best = max(weighed, default=(0, ("", "")))
    if rarer:
        yield " ".join(best)


def _joined(written: list[str], vocabulary: TermDictionary) -> Iterator[str]:
    """The text with two neighbours written together, where that is a word in use."""
    for at, (one, other) in enumerate(pairwise(written)):
        if vocabulary.frequency(stem(f"{one}{other}".casefold())):
            yield " ".join([*written[:at], f"{one}{other}", *written[at + 2 :]])
