"""Two overlays, each with a database and a source of its own, kept in step by nothing but GASP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from aiohttp import ClientSession

from overlay.systems.bsv_overlay.gasp import puller
from parsers.bitcoin.tx import read
from tests.fakes import MemoryChain
from tests.minting import Mint, mempool_of
from tests.overlay.calls import get
from tests.overlay.protocols.bsv_overlay.overlay_clients import engine_server
from tests.ports import free_port
from tests.serving import new_app, serving
from tests.waiting import PATIENCE, until_told

TOPICS = {"X-Topics": "tm_agent_registry"}


class Pair:
    """Two overlays that pull from each other."""

    def __init__(self, mint: Mint, chains: list[MemoryChain], sessions: list[ClientSession]) -> None:
        self.mint, self.chains, self.sessions = mint, chains, sessions

    async def submit(self, number: int, package: bytes) -> None:
        async with self.sessions[number].post("/submit", data=package, headers=TOPICS) as answer:
            assert answer.status == 200, await answer.text()

    def broadcast(self, *raws: bytes) -> None:
        """Let the sources of both have these in their mempools: unproved ones are not offered to others."""
        for chain in self.chains:
            chain.unconfirmed |= mempool_of(raws)

    async def both_list(self, expected: dict[str, tuple[str, str]]) -> None:
        """Wait until both overlays list these ids with these names and states."""
        async with asyncio.timeout(PATIENCE):
            while True:
                pages = [await get(session, "/v1/search?limit=100") for session in self.sessions]
                listed = [{item["id"]: (item["name"], item["status"]) for item in page["items"]} for page in pages]
                if listed == [expected] * 2:
                    return
                await asyncio.sleep(0.02)


@pytest.fixture
async def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pair]:
    monkeypatch.setattr(puller, "PULL_SECONDS", 0.05)
    mint, ports = Mint(), [free_port(), free_port()]
    chains = [MemoryChain(*mint.kit.blocks, name="live") for _ in ports]
    async with AsyncExitStack() as stack:
        sessions = []
        for number, chain in enumerate(chains):
            peer = f"http://127.0.0.1:{ports[1 - number]}/"
            overlay = new_app(tmp_path / str(number), chain, port=ports[number], gasp_peers=peer, limits="off")
            sessions.append(await stack.enter_async_context(serving(overlay)))
        yield Pair(mint, chains, sessions)


async def test_two_overlays_are_kept_in_step_by_gasp_alone(pair: Pair) -> None:
    mint = pair.mint
    first, second = mint.inscribed("First"), mint.inscribed("Second", 1)
    ids = [f"{read(raw).hex_id}_0" for raw in (first, second)]
    await pair.submit(0, mint.package(first))
    await pair.submit(1, mint.package(second))
    pair.broadcast(first, second)
    await pair.both_list({ids[0]: ("First", "pending"), ids[1]: ("Second", "pending")})
    update = mint.inscribed("First again", 2, mint.coin_of(first, 0))  # of an unmined one, handed in elsewhere
    await pair.submit(1, mint.package(first, update))
    pair.broadcast(update)
    renamed = {ids[0]: ("First again", "pending"), ids[1]: ("Second", "pending")}
    await pair.both_list(renamed)
    block = mint.kit.mine(first, update, second)
    for chain in pair.chains:
        chain.arrive(block)
    await pair.both_list({id_: (name, "live") for id_, (name, _) in renamed.items()})
    fork = mint.kit.mine_empty(2, parent=mint.block)
    for chain in pair.chains:
        chain.arrive(*mint.kit.branch(fork)[-2:])
    await pair.both_list(renamed)
    again = mint.kit.mine(first, second, parent=fork)
    for chain in pair.chains:
        chain.arrive(again)
    for session in pair.sessions:  # the update shows beside what is in a block again
        is_updated = lambda item: item["status"] == "live" and item["pending"]  # noqa: E731
        item = await until_told(session, f"/v1/listings/{ids[0]}", is_updated)
        assert item["pending"]["outpoint"] == f"{read(update).hex_id}_0"


async def test_an_overlay_that_was_away_catches_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(puller, "PULL_SECONDS", 0.05)
    mint = Mint(coins=40)
    raws = [mint.inscribed(f"Agent {number}", number) for number in range(30)]
    mint.broadcast(*raws)
    async with serving(new_app(tmp_path / "a", mint.chain, limits="off")) as session:
        await until_told(session, "/v1/search?limit=1", lambda page: page["total"] == len(raws))
        for raw in raws:
            async with session.post("/submit", data=mint.package(raw), headers=TOPICS) as answer:
                assert answer.status == 200
        peer, chain = str(session._base_url), MemoryChain(*mint.kit.blocks, name="live")
        chain.unconfirmed |= mempool_of(raws)
        async with serving(new_app(tmp_path / "b", chain, gasp_peers=peer)) as other:
            await until_told(other, "/v1/search?limit=1", lambda page: page["total"] == len(raws))


async def test_the_engine_of_the_reference_is_pulled_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its scores are milliseconds, several outputs have the same, and `since` is inclusive."""
    monkeypatch.setattr(puller, "PULL_SECONDS", 0.05)
    mint = Mint(coins=12)
    first = mint.inscribed("First")
    update = mint.inscribed("First", 1, mint.coin_of(first, 0), version="2")
    packages = [mint.package(first), mint.package(first, update)]
    packages += [mint.package(mint.inscribed(f"Agent {number}", number)) for number in range(2, 10)]
    roots = {str(mint.path.height): mint.path.merkle_root[::-1].hex()}
    async with (
        engine_server(roots=roots, submit=[package.hex() for package in packages]) as peer,
        serving(new_app(tmp_path, mint.chain, gasp_peers=peer)) as session,
    ):
        page = await until_told(session, "/v1/search?limit=100&status=undecided", lambda page: page["total"] == 9)
        [item] = [item for item in page["items"] if item["name"] == "First"]
        assert (item["id"], item["version"]) == (f"{read(first).hex_id}_0", "2")
