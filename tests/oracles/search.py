"""A search that is slow and obvious: every listing is looked at, every word compared with every other.

The rules are written down again from the design (issue 2, "search semantics"; laws 13 and 14), with a plain table for
edit distance and flat price rows. Only cutting text into words is the analyser's, since both sides must cut alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any

from overlay.document import Document
from overlay.query import Operators, Query
from overlay.search.matching import Plan, plan
from overlay.search.ranking import BEST, weigh
from overlay.search.text import Compound, asked, edits, fold, is_spelt, sequences, stem, words
from overlay.search.vocabulary import Change, Vocabulary
from parsers.matching import Filter
from parsers.offers import Offer
from tests.oracles.prices import Row, row_meets, row_price, rows

Readings = list[tuple[str, ...]]
"""What a word of a question may stand for: terms that must all be held, in several ways."""


def distance(one: str, other: str) -> int:
    """Insertions, deletions, substitutions and transpositions of neighbours, none of whose letters is edited again."""
    table = {(row, 0): row for row in range(len(one) + 1)} | {(0, column): column for column in range(len(other) + 1)}
    for row, left in enumerate(one, 1):
        for column, right in enumerate(other, 1):
            ways = [
                table[row - 1, column] + 1,
                table[row, column - 1] + 1,
                table[row - 1, column - 1] + (left != right),
            ]
            if row > 1 and column > 1 and left == other[column - 2] and one[row - 2] == right:
                ways.append(table[row - 2, column - 2] + 1)
            table[row, column] = min(ways)
    return table[len(one), len(other)]


def text_of(document: Document) -> set[str]:
    """Every word of a listing, as written (folded)."""
    texts = [document.name, document.description, *document.tags, *document.words]
    for skill in document.skills:
        texts += [skill.id, skill.name, skill.description, *skill.tags, *skill.examples]
    return {word for text in texts for word in words(text)}


def is_shown(document: Document) -> bool:
    """Whether a plain search may find a document; only such are counted, and proposed for mistyped words."""
    return document.until_height is None and document.status in {"live", "pending"}


class Counts:
    """In how many listings each word and each term stands."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self.surfaces: Counter[str] = Counter()
        self.terms: Counter[str] = Counter()
        for document in filter(is_shown, documents):
            found = text_of(document)
            self.surfaces.update(found)
            self.terms.update({stem(word) for word in found})

    def begun(self, prefix: str) -> list[str]:
        """The eight commonest words that begin so, without the beginning itself."""
        found = [word for word in self.surfaces if word.startswith(prefix) and word != prefix]
        return sorted(found, key=lambda word: (-self.surfaces[word], word))[:8]

    def near(self, word: str, most: int) -> list[str]:
        """The terms of the eight nearest words of letters in use, of equally near ones the commonest."""
        used = {other for other in self.surfaces.keys() | self.terms.keys() if is_spelt(other)}
        away = {other: distance(word, other) for other in used} if most else {}
        order = sorted(
            (away[other], -max(self.surfaces[other], self.terms[other]), other) for other in away if away[other] <= most
        )
        terms = dict.fromkeys(stem(other) for _, _, other in order if self.terms[stem(other)])
        return list(terms)[:8]


def _meant_by(text: str, counts: Counts) -> list[Readings] | None:
    """What each word of a text may stand for; None when nothing is asked. Of more than three words each is also sought
    more freely."""
    if not text.strip():
        return None
    compounds = asked(text)
    long = len(compounds) > 3
    if long:
        compounds = _taken_apart(compounds, counts)
    return [readings(each, counts, last=each is compounds[-1], long=long) for each in compounds]


def _taken_apart(compounds: list[Compound], counts: Counts) -> list[Compound]:
    """With the parts and the whole of a compound that has an unknown part in its place, each word once."""
    found: list[Compound] = []
    for compound in compounds:
        unknown = [part for part in compound.parts if not counts.terms[stem(part)]]
        pieces = [compound]
        if unknown and compound.whole:
            pieces = [Compound(each, (each,), None) for each in [*compound.parts, compound.whole]]
        found += [each for each in pieces if each.parts not in [other.parts for other in found]]
    return found


def readings(compound: Compound, counts: Counts, *, last: bool, long: bool = False) -> Readings:
    """What a word of a question may stand for."""
    if len(compound.parts) > 1:
        return _of_parts(compound, counts, last=last)
    (word,) = compound.parts
    found: Readings = [(stem(word),)]
    held = counts.terms[stem(word)]
    if last and (len(word) >= 3 or not held) and (is_spelt(word) or word.isascii()):
        found += [(stem(more),) for more in counts.begun(word)]
    if 0 < held <= 3:
        near = counts.near(word, min(1, edits(compound)))
        found += [(term,) for term in near if counts.terms[term] >= 20 * held]
    elif not held:
        found += [(term,) for term in (_freely(compound, counts) if long else counts.near(word, edits(compound)))]
    return found


def _freely(compound: Compound, counts: Counts) -> list[str]:
    """The three commonest words that a word of a long question which no listing holds may stand for, of those that one
    error explains, else two."""
    (word,) = compound.parts
    most = edits(compound)
    lost_one = len(word) == 4 and is_spelt(word) and not compound.written.isupper()
    near = counts.near(word, 1 if lost_one else min(1, most)) or counts.near(word, most)
    return sorted(near, key=lambda term: -counts.terms[term])[:3]


def _of_parts(compound: Compound, counts: Counts, *, last: bool) -> Readings:
    parts = [_meant(part, counts) for part in compound.parts]
    found: Readings = [tuple(parts)]
    if compound.whole is None:
        return found
    found.append((stem(compound.whole),))
    if last:
        found += [(*parts[:-1], stem(more)) for more in counts.begun(compound.parts[-1])]
        if is_spelt(compound.whole) or compound.whole.isascii():
            found += [(stem(more),) for more in counts.begun(compound.whole)]
    return found


def _meant(part: str, counts: Counts) -> str:
    if counts.terms[stem(part)]:
        return stem(part)
    near = counts.near(part, edits(Compound(part, (part,), None)))
    return near[0] if near else stem(part)


def _holds(document: Document, alternatives: Readings) -> bool:
    terms = {stem(word) for word in text_of(document)}
    return any(terms.issuperset(reading) for reading in alternatives)


def _ways(documents: list[Document], meant: list[Readings] | None, *, few: bool) -> list[list[Document]]:
    """What may be meant by a text, the first of these that is not empty: where there are `few` words, those that hold
    all; those that hold any."""
    if meant is None:
        return [documents]
    some = [document for document in documents if any(_holds(document, each) for each in meant)]
    if not few:
        return [some]
    return [_covering(documents, meant), some]


def _covering(documents: list[Document], meant: list[Readings]) -> list[Document]:
    return [document for document in documents if all(_holds(document, each) for each in meant)]


def points(document: Document, planned: Plan) -> int:
    """What a document makes for the words of a plan: of each, the most of all that stands for it."""
    levels, _ = weigh(document)
    made = [
        [sum(choice.points[levels[term] - 1] for term in choice.terms) for choice in word.choices
         if levels.keys() >= set(choice.terms)]
        for word in planned.words
    ]  # fmt: skip
    return sum(max(each, default=0) for each in made)


def _says(document: Document, sequence: str) -> bool:
    """Whether one text of a document says index terms one after the other, or is cut into such words."""
    texts = [document.name, document.description, *document.tags, *document.words]
    for skill in document.skills:
        texts += [skill.id if not skill.name else skill.name, skill.description, *skill.tags, *skill.examples]
        texts += [skill.id]
    asked_for = sequence.split()
    for text in texts:
        for said in map(str.split, sequences(text)):
            if any(said[at : at + len(asked_for)] == asked_for for at in range(len(said))):
                return True
    return False


def _meets_operators(document: Document, operators: Operators | None) -> bool:
    if operators is None:
        return True
    tags = {tag.casefold() for tag in document.tags}
    skills = {skill.id for skill in document.skills}
    for skill in document.skills:
        tags |= {tag.casefold() for tag in skill.tags}
    for offer in document.offers:
        skills |= set(offer.skill_ids or ())
    return (
        all(_says(document, phrase) for phrase in operators.phrases)
        and not any(_says(document, phrase) for phrase in operators.excluded)
        and tags.isdisjoint(operators.not_tags)
        and document.owner not in operators.not_owners
        and skills.isdisjoint(operators.not_skills)
    )


def _is_admitted(document: Document, query: Query) -> bool:
    """Every filter but the text, one after the other."""
    chain = {document.chain, document.caip2}
    if query.as_of is None:
        stands = document.until_height is None
    else:
        until = document.until_height
        stands = (
            query.height_chain in chain
            and document.from_height is not None
            and document.from_height <= query.as_of
            and (until is None or query.as_of < until)
        )
    tags = {tag.casefold() for tag in document.tags}
    for skill in document.skills:
        tags |= {tag.casefold() for tag in skill.tags}
    return (
        stands
        and (not query.statuses or document.status in query.statuses)
        and query.kind in {None, document.kind}
        and (not query.tags or bool(tags & set(query.tags)))
        and (not query.chains or bool(chain & set(query.chains)))
        and (not query.domains or document.domain in query.domains)
        and (not query.owners or document.owner in query.owners)
        and query.verified in {None, document.verified}
        and _is_in_heights(document, query)
        and (query.updated_since is None or _time(document) >= query.updated_since)
        and any(row_meets(row, _filter(query)) for row in rows(document.skills, document.offers))
        and _meets_operators(document, query.operators)
    )


def _time(document: Document) -> float:
    return float("-inf") if document.updated_time is None else document.updated_time


def _is_in_heights(document: Document, query: Query) -> bool:
    if query.from_height is None and query.to_height is None:
        return True
    height = document.updated_height
    if height is None or query.height_chain not in {document.chain, document.caip2}:
        return False
    low = height if query.from_height is None else query.from_height
    high = height if query.to_height is None else query.to_height
    return low <= height <= high


def _filter(query: Query) -> Filter:
    prices = (query.min_price, query.max_price, query.price_currency, query.rates)
    return Filter(query.skills, query.currencies, query.intervals, *prices)


def cheapest(document: Document, query: Query) -> Offer | None:
    """The lowest of the offers that meet the query, reading the list from the top."""
    best: Offer | None = None
    least: Fraction | None = None
    anchor: str | None = None
    for offer in document.offers:
        table = rows(document.skills, [offer])
        if any(row.amount is not None and row_meets(row, _filter(query)) for row in table):
            anchor = anchor or offer.currency
            price = price_of(offer, query)
            comparable = query.price_currency is not None or offer.currency == anchor
            if comparable and price is not None and (least is None or price < least):
                best, least = offer, price
    return best


def price_of(offer: Offer, query: Query) -> Fraction | None:
    """What an offer costs in the currency asked for."""
    return row_price(Row(None, None, None, offer.currency, offer.amount), _filter(query))


def _values(document: Document, facet: str) -> set[str]:
    skills = {skill.id for skill in document.skills}
    tags = set(document.tags)
    for skill in document.skills:
        tags |= set(skill.tags)
    for offer in document.offers:
        skills |= set(offer.skill_ids or ())
    found: dict[str, set[str]] = {
        "type": {document.kind},
        "chain": {document.chain},
        "status": {document.status},
        "skillId": skills,
        "acceptedCurrency": {currency for offer in document.offers for currency in offer.accepted},
        "interval": {offer.interval_key for offer in document.offers},
        "tag": {tag.casefold() for tag in tags},
    }
    return found[facet]


def ordered(documents: Sequence[Document], query: Query) -> list[str]:
    """The ids in the order of a field; relevance is, without text, that of updates but for kept places, and with it
    that of equals: who has said longest what he says comes first, what is unconfirmed last."""
    wordless = query.sort == "relevance" and not query.text.strip()
    sort = "updated" if wordless else query.sort
    if sort == "price":
        return _by_price(documents, query)
    keys: dict[str, Callable[[Document], Any]] = {
        "updated": lambda each: (*_latest(each.updated_time, each.updated_height), each.id),
        "created": lambda each: (*_latest(each.created_time, each.created_height), each.id),
        "relevance": lambda each: (
            each.crowded or each.said_since is None,
            0 if each.crowded else each.said_since or 0,
            each.id,
        ),
        "name": lambda each: (fold(each.name).casefold()[:100].replace("\n", " "), each.id),
    }
    down = query.sort in {"relevance", "updated", "created"}
    reverse = query.descending is not None and query.descending != down
    found = [each.id for each in sorted(documents, key=keys[sort], reverse=reverse)]
    if wordless and not reverse and len(found) > 20:
        senior = [each.id for each in sorted(documents, key=keys["relevance"])[:10] if each.id not in found[:5]]
        found = [*found[:5], *senior, *(id_ for id_ in found[5:] if id_ not in senior)]
    return found


def _latest(time: int | None, height: int | None) -> tuple[bool, int, int]:
    """What is unconfirmed comes first, then the later the earlier."""
    return (True, -time, -(height or 0)) if time is not None else (False, 0, 0)


def _by_price(documents: Sequence[Document], query: Query) -> list[str]:
    priced: list[tuple[str, Fraction, str]] = []
    unpriced: list[str] = []
    for each in documents:
        offer = cheapest(each, query)
        price = None if offer is None else price_of(offer, query)
        if offer is None or price is None:
            unpriced.append(each.id)
        else:
            priced.append((query.price_currency or offer.currency, price, each.id))
    reverse = bool(query.descending)
    return [id_ for *_, id_ in sorted(priced, reverse=reverse)] + sorted(unpriced, reverse=reverse)


def _without(query: Query, facet: str) -> Query:
    """The query without what the facet is filtered by; live and pending are found without asking."""
    asks_status = set(query.statuses) != {"live", "pending"}
    return {
        "type": query._replace(kind=None),
        "skillId": query._replace(skills=()),
        "acceptedCurrency": query._replace(currencies=()),
        "interval": query._replace(intervals=()),
        "tag": query._replace(tags=()),
        "chain": query._replace(chains=()),
        "status": query._replace(statuses=()) if asks_status else query,
    }[facet]


def _choosing(query: Query, facet: str, value: str) -> Query:
    """The query with one value of a facet chosen; bounds of prices without a currency are in the one that is chosen."""
    prices = query.min_price is not None or query.max_price is not None
    into = value if prices and query.price_currency is None else query.price_currency
    return {
        "type": query._replace(kind=value),
        "skillId": query._replace(skills=(value,)),
        "acceptedCurrency": query._replace(currencies=(value,), price_currency=into),
        "interval": query._replace(intervals=(value,)),
        "tag": query._replace(tags=(value,)),
        "chain": query._replace(chains=(value,)),
        "status": query._replace(statuses=(value,)),
    }[facet]


@dataclass
class Oracle:
    """Documents in a list."""

    documents: list[Document] = field(default_factory=list)

    def replace(self, registrations: Iterable[str], documents: Iterable[Document]) -> None:
        """As an engine's."""
        gone = set(registrations)
        self.documents = [each for each in self.documents if each.registration not in gone] + list(documents)

    def found(self, query: Query) -> list[Document]:
        """The documents that are the answer, in no special order."""
        meant = self._meant(query)
        return next(filter(None, self._found(query, meant, few=self._are_driven_out(query, meant))), [])

    def _meant(self, query: Query) -> list[Readings] | None:
        return _meant_by(query.text, Counts(self.documents))

    def _found(self, query: Query, meant: list[Readings] | None, *, few: bool) -> list[list[Document]]:
        return _ways([each for each in self.documents if _is_admitted(each, query)], meant, few=few)

    def _are_driven_out(self, query: Query, meant: list[Readings] | None) -> bool:
        """Whether those that do not hold all of two or three words are no answer while any holds all: where one of
        those makes two fifths of the points that any could make, or three tenths and nobody a fifth more; filters or
        not."""
        if meant is None or not 1 < len(meant) <= 3:
            return False
        everybody = Query(statuses=query.statuses, as_of=query.as_of, height_chain=query.height_chain)
        listed = [each for each in self.documents if _is_admitted(each, everybody)]
        planned = plan(query.text, self._vocabulary())
        best = max((points(each, planned) for each in _covering(listed, meant)), default=0)
        return 5 * best >= 2 * BEST or (
            10 * best >= 3 * BEST and 6 * best // 5 >= max(points(each, planned) for each in listed)
        )

    def made(self, documents: Iterable[Document], query: Query) -> dict[str, int]:
        """The points of documents that are found: what they make for the words, and 450 for all of two or three where
        those that hold some are found, too."""
        meant, planned = self._meant(query) or [], plan(query.text, self._vocabulary())
        more = 450 if 1 < len(meant) <= 3 and not self._are_driven_out(query, meant) else 0
        return {each.id: points(each, planned) + more * bool(_covering([each], meant)) for each in documents}

    def _vocabulary(self) -> Vocabulary:
        change, vocabulary = Change(), Vocabulary()
        for document in filter(is_shown, self.documents):
            levels, surfaces = weigh(document)
            change.come(surfaces, levels)
        vocabulary.apply(change.listings, change.rows())
        return vocabulary

    def facets(self, query: Query) -> dict[str, tuple[tuple[str, int], ...]] | None:
        """The fifty commonest values of each facet asked for, of equally common ones the first by value: what is found
        once a value is chosen in place of all others of its facet, among what the answer's words find without any."""
        meant = self._meant(query)
        found = partial(self._found, meant=meant, few=self._are_driven_out(query, meant))
        tried = next((at for at, way in enumerate(found(query), 1) if way), None)
        counts = {}
        for name in query.facets:
            wide = _without(query, name)
            ways = found(wide)[:tried]
            values = {value for way in ways for each in way for value in _values(each, name)}
            if wide == query:
                values = {value for way in ways[-1:] for each in way for value in _values(each, name)}
            chosen = {value: found(_choosing(wide, name, value))[:tried] for value in values}
            numbers = {value: len(next(filter(None, each), [])) for value, each in chosen.items()}
            counts[name] = {value: number for value, number in numbers.items() if number}
        order = {name: sorted(each.items(), key=lambda pair: (-pair[1], pair[0])) for name, each in counts.items()}
        return {name: tuple(pairs[:50]) for name, pairs in order.items()} or None
