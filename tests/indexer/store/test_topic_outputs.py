"""Outputs by score, as other overlays page through them: every one that can be proved, and none twice at its end."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest

from indexer.model import BlockFacts, Event, Proof
from indexer.store import Store, Writer, block_writer, pending, topic_outputs
from indexer.store.submissions import Share, Submission
from tests.facts import born, burned, moved, name, outpoint_of, says


def proved(label: str, *events: Event, without: str = "") -> BlockFacts:
    """A block of these events with a proof of each transaction, but for one."""
    txids = {event.txid for event in events} - {name(without)}
    return replace(says(label, *events), proofs={txid: Proof(b"raw", b"bump") for txid in txids})


class Paging(NamedTuple):
    """The outputs of pages that follow each other."""

    outpoints: list[str]
    scores: list[int]


def paged(store: Store, limit: int, since: int = 0) -> Paging:
    paging = Paging([], [])
    while page := store.topic_outputs.after("demo", since, limit):
        assert len(page) <= limit
        paging.outpoints.extend(str(output.outpoint) for output in page)
        paging.scores.extend(output.score for output in page)
        since = page[-1].score
    assert paging.scores == sorted(set(paging.scores))
    return paging


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_pages_hold_where_each_registration_is(
    store: Store, writer: Writer, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_outputs, "CHANGES_AT_ONCE", 3)
    newcomers = [born(letter, position, 1) for position, letter in enumerate("abcdef")]
    block_writer.append(writer, "demo", [says("0"), proved("1", *newcomers, without="f")])
    block_writer.append(writer, "demo", [proved("2", moved("a", "a", "x"), burned("b", "b", "y", 1))])
    assert set(paged(store, limit).outpoints) == {str(outpoint_of(where)) for where in ("x", "c", "d", "e")}
    score = store.outbox.newest_seq()
    assert paged(store, limit, score).outpoints == []
    block_writer.append(writer, "demo", [proved("3", moved("c", "c", "z", 0, 3))])
    assert paged(store, limit, score).outpoints == [str(outpoint_of("z"))]
    block_writer.forget(writer, "demo", 2)
    assert paged(store, limit, score).outpoints[-1:] == [str(outpoint_of("c"))]


def test_unconfirmed_outputs_are_listed_once_they_were_submitted(store: Store, writer: Writer) -> None:
    block_writer.append(writer, "demo", [says("0"), proved("1", born("a", 0, 1), born("b", 1, 1))])
    pending.replace_pending(writer, "demo", [moved("a", "a", "x"), burned("b", "b", "y", 1), born("n", 2)], {})
    assert paged(store, 100).outpoints == [str(outpoint_of("a"))]
    score = store.outbox.newest_seq()
    store.submissions.add(
        "demo", [Submission(txid=name(txid), raw=b"raw", spends=()) for txid in ("x", "n")], Share(b"", "")
    )
    assert pending.announce_submitted(writer, "demo", [name("x"), name("n"), name("y")]) == 3
    assert sorted(paged(store, 100, score).outpoints) == sorted([str(outpoint_of("x")), str(outpoint_of("n"))])


def test_two_registrations_of_one_output_are_one_output(store: Store, writer: Writer) -> None:
    first = born("a", 0, 1)
    assert first.state is not None
    second = replace(born("a", 1, 1), state=replace(first.state, id=f"{first.state.id}#second"))
    block_writer.append(writer, "demo", [says("0"), proved("1", first, second)])
    assert paged(store, 100).outpoints == [str(outpoint_of("a"))]


def test_other_chains_have_outputs_of_their_own(store: Store, writer: Writer) -> None:
    block_writer.append(writer, "demo", [says("0"), proved("1", born("a", 0, 1))])
    assert store.topic_outputs.after("other", 0, 10) == []
