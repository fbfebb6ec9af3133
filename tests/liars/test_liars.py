"""Law 26: afterwards, what is live is what a run that never met the liar has, by itself.

The lies are those of a service that stumbles or lags, and of a proxy before it: some answers are changed, and then
the service is honest again. Logs that an endpoint leaves out (`eth_getLogs`) come with the second reading of their
blocks; a lie that both readings meet would be believed.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from solders.hash import Hash

from indexer.chains import Chain, ChainStore, create
from indexer.chains.evm import EvmChain
from indexer.chains.solana.chain import GENESIS, SolanaChain
from indexer.errors import SourceError
from indexer.state_hash import computed_state_hash, hashed_block, update_state_hash
from indexer.sync.agreement import PATIENCE_SECONDS
from tests.chainkit import ChainKit, agent
from tests.evm_server import CONTRACT, EvmServer, says
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.liars.proxy import ALTERATIONS, Proxy
from tests.nodes import Node
from tests.solana_server import PROGRAM, SolanaServer, hurry

KINDS = ("evm", "node", "solana")
ROUNDS = 8


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that a node served wrongly is asked for again at the next look, and not after a minute; so is what is
    final on an EVM chain."""
    monkeypatch.setattr("indexer.chains.node.chain.REFUSED_SECONDS", 0.0)
    monkeypatch.setattr("indexer.chains.evm.chain.FINAL_SECONDS", 0.0)


class Service:
    """A service of one kind with a history that grows, and the chain that listens to it, directly or by a proxy."""

    name = "demo"

    def __init__(self, chance: random.Random, port: int) -> None:
        self.chance, self.port, self.count = chance, port, 0

    def grow(self) -> None:
        """Something is registered."""
        raise NotImplementedError

    def branch(self) -> None:
        """The newest block is replaced, where there are branches."""

    def chain(self, port: int, store: ChainStore) -> Chain:
        """A chain that reads the server at a port."""
        raise NotImplementedError


class Evm(Service):
    def __init__(self, chance: random.Random, server: EvmServer) -> None:
        super().__init__(chance, server.port)
        self.server = server

    def grow(self) -> None:
        self.count += 1
        self.server.mine(says(f"https://shop{self.count}.example/card.json", bytes([self.count % 256]) * 32))

    def branch(self) -> None:
        self.count += 1
        self.server.fork(len(self.server.blocks) - 2, says(f"https://branch{self.count}.example/card.json"))

    def chain(self, port: int, store: ChainStore) -> Chain:
        source = create("demo", f"http://127.0.0.1:{port}{self.server.path}?contract={CONTRACT}", store)
        assert isinstance(source, EvmChain)
        source.poll_seconds = 0.0
        source.endpoint.rpc.pauses = ()
        return source


class Utxo(Service):
    def __init__(self, chance: random.Random, kit: ChainKit, memory: MemoryChain, node: Node) -> None:
        super().__init__(chance, node.port)
        self.kit, self.memory = kit, memory

    def grow(self) -> None:
        self.count += 1
        self.memory.arrive(self.kit.mine(self.kit.inscribe(agent(f"Agent {self.count}"))))

    def branch(self) -> None:
        block = self.kit.mine(parent=self.kit.branch()[-2])
        self.kit.mine(parent=block)
        self.memory.arrive(*self.kit.blocks)

    def chain(self, port: int, store: ChainStore) -> Chain:
        return create("demo", f"http://user:pass%2Fword@127.0.0.1:{port}?chain=bsv", store)


class Accounts(Service):
    name = "sol"

    def __init__(self, chance: random.Random, server: SolanaServer) -> None:
        super().__init__(chance, int(server.url.rsplit(":", 1)[1].strip("/")))
        self.server = server

    def grow(self) -> None:
        self.count += 1
        self.server.put(f"account {self.chance.randrange(6)}", agent(f"Agent {self.count}"))

    def chain(self, port: int, store: ChainStore) -> Chain:
        source = create("sol", f"http://127.0.0.1:{port}/?program={PROGRAM}&chain=solana", store)
        assert isinstance(source, SolanaChain)
        hurry(source)
        return source


@asynccontextmanager
async def service(kind: str, chance: random.Random) -> AsyncIterator[Service]:
    if kind == "evm":
        async with EvmServer(finality=chance.choice((2, None))) as evm:
            evm.blooms = False  # no header tells what an answer leaves out
            yield Evm(chance, evm)
    elif kind == "node":
        kit = ChainKit()
        memory = MemoryChain(*kit.blocks)
        async with Node(memory) as node:
            yield Utxo(chance, kit, memory, node)
    else:
        async with SolanaServer() as solana:
            solana.genesis = Hash.from_string(next(iter(GENESIS)))
            yield Accounts(chance, solana)


class Listener:
    """An indexer that follows the lying server, with a clock of its own; it may be killed."""

    def __init__(self, served: Service, port: int, url: str) -> None:
        self.served, self.port, self.now = served, port, 0.0
        self.indexing = Indexing(url)
        self._connect()

    def _connect(self) -> None:
        self.indexing.chains = (self.served.chain(self.port, self.indexing.source_store),)
        [chain] = self.indexing.chains
        if isinstance(chain, SolanaChain):
            chain.clock = lambda: self.now

    async def look(self) -> str:
        """Catch up; why not, where an answer is refused."""
        try:
            [follower] = await self.indexing.open()
            follower.agreement.clock = lambda: self.now
            if follower.second_reader is not None:
                follower.second_reader.clock = lambda: self.now
            await follower.catch_up()
        except SourceError as error:
            return str(error)
        return ""

    async def settle(self) -> None:
        """Look again and again for the ten minutes, and a little, in which all is to be right by itself."""
        for _ in range(ROUNDS):
            if await self.look():
                await asyncio.sleep(0.2)  # a server that was asked too often may have asked to wait for a second
            self.now += PATIENCE_SECONDS / (ROUNDS - 2)

    async def kill(self) -> None:
        for chain in self.indexing.chains:
            await chain.close()
        self.indexing.restart()
        self._connect()

    async def close(self) -> None:
        for chain in self.indexing.chains:
            await chain.close()
        self.indexing.__exit__()


def state(indexing: Indexing, name: str) -> dict[str, Any]:
    """All that must be the same: what is live, the state hash and that of the pointers."""
    newest = indexing.store.blocks.newest(name)
    records = indexing.records(name)
    return {
        "live": {item["id"]: item["card"] for item in records["registrations"] if item["status"] == "live"},
        "pointers": sorted(item["outpoint"] for item in records["pointers"]),
        "hashes": computed_state_hash(indexing.store, name, newest.height)[1:] if newest else None,
    }


async def must_agree(listener: Listener, served: Service, tmp_path: Path) -> None:
    """Once the service is honest, the listener comes to what a fresh one has that never met the liar."""
    served.grow()
    await listener.settle()
    assert await listener.look() == ""
    with Indexing(f"sqlite:///{tmp_path}/honest.db") as honest:
        honest.chains = (served.chain(served.port, honest.source_store),)
        await honest.catch_up()
        expected = state(honest, served.name)
        await honest.chains[0].close()
    assert expected["live"] or expected["pointers"]
    assert state(listener.indexing, served.name) == expected
    if (hashed := hashed_block(listener.indexing.store, served.name)) is not None:
        stored = update_state_hash(listener.indexing.store, listener.indexing.writer, served.name)
        assert stored == computed_state_hash(listener.indexing.store, served.name, hashed.height)


@pytest.mark.parametrize(("kind", "lie"), [*itertools.product(KINDS, ALTERATIONS)])
async def test_a_lie_leaves_nothing_behind(kind: str, lie: str, tmp_path: Path) -> None:
    async with service(kind, random.Random(lie)) as served, Proxy(served.port) as proxy:
        for _ in range(3):
            served.grow()
        listener = Listener(served, proxy.port, f"sqlite:///{tmp_path}/a2b.db")
        assert await listener.look() == ""
        for answers in (1, 2, 5):
            served.grow()
            proxy.lie(lie, answers)
            await listener.look()
            proxy.honest()
        assert proxy.altered
        await must_agree(listener, served, tmp_path)
        await listener.close()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
async def test_thirty_random_alterations_and_kills_leave_nothing_behind(kind: str, seed: int, tmp_path: Path) -> None:
    chance = random.Random(f"{kind} {seed}")
    async with service(kind, chance) as served, Proxy(served.port) as proxy:
        served.grow()
        listener = Listener(served, proxy.port, f"sqlite:///{tmp_path}/a2b.db")
        await listener.look()
        for _ in range(30):
            chance.choice((served.grow, served.branch, lambda: None))()
            proxy.lie(chance.choice([*ALTERATIONS]), chance.randint(1, 8))
            await listener.look()
            if chance.random() < 0.3:
                proxy.honest()
                await listener.look()
            if chance.random() < 0.2:
                await listener.kill()
            listener.now += chance.choice((1, 30, 400))
        proxy.honest()
        await must_agree(listener, served, tmp_path)
        await listener.close()
