"""Large maps of registrations are stored as changes, and read as the whole, on every database."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from indexer.model import BlockFacts, Event, EventKind
from indexer.store import Store, Writer, block_writer, history, map_changes
from indexer.store.full_scan import FullScan
from tests.facts import born, moved, outpoint_of, says, state

NAMES = ("a", "b")
Map = dict[str, str]


class Registrations:
    """Two registrations of a chain, of which every event is remembered."""

    def __init__(self, writer: Writer, seed: int) -> None:
        self.writer, self.chance = writer, random.Random(f"maps {seed}")
        self.facts = [says("0")]
        block_writer.append(writer, "demo", self.facts)

    def events(self, name: str) -> list[Event]:
        id_ = str(outpoint_of(name))
        return [event for facts in self.facts for event in facts.events if event.state and event.state.id == id_]

    def mine(self) -> None:
        """One block, or two at once, with several events."""
        new: list[BlockFacts] = []
        for _ in range(self.chance.randint(1, 2)):
            height = len(self.facts)
            events: list[Event] = []
            self.facts.append(says(str(height)))
            for position in range(self.chance.randint(0, 6)):
                events.append(self._event(self.chance.choice(NAMES), height, position))
                self.facts[-1] = says(str(height), *events)
            new.append(self.facts[-1])
        block_writer.append(self.writer, "demo", new)

    def forget(self) -> None:
        height = self.chance.randint(max(0, len(self.facts) - 4), len(self.facts) - 1)
        del self.facts[height + 1 :]
        block_writer.forget(self.writer, "demo", height)

    def _event(self, name: str, height: int, position: int) -> Event:
        before = self.events(name)
        if not before:
            return born(name, position, height, map=self._large())
        last = before[-1].state
        assert last is not None
        where = f"{name}{height}.{position}"
        following = moved(name, last.outpoint.txid.rstrip(b"\0").decode(), where, position, height)  # type: ignore[union-attr]
        changed = state(name, where, height, owner="bob", map=self._next(last.map))
        return replace(following, kind=EventKind.MAP_ONLY, state=changed)

    def _large(self) -> Map:
        return {f"key {number}": self._value() for number in range(30)}

    def _value(self) -> str:
        return self.chance.choice(("", "ü", "value ")) * self.chance.randint(0, 60)

    def _next(self, before: Map) -> Map:
        kind = self.chance.choice(("same", "key", "key", "key", "many", "new", "less", "small", "order"))
        if kind == "key":
            return {**before, self.chance.choice([*before, "first"]): self._value()}
        if kind == "many":
            return {key: self._value() for key in before}
        if kind == "new":
            return {**before, f"new {self.chance.random()}": self._value()}
        if kind == "less":
            return dict([*before.items()][1:])
        if kind == "order":
            return dict(reversed(before.items()))
        return self._large() if kind == "small" and len(before) < 5 else {"app": "x"} if kind == "small" else before


def maps(events: list[Event]) -> list[list[tuple[str, str]]]:
    return [[*event.state.map.items()] for event in events if event.state is not None]


@pytest.mark.parametrize("seed", range(6))
def test_what_is_read_is_what_was_written_whole(
    store: Store, writer: Writer, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(map_changes, "MOST_CHANGES", 5)
    monkeypatch.setattr(history, "MOST_REVISIONS", 8)
    registrations = Registrations(writer, seed)
    ids = [str(outpoint_of(name)) for name in NAMES]
    for _ in range(30):
        registrations.forget() if registrations.chance.random() < 0.2 else registrations.mine()
        newest, live = store.registrations.newest_events("demo", ids), list(store.registrations.states("demo", 10**6))
        for name, id_ in zip(NAMES, ids, strict=True):
            expected = registrations.events(name)
            assert maps([past.event for past in store.history.of(id_)]) == maps(expected)
            assert maps([newest[id_]] if id_ in newest else []) == maps(expected[-1:])
            some = store.history.with_pending([id_])
            if expected:
                assert maps([past.event for past in some[id_].confirmed])[-8:] == maps(expected)[-8:]
                [there] = store.registrations.at_outpoints("demo", [expected[-1].state.outpoint])[  # type: ignore[list-item, union-attr]
                    expected[-1].state.outpoint  # type: ignore[index, union-attr]
                ]
                assert there in live
                assert [*there.map.items()] == maps(expected)[-1]
        assert list(FullScan(store.engine).block_facts("demo", 10**6)) == registrations.facts
    with store.engine.connect() as connection:
        stored = connection.exec_driver_sql("SELECT count(*), count(map_base) FROM events").one()
    assert stored[1] * 6 > stored[0], "many have only changes"


@pytest.mark.parametrize("length", [0, 16, 1_000])
def test_two_thousand_changes_of_a_large_map_take_about_what_they_say(
    store: Store, writer: Writer, length: int
) -> None:
    fields = {f"key {number}": "v" * 1_000 for number in range(64)}
    events, changed_characters = [born("a", height=1, map=fields)], len(json.dumps(fields))
    for number in range(1, 2_000):
        changed = {f"key {number % 64}": f"{number:04}".ljust(length, "v")} if length else {}
        fields = {**fields, **changed}
        where = state("a", f"a{number}", 1, map=fields)
        source = f"a{number - 1}" if number > 1 else "a"
        events.append(replace(moved("a", source, f"a{number}", number, 1), kind=EventKind.MAP_ONLY, state=where))
        changed_characters += len(json.dumps(changed))
    block_writer.append(writer, "demo", [says("0"), says("1", *events)])
    with store.engine.connect() as connection:
        stored = connection.exec_driver_sql("SELECT sum(length(map)) FROM events").scalar_one()
    whole = len(json.dumps(fields))
    assert stored <= 2 * changed_characters + whole * (2 + 2_000 / map_changes.MOST_CHANGES)
    newest = store.registrations.newest_events("demo", [str(outpoint_of("a"))])
    assert maps([*newest.values()]) == [[*fields.items()]]
