"""Whatever comes and goes, in whatever order it is read: who is heard is what a slow reader of all listings finds."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.copies.ages import SINCE
from overlay.copies.book import Copies
from overlay.copies.claims import NAME, UNCONFIRMED, Claim, Likeness, Since, digest
from overlay.copies.crowds import ALIKE, NAMED
from overlay.copies.marks import NONE, Marks
from overlay.copies.nearness import SHARED
from overlay.copies.voices import NAME as NAME_WHOLE
from overlay.copies.voices import REST, SAMPLE, WORD, Voice
from overlay.document import Document
from overlay.engines import Cursor
from tests.contracts.listed import listing

CHAINS = ("bsv", "ltc")
DAY = 86_400
VALUES = (SAMPLE, 4 | SAMPLE, 8 | SAMPLE, REST, NAME_WHOLE, WORD, 4 | WORD)
Told = dict[str, tuple[bool, bool, frozenset[int], int]]


@st.composite
def documents(draw: st.DrawFn, registration: str) -> list[Document]:
    """What a registration lists: nothing, an agent, or two servers, that say a few things since a few moments."""
    found = []
    for key in draw(st.sampled_from([(), ("",), ("",), ("#a", "#b")])):
        chain, place = draw(st.sampled_from(CHAINS)), ord(registration)

        def moment(chain: str = chain, place: int = place) -> Since:
            days = draw(st.sampled_from([0, 1, 30, 31, 200]))
            return Since(draw(st.sampled_from([days * DAY, days * DAY, UNCONFIRMED])), chain, place)

        said = draw(st.permutations(VALUES))[: draw(st.integers(0, len(VALUES)))]
        cut = draw(st.integers(0, len(said)))
        voices = tuple(Voice(moment(), tuple(part)) for part in (said[:cut], said[cut:]) if part)
        claims = (Claim(NAME, digest(registration), moment()),) if draw(st.booleans()) else ()
        likeness = Likeness(claims, voices=voices)
        status = draw(st.sampled_from(["live", "live", "live", "pending", "burned"]))
        found.append(replace(listing(registration + key, chain=chain), likeness=likeness, status=status))
    return found


letters = [chr(ord("a") + at) for at in range(2 * NAMED)]
changes = st.sampled_from(letters).flatmap(lambda id_: st.tuples(st.just(id_), documents(id_)))
days = st.dictionaries(st.sampled_from(CHAINS), st.sampled_from([0, 29, 30, 31, 60, 210, 500]))
histories = st.lists(st.tuples(st.lists(changes, min_size=1, max_size=15), days), min_size=1, max_size=5)


def expected(listed: Sequence[Document], today: dict[str, int]) -> Told:
    """By looking at all: those before a listing who say the same are counted, of a registration its earlier servers."""
    said = [
        (value, (*voice.since, number), each.id)
        for number, each in enumerate(listed)
        for voice in (each.likeness or Likeness(())).voices
        for value in voice.values
    ]
    told = {}
    for each in listed:
        mine = [row for row in said if row[2] == each.id]
        before = {value: sum(other[0] == value and other[1] < place for other in said) for value, place, _ in mine}
        alike = sum(before[value] >= ALIKE for value in before if value % 4 == SAMPLE)
        many = frozenset(value for value in before if value % 4 != SAMPLE and before[value] >= NAMED)
        named = [claim.since for claim in (each.likeness or Likeness(())).claims]
        age = 0
        if named and named[0].time != UNCONFIRMED and named[0].chain in today:
            age = sum(today[named[0].chain] - named[0].time // DAY >= least for least in SINCE)
        quiet = frozenset(value for value in many if value % 4 == WORD)
        told[each.id] = (alike >= SHARED or REST in many, NAME_WHOLE in many, quiet, age)
    return told


def _heard(marks: Marks) -> tuple[bool, bool, frozenset[int], int]:
    return marks.crowded, marks.named, marks.quiet, marks.age


def told_by(copies: Copies, registrations: Sequence[str]) -> Told:
    return {id_: _heard(marks) for id_, marks in copies.marks(registrations).items()}


@settings(deadline=None, max_examples=25)
@given(histories, st.randoms(use_true_random=False))
def test_who_is_heard_follows_from_all_listings_alone(
    history: list[tuple[list[tuple[str, list[Document]]], dict[str, int]]], random: Random
) -> None:
    with tempfile.TemporaryDirectory() as folder, closing(Copies(folder)) as copies:
        standing: dict[str, list[Document]] = {}
        told: Told = {}
        for batch, today in history:
            touched = list(dict(batch))
            standing |= dict(batch)
            copies.take(touched, [each for id_ in touched for each in standing[id_]], Cursor("e", 0))
            if random.random() < 0.8:
                copies.grow(today)
            others = copies.waiting()
            again = {*touched, *others}
            told = {id_: each for id_, each in told.items() if id_.partition("#")[0] not in again}
            told |= told_by(copies, sorted(again))
            copies.done(others)
        today = copies.days()
        assert copies.waiting() == []
        listed = [each for _, found in sorted(standing.items()) for each in found if each.status != "burned"]
        nothing = _heard(NONE)
        assert {each.id: told.get(each.id, nothing) for each in listed} == expected(listed, today)

    with tempfile.TemporaryDirectory() as folder, closing(Copies(folder)) as anew:
        order = random.sample(sorted(standing), len(standing))
        cut = random.randint(0, len(order))
        for part in (order[:cut], order[cut:]):
            anew.take(part, [each for id_ in part for each in standing[id_]], Cursor("e", 0))
        anew.grow(today)
        assert {id_: each for id_, each in told_by(anew, order).items() if each != nothing} == {
            id_: each for id_, each in told.items() if each != nothing
        }
