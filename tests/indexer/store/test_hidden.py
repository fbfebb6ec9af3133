"""Decisions to hide: of an id, of all that an address owned, of all that had a card; announced once in the outbox."""

from __future__ import annotations

from dataclasses import replace

import pytest

from indexer.model import Event
from indexer.store import Store, Writer, block_writer
from indexer.store.hidden import HideDecision, HideReason, Subject, announce_hidden, hide, unhide
from tests.facts import CARD, born, name, outpoint_of, says

A, B = (str(outpoint_of(letter)) for letter in "ab")


def decision(subject: Subject, value: str, until: int | None = None) -> HideDecision:
    return HideDecision(subject, value, HideReason.FRAUD, "", "", 1, until)


def owned(event: Event) -> Event:
    """The event with an owner."""
    assert event.state is not None
    return replace(event, owner="alice", state=replace(event.state, owner="alice"))


def announced(store: Store, after: int) -> list[tuple[str, str, str]]:
    return [(change.op, change.id, change.reason) for change in store.outbox.after(after, 100)]


@pytest.mark.parametrize("subject", list(Subject))
def test_what_is_hidden_is_announced_once_and_again_when_it_is_shown(
    store: Store, writer: Writer, subject: Subject
) -> None:
    events = [owned(born("a", 0, 1)), owned(born("b", 1, 1))]
    block_writer.append(writer, "demo", [says("0"), says("1", *events, cards={CARD: b"{}"})])
    value = {Subject.ID: A, Subject.OWNER: "alice", Subject.SHA256: CARD.hex()}[subject]
    hidden = [A] if subject is Subject.ID else [A, B]
    last = store.outbox.newest_seq()
    hide(store.primary, decision(subject, value))
    assert sorted(store.hidden.of([A, B, "unknown"])) == hidden
    assert store.hidden.transactions([name("a"), name("x")]) == {name("a")}
    assert store.hidden.has_news()
    assert announce_hidden(writer) == hidden
    assert (announce_hidden(writer), store.hidden.has_news()) == ([], False)
    assert announced(store, last) == [("remove", id_, "hidden") for id_ in hidden]
    last = store.outbox.newest_seq()
    assert unhide(store.primary, subject, value)
    assert store.hidden.of([A, B]) == {}
    assert announce_hidden(writer) == []
    assert announced(store, last) == [("upsert", id_, "hidden") for id_ in hidden]
    assert not unhide(store.primary, subject, value)


def test_a_decision_ends_by_itself_unless_another_one_hides_the_same(store: Store, writer: Writer) -> None:
    block_writer.append(writer, "demo", [says("0"), says("1", born("a", 0, 1), cards={CARD: b"{}"})])
    hide(store.primary, decision(Subject.ID, A, until=2))
    assert store.hidden.of([A]) == {}
    hide(store.primary, decision(Subject.SHA256, CARD.hex()))
    last = store.outbox.newest_seq()
    assert announce_hidden(writer) == [A]
    assert announced(store, last) == [("remove", A, "hidden")]
    assert [entry.subject for entry in store.hidden.decisions()] == [Subject.SHA256]
