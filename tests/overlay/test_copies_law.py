"""Whatever listings come and go, what is told of each is what a slow reader of all of them finds."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.copies.book import Copies
from overlay.copies.claims import ADDRESS, CARD, NAME, URL, Claim, Likeness, Since, digest
from overlay.copies.marks import Marks
from overlay.document import Document
from overlay.engines import Cursor
from overlay.search.facts import HERE
from tests.contracts.listed import listing

CHAINS = ("bsv", "ltc")


@st.composite
def documents(draw: st.DrawFn, registration: str) -> list[Document]:
    """What a registration lists: nothing, an agent, or two servers."""
    found = []
    for key in draw(st.sampled_from([(), ("",), ("",), ("",), ("#a", "#b")])):
        chain = draw(st.sampled_from(CHAINS))
        since = Since(draw(st.integers(1, 4)), chain, int(registration, 36))
        claims = [Claim(CARD, digest(draw(st.sampled_from("xyz")) + key), since)]
        for kind, values in ((NAME, "mn"), (URL, "u"), (ADDRESS, "pq")):
            said = sorted(draw(st.sets(st.sampled_from(values))))
            claims += [Claim(kind, digest(each), since) for each in said]
        likeness = Likeness(
            tuple(claims), draw(st.integers(0, 2)), draw(st.booleans()), draw(st.sampled_from(["", "al"]))
        )
        also_on = tuple(each for each in CHAINS if each != chain and draw(st.booleans()))
        made = listing(
            registration + key, chain=chain, also_on=also_on, domain=draw(st.sampled_from(["", "a.example"]))
        )
        status = draw(st.sampled_from(["live", "live", "live", "burned"]))
        found.append(replace(made, likeness=likeness, status=status))
    return found


changes = st.sampled_from("abcde").flatmap(lambda id_: st.tuples(st.just(id_), documents(id_)))
histories = st.lists(st.lists(changes, min_size=1, max_size=3), max_size=6)


def claimed(listed: list[Document], kind: str) -> Iterator[tuple[bytes, tuple[object, ...], Document]]:
    """What is claimed of a kind, in which order, and by whom."""
    for each in listed:
        assert each.likeness is not None
        for claim in each.likeness.claims:
            if claim.kind == kind:
                yield claim.value, (each.likeness.rank if kind == CARD else 0, *claim.since), each


def expected(mine: Document, listed: list[Document]) -> Marks:
    """What follows for a listing, by looking at all others."""
    assert mine.likeness is not None
    card, order = next((value, order) for value, order, each in claimed(listed, CARD) if each is mine)
    same = [(place, each) for value, place, each in claimed(listed, CARD) if value == card and each is not mine]
    before = [each for place, each in same if place < order]
    behind = [""] if before else []
    for chain in (mine.chain, *mine.also_on):
        behind += [chain] if any(chain in (each.chain, *each.also_on) for each in before) else []

    def kin(each: Document) -> tuple[object, ...]:
        assert each.likeness is not None
        return each.domain, each.likeness.rank < 2, frozenset((each.chain, *each.also_on))

    behind += [HERE] if any(kin(each) == kin(mine) for each in before) else []
    earlier = []
    for kind in (NAME, URL, ADDRESS):
        if mine.likeness.named or (kind == URL and mine.likeness.rank == 0):
            continue
        own = {value: place for value, place, each in claimed(listed, kind) if each is mine}
        others = [row for row in claimed(listed, kind) if row[2].registration != mine.registration and row[0] in own]
        later = [(place, each.id, each) for value, place, each in others if place < own[value]]
        if later:
            owner, first = mine.likeness.owner, min(later, key=lambda row: row[:2])[2]
            assert first.likeness is not None
            earlier.append((kind, first.registration, bool(owner) and first.likeness.owner == owner))
    return Marks(tuple(sorted(behind)), 0 if before else len(same), tuple(earlier))


def comparable(marks: Marks) -> Marks:
    """Of several servers of a registration that are first at the same place any may be named."""
    named = tuple((kind, id_.partition("#")[0], False) for kind, id_, _ in marks.earlier)
    return Marks(tuple(sorted(marks.behind)), marks.duplicates, named)


@settings(deadline=None, max_examples=60)
@given(histories)
def test_what_is_told_of_each_is_what_follows_from_all(history: list[list[tuple[str, list[Document]]]]) -> None:
    with tempfile.TemporaryDirectory() as folder, closing(Copies(folder)) as copies:
        standing: dict[str, list[Document]] = {}
        told: dict[str, Marks] = {}
        for number, batch in enumerate(history):
            touched = list(dict(batch))
            standing |= dict(batch)
            copies.take(touched, [each for id_ in touched for each in standing[id_]], Cursor("e", number))
            others = copies.waiting()
            for id_ in {*touched, *others}:
                told = {listing: marks for listing, marks in told.items() if listing.partition("#")[0] != id_}
            told |= copies.marks([*touched, *others])
            copies.done(others)
        listed = [each for found in standing.values() for each in found if each.status == "live"]
        assert {each.id: comparable(told.get(each.id, Marks())) for each in listed} == {
            each.id: comparable(expected(each, listed)) for each in listed
        }
        assert copies.waiting() == []
