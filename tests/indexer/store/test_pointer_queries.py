"""Queries of pointers, on every database: all rows that can decide, and never more than can be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from indexer.model import Anchor, EventKind, FetchFact
from indexer.resolution.pointer_resolution import Integrity, PointerResolution, resolve
from indexer.store import FetchState, Store, Writer, block_writer, chain_marks, pointer_queries, visits
from parsers.cards import Kind
from parsers.reasons import Reason
from tests.facts import born, name, outpoint_of, says
from tests.pointer_facts import Clock, card, digest, points, serves

ALPHA, BETA = card("Alpha"), card("Beta")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def writer(store: Store, clock: Clock) -> Iterator[Writer]:
    writer = Writer(store.engine, clock)
    for chain in ("bch", "demo"):
        chain_marks.name_chain(writer, chain, f"{chain}:regtest")
    yield writer
    writer.close()


def resolution(store: Store, id_: str = "a.example") -> PointerResolution | None:
    stored = store.pointers.anchors([id_]).get(id_)
    served = store.pointers.facts([id_])
    return resolve(stored.anchors, served, lambda sha, _: bool(store.content.cards([sha]))) if stored else None


def test_anchors_are_read_as_they_were_written_and_seen(store: Store, writer: Writer) -> None:
    messages = points("a.example", ALPHA, kind=Kind.TOOL, form="map", uri="https://a.example/.well-known/agent.json")
    block_writer.append(writer, "demo", [says("7", replace(messages, owner="alice"))])
    assert store.pointers.anchors(["a.example", "b.example"]) == {
        "a.example": pointer_queries.Anchors(
            (
                Anchor(
                    chain="demo",
                    position=7 << 26,
                    height=7,
                    time=1_700_000_007,
                    txid=name("a.example"),
                    outpoint=outpoint_of("a.example"),
                    locator="a.example",
                    digest=digest(ALPHA),
                    seen_at=1_000,
                    kind=Kind.TOOL,
                    form="map",
                    owner="alice",
                ),
            ),
            1,
        )
    }
    assert store.pointers.anchors([]) == {}


def test_anchors_of_several_chains_come_together(store: Store, writer: Writer) -> None:
    block_writer.append(writer, "demo", [says("7", points("a.example", ALPHA))])
    block_writer.append(writer, "bch", [says("3", points("a.example", ALPHA, "other"), chain="bch")])
    result = store.pointers.anchors(["a.example"])["a.example"]
    assert sorted((anchor.chain, anchor.height) for anchor in result.anchors) == [("bch", 3), ("demo", 7)]


def test_an_account_counts_by_its_newest_pointer(store: Store, writer: Writer) -> None:
    block_writer.append(writer, "demo", [says("1", points("a.example", ALPHA, "account"))])
    block_writer.append(writer, "demo", [says("2", points("a.example", BETA, "account"))])
    (anchor,) = store.pointers.anchors(["a.example"])["a.example"].anchors
    assert (anchor.digest, anchor.height) == (digest(BETA), 2)
    taken_back = replace(points("a.example", BETA, "account"), valid=False, reasons=(Reason("pointer-domain"),))
    block_writer.append(writer, "demo", [says("3", taken_back)])
    (anchor,) = store.pointers.anchors(["a.example"])["a.example"].anchors
    assert (anchor.valid, anchor.seen_at) == (False, None)
    block_writer.forget(writer, "demo", 1)
    (anchor,) = store.pointers.anchors(["a.example"])["a.example"].anchors
    assert (anchor.valid, anchor.digest) == (True, digest(ALPHA))


def test_a_burn_into_a_pointer_of_the_same_transaction_takes_nothing_back(store: Store, writer: Writer) -> None:
    burnt = replace(born("x"), kind=EventKind.BURNED, position=1, txid=name("both"), outpoint=outpoint_of("both"))
    block_writer.append(writer, "demo", [says("1", points("a.example", ALPHA, "both"), burnt)])
    assert len(store.pointers.anchors(["a.example"])["a.example"].anchors) == 1


def test_facts_come_by_locator(store: Store, writer: Writer, clock: Clock) -> None:
    block_writer.append(writer, "demo", [says("1", points("a.example", ALPHA), points("b.example", position=1))])
    first = clock.tick()
    visits.record_fetch(writer, "a.example", serves(first, ALPHA))
    visits.record_fetch(writer, "a.example", serves(clock.tick(), ALPHA))
    url = "https://a.example/.well-known/agent.json"
    expected = {"a.example": [FetchFact(digest(ALPHA), first, clock.now, url)]}
    assert store.pointers.facts(["a.example", "b.example", "c.example"]) == expected


def test_a_listing_resolves_from_the_store(store: Store, writer: Writer, clock: Clock) -> None:
    assert resolution(store) is None
    block_writer.append(writer, "demo", [says("1", points("a.example", ALPHA))])
    assert resolution(store) is None
    visits.record_fetch(writer, "a.example", serves(clock.tick(), ALPHA))
    result = resolution(store)
    assert result is not None
    assert (result.card, result.integrity) == (digest(ALPHA), Integrity.HASH_VERIFIED)
    block_writer.forget(writer, "demo", -1)
    assert resolution(store) is None


@pytest.mark.parametrize("flood", [ALPHA, BETA, None])
def test_a_flood_cannot_hide_what_is_listed(store: Store, writer: Writer, clock: Clock, flood: bytes | None) -> None:
    """Thousands of strangers on two chains repeat the listed hash, another one, or none, before and after."""
    others = [points("a.example", flood or b"%d" % n, f"before {n}", n) for n in range(1_000)]
    block_writer.append(writer, "demo", [says("1", *(others if flood is not ALPHA else ()))])
    clock.tick()
    block_writer.append(writer, "demo", [says("2", points("a.example", ALPHA, "publisher"))])
    visits.record_fetch(writer, "a.example", serves(clock.tick(), ALPHA))
    clock.tick()
    block_writer.append(
        writer, "demo", [says("3", *(points("a.example", flood, f"after {n}", n) for n in range(1_000)))]
    )
    later = [points("a.example", flood, f"other {n}", n) for n in range(1_000)]
    block_writer.append(writer, "bch", [says("9", *later, chain="bch")])
    visits.record_fetch(writer, "a.example", serves(clock.tick(), ALPHA))
    result = resolution(store)
    assert result is not None
    assert (result.card, result.anchor.txid) == (digest(ALPHA), name("publisher"))
    assert len(result.anchors) <= 2 * 2 * 2 * pointer_queries.ENDS + pointer_queries.ENDS
    assert store.pointers.anchors(["a.example"])["a.example"].total > 2_000
    assert len(store.pointers.revisions("a.example")) == pointer_queries.MAX_REVISIONS


def test_revisions_of_a_pointer_are_those_of_every_chain_in_order(store: Store, writer: Writer) -> None:
    block_writer.append(
        writer, "demo", [says("7", points("a.example", ALPHA)), says("8", points("a.example", BETA, "later"))]
    )
    block_writer.append(writer, "bch", [says("3", points("a.example", ALPHA, "other"), chain="bch")])
    revisions = store.pointers.revisions("a.example")
    assert [(past.chain, past.height) for past in revisions] == [("bch", 3), ("demo", 7), ("demo", 8)]
    assert store.pointers.revisions("b.example") == []
    assert len(store.pointers.revisions("a.example", 1)) == 3 - 2


def test_all_ids_can_be_walked_through(store: Store, writer: Writer) -> None:
    names = [f"{n:02}.example" for n in range(25)]
    block_writer.append(writer, "demo", [says("1", *(points(item, ALPHA, position=n) for n, item in enumerate(names)))])
    block_writer.append(writer, "demo", [says("2", points("03.example", BETA, "again"))])
    walked: list[str] = []
    while batch := store.pointers.ids(walked[-1] if walked else None, 10):
        walked += batch
    assert walked == names


def test_a_hash_that_is_met_by_none_is_not_listed_though_its_bytes_are_kept(
    store: Store, writer: Writer, clock: Clock
) -> None:
    inscribed = replace(born("x"), position=1, card=digest(BETA))
    block_writer.append(writer, "demo", [says("1", points("a.example", BETA), inscribed, cards={digest(BETA): BETA})])
    visits.record_fetch(writer, "a.example", serves(clock.tick(), ALPHA, state=FetchState.MISMATCH))
    assert store.content.cards([digest(BETA)]) == {digest(BETA): BETA}
    assert resolution(store) is None
