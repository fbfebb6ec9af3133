"""Hostile and unfortunate peers, as small programs: each is left, and none ends the loop."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing

import pytest

from indexer.chains.failover import join
from indexer.chains.peers import create
from indexer.chains.peers.chain import PeersChain
from indexer.errors import SourceError, SourceUnavailableError
from indexer.retries import Backoff
from parsers.bitcoin.tx import Outpoint, sha256d
from tests.chainkit import ChainKit, agent
from tests.chainkit_blocks import count_bytes
from tests.fakes import MemoryChain
from tests.junglebus_server import JungleBus
from tests.merging import merge_mined
from tests.peer_server import Answer, Connection, PeerServer
from tests.waiting import PATIENCE, until


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.chains.peers.fixed_addresses.PAUSES", Backoff(0.05, 0.1))
    monkeypatch.setattr("indexer.chains.peers.pool.ROUND_SECONDS", 0.05)
    monkeypatch.setattr("indexer.chains.peers.chain.WAIT_SECONDS", 0.5)
    for name in ("HEADERS_SECONDS", "STALL_SECONDS", "ROOM_SECONDS", "HANDSHAKE_SECONDS"):
        monkeypatch.setattr(f"indexer.chains.peers.peer.{name}", 0.5)


@pytest.fixture
def kit() -> ChainKit:
    mint = ChainKit(funds=8)
    mint.mine(mint.inscribe(agent()), mint.inscribe(agent()))
    mint.mine_empty(6)
    return mint


@pytest.fixture
async def server(kit: ChainKit) -> AsyncIterator[PeerServer]:
    async with PeerServer(MemoryChain(*kit.blocks)) as server:
        yield server


@pytest.fixture
async def honest(kit: ChainKit) -> AsyncIterator[PeerServer]:
    async with PeerServer(MemoryChain(*kit.blocks)) as server:
        yield server


async def read(chain: PeersChain, last: int) -> list[bytes]:
    async with aclosing(chain.blocks(0, last)) as stream:
        return [bytes(data) async for _, data in stream]


async def tip(chain: PeersChain) -> int:
    """The height of the tip, once a peer has sent all its headers."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                newest = await chain.tip()
            except SourceUnavailableError:
                continue
            return newest.height if newest is not None else -1


def raw(message: bytes) -> Answer:
    """Answers with these bytes, whatever is requested."""

    async def answer(connection: Connection, _payload: bytes) -> None:
        connection.writer.write(message)

    return answer


async def silence(_connection: Connection, _payload: bytes) -> None:
    """Answers nothing."""


async def endless(connection: Connection, _payload: bytes) -> None:
    """Sends lists without end."""
    while True:
        connection.send("inv", b"\1" + struct.pack("<I", 1) + bytes(32))
        await connection.writer.drain()


async def huge(connection: Connection, _payload: bytes) -> None:
    """Announces a message of four gigabytes."""
    connection.writer.write(connection.server.magic + b"headers".ljust(12, b"\0") + b"\xff" * 8 + bytes(1_000))


async def longest_list(connection: Connection, _payload: bytes) -> None:
    """Announces more headers than there are."""
    connection.send("headers", count_bytes(2_001) + bytes(81 * 2_001))


async def worthless_headers(connection: Connection, _payload: bytes) -> None:
    """Sends headers without work, which link to one another."""
    genesis = connection.server.source.best[0]
    raws, prev = [], genesis.hash
    for number in range(2_000):
        raws.append(bytes(4) + prev + bytes(32) + struct.pack("<III", genesis.time + number + 1, 0x1D00FFFF, 0))
        prev = sha256d(raws[-1])
    connection.headers(raws)


async def unlinked_headers(connection: Connection, _payload: bytes) -> None:
    """Sends a header that follows none."""
    connection.headers([bytes([1]) * 80])


async def wrong_checksum(connection: Connection, _payload: bytes) -> None:
    connection.send("headers", b"\0", checksum=b"abcd")


LIARS: dict[str, tuple[str, Answer]] = {
    "other magic": ("getheaders", raw(b"\1\2\3\4" + bytes(20))),
    "no command": ("getheaders", raw(bytes.fromhex("dab5bffa") + bytes(20))),
    "no greeting": ("version", raw(bytes(200))),
    "huge message": ("getheaders", huge),
    "list that is too long": ("getheaders", longest_list),
    "headers without work": ("getheaders", worthless_headers),
    "headers that do not link": ("getheaders", unlinked_headers),
    "wrong checksum": ("getheaders", wrong_checksum),
    "endless lists": ("sendheaders", endless),
}


@pytest.mark.parametrize("lie", LIARS)
async def test_a_peer_that_breaks_a_rule_is_left_and_counted(
    lie: str, server: PeerServer, honest: PeerServer, kit: ChainKit
) -> None:
    command, answer = LIARS[lie]
    server.instead[command] = answer
    chain = server.chain(honest)
    try:
        await chain.open()
        await until(lambda: chain.violation_count)
        assert await tip(chain) == kit.tip.height
        assert await read(chain, kit.tip.height) == [block.raw for block in kit.branch()]
    finally:
        await chain.close()


@pytest.mark.parametrize("silent", ["version", "getheaders"])
async def test_a_silent_peer_is_waited_for_no_longer_than_it_must(
    silent: str, server: PeerServer, honest: PeerServer, kit: ChainKit
) -> None:
    server.instead[silent] = silence
    chain = server.chain(honest)
    try:
        await chain.open()
        assert await tip(chain) == kit.tip.height
        await until(lambda: server.requests[silent] > 1)  # it was left, and connected to again
        assert chain.violation_count == 0
    finally:
        await chain.close()


ALTERED: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda block: block[:-1],
    "longer": lambda block: block + b"x",
    "no transactions": lambda block: block[:80] + b"\0",
    "other transaction": lambda block: block[:-5] + b"\7" + block[-4:],
    "header alone": lambda block: block[:80],
    "repeated transactions": lambda block: block[:80] + b"\2" + 2 * block[81:] if block[80] == 1 else block[:-1],
}


@pytest.mark.parametrize("lie", ALTERED)
async def test_blocks_that_are_not_those_of_their_headers_come_from_another_peer(
    lie: str, server: PeerServer, honest: PeerServer, kit: ChainKit
) -> None:
    server.altered = ALTERED[lie]
    chain = server.chain(honest)
    try:
        await chain.open()
        await until(lambda: sum(peer.is_synced for peer in chain.pool.peers) == 2)
        assert await read(chain, kit.tip.height) == [block.raw for block in kit.branch()]
        assert chain.violation_count >= 1
        assert server.blocks
    finally:
        await chain.close()


async def test_a_block_that_a_peer_lacks_comes_from_another(
    server: PeerServer, honest: PeerServer, kit: ChainKit
) -> None:
    server.withheld = {kit["3"].hash, kit["8"].hash}
    chain = server.chain(honest)
    try:
        await chain.open()
        await until(lambda: sum(peer.is_synced for peer in chain.pool.peers) == 2)
        for _ in range(3):
            assert await read(chain, kit.tip.height) == [block.raw for block in kit.branch()]
        assert chain.violation_count == 0
    finally:
        await chain.close()


async def test_where_no_peer_has_a_block_the_chain_is_unreachable(server: PeerServer, kit: ChainKit) -> None:
    server.withheld = {kit["3"].hash}
    chain = server.chain()
    try:
        await chain.open()
        assert await tip(chain) == kit.tip.height
        with pytest.raises(SourceUnavailableError, match="no peer sends block 3"):
            await read(chain, kit.tip.height)
        server.withheld = set()
        assert await tip(chain) == kit.tip.height
        assert len(await read(chain, kit.tip.height)) == kit.tip.height + 1
    finally:
        await chain.close()


async def test_a_pruned_peer_is_left(server: PeerServer) -> None:
    server.services = 0x20
    chain = server.chain()
    try:
        await chain.open()
        with pytest.raises(SourceUnavailableError, match="pruned"):
            await chain.tip()
    finally:
        await chain.close()


async def test_a_chain_without_peers_says_so(server: PeerServer) -> None:
    await server.stop()
    chain = server.chain()
    try:
        await chain.open()
        with pytest.raises(SourceUnavailableError, match="0 peers are connected"):
            await chain.tip()
    finally:
        await chain.close()


async def test_headers_of_a_branch_with_more_work_replace_others(
    server: PeerServer, honest: PeerServer, kit: ChainKit
) -> None:
    chain = server.chain(honest)
    try:
        await chain.open()
        await until(lambda: sum(peer.is_synced for peer in chain.pool.peers) == 2)
        fork = [kit.mine(parent=kit["2"]), *(kit.mine() for _ in range(kit.tip.height - 1))]
        server.arrive(*fork)
        honest.arrive(*fork[:2])
        await until(lambda: chain.pool.peers)
        async with asyncio.timeout(PATIENCE):
            while await tip(chain) != fork[-1].height:
                await chain.wait(0.1)
        assert (await read(chain, fork[-1].height))[-1] == fork[-1].raw
    finally:
        await chain.close()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("peers:somewhere", "cannot follow"),
        ("peers:?network=regtest", "no public peers"),
        ("peers:?peers=0", "peers="),
        ("peers:?peers=x", "peers="),
        ("peers:?dns=maybe", "dns="),
        ("peers:?network=regtest&connect=a:b", "not host:port"),
        ("peers:?network=regtest&connect=a:70000", "not host:port"),
        ("peers:?network=moon&connect=a", "no network"),
        ("peers:?zmq=tcp://a&connect=a", "unknown option"),
    ],
)
def test_wrong_urls_are_refused(url: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        create("bsv", url)


def test_a_chain_of_another_name_says_its_coin() -> None:
    with pytest.raises(SourceError, match="which chain"):
        create("demo", "peers:?connect=a")
    assert create("demo", "peers:?chain=btc&connect=[::1]:8333,host").rules.coin == "btc"


async def test_transactions_of_blocks_are_requested_of_a_filtered_source(server: PeerServer, kit: ChainKit) -> None:
    stranger, unknown = kit["1"].txids[0], b"\xee" * 32
    async with JungleBus(kit) as junglebus:
        peers = f"peers:?chain=bsv&network=regtest&connect={server.address}"
        chain = join("demo", [peers, f"junglebus:id?url={junglebus.url}&network=regtest&chain=bsv"])
        assert isinstance(chain, PeersChain)
        assert chain.complete
        try:
            await chain.open()
            assert await tip(chain) == kit.tip.height
            raws = await chain.transactions([stranger, unknown])
            assert raws == {stranger: kit.raw(Outpoint(stranger, 0))}
            newest = await chain.tip()
            assert newest is not None
            outpoint = kit.funds(0)
            assert await chain.values([outpoint], newest) == {outpoint: kit.satoshis(outpoint)}
        finally:
            await chain.close()


@pytest.mark.parametrize("fault", ["other bytes", "error"])
async def test_a_filtered_source_is_not_believed_and_may_fail(fault: str, server: PeerServer, kit: ChainKit) -> None:
    class Lookup(MemoryChain):
        async def transactions(self, txids: Iterable[bytes]) -> dict[bytes, bytes]:
            if fault == "error":
                raise SourceUnavailableError("gone")
            return dict.fromkeys(txids, kit.raw(kit.funds(0)))

    chain = server.chain()
    chain.add_lookup(Lookup())
    try:
        await chain.open()
        assert await chain.transactions([kit["2"].txids[0]]) == {}
    finally:
        await chain.close()


@pytest.mark.parametrize(
    ("urls", "message"),
    [
        (["files:/tmp?network=regtest", "junglebus:id?network=regtest"], "only part of each block"),
        (["peers:?network=regtest&connect=a", "junglebus:id?network=testnet"], "the peers are of bsv:regtest"),
    ],
)
def test_only_peers_are_joined_with_a_filtered_source_of_the_same_network(urls: list[str], message: str) -> None:
    with pytest.raises(SourceError, match=message):
        join("bsv", urls)


async def test_bitcoin_sv_peers_learn_the_greatest_message_and_may_send_longer_blocks(
    server: PeerServer, kit: ChainKit
) -> None:
    server.is_extended = True
    chain = server.chain()
    try:
        await chain.open()
        assert await tip(chain) == kit.tip.height
        assert await read(chain, kit.tip.height) == [block.raw for block in kit.branch()]
        assert server.payloads["protoconf"] == b"\1" + struct.pack("<I", 4_000_000)
    finally:
        await chain.close()


async def test_peers_of_other_coins_send_no_extended_messages() -> None:
    kit = ChainKit("ltc", funds=2)
    async with PeerServer(MemoryChain(*kit.blocks, coin="ltc")) as server:
        server.is_extended = True
        chain = server.chain()
        try:
            await chain.open()
            assert await tip(chain) == kit.tip.height
            with pytest.raises(SourceUnavailableError):
                await read(chain, kit.tip.height)
            assert chain.violation_count
            assert "protoconf" not in server.payloads
        finally:
            await chain.close()


@pytest.mark.parametrize("coin", ["btc", "ltc", "bch", "doge"])
async def test_every_coin_is_read(coin: str) -> None:
    kit = ChainKit(coin, funds=4)
    kit.mine_empty(3)
    async with PeerServer(MemoryChain(*kit.blocks, coin=coin)) as server:
        chain = server.chain()
        try:
            await chain.open()
            assert await tip(chain) == kit.tip.height
            assert await read(chain, kit.tip.height) == [block.raw for block in kit.branch()]
        finally:
            await chain.close()


async def test_dogecoin_blocks_with_the_work_of_another_chain_are_read_without_it() -> None:
    """Plain blocks stand beside merge-mined ones, so that headers of both lengths come in one answer."""
    kit = ChainKit("doge", funds=1)
    kit.mine_empty(2)
    merged = merge_mined(kit["3"])
    source = MemoryChain(kit["0"], kit["1"], kit["2"], merged, coin="doge")
    async with PeerServer(source) as server:
        chain = server.chain()
        try:
            await chain.open()
            assert await tip(chain) == 3
            assert await read(chain, 5) == [kit["0"].raw, kit["1"].raw, kit["2"].raw, merged[:80] + kit["3"].raw[80:]]
        finally:
            await chain.close()
