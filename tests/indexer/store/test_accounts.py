"""The newest event about each account, which a source of snapshots is compared with, on every database."""

from __future__ import annotations

from indexer.store import Store, Writer, block_writer
from indexer.store.source_store import SourceStore
from tests.facts import born, name, near_miss, ref, says
from tests.pointer_facts import card, points


def newest(writer: Writer, chain: str = "demo") -> dict[bytes, str]:
    return {event.txid: event.kind.value for event in SourceStore(writer).newest_events(chain)}


def test_an_empty_store_knows_no_account(writer: Writer) -> None:
    assert (SourceStore(writer).newest_block("demo"), newest(writer)) == (None, {})


def test_the_newest_event_of_each_account_of_a_chain_is_returned(store: Store, writer: Writer) -> None:
    block_writer.append(
        writer, "demo", [says("0"), says("1", born("a"), near_miss("n", 1), points("p", card("P"), position=2))]
    )
    block_writer.append(writer, "other", [says("0", chain="other"), says("1", born("z"), chain="other")])
    assert newest(writer) == {name("a"): "inscribed", name("n"): "rejected", name("p"): "pointed"}
    block_writer.append(
        writer, "demo", [says("2", points("a", card("A"), position=0), points("b", where="b", position=1))]
    )
    assert newest(writer) == {name("a"): "pointed", name("n"): "rejected", name("p"): "pointed", name("b"): "pointed"}
    assert newest(writer, "other") == {name("z"): "inscribed"}
    assert SourceStore(writer).newest_block("demo") == store.blocks.newest("demo") == ref("2")
    (newest_event,) = [event for event in SourceStore(writer).newest_events("demo") if event.txid == name("a")]
    assert newest_event == store.history.of_transaction(name("a"))[-1].event


def test_of_two_events_in_a_block_the_later_is_returned(writer: Writer) -> None:
    block_writer.append(writer, "demo", [says("0"), says("1", born("a"), points("a", position=1))])
    assert newest(writer) == {name("a"): "pointed"}


def test_deleted_events_are_not_returned(writer: Writer) -> None:
    block_writer.append(writer, "demo", [says("0"), says("1", born("a", height=1)), says("2", points("a"))])
    before = newest(writer)
    block_writer.forget(writer, "demo", 1)
    after = newest(writer)
    assert after[name("a")] == "inscribed"
    assert before != after
    block_writer.forget(writer, "demo", 0)
    assert newest(writer) == {}
