"""Documents to rows, many at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from psycopg import Connection

from overlay.engines.postgres import lexemes
from overlay.engines.postgres.layout import FACETS, State
from overlay.search import closeness
from overlay.search.facts import facets, facts, is_listed
from overlay.search.prices import pack, usual
from overlay.search.ranking import texts, weigh
from overlay.search.sorting import made, name_key, newest, seniority
from overlay.search.suggesting import hints, name_words
from overlay.search.text import sequences
from overlay.search.vocabulary import Change

if TYPE_CHECKING:
    from overlay.document import Document
    from parsers.offers import Offer

_AT_ONCE = 200  # documents in memory as rows
_BETWEEN = "\0\0"  # the words of a document and its hints, each of which holds single NULs


class Tally(NamedTuple):
    """What coming and going documents change beside their own rows."""

    words: Change
    hints: Counter[str]


class Row(NamedTuple):
    """One document in its tables."""

    document: tuple[Any, ...]
    item: tuple[Any, ...]
    offers: list[tuple[Any, ...]]


def forget(connection: Connection[Any], state: State, registrations: Iterable[str], tally: Tally) -> int:
    """Delete all documents of registrations; how many were current."""
    wanted = [each.encode() for each in dict.fromkeys(registrations)]
    s = state.schema
    gone = f"DELETE FROM {s}.documents WHERE registration = ANY(%s) RETURNING number, listed, until IS NULL"
    rows = connection.execute(gone.encode(), [wanted]).fetchall()
    listed = {number for number, is_in, _ in rows if is_in}
    numbers = [number for number, _, _ in rows]
    if numbers:
        left = f"DELETE FROM {s}.items WHERE number = ANY(%s) RETURNING number, words"
        for number, words in connection.execute(left.encode(), [numbers]).fetchall():
            if number in listed:
                surfaces, *hinted = bytes(words).decode().split(_BETWEEN)
                tally.words.go(surfaces.split())
                tally.hints.subtract(hinted)
        connection.execute(f"DELETE FROM {s}.offers WHERE number = ANY(%s)".encode(), [numbers])
    return sum(current for _, _, current in rows)


def add(connection: Connection[Any], state: State, documents: Iterable[Document], tally: Tally) -> int:
    """Insert documents; how many are current."""
    highest = f"SELECT coalesce(max(number), 0) FROM {state.schema}.documents".encode()
    (last,) = connection.execute(highest).fetchone() or (0,)
    current, waiting = 0, []
    for number, document in enumerate(documents, last + 1):
        current += document.until_height is None
        waiting.append(_row(number, document, tally))
        if len(waiting) == _AT_ONCE:
            _copy(connection, state, waiting)
            waiting.clear()
    _copy(connection, state, waiting)
    return current


def count_hints(connection: Connection[Any], state: State, tally: Tally) -> None:
    """Write how many listings have each hint."""
    changed = {hint: by for hint, by in tally.hints.items() if by}
    if not changed:
        return
    s = state.schema
    added = f"""
        INSERT INTO {s}.hints AS h SELECT * FROM unnest(%s::bytea[], %s::bigint[])
        ON CONFLICT (hint) DO UPDATE SET listings = h.listings + excluded.listings
    """
    raw = sorted((hint.encode(), by) for hint, by in changed.items())
    connection.execute(added.encode(), [[hint for hint, _ in raw], [by for _, by in raw]])
    if gone := [hint for hint, by in raw if by < 0]:
        unused = f"DELETE FROM {s}.hints WHERE hint = ANY(%s) AND listings <= 0"
        connection.execute(unused.encode(), [gone])


def _copy(connection: Connection[Any], state: State, rows: list[Row]) -> None:
    tables: tuple[tuple[str, Iterator[tuple[Any, ...]]], ...] = (
        ("documents", (row.document for row in rows)),
        ("items", (row.item for row in rows)),
        ("offers", (offer for row in rows for offer in row.offers)),
    )
    for table, given in tables:
        with connection.cursor().copy(f"COPY {state.schema}.{table} FROM STDIN".encode()) as copy:
            for each in given:
                copy.write_row(each)


def _row(number: int, document: Document, tally: Tally) -> Row:
    levels, surfaces = weigh(document)
    listed = is_listed(document)
    held = [lexemes.term(term, level) for term, level in levels.items()]
    held += map(lexemes.fact, facts(document))
    words = ""
    if listed:
        hinted = list(hints(document))
        tally.words.come(surfaces, levels)
        tally.hints.update(hinted)
        held += map(lexemes.name, name_words(document))
        words = _BETWEEN.join((" ".join(sorted(surfaces)), *hinted))
    offers = pack(document)
    return Row(
        (number, document.id.encode(), document.registration.encode(), newest(document), seniority(document),
         made(document), document.updated_height, document.updated_time, document.from_height, document.until_height,
         listed, lexemes.vector(held)),
        (number, name_key(document).encode(), usual(offers).encode(), offers, document.item, words.encode(),
         _said(document).encode(), closeness.said(document), [skill.id.encode() for skill in document.skills],
         *_facets(document)),
        [_offer(number, each) for each in document.offers],
    )  # fmt: skip


def _said(document: Document) -> str:
    """Every sequence of terms between spaces, on a line of its own, for phrases to be looked for in."""
    return "".join(f" {sequence} \n" for _, text in texts(document) for sequence in sequences(text))


def _facets(document: Document) -> Iterator[list[bytes]]:
    found = facets(document)
    for name in FACETS:
        yield [value.encode() for value in found[name]]


def _offer(number: int, offer: Offer) -> tuple[Any, ...]:
    return (
        number,
        offer.currency.encode(),
        [each.encode() for each in offer.accepted],
        offer.interval_key.encode(),
        offer.amount,
        None if offer.skill_ids is None else [each.encode() for each in offer.skill_ids],
    )
