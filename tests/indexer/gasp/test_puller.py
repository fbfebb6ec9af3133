"""Peers that answer anything: what they prove is taken, what they fail to deliver is tried again, the rest is not."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from indexer.admission.admission import Admission, Admissions
from indexer.errors import SourceError
from indexer.store.database import StoreError
from overlay.systems.bsv_overlay.gasp import peer as peers
from overlay.systems.bsv_overlay.gasp import puller as pullers
from overlay.systems.bsv_overlay.gasp.peer import GaspPeer
from overlay.systems.bsv_overlay.gasp.puller import GaspPuller
from parsers.bitcoin.tx import Outpoint, TxInput, TxOutput, read, serialise
from tests.indexing import Indexing, empty, fresh
from tests.minting import Mint, forged
from tests.waiting import PATIENCE

__all__ = ["empty"]


class FakePeer:
    """An overlay of whatever a test says: outputs with scores, `since` inclusive as the reference has it, and nodes."""

    def __init__(self) -> None:
        self.outputs: list[tuple[bytes, float]] = []
        self.nodes: dict[str, Any] = {}
        self.requests: Counter[str] = Counter()
        self.slow: set[str] = set()
        self.listing: Any = None
        self.invented: Iterator[int] | None = None

    def add(self, raw: bytes, score: float = 1, proof: bytes | None = None, *, listed: bool = True) -> str:
        tx = read(raw)
        node = {"graphID": f"{tx.hex_id}.0", "rawTx": raw.hex(), "outputIndex": 0}
        self.nodes[tx.hex_id] = node | ({"proof": proof.hex()} if proof else {})
        if listed:
            self.outputs.append((tx.txid, score))
        return tx.hex_id

    async def sync(self, request: web.Request) -> web.Response:
        assert request.headers["X-BSV-Topic"] == "tm_agent_registry"
        question = await request.json()
        self.requests["sync"] += 1
        if self.listing is not None:
            return web.Response(body=self.listing)
        page = [(txid, score) for txid, score in self.outputs if score >= question["since"]][: question["limit"]]
        if self.invented is not None:  # fill every page with outputs that nobody has, each with a higher score
            room = range(question["limit"] - len(page))
            page += [(next(self.invented).to_bytes(32, "big"), question["since"] + 1) for _ in room]
        utxos = [{"txid": txid[::-1].hex(), "outputIndex": 0, "score": score} for txid, score in page]
        return web.json_response({"UTXOList": utxos, "since": 0})

    async def node(self, request: web.Request) -> web.Response:
        txid = (await request.json())["txid"]
        self.requests[txid] += 1
        if txid in self.slow:
            await asyncio.sleep(6)
        if txid not in self.nodes:
            return web.json_response({"status": "error"}, status=400)
        return web.Response(text=json.dumps(self.nodes[txid]))


class Pulling:
    """A fake peer, and what pulls from it into a database of its own."""

    def __init__(self, mint: Mint, indexing: Indexing, fake: FakePeer, url: str) -> None:
        self.mint, self.store, self.peer = mint, indexing.store, fake
        self.client = GaspPeer(url)
        self.time = 0.0
        self.puller = GaspPuller(self.client, Admissions(indexing.store), clock=lambda: self.time)
        fake.add(mint.funding, proof=mint.path.to_bytes(), listed=False)

    async def pull(self) -> None:
        await self.puller.pull()

    def stored(self) -> set[str]:
        return {txid[::-1].hex() for txid in self.store.submissions.pending("live")}


@pytest.fixture
async def pulling(empty: Path) -> AsyncIterator[Pulling]:
    mint, fake = Mint(coins=40), FakePeer()
    app = web.Application()
    app.add_routes([web.post("/x/requestSyncResponse", fake.sync), web.post("/x/requestForeignGASPNode", fake.node)])
    async with TestServer(app) as server:
        with fresh(empty, mint.chain) as indexing:
            await indexing.catch_up()
            item = Pulling(mint, indexing, fake, f"http://127.0.0.1:{server.port}/x/")
            yield item
            await item.client.close()


async def test_a_graph_is_fetched_once_and_submitted(pulling: Pulling) -> None:
    mint = pulling.mint
    first = mint.inscribed("First")
    second = mint.inscribed("Second", 1, mint.coin_of(first, 1))
    txids = {pulling.peer.add(first, 5), pulling.peer.add(second, 5)}
    await pulling.pull()
    assert pulling.stored() == txids
    requests = dict(pulling.peer.requests)
    await pulling.pull()
    assert {**pulling.peer.requests, "sync": 0} == {**requests, "sync": 0}


async def test_more_outputs_of_one_score_than_a_page_are_all_taken(
    pulling: Pulling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pullers, "PAGE", 4)
    txids = {pulling.peer.add(pulling.mint.inscribed(f"Agent {coin}", coin), 7) for coin in range(19)}
    last = pulling.peer.add(pulling.mint.inscribed("Last", 21), 8.5)
    await pulling.pull()
    assert pulling.stored() == {*txids, last}


async def test_a_score_with_too_many_outputs_does_not_hold_up_later_ones(
    pulling: Pulling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pullers, "PAGE", 2)
    monkeypatch.setattr(pullers, "MAX_PAGE", 4)
    for coin in range(10):
        pulling.peer.add(pulling.mint.inscribed(f"Agent {coin}", coin), 7)
    last = pulling.peer.add(pulling.mint.inscribed("Last", 11), 8)
    await pulling.pull()
    assert last in pulling.stored()


async def test_a_peer_whose_lists_never_end_is_paused_and_read_on_from_there(
    pulling: Pulling, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pullers, "PAGE", 4)
    monkeypatch.setattr(pullers, "MAX_LISTED", 20)
    peer = pulling.peer
    peer.invented = count(1)
    with caplog.at_level(logging.WARNING):
        async with asyncio.timeout(PATIENCE):
            await pulling.pull()
    assert peer.requests["sync"] == 5, "20 outputs in pages of 4"
    [message] = [record.getMessage() for record in caplog.records if "paused" in record.getMessage()]
    assert "listed 20 outputs in one round, of which or of earlier ones 20 failed: it is paused for 3600 s" in message
    txid = peer.add(pulling.mint.inscribed("Later"), 1_000)
    requests = dict(peer.requests)
    await pulling.pull()
    assert dict(peer.requests) == requests, "a paused peer gets no request"
    pulling.time = pullers.REST_SECONDS
    await pulling.pull()
    assert peer.requests["sync"] == 10, "an hour later as many again, and from where it was"
    assert txid in pulling.stored()


async def test_a_long_list_that_ends_pauses_nobody(pulling: Pulling, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pullers, "PAGE", 4)
    monkeypatch.setattr(pullers, "MAX_LISTED", 12)
    mint, peer = pulling.mint, pulling.peer
    txids = {peer.add(mint.inscribed(f"Number {number}", number), number) for number in range(6)}
    for number in range(6, 9):
        await pulling.pull()
        assert pulling.stored() == txids
        txids.add(peer.add(mint.inscribed(f"Number {number}", number), number))


async def test_what_a_peer_fails_to_deliver_is_tried_again_so_many_times(
    pulling: Pulling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pullers, "TRIES", 3)
    late = pulling.peer.add(pulling.mint.inscribed("Late"), 1)
    later = pulling.peer.add(pulling.mint.inscribed("Later", 1), 2)
    never = pulling.peer.add(pulling.mint.inscribed("Never", 2), 3)
    node = pulling.peer.nodes.pop(late)
    del pulling.peer.nodes[never]
    await pulling.pull()
    assert pulling.stored() == {later}
    pulling.peer.nodes[late] = node
    for _ in range(5):
        await pulling.pull()
    assert pulling.stored() == {late, later}
    assert pulling.peer.requests[never] == 3


async def test_a_peer_with_lower_scores_than_before_is_listed_again_after_a_day(pulling: Pulling) -> None:
    first = {pulling.peer.add(pulling.mint.inscribed(f"First {coin}", coin), 1_000) for coin in range(2)}
    await pulling.pull()
    second = pulling.peer.add(pulling.mint.inscribed("Second", 2), 1)
    await pulling.pull()
    assert pulling.stored() == first
    pulling.time = 86_400
    await pulling.pull()
    assert pulling.stored() == {*first, second}


async def test_a_peer_that_lists_nothing_any_more_is_listed_again_after_an_hour(pulling: Pulling) -> None:
    first = {pulling.peer.add(pulling.mint.inscribed(f"First {coin}", coin), 1_000) for coin in range(2)}
    await pulling.pull()
    pulling.peer.outputs.clear()
    second = pulling.peer.add(pulling.mint.inscribed("Second", 2), 3)
    await pulling.pull()
    assert pulling.stored() == first
    pulling.time = pullers.EMPTY_SECONDS
    await pulling.pull()
    assert pulling.stored() == {*first, second}


@pytest.mark.parametrize("others", [0, 1, 5])
async def test_a_score_far_above_the_others_hides_nothing(pulling: Pulling, others: int) -> None:
    mint, peer = pulling.mint, pulling.peer
    txids = {peer.add(mint.inscribed(f"Number {number}", number), 10 + number) for number in range(others)}
    txids.add(peer.add(mint.inscribed("Far", 10), 2**62))
    await pulling.pull()
    assert pulling.stored() == txids
    txids.add(peer.add(mint.inscribed("Next", 11), 20))
    await pulling.pull()
    assert pulling.stored() == txids


async def test_outputs_that_a_peer_does_not_have_are_one_line_a_round_and_pause_it(
    pulling: Pulling, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pullers, "PAGE", 10)
    monkeypatch.setattr(pullers, "MAX_FAILURES", 40)
    pulling.peer.invented = count(1)
    with caplog.at_level(logging.WARNING):
        await pulling.pull()
    assert pulling.peer.requests["sync"] == 4
    assert len([record for record in caplog.records if "are not taken" in record.getMessage()]) == 1
    assert len(caplog.records) == 2
    requests = dict(pulling.peer.requests)
    await pulling.pull()
    assert dict(pulling.peer.requests) == requests, "paused"


async def test_what_is_not_proved_is_not_taken(pulling: Pulling) -> None:
    mint, peer = pulling.mint, pulling.peer
    taken = peer.add(mint.inscribed("Good", 3))
    other = mint.inscribed("Other", 4)
    peer.nodes[peer.add(mint.inscribed("Swapped", 5))]["rawTx"] = other.hex()
    coinbase = serialise((TxInput(Outpoint(bytes(32), 0xFFFFFFFF), b"", 0),), (TxOutput(1, mint.inscription("Made")),))
    peer.add(coinbase)
    lone = serialise((TxInput(Outpoint(b"\x11" * 32, 0), b"", 0),), (TxOutput(1, mint.inscription("Lone")),))
    peer.add(lone)
    peer.nodes[peer.add(mint.inscribed("Cut", 6))]["rawTx"] = other[:-1].hex()
    peer.nodes[peer.add(mint.inscribed("Odd", 7))] = ["rawTx"]
    peer.nodes[peer.add(mint.inscribed("Nothing", 8))] = {"rawTx": 5}
    peer.add(mint.inscribed("Unpaid", 9, fee=-5_000))
    await pulling.pull()
    assert pulling.stored() == {taken}
    peer.nodes[read(mint.funding).hex_id]["proof"] = forged(mint.path).to_bytes().hex()
    peer.add(mint.inscribed("Forged", 10), 2)
    await pulling.pull()
    assert pulling.stored() == {taken}


@pytest.mark.parametrize("lie", ["cut", "other", "odd", "nothing", "path", "coinbase", "proof"])
async def test_one_wrong_answer_of_a_node_loses_no_output(pulling: Pulling, lie: str) -> None:
    mint, peer = pulling.mint, pulling.peer
    txid = peer.add(mint.inscribed("Lied about"))
    funding = read(mint.funding).hex_id
    wrong = {
        "cut": (txid, {"rawTx": peer.nodes[txid]["rawTx"][:-2]}),
        "other": (txid, {"rawTx": mint.inscribed("Other", 1).hex()}),
        "odd": (txid, ["rawTx"]),
        "nothing": (txid, {"rawTx": 5}),
        "path": (txid, {"rawTx": peer.nodes[txid]["rawTx"], "proof": "00"}),
        "coinbase": (funding, {"rawTx": peer.nodes[funding]["rawTx"]}),
        "proof": (funding, {**peer.nodes[funding], "proof": forged(mint.path).to_bytes().hex()}),
    }
    of, answer = wrong[lie]
    node, peer.nodes[of] = peer.nodes[of], answer
    await pulling.pull()
    assert pulling.stored() == set()
    peer.nodes[of] = node
    await pulling.pull()
    assert pulling.stored() == {txid}


async def test_a_node_that_is_too_large_or_slow_does_not_hold_up_the_others(
    pulling: Pulling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "NODE_BYTES", 1 << 12)
    monkeypatch.setattr(peers, "LARGE_NODE_BYTES", 1 << 16)
    pulling.client.whole_seconds = 2.0
    mint, peer = pulling.mint, pulling.peer
    peer.nodes[peer.add(mint.inscribed("Vast"))]["rawTx"] = "00" * (1 << 16)
    peer.slow.add(peer.add(mint.inscribed("Slow", 1), 2))
    large = peer.add(mint.inscribed("Large", 2, description="x" * 4_096), 3)
    small = peer.add(mint.inscribed("Small", 3), 4)
    await pulling.pull()
    assert pulling.stored() == {large, small}


async def test_an_unforeseen_error_of_one_graph_does_not_end_the_puller(
    pulling: Pulling, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    odd, submit = pulling.peer.add(pulling.mint.inscribed("Odd")), Admissions.submit
    after = pulling.peer.add(pulling.mint.inscribed("After", 1), 2)

    def submit_or_fail(admissions: Admissions, data: bytes, client: str = "") -> Admission:
        if b"Odd" in data:
            raise RuntimeError("unforeseen")
        return submit(admissions, data, client)

    monkeypatch.setattr(Admissions, "submit", submit_or_fail)
    with caplog.at_level(logging.ERROR):
        await pulling.pull()
    assert pulling.stored() == {after}
    assert "unforeseen" in caplog.text
    await pulling.pull()
    assert pulling.peer.requests[odd] == 1


async def test_an_error_of_the_database_ends_the_round(pulling: Pulling, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_admissions: Admissions, _data: bytes, _client: str = "") -> Admission:
        raise StoreError("the disk is full")

    pulling.peer.add(pulling.mint.inscribed("Any"))
    monkeypatch.setattr(Admissions, "submit", fail)
    with pytest.raises(StoreError):
        await pulling.pull()


async def test_a_graph_without_an_end_is_cut(pulling: Pulling, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "MAX_TRANSACTIONS", 5)
    mint, coin = pulling.mint, pulling.mint.coins[0]
    for number in range(8):
        raw = mint.inscribed(f"Link {number}", 1 + number, coin)
        coin = mint.coin_of(raw, 1)
        pulling.peer.add(raw, listed=number == 7)
    await pulling.pull()
    assert pulling.stored() == set()
    assert sum(pulling.peer.requests.values()) <= 8


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"{}", b"<html>", b'{"UTXOList": 5}', b'{"UTXOList": [5]}', b'{"UTXOList": [{}]}',
        b'{"UTXOList": [{"txid": "00", "outputIndex": 0}]}', b"[" * 1_000,
        b'{"UTXOList": [{"txid": "%s", "outputIndex": 0, "score": -1}]}' % (b"00" * 32),
        b'{"UTXOList": [{"txid": "%s", "outputIndex": 0, "score": 1e300}]}' % (b"00" * 32),
        b'{"UTXOList": [{"txid": "%s", "outputIndex": 0, "score": "1"}]}' % (b"00" * 32),
        b'{"UTXOList": [{"txid": "%s", "outputIndex": "x"}]}' % (b"00" * 32),
    ],
)  # fmt: skip
async def test_lists_that_are_none_are_errors_of_the_peer(pulling: Pulling, body: bytes) -> None:
    pulling.peer.listing = body
    with pytest.raises(SourceError):
        await pulling.pull()
    pulling.peer.listing = None
    txid = pulling.peer.add(pulling.mint.inscribed("After"))
    await pulling.pull()
    assert pulling.stored() == {txid}
