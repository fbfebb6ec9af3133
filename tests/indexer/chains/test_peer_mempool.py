"""Unconfirmed transactions of peers: requested within a budget, listed until a block has them, bounded everywhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest

from indexer.chains.peers import peer_mempool as module
from indexer.chains.peers.chain import PeersChain
from indexer.chains.peers.peer_mempool import PeerMempool
from indexer.chains.peers.wire_networks import wire_network
from indexer.headers.networks import network
from parsers.bitcoin.tx import Outpoint, TxInput, TxOutput, serialise, sha256d
from tests.chainkit import ChainKit
from tests.fakes import MemoryChain
from tests.peer_server import Connection, PeerServer
from tests.waiting import PATIENCE, until


@pytest.fixture
def kit() -> ChainKit:
    mint = ChainKit(funds=40)
    mint.mine_empty(2)
    return mint


@pytest.fixture
async def server(kit: ChainKit) -> AsyncIterator[PeerServer]:
    async with PeerServer(MemoryChain(*kit.blocks)) as server:
        yield server


@pytest.fixture
async def other(kit: ChainKit) -> AsyncIterator[PeerServer]:
    async with PeerServer(MemoryChain(*kit.blocks)) as server:
        yield server


@pytest.fixture
async def chain(server: PeerServer, other: PeerServer) -> AsyncIterator[PeersChain]:
    created = server.chain(other)
    await created.open()
    await until(lambda: sum(peer.is_synced for peer in created.pool.peers) == 2)
    assert await created.mempool() == frozenset()
    yield created
    await created.close()


async def becomes(chain: PeersChain, expected: set[bytes]) -> None:
    async with asyncio.timeout(PATIENCE):
        while await chain.mempool() != expected:
            await chain.wait(0.1)


async def test_a_transaction_is_listed_until_a_block_has_it(
    chain: PeersChain, server: PeerServer, kit: ChainKit
) -> None:
    coming = kit.pay()
    server.announce(coming.txid, kit.raw(coming))
    await becomes(chain, {coming.txid})
    assert await chain.transactions([coming.txid, bytes(32)]) == {coming.txid: kit.raw(coming)}
    block = kit.mine(coming)
    server.arrive(block)
    async with asyncio.timeout(PATIENCE):
        while (tip := await chain.tip()) is None or tip.hash != block.hash:
            await chain.wait(0.1)
    async for _ in chain.blocks(block.height, block.height):
        pass
    assert await chain.mempool() == frozenset()
    server.arrive(kit.mine(parent=kit["2"]), kit.mine(), kit.mine())
    await becomes(chain, {coming.txid})


async def test_nothing_is_requested_before_the_list_is_read(server: PeerServer, kit: ChainKit) -> None:
    chain = server.chain()
    try:
        await chain.open()
        await until(lambda: chain.pool.is_synced)
        coming = kit.pay()
        server.announce(coming.txid, kit.raw(coming))
        await asyncio.sleep(0.2)
        assert not server.requests["getdata"]
    finally:
        await chain.close()


async def test_without_a_mempool_no_transaction_is_requested(server: PeerServer, kit: ChainKit) -> None:
    chain = server.chain(mempool="off")
    try:
        await chain.open()
        await until(lambda: chain.pool.is_synced)
        assert await chain.mempool() is None
        coming = kit.pay()
        server.announce(coming.txid, kit.raw(coming))
        await asyncio.sleep(0.2)
        assert not server.requests["getdata"]
        assert await chain.transactions([coming.txid]) == {}
    finally:
        await chain.close()


async def test_a_peer_that_does_not_have_what_it_announced_is_passed_over(
    chain: PeersChain, server: PeerServer, other: PeerServer, kit: ChainKit
) -> None:
    coming = kit.pay()
    server.announce(coming.txid, kit.raw(coming))
    server.source.unconfirmed.clear()
    other.announce(coming.txid, kit.raw(coming))
    await becomes(chain, {coming.txid})


async def test_a_silent_peer_is_passed_over(
    chain: PeersChain, server: PeerServer, other: PeerServer, kit: ChainKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silence(_connection: Connection, _payload: bytes) -> None:
        """Answers nothing."""

    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.2)
    server.instead["getdata"] = silence
    coming = kit.pay()
    server.announce(coming.txid, kit.raw(coming))
    await until(lambda: server.requests["getdata"])
    other.announce(coming.txid, kit.raw(coming))
    await becomes(chain, {coming.txid})


async def test_a_peer_that_sends_what_nobody_requested_is_left(
    chain: PeersChain, server: PeerServer, kit: ChainKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = kit.raw(kit.pay())
    for _ in range(6_000):
        server.connections[0].send("tx", raw)
    await until(lambda: chain.violation_count)
    assert await chain.mempool() == frozenset()


async def test_the_budget_bounds_what_is_requested(
    server: PeerServer, kit: ChainKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    chain = server.chain(mempool="10000")
    try:
        await chain.open()
        await until(lambda: chain.pool.is_synced)
        await chain.mempool()
        waiting = [sha256d(bytes([number])) + b"" for number in range(255)]
        raws = [serialise((TxInput(Outpoint(txid, 0), b"", 0),), (TxOutput(1, bytes(3_000)),)) for txid in waiting]
        for raw in raws:
            server.announce(sha256d(raw), raw)
        at_once = int(10_000 * module.BURST_SECONDS / module.USUAL_BYTES)
        await lists(chain, at_once)
        await asyncio.sleep(4 * module.TICK_SECONDS)
        clock.now += sum(map(len, raws[:at_once])) / 10_000 - module.BURST_SECONDS
        await asyncio.sleep(4 * module.TICK_SECONDS)
        await lists(chain, at_once)
        clock.now += 1
        await lists(chain, len(raws))
    finally:
        await chain.close()


async def lists(chain: PeersChain, number: int) -> None:
    """Wait until so many transactions are listed; there are never more."""
    async with asyncio.timeout(PATIENCE):
        while len(await chain.mempool() or ()) < number:
            await chain.wait(0.1)
    assert len(await chain.mempool() or ()) == number


class _Peer:
    """A peer that remembers what was requested of it."""

    def __init__(self, number: int) -> None:
        from ipaddress import ip_address

        from indexer.chains.peers.messages import PeerAddress

        self.address, self.requested = PeerAddress(ip_address(f"8.{number}.1.1"), 1), list[bytes]()

    def request_transactions(self, txids: list[bytes]) -> None:
        self.requested += txids


def pool(coin: str = "bsv", announcers: int = 1) -> PeerMempool:
    created = PeerMempool(wire_network(network(coin, "regtest")), 500_000, announcers, lambda: None)
    created.listed(lambda _: True)
    return created


def spending(number: int, value: int = 1) -> bytes:
    return serialise((TxInput(Outpoint(bytes([number]) * 32, 0), b"", 0),), (TxOutput(value, b"\x51"),))


def test_a_transaction_counts_once_peers_of_two_networks_announce_it() -> None:
    mempool, raw = pool(announcers=2), spending(1)
    first, again, second = _Peer(1), _Peer(1), _Peer(2)
    for peer in (first, again):
        mempool.announce(peer, [sha256d(raw)])  # type: ignore[arg-type]
    assert mempool.take(raw)
    assert mempool.listed(lambda _: True) == frozenset()
    mempool.announce(second, [sha256d(raw)])  # type: ignore[arg-type]
    assert mempool.listed(lambda _: True) == {sha256d(raw)}
    assert (first.requested, again.requested, second.requested) == ([sha256d(raw)], [], [])


def test_a_transaction_that_spends_the_same_replaces_another_where_coins_allow_that() -> None:
    mempool, peer = pool("ltc"), _Peer(1)
    for value in (1, 2):
        mempool.announce(peer, [sha256d(spending(1, value))])  # type: ignore[arg-type]
        assert mempool.take(spending(1, value))
    assert mempool.listed(lambda _: True) == {sha256d(spending(1, 2))}


def test_lists_and_memory_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 10)
    monkeypatch.setattr(module, "MAX_LISTED", 5)
    monkeypatch.setattr(module, "CACHE_BYTES", 3 * len(spending(1)))
    mempool, peer = pool(), _Peer(1)
    raws = [spending(number) for number in range(20)]
    txids = list(map(sha256d, raws))
    mempool.announce(peer, txids)  # type: ignore[arg-type]
    assert mempool.unread == 10
    assert peer.requested == txids[10:]
    assert sum(map(mempool.take, raws)) == 10
    assert mempool.listed(lambda _: True) == set(txids[15:])
    assert set(mempool.get(txids)) == set(txids[17:])
    assert mempool.unread == 15


def test_bytes_that_are_no_transaction_are_refused() -> None:
    assert not pool("ltc").take(b"\1\2\3")
    assert not pool().take(b"\1\2\3")
