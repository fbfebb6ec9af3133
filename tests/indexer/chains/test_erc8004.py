"""An identity registry followed into the store: what its entries say, over restarts, reorganisations and endpoints."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest

from indexer.chains import module
from indexer.chains.evm import EvmChain
from indexer.chains.evm.erc8004 import REGISTRY, Entries, create
from indexer.chains.failover import FailoverChain, Pace
from indexer.errors import SourceError
from indexer.model import EventKind, Status
from indexer.retries import Backoff
from indexer.state_hash import computed_state_hash, update_state_hash
from indexer.store import second_readings
from parsers.pointers.erc8004 import entry_id
from tests import chain_records
from tests import registry_kit as kit
from tests.evm_server import CONTRACT, EvmServer
from tests.indexing import Indexing
from tests.registry_kit import data_uri, file
from tests.snapshots import Empty, empty, exported

__all__ = ["empty"]

ALICE, BOB, CAROL = "0x" + "a1" * 20, "0x" + "b0" * 20, "0x" + "ca" * 20
ENTRY, OTHER = entry_id("eip155:1", CONTRACT, 22), entry_id("eip155:1", CONTRACT, 23)
HTTPS = "https://weather.example/agent.json"
PACE = Pace(grace=20, poll=0.005, backoff=Backoff(0.005, 0.01))


def row(log: kit.Log) -> dict[str, object]:
    """A log as an endpoint tells it."""
    return {"address": CONTRACT, "topics": [f"0x{topic.hex()}" for topic in log.topics], "data": f"0x{log.data.hex()}"}


def mine(server: EvmServer, *logs: kit.Log) -> None:
    server.mine(*map(row, logs))


def follow(server: EvmServer, query: str = "") -> EvmChain:
    """The registry at the server's contract, followed in a hurry."""
    source = create("demo", f"{server.base}?contract={CONTRACT}{query}")
    source.poll_seconds = 0.0
    source.endpoint.rpc.pauses = (0.0, 0.01)
    return source


@pytest.fixture
async def server() -> AsyncIterator[EvmServer]:
    async with EvmServer() as evm_server:
        yield evm_server


@pytest.fixture
async def indexing(server: EvmServer, tmp_path: Path) -> AsyncIterator[Indexing]:
    chain = follow(server)
    with Indexing(f"sqlite:///{tmp_path}/a2b.db", chain) as created:
        yield created
    await chain.close()


async def test_an_entry_is_followed_from_its_registration_to_its_end(server: EvmServer, indexing: Indexing) -> None:
    mine(server, kit.registered(22, data_uri(file()), ALICE))
    server.mine_empty(3)
    mine(server, kit.metadata_set(22, "agentWallet", bytes.fromhex(CAROL[2:])), kit.uri_updated(22, "junk", ALICE))
    await indexing.catch_up()
    now = indexing.registration(ENTRY)
    assert (now["owner"], now["updatedHeight"], now["map"]) == (ALICE, 1, {"agentWallet": CAROL})
    indexing.restart()
    mine(server, kit.transfer(22, ALICE, BOB))
    mine(server, kit.uri_updated(22, data_uri(file("Rain Agent")), BOB))
    await indexing.catch_up()
    now = indexing.registration(ENTRY)
    assert (now["card"]["name"], now["owner"], now["updatedHeight"]) == ("Rain Agent", BOB, 7)
    assert indexing.kinds(ENTRY) == ["inscribed", "map_only", "invalid", "moved", "reinscribed"]
    mine(server, kit.transfer(22, BOB, kit.NOBODY))
    await indexing.catch_up()
    assert indexing.registration(ENTRY)["status"] == Status.BURNED


async def test_a_reorganisation_leaves_what_the_new_branch_says(
    server: EvmServer, indexing: Indexing, tmp_path: Path
) -> None:
    mine(server, kit.registered(22, data_uri(file()), ALICE), kit.registered(23, HTTPS, ALICE))
    mine(server, kit.uri_updated(22, data_uri(file("Old Branch")), ALICE), kit.transfer(23, ALICE, BOB))
    await indexing.catch_up()
    second_readings.advance(indexing.writer, "demo", 2)
    before = update_state_hash(indexing.store, indexing.writer, "demo")
    assert before is not None
    assert before.pointers is not None
    assert before.pointers.total == 2, "the entry and its transfer"
    server.fork(1, row(kit.transfer(22, ALICE, CAROL)), row(kit.uri_updated(23, data_uri(file("Late")), ALICE)))
    await indexing.catch_up()
    now = indexing.registration(ENTRY)
    assert (now["card"]["name"], now["owner"]) == ("Weather Agent", CAROL)
    assert indexing.registration(OTHER)["owner"] == ALICE
    with Indexing(f"sqlite:///{tmp_path}/fresh.db", follow(server)) as fresh:
        await fresh.catch_up()
        assert fresh.records() == indexing.records()
        second_readings.advance(indexing.writer, "demo", 3)
        after = update_state_hash(indexing.store, indexing.writer, "demo")
        assert after == computed_state_hash(fresh.store, "demo", 3) != before
        await fresh.chains[0].close()


@pytest.mark.parametrize("width", [1, 1_000])
async def test_events_of_blocks_that_are_not_written_yet_count(server: EvmServer, tmp_path: Path, width: int) -> None:
    mine(server, kit.registered(22, data_uri(file()), ALICE), kit.registered(23, "", ALICE))
    for number in range(5):
        mine(server, kit.uri_updated(22, data_uri(file(f"Agent {number}")), CAROL))
        mine(server, kit.uri_updated(23, f"https://weather.example/{number}", CAROL))
    server.most_blocks = width
    chain = follow(server)
    with Indexing(f"sqlite:///{tmp_path}/a2b.db", chain) as indexing:
        await indexing.catch_up()
        assert indexing.kinds(ENTRY) == ["inscribed", *["reinscribed"] * 5]
        assert indexing.registration(ENTRY)["owner"] == ALICE
        pointed = chain_records.loose(indexing.store, "demo", EventKind.POINTED)
        assert [past.event.valid for past in pointed] == [False, *[True] * 5]
        assert {past.event.owner for past in pointed} == {ALICE}
    await chain.close()


async def test_another_endpoint_continues_from_the_events_of_the_first(server: EvmServer, tmp_path: Path) -> None:
    for number in range(120):
        mine(server, kit.registered(number, data_uri(file(f"Agent {number}")), ALICE))
    for number in range(120):
        mine(server, kit.uri_updated(number, data_uri(file(f"Better {number}")), CAROL))
    async with EvmServer() as second:
        second.blocks, second.blocks_by_hash = server.blocks, server.blocks_by_hash
        first = follow(server)
        # of the higher blocks the first endpoint says what no node says
        server.most_blocks = 70
        server.alter("eth_getLogs", lambda logs: logs if server.ranges[-1][1] < 150 else 7)
        group = FailoverChain("demo", [("first", first), ("second", follow(second))], PACE)
        with Indexing(f"sqlite:///{tmp_path}/a2b.db", group) as indexing:
            await indexing.catch_up()
            assert [source.shown for _, source in group.served] == ["first"]
            await indexing.catch_up()
            assert [source.shown for _, source in group.served] == ["first", "second"]
            entries = {entry_id("eip155:1", CONTRACT, number) for number in range(120)}
            assert indexing.live() == entries
            assert all(indexing.kinds(entry) == ["inscribed", "reinscribed"] for entry in sorted(entries)[:20])
        await group.close()


async def test_a_snapshot_of_a_registry_is_checked_and_taken_over(
    server: EvmServer, indexing: Indexing, empty: Empty
) -> None:
    services = [{"name": "MCP", "endpoint": "https://sky.example/mcp"}]
    mine(server, kit.registered(22, data_uri(file()), ALICE), kit.registered(23, HTTPS, ALICE))
    server.mine_empty(40)
    mine(server, kit.uri_updated(22, data_uri(file("Sky", services=services)), ALICE), kit.transfer(23, ALICE, BOB))
    mine(server, kit.uri_updated(22, HTTPS, ALICE), kit.transfer(22, ALICE, BOB), kit.transfer(23, BOB, kit.NOBODY))
    mine(server, kit.uri_updated(22, "junk", BOB), kit.transfer(22, BOB, kit.NOBODY))
    await indexing.catch_up()
    second_readings.advance(indexing.writer, "demo", 45)
    text = exported(indexing.store)
    empty.take(text.splitlines(keepends=True), trust=True)
    assert exported(empty.store) == text
    kinds = [past.event.kind.value for past in empty.store.history.select()]
    assert kinds == [
        "inscribed", "pointed", "reinscribed", "moved", "pointed", "moved", "burned", "invalid", "burned",
    ]  # fmt: skip


async def test_158_real_logs_are_followed(server: EvmServer, indexing: Indexing, shared: Path) -> None:
    body = json.loads((shared / "data" / "erc8004-mainnet-event-logs.json").read_text())
    logs: Iterable[dict[str, object]] = body["registeredLogs"] + body["uriUpdatedLogs"]
    for log in logs:
        server.mine({"address": CONTRACT, "topics": log["topics"], "data": log["data"]})
    await indexing.catch_up()
    tallied: dict[str, int] = {}
    for past in indexing.store.history.select():
        name = f"{past.event.kind}{'' if past.event.valid else ' not'}"
        tallied[name] = tallied.get(name, 0) + 1
    assert sum(tallied.values()) == 158
    assert tallied["inscribed"] + tallied.get("reinscribed", 0) > 80
    assert tallied["pointed"] == 54
    assert all(entry.startswith("eip155:1:0xc0de") for entry in indexing.live())


# -- what is configured


def test_a_registry_is_known_by_its_name_or_by_what_its_url_says() -> None:
    ours = "indexer.chains.evm.erc8004"
    assert module("erc8004", "https://rpc.example/key") == ours
    assert module("erc8004", "https://rpc.example/key?contract=0x1&network=8453") == ours
    assert module("agents", "https://rpc.example/key?chain=erc8004") == ours
    assert module("agents", "https://rpc.example/key?contract=0x1") == "indexer.chains.evm"
    assert create("erc8004", "https://rpc.example/key").sparse


def test_the_registry_of_mainnets_is_read_unless_another_is_named() -> None:
    assert create("erc8004", "https://rpc.example").endpoint.address.hex() == REGISTRY[2:]
    assert create("erc8004", f"https://rpc.example?contract={CONTRACT}").endpoint.address.hex() == CONTRACT[2:]
    for query in ("contract=0x12", "chain=ethereum", "network=base", "program=x"):
        with pytest.raises(SourceError, match=r"^erc8004: "):
            create("erc8004", f"https://rpc.example?{query}")


async def test_reading_starts_where_the_registry_of_ethereum_began(server: EvmServer) -> None:
    assert Entries().first("eip155:1", bytes.fromhex(REGISTRY[2:])) == 24_339_925
    assert Entries().first("eip155:8453", bytes.fromhex(REGISTRY[2:])) == 0
    server.contracts[REGISTRY] = "0x6001"
    for query, first in (("", 24_339_925), ("?from=24500000", 24_500_000)):
        chain = create("erc8004", server.base + query)
        await chain.open()
        assert chain.first == first
        await chain.close()


async def test_a_registry_on_any_network_is_read_without_naming_the_network(server: EvmServer, tmp_path: Path) -> None:
    server.number = 8453
    mine(server, kit.registered(7, data_uri(file()), ALICE))
    chain = follow(server)
    with Indexing(f"sqlite:///{tmp_path}/a2b.db", chain) as indexing:
        await indexing.catch_up()
        assert indexing.live() == {entry_id("eip155:8453", CONTRACT, 7)}
    await chain.close()
