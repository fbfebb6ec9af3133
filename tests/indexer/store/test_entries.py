"""The newest state of registry entries, on every database."""

from __future__ import annotations

from dataclasses import replace

import pytest

from indexer.model import Event, EventKind
from indexer.store import Store, Writer, block_writer
from tests.facts import born, moved, says
from tests.pointer_facts import points

REGISTRY = "eip155:1:0x8004a169fb4a3325136eb29fa0ceb6d2e539a432"


def entry(number: int) -> str:
    return f"{REGISTRY}/{number}"


def elsewhere(number: int, where: str, **more: object) -> Event:
    """An entry that leads to a file elsewhere."""
    answers = points(entry(number), None, where, uri="https://a.example/agent.json", form="erc8004")
    return replace(answers, **more)  # type: ignore[arg-type]


def there(number: int, where: str, height: int) -> Event:
    """An entry whose file stands on chain."""
    created = born(where, height=height)
    assert created.state is not None
    return replace(created, state=replace(created.state, id=entry(number)))


@pytest.fixture
def filled(writer: Writer) -> Writer:
    block_writer.append(writer, "demo", [says("4", there(1, "a", 4), replace(elsewhere(2, "b"), position=1))])
    block_writer.append(writer, "demo", [says("5", elsewhere(1, "c", state=there(1, "a", 4).state), prev="4")])
    block_writer.append(writer, "demo", [says("6", replace(there(2, "d", 6), kind=EventKind.INSCRIBED), prev="5")])
    block_writer.append(
        writer, "demo", [says("7", elsewhere(3, "e", valid=False), moved("z", "y", "x", 1, 7), prev="6")]
    )
    return writer


def test_the_newest_event_of_registration_or_pointer_decides(store: Store, filled: Writer) -> None:
    newest_events = store.registrations.newest_events("demo", [entry(number) for number in range(1, 5)])
    assert {id_: (event.kind.value, event.pointer is not None) for id_, event in newest_events.items()} == {
        entry(1): ("pointed", True), entry(2): ("inscribed", False), entry(3): ("pointed", True),
    }  # fmt: skip
    assert newest_events[entry(1)].state is not None
    assert not newest_events[entry(3)].valid
    assert store.registrations.newest_events("other", [entry(1)]) == {}
    assert store.registrations.newest_events("demo", []) == {}


def test_what_is_forgotten_says_nothing_any_more(store: Store, filled: Writer) -> None:
    block_writer.forget(filled, "demo", 4)
    newest_events = store.registrations.newest_events("demo", [entry(number) for number in range(1, 5)])
    assert {id_: event.kind.value for id_, event in newest_events.items()} == {
        entry(1): "inscribed",
        entry(2): "pointed",
    }


def test_thousands_are_read_at_once(store: Store, writer: Writer) -> None:
    messages = [replace(elsewhere(number, f"at {number}"), position=number) for number in range(1_200)]
    block_writer.append(writer, "demo", [says("4", *messages)])
    newest_events = store.registrations.newest_events("demo", (entry(number) for number in range(1_500)))
    assert newest_events.keys() == {entry(number) for number in range(1_200)}
    assert all(event.pointer and event.pointer.id == id_ for id_, event in newest_events.items())
