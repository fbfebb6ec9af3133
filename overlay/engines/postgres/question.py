"""A `Query` and its `Plan` as SQL: which documents are looked at, and how many points each of them makes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from overlay.engines.postgres import lexemes
from overlay.query import Query
from overlay.search.facts import is_plain, standing, unwanted, wanted
from overlay.search.matching import Choice, Word
from overlay.search.prices import asks_offer, asks_price, each_currency
from overlay.search.ranking import LEVELS
from overlay.search.vocabulary import Vocabulary


class Part(NamedTuple):
    """A piece of a statement and its parameters."""

    text: str
    given: tuple[Any, ...] = ()


def joined(parts: Iterable[Part], by: str) -> Part:
    """Parts in their order."""
    each = list(parts)
    return Part(by.join(part.text for part in each), tuple(value for part in each for value in part.given))


class Levels:
    """At which levels a term may stand in the documents that are looked at: any, without the words in use."""

    def __init__(self, vocabulary: Vocabulary | None, query: Query) -> None:
        # counted is what a plain search finds
        self._vocabulary = vocabulary if is_plain(query) else None

    def of(self, term: str) -> list[int]:
        """Levels from 1 on."""
        if self._vocabulary is None:
            return list(_EVERY)
        held = self._vocabulary.levels(term)
        return [level for level in _EVERY if held >> (level - 1) & 1]

    def asked(self, term: str) -> str:
        """Asks for a term, also one that nothing holds."""
        return lexemes.at(self.of(term) or _EVERY, term)


_EVERY = range(1, LEVELS + 1)


class Ladder(NamedTuple):
    """What a word adds to the points of a document: `rungs`, the most first, each with the lexemes that add so much,
    or, unless `exact`, at most so much."""

    rungs: tuple[tuple[int, str], ...]
    exact: bool

    @property
    def most(self) -> int:
        """What it adds at best."""
        return self.rungs[0][0] if self.rungs else 0

    def steps(self, number: int) -> list[tuple[int, str]]:
        """The rungs in so many groups at most, each with the most that any of it adds."""
        size = -(-len(self.rungs) // number)
        groups = (self.rungs[at : at + size] for at in range(0, len(self.rungs), size))
        return [(group[0][0], lexemes.either(held for _, held in group)) for group in groups]


class Taken(NamedTuple):
    """A word as it is looked for: what asks for any choice of it, and the points of a document `d`, those of the best
    choice that it holds, also as a ladder."""

    asked: str
    points: Part
    ladder: Ladder


def taken(word: Word, levels: Levels) -> Taken:
    """How a word is looked for: one CASE for all choices of one term, from the highest points down, and one for each
    other choice."""
    singles = _singles(word, levels)
    several = [choice for choice in word.choices if len(choice.terms) > 1]
    cases = [_case(singles)] if singles else []
    cases += [_together(choice, levels) for choice in several]
    at = {made: list(asked) for made, asked in singles.items()}
    for choice in several:
        most = max(choice.points) * len(choice.terms)
        at.setdefault(most, []).append(_all_of(choice, levels))
    return Taken(
        lexemes.either(_all_of(choice, levels) for choice in word.choices),
        _best(cases),
        Ladder(tuple((made, lexemes.either(at[made])) for made in sorted(at, reverse=True)), exact=not several),
    )


def _best(cases: list[Part]) -> Part:
    if len(cases) == 1:
        return cases[0]
    best = joined(cases, ", ")
    return best._replace(text=f"greatest({best.text})") if cases else Part("0")


def _all_of(choice: Choice, levels: Levels) -> str:
    """Asks for all terms of a choice."""
    return lexemes.every(map(levels.asked, choice.terms))


def _singles(word: Word, levels: Levels) -> dict[int, list[str]]:
    """The lexemes of the choices of one term, by the points they make."""
    at: dict[int, list[str]] = {}
    for choice in word.choices:
        if len(choice.terms) == 1:
            for made, asked in _single(choice, levels):
                at.setdefault(made, []).append(asked)
    return at


def _single(choice: Choice, levels: Levels) -> Iterator[tuple[int, str]]:
    (term,), points = choice.terms, choice.points
    for level in levels.of(term):
        yield points[level - 1], lexemes.quoted(lexemes.term(term, level))


def _case(at: dict[int, list[str]]) -> Part:
    """The highest points whose lexemes a document holds, else 0."""
    whens, given = "", []
    for made in sorted(at, reverse=True):
        whens += f" WHEN d.held @@ %s::tsquery THEN {int(made)}"
        given.append(lexemes.either(at[made]))
    return Part(f"CASE{whens} ELSE 0 END", tuple(given))


def _together(choice: Choice, levels: Levels) -> Part:
    """A choice of several terms counts where a document holds them all."""
    sums = []
    for term in choice.terms:
        at: dict[int, list[str]] = {}
        for made, asked in _single(choice._replace(terms=(term,)), levels):
            at.setdefault(made, []).append(asked)
        sums.append(_case(at) if at else Part("0"))
    added = joined(sums, " + ")
    held = _all_of(choice, levels)
    return Part(f"CASE WHEN d.held @@ %s::tsquery THEN {added.text} ELSE 0 END", (held, *added.given))


PLAIN = Part("d.listed")
"""What is asked of a document when nothing is asked."""


def where(query: Query, texts: Iterable[str], schema: str) -> Part:
    """What a document `d` must be to be found: it holds all of `texts`, and meets all filters."""
    groups = [] if is_plain(query) else list(standing(query))
    asked = [lexemes.either(map(_fact, group)) for group in groups]
    asked += [lexemes.either(map(_fact, group)) for group in wanted(query)]
    asked += texts
    parts = [PLAIN] if is_plain(query) else []
    if asked:
        parts.append(Part("d.held @@ %s::tsquery", (lexemes.every(asked),)))
    if banned := unwanted(query):
        parts.append(Part("NOT d.held @@ %s::tsquery", (lexemes.either(map(_fact, banned)),)))
    parts += _phrases(query, schema)
    parts += _numbers(query)
    if asks_offer(query) and not _is_told_by_a_fact(query):
        parts.append(_offers(query, schema))
    return joined(parts, " AND ") if parts else Part("true")


def _fact(text: str) -> str:
    return lexemes.quoted(lexemes.fact(text))


def _phrases(query: Query, schema: str) -> Iterator[Part]:
    """Terms one after the other: looked for in the texts of those that hold them all."""
    if query.operators is None:
        return
    for no, sequences in (("", query.operators.phrases), ("NOT ", query.operators.excluded)):
        for each in sequences:
            held = lexemes.every(lexemes.at(_EVERY, term) for term in each.split(" "))
            said = f"(SELECT i.said FROM {schema}.items i WHERE i.number = d.number)"
            says = f"{no}(d.held @@ %s::tsquery AND position(%s::bytea IN {said}) > 0)"
            yield Part(says, (held, f" {each} ".encode()))


def _numbers(query: Query) -> Iterator[Part]:
    if query.as_of is not None:
        yield Part("d.since <= %s AND coalesce(d.until > %s, true)", (query.as_of, query.as_of))
    if query.from_height is not None:
        yield Part("d.height >= %s", (query.from_height,))
    if query.to_height is not None:
        yield Part("d.height <= %s", (query.to_height,))
    if query.updated_since is not None:
        yield Part("d.time >= %s", (query.updated_since,))


def _is_told_by_a_fact(query: Query) -> bool:
    """Whether only one thing is asked of offers, so that it does not matter which one meets it."""
    return not (asks_price(query) or query.skills) and not (query.currencies and query.intervals)


def _offers(query: Query, schema: str) -> Part:
    """One offer meets all that is asked of offers (law 14)."""
    meets = meeting(query, schema)
    return Part(f"EXISTS (SELECT FROM {schema}.offers o WHERE o.number = d.number AND {meets.text})", meets.given)


def meeting(query: Query, schema: str) -> Part:
    """What an offer `o` of a document `d` must be."""
    met: list[Part] = []
    # an offer is always accepted in the currency that it is stated in
    stated = query.price_currency if asks_price(query) and not query.rates else None
    if query.currencies and stated not in query.currencies:
        raw = _raw(query.currencies)
        met.append(Part("(o.currency = ANY(%s::bytea[]) OR o.accepted && %s::bytea[])", (raw, raw)))
    if query.intervals:
        met.append(Part("o.interval = ANY(%s::bytea[])", (_raw(query.intervals),)))
    if query.skills:
        own = f"(SELECT i.own FROM {schema}.items i WHERE i.number = d.number)"
        met.append(Part(f"coalesce(o.skills, {own}) && %s::bytea[]", (_raw(query.skills),)))
    if asks_price(query):
        met.append(_priced(query))
    return joined(met, " AND ") if met else Part("true")


def _priced(query: Query) -> Part:
    """The amount lies within the bounds, in the currency they are in or converted into it (law 15)."""
    if query.price_currency is None:
        return Part("o.amount BETWEEN %s AND %s", _bounds(query))
    if not query.rates:  # of one currency PostgreSQL can tell beforehand how many offers there are
        return Part("o.currency = %s AND o.amount BETWEEN %s AND %s", (query.price_currency.encode(), *_bounds(query)))
    each = each_currency(query, lambda _: True)
    rows = [(str(one.price_currency).encode(), *_bounds(one)) for one in each]
    currencies, least, most = (list(column) for column in zip(*rows, strict=True))
    table = "unnest(%s::bytea[], %s::numeric[], %s::numeric[]) AS b(currency, least, most)"
    within = "b.currency = o.currency AND o.amount BETWEEN b.least AND b.most"
    return Part(f"EXISTS (SELECT FROM {table} WHERE {within})", (currencies, least, most))


def _bounds(query: Query) -> tuple[str, str]:
    least = "0" if query.min_price is None else format(query.min_price, "f")
    return least, "Infinity" if query.max_price is None else format(query.max_price, "f")


def _raw(values: tuple[str, ...]) -> list[bytes]:
    return [value.encode() for value in values]
