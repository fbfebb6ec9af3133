"""Anchors of two overlays: what one leaves out is found, proved and named; what one makes up frames nobody."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay import verify
from overlay.listings.local_source import LocalSource
from overlay.verify import VerificationReport, anchor_comparison, completeness
from overlay.verify.anchor_comparison import MAX_DIFFERENCES, compare
from overlay.verify.anchor_sources import ContradictionError, RemoteAnchors, StoreAnchors
from overlay.verify.completeness import Completeness
from overlay.verify.server_answer import NotCheckedError
from parsers.bitcoin import basm
from parsers.bitcoin.basm import AdmittedTransaction, TopicAnchor
from parsers.bitcoin.basm_answers import AnchorTip
from parsers.bitcoin.tx import Outpoint
from tests.chainkit import ChainKit, agent
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.overlay.forging_server import REGTEST, Server, words

Listed = dict[int, list[AdmittedTransaction]]


class Overlay:
    """An overlay in memory: block hashes from height 1 on, and what it says that each block admits."""

    def __init__(self, hashes: Sequence[bytes], listed: Listed, name: str = "theirs", genesis: int = 1) -> None:
        self.name, self.hashes, self.listed, self.genesis = name, list(hashes), listed, genesis
        self.delivers: Any = None
        self.requests = 0
        self.chain: str | None = REGTEST

    def anchors(self) -> dict[int, TopicAnchor]:
        created, tac = {}, bytes(32)
        for height, block in enumerate(self.hashes, 1):
            if height < self.genesis:
                continue
            txids = [one.txid for one in self.listed.get(height, [])]
            root = basm.root(txids)
            tac = basm.chained(tac, block, root)
            created[height] = TopicAnchor(height, block, root, len(txids), tac)
        return created

    def tip(self) -> AnchorTip:
        height, anchor = max(self.anchors().items())
        return AnchorTip(height, anchor.tac, self.genesis, self.chain, True, None)

    def between(self, first: int, last: int) -> Sequence[TopicAnchor]:
        self.requests += 1
        created = self.anchors()
        return [created[height] for height in range(first, min(last, first + 1_023) + 1) if height in created]

    def admitted(self, anchor: TopicAnchor) -> Sequence[AdmittedTransaction]:
        return self.listed.get(anchor.height, [])

    def path(self, height: int, txid: bytes) -> bytes:
        path: bytes = self.delivers.path(height, txid)
        return path

    def transactions(self, txids: Iterable[bytes]) -> dict[bytes, bytes]:
        raws: dict[bytes, bytes] = self.delivers.transactions(txids)
        return raws


class World:
    """A chain with a listing that is updated at last, others beside it, and an honest index of it all."""

    def __init__(self, url: str) -> None:
        self.kit = kit = ChainKit()
        self.listing, self.other = kit.inscribe(agent("Echo")), kit.inscribe(agent("Other"))
        kit.mine(self.listing, self.other)
        kit.mine_empty(2)
        self.chain = MemoryChain(*kit.blocks, name="demo")
        self.indexing = Indexing(url, self.chain)
        asyncio.run(self.indexing.catch_up())
        self.stale = Server(LocalSource(self.repository), str(self.listing))
        self.late, self.pointer = kit.inscribe(agent("Late")), kit.point("agent.example", "11" * 32)
        self.paid = kit.pay("carol")
        kit.mine(self.late, self.pointer, self.paid)
        self.moved = kit.move(self.other)
        kit.mine(self.moved)
        kit.mine_empty(1)
        self.quiet_height = kit.tip.height
        self.update = kit.update(self.listing, agent("Echo", version="2"))
        kit.mine(self.update)
        self.chain.arrive(*kit.blocks)
        asyncio.run(self.indexing.catch_up())
        self.fresh = Server(LocalSource(self.repository), str(self.listing))
        self.stale.headers = self.fresh.headers
        self.stale.page = self.fresh.page = len(self.fresh.headers)

    @property
    def repository(self) -> Any:
        from overlay.listings.repository import ListingRepository

        return ListingRepository(self.indexing.store)

    @property
    def honest(self) -> StoreAnchors:
        return StoreAnchors(self.repository.topic, "demo", REGTEST)

    def overlay(self, *without: Outpoint, name: str = "theirs", up_to: int | None = None) -> Overlay:
        """An overlay whose anchors leave these transactions out, and are right otherwise."""
        honest, listed = self.honest, {}
        anchors = honest.between(1, up_to or self.kit.tip.height)
        omitted = {outpoint.txid for outpoint in without}
        for anchor in anchors:
            listed[anchor.height] = [one for one in honest.admitted(anchor) if one.txid not in omitted]
        created = Overlay([anchor.block_hash for anchor in anchors], listed, name)
        created.delivers = honest
        return created

    def check(self, server: Server, ours: Any, *others: Any) -> VerificationReport:
        compared = Completeness(ours, others)
        return verify.verify(server, str(self.listing), expected=REGTEST, completeness=compared)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    created = World(f"sqlite:///{tmp_path_factory.mktemp('complete')}/a2b.db")
    with created.indexing:
        yield created


def test_two_overlays_that_agree_are_compared_once(world: World) -> None:
    ours, other = world.overlay(name="ours"), world.overlay()
    report = world.check(world.fresh, ours, other)
    assert report.missing == []
    messages = words(report, "complete", verify.PROVED)
    assert f"theirs admits nothing that ours leaves out, from block 1 to {world.kit.tip.height}" in messages
    assert "of 1 transactions admitted since block" in messages
    assert (ours.requests, other.requests) == (1, 2)  # the second one is read for what was admitted since


def test_a_hidden_update_is_found_by_the_block_that_leaves_it_out(world: World) -> None:
    report = world.check(world.stale, world.overlay(world.update, name="ours"), world.honest)
    txid, height = world.update.txid[::-1].hex(), world.kit.tip.height
    assert report.missing == ["complete"]
    messages = words(report, "complete")
    assert f"ours leaves out transaction {txid} of block {height}, which the local index has" in messages


def test_a_hidden_update_is_found_even_where_the_server_repeats_the_anchors_of_others(world: World) -> None:
    report = world.check(world.stale, world.overlay(name="ours"), world.honest)
    assert report.missing == ["complete"]
    assert f"spends {world.listing}: there is a newer revision" in words(report, "complete")


@pytest.mark.parametrize("which", ["late", "pointer"])
def test_an_overlay_that_leaves_out_another_listing_is_not_complete(world: World, which: str) -> None:
    omitted: Outpoint = getattr(world, which)
    report = world.check(world.fresh, world.overlay(omitted, name="ours"), world.honest)
    assert report.missing == ["complete"]
    assert f"ours leaves out transaction {omitted.txid[::-1].hex()}" in words(report, "complete")


def test_a_transfer_that_shows_no_record_is_named_and_not_judged(world: World) -> None:
    report = world.check(world.fresh, world.overlay(world.moved, name="ours"), world.honest)
    messages = words(report, "complete", verify.NOT_CHECKED)
    assert f"admits {world.moved.txid[::-1].hex()} in block" in messages
    assert report.missing == ["complete"]


def test_omissions_of_the_other_overlay_are_reported_and_prove_nothing_against_ours(world: World) -> None:
    report = world.check(world.fresh, world.honest, world.overlay(world.late))
    assert report.missing == []
    assert "theirs leaves out some that the local index has" in words(report, "complete", verify.PROVED)


def test_an_overlay_that_admits_other_transactions_frames_nobody(world: World) -> None:
    other = world.overlay()
    height = next(height for height, listed in other.listed.items() if len(listed) == 2 and height > 3)
    paid = world.paid.txid
    other.listed[height] = [AdmittedTransaction(paid, 0), *other.listed[height]]
    other.delivers = Delivering({paid: world.kit.raw(world.paid)}, world.honest)
    messages = words(world.check(world.fresh, world.honest, other), "complete", verify.NOT_CHECKED)
    assert f"theirs: the merkle path of {paid[::-1].hex()}" in messages


def test_an_overlay_that_contradicts_itself_frames_nobody_and_is_not_complete(world: World) -> None:
    remote_overlay = Unchained(world.overlay().hashes, world.overlay().listed)
    remote_overlay.broken = 3
    remote = RemoteAnchors("theirs", post_of(remote_overlay))
    messages = words(world.check(world.fresh, world.honest, remote), "complete", verify.NOT_CHECKED)
    assert "theirs: the anchor at height 3 is not chained" in messages
    messages = words(world.check(world.fresh, remote, world.honest), "complete", verify.NOT_PROVED)
    assert "theirs: the anchor at height 3 is not chained" in messages


class Delivering:
    """An overlay that delivers these transactions, with another overlay's paths."""

    def __init__(self, raws: dict[bytes, bytes], honest: StoreAnchors) -> None:
        self.raws, self.honest = raws, honest

    def path(self, height: int, _txid: bytes) -> bytes:
        anchor = self.honest.between(height, height)[0]
        return self.honest.path(height, self.honest.admitted(anchor)[0].txid)

    def transactions(self, txids: Iterable[bytes]) -> dict[bytes, bytes]:
        requested = set(txids)
        return {txid: raw for txid, raw in self.raws.items() if txid in requested} or self.honest.transactions(
            requested
        )


def test_beyond_the_differences_that_are_looked_into_nothing_is_claimed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anchor_comparison, "MAX_DIFFERENCES", 1)
    report = world.check(world.stale, world.honest, world.overlay(world.late, world.update))
    height = next(height for height, block in enumerate(world.kit.blocks) if world.late.txid in block.txids)
    assert f"from block 1 to {height};" in words(report, "complete", verify.PROVED)


def test_without_the_bytes_nothing_is_judged(world: World) -> None:
    ours, other = world.overlay(world.late, name="ours"), world.overlay()
    ours.delivers = other.delivers = Delivering({}, world.honest)
    ours.delivers.transactions = other.delivers.transactions = lambda _: {}
    report = world.check(world.fresh, ours, other)
    assert "no overlay delivers transaction" in words(report, "complete", verify.NOT_CHECKED)


def test_too_many_to_be_read_are_reported(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completeness, "MAX_SCANNED", 0)
    report = world.check(world.fresh, world.overlay(name="ours"), world.honest)
    assert "only an index of your own can read them all" in words(report, "complete", verify.NOT_CHECKED)


def test_an_overlay_that_is_behind_the_listing_cannot_say(world: World) -> None:
    report = world.check(world.fresh, world.honest, world.overlay(up_to=world.quiet_height))
    messages = words(report, "complete", verify.NOT_CHECKED)
    assert "do not include the listing's last block" in messages


def test_anchors_of_blocks_that_are_not_in_the_chain_count_nothing(world: World) -> None:
    ours, other = world.overlay(name="ours"), world.overlay()
    ours.hashes[-1] = other.hashes[-1] = b"\x07" * 32
    assert "the header served is of another" in words(world.check(world.fresh, ours, other), "complete")


def test_what_an_overlay_says_that_it_lacks_is_passed_on(world: World) -> None:
    other = world.overlay()
    changed = other.tip()._replace(complete=False, undecided_from=4)
    other.tip = lambda: changed  # type: ignore[method-assign]
    messages = words(world.check(world.fresh, world.honest, other), "complete", verify.PROVED)
    assert "theirs says that it did not read everything" in messages
    assert "theirs has an undecided update in block 4, and may lack what follows it" in messages


def test_a_pointer_of_another_chain_has_no_anchors(world: World) -> None:
    other = world.overlay()
    other.chain = "bsv:testnet"
    messages = words(world.check(world.fresh, world.honest, other), "complete", verify.NOT_CHECKED)
    assert "of different chains: bsv:regtest and bsv:testnet" in messages


# -- the comparison alone ---------------------------------------------------------------------------------------------


def block(height: int, branch: str = "") -> bytes:
    return f"{height}{branch}".encode().ljust(32, b"\1")


def listing(*numbers: int) -> list[AdmittedTransaction]:
    return [AdmittedTransaction(block(number, "tx"), number) for number in numbers]


@settings(max_examples=60, deadline=None)
@given(length=st.integers(1, 3_000), omitted=st.sets(st.integers(1, 3_000), max_size=12), more=st.integers(0, 40))
def test_exactly_the_blocks_that_differ_are_found_in_few_requests(length: int, omitted: set[int], more: int) -> None:
    hashes = [block(height) for height in range(1, length + more + 1)]
    whole = {height: listing(1, 2) for height in {*omitted, *range(1, length, 7)}}
    ours = Overlay(hashes[:length], {height: listed[height in omitted :] for height, listed in whole.items()})
    theirs = Overlay(hashes, whole)
    result = compare(ours, theirs)
    expected = sorted(height for height in omitted if height <= length)
    assert [difference.ours.height for difference in result.differences] == expected[:MAX_DIFFERENCES]
    last = length if len(expected) < MAX_DIFFERENCES else expected[MAX_DIFFERENCES - 1]
    assert (result.first, result.last) == (1, last)
    assert result.anchor == ours.anchors()[last]
    pages = math.ceil(length / 1_024) + 1
    assert ours.requests <= (1 + math.ceil(math.log2(length)) + pages if expected else 1) + 1


@settings(max_examples=30, deadline=None)
@given(length=st.integers(2, 60), fork=st.integers(2, 60))
def test_overlays_on_two_branches_are_compared_up_to_the_fork(length: int, fork: int) -> None:
    fork = min(fork, length)
    ours = Overlay([block(height) for height in range(1, length + 1)], {1: listing(1)})
    theirs = Overlay([block(height, "b" if height >= fork else "") for height in range(1, length + 1)], {1: listing(1)})
    result = compare(ours, theirs)
    assert (result.last, result.differences) == (fork - 1, ())
    with pytest.raises(NotCheckedError, match="on another branch"):
        compare(ours, Overlay([block(height, "b") for height in range(1, length + 1)], {}))


def test_one_that_began_late_is_compared_from_there_on() -> None:
    hashes = [block(height) for height in range(1, 30)]
    whole = {5: listing(1, 2), 20: listing(3, 4)}
    ours = Overlay(hashes, whole)
    late = Overlay(hashes, {20: listing(3, 4)}, genesis=10)
    result = compare(ours, late)
    assert (result.first, result.last, result.differences) == (10, 29, ())
    late.listed[20] = listing(4)
    assert [difference.ours.height for difference in compare(ours, late).differences] == [20]
    with pytest.raises(NotCheckedError, match="no height in common"):
        compare(Overlay(hashes[:5], {}), late)


class Unchained(Overlay):
    """One whose anchors are not chained from a height on."""

    broken = 20

    def anchors(self) -> dict[int, TopicAnchor]:
        created = super().anchors()
        return {
            height: replace(anchor, tac=basm.chained(anchor.tac, b"", b"")) if height >= self.broken else anchor
            for height, anchor in created.items()
        }


def test_anchors_that_are_not_chained_are_a_contradiction() -> None:
    hashes = [block(height) for height in range(1, 2_000)]
    for broken in (1, 20, 1_500):
        unchained = Unchained(hashes, {})
        unchained.broken = broken
        with pytest.raises((ContradictionError, NotCheckedError), match="not chained"):
            compare(RemoteAnchors("theirs", post_of(unchained)), Overlay(hashes, {}))


# -- what strangers answer --------------------------------------------------------------------------------------------


def post_of(overlay: Overlay, **changes: Any) -> Any:
    """The routes of an overlay, with these members of answers changed."""

    def shown(anchor: TopicAnchor) -> dict[str, Any]:
        return {
            "blockHeight": anchor.height, "blockHash": anchor.block_hash[::-1].hex(),
            "basmRoot": anchor.root[::-1].hex(), "admittedCount": anchor.admitted, "tac": anchor.tac[::-1].hex(),
        }  # fmt: skip

    def post(path: str, question: dict[str, Any]) -> Any:
        if path == "/requestTopicAnchorTip":
            answer = shown(max(overlay.anchors().values(), key=lambda anchor: anchor.height)) | {"genesisHeight": 1}
        elif path == "/requestTopicAnchorRange":
            result = overlay.between(question["fromHeight"], question["toHeight"])
            answer = {"anchors": [shown(anchor) for anchor in result]}
        else:
            listed = overlay.listed[question["blockHeight"]]
            offset = question.get("offset", 0)
            answer = {
                "blockHeight": question["blockHeight"],
                "admitted": [
                    {"txid": one.txid[::-1].hex(), "blockIndex": one.number} for one in listed[offset : offset + 2]
                ],
            }
            if offset + 2 < len(listed):
                answer["nextOffset"] = offset + 2
        return answer | changes

    return post


def test_an_overlay_is_read_over_its_routes_page_by_page() -> None:
    overlay = Overlay([block(1), block(2)], {2: listing(1, 2, 3, 4, 5)})
    remote = RemoteAnchors("theirs", post_of(overlay))
    assert remote.tip() == AnchorTip(2, overlay.anchors()[2].tac, 1, None, True, None)
    assert list(remote.between(1, 9)) == list(overlay.anchors().values())
    assert list(remote.admitted(overlay.anchors()[2])) == overlay.listed[2]


@pytest.mark.parametrize(
    "changes",
    [
        {"blockHeight": "2"}, {"blockHeight": True}, {"blockHeight": -2}, {"blockHeight": 2**31}, {"tac": "00"},
        {"tac": "Z" * 64}, {"tac": None}, {"genesisHeight": -1}, {"genesisHeight": 1.5}, {"undecidedFrom": "x"},
    ],
)  # fmt: skip
def test_a_tip_that_cannot_be_read_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ContradictionError, match="theirs: the answer's"):
        RemoteAnchors("theirs", post_of(Overlay([block(1)], {}), **changes)).tip()


@pytest.mark.parametrize(
    "answer", [None, [], "x", 7, {}, {"anchors": {}}, {"anchors": [None]}, {"anchors": [1] * 2_000}]
)
def test_answers_of_other_shapes_are_refused(answer: Any) -> None:
    remote = RemoteAnchors("theirs", lambda *_: answer)
    anchor = TopicAnchor(1, block(1), block(2), 1, block(3))
    for ask in (
        remote.tip, lambda: remote.between(1, 5), lambda: remote.admitted(anchor), lambda: remote.path(1, bytes(32)),
        lambda: remote.transactions([bytes(32)]),
    ):  # fmt: skip
        with pytest.raises(ContradictionError):
            ask()


def test_lists_that_are_not_under_the_root_are_refused() -> None:
    overlay = Overlay([block(1)], {1: listing(1, 2, 3)})
    anchor = overlay.anchors()[1]
    for wrong in (listing(1, 2), listing(2, 1, 3), listing(1, 2, 4), [], listing(1, 2, 3, 3)):
        overlay.listed[1] = wrong
        with pytest.raises(ContradictionError):
            RemoteAnchors("theirs", post_of(overlay)).admitted(anchor)


def test_a_list_without_an_end_ends() -> None:
    overlay = Overlay([block(1)], {1: listing(*range(10))})
    post = post_of(overlay, nextOffset=2)
    with pytest.raises(ContradictionError):
        RemoteAnchors("theirs", post).admitted(overlay.anchors()[1])


def test_bytes_of_other_transactions_are_refused() -> None:
    raw = "01000000000000000000"
    entry = {"txid": "11" * 32, "rawTx": raw}
    remote = RemoteAnchors("theirs", lambda *_: {"transactions": [entry]})
    with pytest.raises(ContradictionError, match="another transaction"):
        remote.transactions([b"\x11" * 32])
