"""Anchors of the topic (BRC-136): one digest a block, chained, whatever was appended and rolled back."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from sqlalchemy import func, select

from indexer.model import BlockFacts, Event, EventKind, PointerAnchor
from indexer.store import Store, Writer, block_writer, chain_marks, topic_anchors
from parsers.bitcoin.basm import TopicAnchor
from parsers.bitcoin.tx import Outpoint
from tests.facts import born, burned, moved, name, near_miss, says, undecided
from tests.oracles.anchors import twice
from tests.oracles.merkle import root


@pytest.fixture(autouse=True)
def _named(writer: Writer) -> None:
    chain_marks.name_chain(writer, "demo", "bsv:regtest")


def by_the_book(*chain: tuple[BlockFacts, list[str]]) -> list[TopicAnchor]:
    """The anchors of consecutive blocks, in which these transactions are admitted."""
    anchors, tac = [], bytes(32)
    for facts, admitted in chain:
        top = root([*map(name, admitted)]) if admitted else bytes(32)
        tac = twice(tac + facts.ref.hash + top)
        anchors.append(TopicAnchor(facts.ref.height, facts.ref.hash, top, len(admitted), tac))
    return anchors


def pointed(txid: str, position: int, *, valid: bool = True) -> Event:
    pointer = PointerAnchor(id="a.example" if valid else None, domain="a.example", digest=None, uri=None, form="bare")
    return Event(
        kind=EventKind.POINTED, position=position, tx_index=position + 1, txid=name(txid),
        outpoint=Outpoint(name(txid), 0), valid=valid, pointer=pointer,
    )  # fmt: skip


def test_admitted_is_what_changes_a_registration_or_points_in_block_order(store: Store, writer: Writer) -> None:
    # spent in this order, and mined in another; one transaction does two things
    first = replace(born("a", 0, 1), tx_index=7)
    second = replace(moved("a", "a", "b", 1, 1), tx_index=3)
    third = replace(born("c", 2, 1), txid=name("b"), tx_index=3)
    block = says("1", first, second, third, near_miss("n", 3), pointed("p", 4), pointed("q", 5, valid=False))
    other = says("2", burned("c", "b", "z"))
    block_writer.append(writer, "demo", [says("0"), block, other, says("3")])
    expected = by_the_book((block, ["b", "p", "a"]), (other, ["z"]), (says("3"), []))
    assert store.topic_anchors.between("demo", 0, 9) == expected
    assert store.topic_anchors.newest("demo") == expected[-1]
    assert store.topic_anchors.genesis("demo") == 1
    listed = store.topic_anchors.admitted("demo", 1)
    assert listed is not None
    assert listed.block_hash == name("1")
    assert [(transaction.txid, transaction.number) for transaction in listed.transactions] == [
        (name("b"), 3),
        (name("p"), 5),
        (name("a"), 7),
    ]
    assert listed.count == 3
    page = store.topic_anchors.admitted("demo", 1, 1, 1)
    assert page is not None
    assert (page.count, [transaction.number for transaction in page.transactions]) == (3, [5])
    beyond = store.topic_anchors.admitted("demo", 1, 3, 1)
    assert beyond is not None
    assert (beyond.count, beyond.transactions) == (3, ())
    empty = store.topic_anchors.admitted("demo", 3)
    assert empty is not None
    assert empty.transactions == ()
    assert store.topic_anchors.admitted("demo", 4) is None


def test_an_anchor_is_stored_where_something_is_admitted_and_now_and_then(
    store: Store, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_anchors, "EVERY", 4)
    blocks = [says("0"), *(says(str(height), *([born("a")] if height == 2 else [])) for height in range(1, 14))]
    block_writer.append(writer, "demo", blocks[:6])
    block_writer.append(writer, "demo", blocks[6:])
    with store.engine.connect() as connection:
        rows = connection.execute(select(topic_anchors.topic_anchors.c.height)).scalars().all()
    assert sorted(rows) == [2, 4, 8, 12]
    expected = by_the_book(*((facts, ["a"] if facts.events else []) for facts in blocks[1:]))
    for first in range(14):
        assert store.topic_anchors.between("demo", first, first + 3) == [
            anchor for anchor in expected if first <= anchor.height <= first + 3
        ]


def test_a_chain_that_was_begun_late_has_anchors_from_there_on(store: Store, writer: Writer) -> None:
    blocks = [says("5"), says("6", born("a"))]
    block_writer.append(writer, "demo", blocks)
    assert store.topic_anchors.genesis("demo") == 5
    assert store.topic_anchors.between("demo", 0, 9) == by_the_book((blocks[0], []), (blocks[1], ["a"]))


def test_a_chain_without_a_topic_has_no_anchors(store: Store, writer: Writer) -> None:
    chain_marks.name_chain(writer, "other", "btc:regtest")
    for chain in ("other", "nameless"):
        block_writer.append(writer, chain, [says("0", chain=chain), says("1", born("a"), chain=chain)])
        assert store.topic_anchors.genesis(chain) is None
        assert store.topic_anchors.newest(chain) is None
        assert store.topic_anchors.between(chain, 0, 9) == []
    assert store.topic_anchors.newest("demo") is None


def test_an_undecided_update_says_from_where_on_others_may_have_more(store: Store, writer: Writer) -> None:
    block_writer.append(writer, "demo", [says("0"), says("1", born("a", height=1))])
    assert store.topic_anchors.undecided_from("demo") is None
    block_writer.append(writer, "demo", [says("2", undecided("a", "a", "b")), says("3")])
    assert store.topic_anchors.undecided_from("demo") == 2


@pytest.mark.parametrize("seed", range(3))
def test_any_history_has_the_anchors_of_its_last_branch(
    store: Store, writer: Writer, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(topic_anchors, "EVERY", 3)
    rng = random.Random(seed)
    chain: list[tuple[BlockFacts, list[str]]] = []
    block_writer.append(writer, "demo", [says("0")])
    for serial in range(30):
        if len(chain) > 2 and rng.random() < 0.25:
            del chain[-rng.randint(1, 2) :]
            block_writer.forget(writer, "demo", len(chain))
        new: list[tuple[BlockFacts, list[str]]] = []
        for _ in range(rng.randint(1, 4)):
            height = len(chain) + len(new) + 1
            names = [f"{serial}.{height}.{number}" for number in range(rng.choice((0, 0, 1, 2, 5)))]
            events = [born(txid, position, height) for position, txid in enumerate(names)]
            before = (new or chain)[-1][0].ref.hash if new or chain else name("0")
            facts = says(f"{height}{rng.choice('abcd')}", *events, prev=before.rstrip(b"\0").decode())
            new.append((facts, names))
        block_writer.append(writer, "demo", [facts for facts, _ in new])
        chain += new
        assert store.topic_anchors.between("demo", 0, 999) == by_the_book(*chain)
    with store.engine.connect() as connection:
        count = connection.execute(select(func.count()).select_from(topic_anchors.topic_anchors)).scalar_one()
    assert 0 < count < len(chain)
    topic_anchors.rebuild(writer, "demo")
    assert store.topic_anchors.between("demo", 0, 999) == by_the_book(*chain)
    with store.engine.connect() as connection:
        assert connection.execute(select(func.count()).select_from(topic_anchors.topic_anchors)).scalar_one() == count
