"""Addresses of peers: public ones with the port of the network are learned, few of a network, and bad ones wait."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from ipaddress import ip_address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.chains.peers import address_book
from indexer.chains.peers.address_book import AddressBook, group_of
from indexer.chains.peers.chain import PeersChain
from indexer.chains.peers.messages import PeerAddress
from indexer.chains.peers.peer import PeerError
from indexer.chains.source import PeerCounts
from indexer.headers.networks import network
from indexer.model import PeerRecord
from indexer.public_addresses import kind_of
from indexer.store import Writer, connect
from indexer.store.source_store import SourceStore
from tests.chainkit import ChainKit
from tests.fakes import MemoryChain
from tests.peer_server import Connection, PeerServer
from tests.ports import free_port
from tests.waiting import until

PORT = 8333


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    engine = connect(f"sqlite:///{tmp_path}/a2b.db")
    created = Writer(engine)
    yield created
    created.close()
    engine.dispose()


def address(text: str, port: int = PORT) -> PeerAddress:
    return PeerAddress(ip_address(text), port)


class Seeds:
    """DNS seeds that answer with these addresses; `count` counts look-ups."""

    def __init__(self, *answer: str) -> None:
        self.answer, self.count = answer, 0

    async def resolve(self, host: str) -> Sequence[str]:
        self.count += 1
        if host == "broken":
            raise OSError("no such name")
        return self.answer


class Hours:
    """A clock that a test moves; in seconds."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def book(*answer: str, store: SourceStore | None = None, clock: Hours | None = None) -> AddressBook:
    seeds = ["broken", "seed"] if answer else []
    return AddressBook("demo", PORT, seeds, store, Seeds(*answer).resolve, clock or Hours())


async def taken(addresses: AddressBook) -> PeerAddress | None:
    """The next address; None where there is none now."""
    try:
        async with asyncio.timeout(0.05):
            return await addresses.take()
    except TimeoutError:
        return None


async def test_seeds_are_looked_up_and_at_most_one_address_of_a_network_is_used() -> None:
    addresses = book("8.8.1.1", "8.8.2.2", "9.9.9.9", "2a00:1450::1", "2a00:1450:1::2")
    got = {await taken(addresses) for _ in range(4)}
    assert len(got) == 4
    assert None in got
    assert {group_of(item) for item in got if item} == {(4, 0x0808), (4, 0x0909), (6, 0x2A001450)}


async def test_seeds_are_looked_up_again_only_after_a_while() -> None:
    seeds, clock = Seeds("8.8.8.8"), Hours()
    addresses = AddressBook("demo", PORT, ["seed"], None, seeds.resolve, clock)
    await taken(addresses)
    await taken(addresses)
    assert seeds.count == 1
    clock.now += 601
    await taken(addresses)
    assert seeds.count == 2


@given(st.lists(st.tuples(st.ip_addresses(), st.sampled_from([PORT, 80, 0])), max_size=60))
def test_only_public_addresses_with_the_port_of_the_network_are_learned(pairs: list[tuple[object, int]]) -> None:
    addresses = book()
    offered = [PeerAddress(ip, port) for ip, port in pairs]  # type: ignore[arg-type]
    addresses.learn(offered, address("8.8.8.8"))
    usable = {item for item in offered if item.port == PORT and kind_of(item.ip) is None}
    assert len(addresses) <= len(usable)
    assert bool(len(addresses)) == bool(usable)


@pytest.mark.parametrize(
    "text", ["127.0.0.1", "10.1.2.3", "192.168.0.1", "169.254.169.254", "224.0.0.1", "::1", "fe80::1", "::ffff:8.8.8.8"]
)
async def test_addresses_of_private_networks_are_never_connected_to(text: str) -> None:
    addresses = book(text)
    addresses.learn([address(text)], address("8.8.8.8"))
    assert await taken(addresses) is None


def test_a_stranger_cannot_fill_the_table() -> None:
    addresses = book()
    addresses.learn([address(f"8.8.{number}.1") for number in range(256)])
    assert len(addresses) == address_book.MAX_IN_NETWORK
    many = [address(f"{first}.{second}.1.1") for first in range(20, 60) for second in range(256)]
    addresses.learn(many, address("9.9.9.9"))
    assert len(addresses) == address_book.MAX_IN_NETWORK + address_book.MAX_OF_SOURCE
    for number in range(100):
        addresses.learn(many[100 * number : 100 * number + 100], address(f"{number + 100}.1.1.1"))
    assert len(addresses) == address_book.MAX_ADDRESSES


async def test_an_address_that_fails_waits_longer_each_time_and_a_liar_waits_longest() -> None:
    clock = Hours()
    addresses = book("8.8.8.8", clock=clock)

    silent, liar = PeerError("it is silent"), PeerError("it lies", is_violation=True)
    for error, minutes in [(silent, 1), (silent, 2), (silent, 4), (liar, 60 * 8), (silent, 16), (silent, 32)]:
        got = await taken(addresses)
        assert got is not None
        addresses.give_back(got, error)
        clock.now += 60 * minutes - 1
        assert await taken(addresses) is None
        clock.now += 1
    got = await taken(addresses)
    assert got is not None
    clock.now += 3_600
    addresses.give_back(got, silent)
    clock.now += 60
    assert await taken(addresses) == got, "a connection that lasted makes up for earlier failures"


async def test_what_became_of_addresses_is_stored(writer: Writer) -> None:
    store, clock = SourceStore(writer), Hours()
    addresses = book("8.8.8.8", "9.9.9.9", store=store, clock=clock)
    first, second = await taken(addresses), await taken(addresses)
    assert first
    assert second
    addresses.succeed(first)
    addresses.give_back(second, PeerError("it lies", is_violation=True))
    await addresses.close()
    records = {record.address: record for record in store.load_peers("demo")}
    assert records[str(first.ip)] == PeerRecord(str(first.ip), 0, 0, is_good=True)
    assert records[str(second.ip)] == PeerRecord(str(second.ip), 1, int(clock.now) + 3_600, is_good=False)
    again = book(store=store, clock=clock)
    assert await taken(again) == first
    assert await taken(again) is None
    assert store.load_peers("other") == []


async def test_special_addresses_in_the_database_are_left_out(writer: Writer) -> None:
    store = SourceStore(writer)
    store.save_peers("demo", [PeerRecord("127.0.0.1", 0, 0, is_good=True), PeerRecord("nonsense", 0, 0, is_good=True)])
    assert await taken(book(store=store)) is None


@pytest.fixture
def loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the addresses of this machine count as public: 127.1.0.1 and 127.2.0.1 are of two networks."""
    monkeypatch.setattr(address_book, "kind_of", lambda _: None)
    monkeypatch.setattr(address_book, "LOOK_SECONDS", 0.02)


async def test_peers_are_learned_from_peers_and_replaced(loopback: None) -> None:
    kit = ChainKit(funds=4)
    kit.mine_empty(5)
    hosts, port = [f"127.{number}.0.1" for number in range(1, 6)], free_port()

    async def name_all(connection: Connection, _payload: bytes) -> None:
        packed = (bytes(22) + b"\xff\xff" + ip_address(host).packed + port.to_bytes(2, "big") for host in hosts)
        connection.send("addr", bytes([len(hosts)]) + b"".join(packed))

    async with AsyncExitStack() as stack:
        servers = []
        for host in hosts:
            server = PeerServer(MemoryChain(*kit.blocks), host=host, port=port)
            server.instead["getaddr"] = name_all
            servers.append(await stack.enter_async_context(server))
        regtest = network("bsv", "regtest")
        addresses = AddressBook("demo", port, ["seed"], None, Seeds(hosts[0]).resolve)
        chain = PeersChain("demo", regtest, {}, addresses, 3)
        await chain.open()
        try:
            await until(lambda: chain.peers == PeerCounts(3, 3))
            assert chain.warning == ""
            for server in servers:
                if server.connections:
                    await server.stop()
                    break
            await until(lambda: len([server for server in servers if server.connections]) == 3)
            await until(lambda: chain.peers == PeerCounts(3, 3))
            tip = await chain.tip()
            assert tip is not None
            assert tip.height == kit.tip.height
        finally:
            await chain.close()
        assert chain.peers == PeerCounts(0, 0)


async def test_few_networks_are_a_warning(loopback: None) -> None:
    kit = ChainKit(funds=1)
    port = free_port()
    async with PeerServer(MemoryChain(*kit.blocks), host="127.7.0.1", port=port):
        addresses = AddressBook("demo", port, ["seed"], None, Seeds("127.7.0.1", "127.7.0.2").resolve)
        chain = PeersChain("demo", network("bsv", "regtest"), {}, addresses, 3)
        await chain.open()
        try:
            await until(lambda: chain.peers == PeerCounts(1, 1))
            assert "in 1 networks" in chain.warning
        finally:
            await chain.close()
