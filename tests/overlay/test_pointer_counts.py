"""Listings from pointers are counted once for a database, whatever process asks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from indexer.model import Event
from indexer.store import Store, Writer, block_writer, connect, visits
from overlay.listings import pointer_counts
from overlay.listings.pointer_counts import ListedPointers
from tests.facts import says
from tests.pointer_facts import Clock, card, points, serves

CARDS = {f"{letter}.example": card(letter) for letter in "abcdefgh"}


class Pointed:
    """A database in which hosts are pointed at."""

    def __init__(self, path: Path) -> None:
        self.clock, engine = Clock(), connect(f"sqlite:///{path}")
        self.writer, self.store, self.height = Writer(engine, self.clock), Store(engine), 0

    def block(self, *events: Event) -> None:
        """Append a block."""
        placed = [replace(event, position=index, tx_index=index + 1) for index, event in enumerate(events)]
        prev = f"{self.height}" if self.height else ""
        self.height += 1
        block_writer.append(self.writer, "demo", [says(f"{self.height}", *placed, prev=prev)])

    def change(self, dice: random.Random) -> None:
        """Point at a host, fetch what a host serves, or take a block back."""
        host = dice.choice([*CARDS])
        chosen = dice.random()
        if chosen < 0.5:
            self.block(points(host, CARDS[host], f"{host} {self.height} {dice.random()}"[:32]))
        elif chosen < 0.85 or not self.height:
            visits.record_fetch(self.writer, host, serves(self.clock.tick(), CARDS[host]))
        else:
            self.height -= 1
            block_writer.forget(self.writer, "demo", self.height)

    def counted_anew(self) -> dict[str, int]:
        """The counts of a process that finds nothing stored."""
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(self.store.listed_pointers, "counted", lambda: None)
            return dict(ListedPointers(self.store).counts())


@pytest.fixture
def pointed(tmp_path: Path) -> Iterator[Pointed]:
    opened = Pointed(tmp_path / "a2b.db")
    yield opened
    opened.writer.close()
    opened.store.close()


@pytest.mark.parametrize("seed", range(3))
def test_stored_counts_are_those_of_all_pointers_after_any_history(pointed: Pointed, seed: int) -> None:
    dice, counting = random.Random(seed), ListedPointers(pointed.store)
    for _ in range(80):
        pointed.change(dice)
        if dice.random() < 0.3:
            counting.save(pointed.writer)
        if dice.random() < 0.2:
            counting = ListedPointers(pointed.store)  # another process
    expected = pointed.counted_anew()
    assert dict(counting.counts()) == dict(ListedPointers(pointed.store).counts()) == expected
    assert expected["live"] > 0


def test_the_first_count_of_a_process_reads_what_has_changed_since_it_was_stored(
    pointed: Pointed, monkeypatch: pytest.MonkeyPatch
) -> None:
    for host, body in CARDS.items():
        pointed.block(points(host, body))
        visits.record_fetch(pointed.writer, host, serves(pointed.clock.tick(), body))
    ListedPointers(pointed.store).save(pointed.writer)
    pointed.block(points("late.example", b"late"))
    looked: list[str] = []
    listings = pointer_counts.pointer_listings
    monkeypatch.setattr(
        pointer_counts, "pointer_listings", lambda store, ids: listings(store, looked.extend(ids) or ids)
    )
    assert dict(ListedPointers(pointed.store).counts()) == {"live": len(CARDS)}
    assert looked == ["late.example"]
