"""Sources that accept requests and do not answer, or hardly: status says so within half a minute, and they go on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from indexer.chains import Chain, create
from indexer.chains.silence import SILENT_SECONDS, SLOWEST, AnswerClock
from indexer.retries import Backoff
from indexer.sync.sign_of_life import SignOfLife
from tests.chainkit import ChainKit, agent
from tests.clocks import Clock
from tests.evm_server import EvmServer
from tests.fakes import MemoryChain
from tests.gates import Gate
from tests.indexer.sync.following import following
from tests.indexing import Indexing
from tests.junglebus_server import JungleBus
from tests.nodes import Node
from tests.solana_server import SolanaServer
from tests.waiting import until

SOON = 0.3


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/a2b.db"


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.sync.follower.SILENT_SECONDS", SOON)
    monkeypatch.setattr("indexer.sync.follower.LOOK_SECONDS", 0.02)
    monkeypatch.setattr("indexer.sync.follower.BACKOFF", Backoff(0.01, 0.01))


class Server:
    """A server of one kind behind a gate, and the chain that follows it."""

    def __init__(self, kind: str) -> None:
        self.kind, self.kit = kind, ChainKit()
        self.memory = MemoryChain(*self.kit.blocks)

    @asynccontextmanager
    async def serving(self, indexing: Indexing) -> AsyncIterator[tuple[Chain, Gate]]:
        store = indexing.source_store
        if self.kind == "evm":
            async with EvmServer() as evm, Gate(evm.port) as gate:
                evm.mine_empty(3)
                evm.port = gate.port
                yield evm.chain(store=store), gate
        elif self.kind == "node":
            async with Node(self.memory) as node, Gate(node.port) as gate:
                node.port = gate.port
                yield create("demo", f"{node.url}?chain=bsv", store), gate
        elif self.kind == "solana":
            async with SolanaServer() as solana, Gate(urlsplit(solana.url).port or 0) as gate:
                solana.url = f"http://127.0.0.1:{gate.port}/"
                solana.put("one", {"name": "One", "description": "An agent."})
                chain = solana.chain(store)
                chain.poll_seconds = 0.02
                yield chain, gate
        else:
            async with JungleBus(self.kit) as junglebus, Gate(urlsplit(junglebus.url).port or 0) as gate:
                junglebus.url = f"http://127.0.0.1:{gate.port}{urlsplit(junglebus.url).path}"
                yield junglebus.chain(store), gate


@pytest.mark.parametrize("kind", ["evm", "node", "solana", "junglebus"])
async def test_a_service_that_accepts_and_never_answers_is_unreachable_until_it_answers(kind: str, url: str) -> None:
    server = Server(kind)
    with Indexing(url) as indexing:
        async with server.serving(indexing) as (chain, gate), following(indexing, chain) as follower:
            progress = follower.progress
            await until(lambda: progress.state == "following")
            gate.is_shut = True
            await until(lambda: progress.state == "unreachable")
            assert progress.error == f"{chain.name}: no answer for 0 s; the request goes on"
            assert progress.fault == "source"
            gate.is_shut = False
            await until(lambda: progress.state == "following")
            assert progress.error == ""


async def test_a_service_that_does_not_answer_at_the_start_is_unreachable(url: str) -> None:
    server = Server("node")
    with Indexing(url) as indexing:
        async with server.serving(indexing) as (chain, gate):
            gate.is_shut = True
            async with following(indexing, chain) as follower:
                await until(lambda: follower.progress.state == "unreachable")
                gate.is_shut = False
                await until(lambda: follower.progress.state == "following")


async def test_a_block_that_arrives_too_slowly_is_shown_and_read_at_last(url: str) -> None:
    server = Server("node")
    with Indexing(url) as indexing:
        async with server.serving(indexing) as (chain, gate), following(indexing, chain) as follower:
            progress = follower.progress
            await until(lambda: progress.state == "following")
            gate.pace = 60
            server.memory.arrive(server.kit.mine(server.kit.inscribe(agent("Slow", description="Slow. " * 60))))
            await until(lambda: progress.state == "unreachable" and "no answer" in progress.error)
            gate.pace = 0
            await until(lambda: progress.state == "following" and progress.height == 2)


async def test_an_endpoint_without_a_newest_block_is_unreachable(url: str) -> None:
    with Indexing(url) as indexing:
        async with EvmServer() as server:
            server.mine_empty(3)
            async with following(indexing, server.chain()) as follower:
                progress = follower.progress
                await until(lambda: progress.state == "following")
                server.alter("eth_getBlockByNumber", lambda _: None)
                await until(lambda: progress.state == "unreachable")
                assert "has no newest block" in progress.error
                assert (progress.height, progress.tip) == (3, 3)
                server.faults.clear()
                await until(lambda: progress.state == "following")


async def test_a_tip_that_is_not_believed_is_in_the_error_and_no_tip(url: str) -> None:
    with Indexing(url) as indexing:
        async with EvmServer() as server:
            server.mine_empty(3)
            async with following(indexing, server.chain()) as follower:
                progress = follower.progress
                await until(lambda: progress.state == "following")
                server.mine()
                server.blocks[-1].row["timestamp"] = hex(1 << 37)
                await until(lambda: progress.state == "unreachable")
                assert "ahead of this machine's clock" in progress.error
                assert (progress.height, progress.tip, progress.lag) == (3, 3, 0)


@pytest.mark.parametrize("fault", ["cut", "root"])
async def test_a_refused_block_of_a_node_is_in_the_error_and_in_the_lag(url: str, fault: str) -> None:
    kit, other = ChainKit(), ChainKit()
    chain = MemoryChain(*kit.blocks)
    with Indexing(url) as indexing:
        async with Node(chain) as node:
            source = create("demo", f"{node.url}?chain=bsv", indexing.source_store)
            async with following(indexing, source) as follower:
                progress = follower.progress
                await until(lambda: progress.state == "following")
                good = kit.mine(kit.inscribe(agent("Good")))
                other.mine(other.inscribe(agent("Mallory")))
                bad = good.raw[:-10] if fault == "cut" else good.raw[:80] + other["2"].raw[80:]
                chain.arrive(bad)
                await until(lambda: progress.state == "unreachable" and "block 2" in progress.error)
                assert (progress.height, progress.tip, progress.lag) == (1, 2, 1)


# -- the clock --------------------------------------------------------------------------------------------------------


def test_only_the_time_that_a_server_is_waited_for_counts() -> None:
    clock = Clock(0.0)
    answers = AnswerClock(clock)
    clock.now = 100
    assert answers.silence == 0
    with answers.waiting():
        clock.now += 10
        assert answers.silence == 10
        with answers.waiting():
            clock.now += 10
            assert answers.silence == 20, "what overlaps counts once"
    clock.now += 1_000
    assert answers.silence == 0, "nothing is waited for"
    with answers.waiting():
        assert answers.silence == 20
        answers.receive(5 * SLOWEST)
        assert answers.silence == 15
        clock.now += 20
        assert answers.silence == 35 > SILENT_SECONDS
        answers.answer()
        assert answers.silence == 0
        clock.now += 1
        assert answers.silence == 1


async def test_a_sign_of_life_is_given_while_a_source_is_silent(url: str) -> None:
    server = Server("evm")
    with Indexing(url) as indexing:
        async with server.serving(indexing) as (chain, gate), following(indexing, chain) as follower:
            await until(lambda: follower.progress.state == "following")
            gate.is_shut = True
            await until(lambda: follower.progress.state == "unreachable")
            now = [1_000.0]
            sign = SignOfLife(indexing.writer, [follower.progress], lambda: now[0])
            await sign.run()
            report = indexing.store.followers.reports()["demo"]
            assert (report.state, report.seen_at) == ("unreachable", 1_000)
            assert not follower.progress.is_silent()
            await sign.close()
