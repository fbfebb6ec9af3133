"""Services that are listened to, of each kind, with a history that grows, and the chains that listen to them."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from solders.hash import Hash

from indexer.chains import Chain, ChainStore, create
from indexer.chains.evm import EvmChain
from indexer.chains.junglebus.chain import JungleBusChain
from indexer.chains.overlay.chain import OverlayChain
from indexer.chains.solana.chain import GENESIS, SolanaChain
from indexer.sync.agreement import PATIENCE_SECONDS
from overlay.app.runner import Runner
from parsers.bitcoin.tx import Outpoint
from tests.chainkit import ChainKit, agent
from tests.evm_server import CONTRACT, EvmServer, says
from tests.fakes import MemoryChain
from tests.junglebus_server import SUBSCRIPTION, JungleBus
from tests.nodes import Node
from tests.serving import new_app, running
from tests.solana_server import PROGRAM, SolanaServer
from tests.waiting import until

KINDS = ("evm", "junglebus", "node", "overlay", "solana")


class Service:
    """A service of one kind with a history that grows, and the chain that listens to it, directly or by a proxy.

    `patience`: seconds in which all is right by itself once the service is honest.
    """

    name = "demo"
    patience = PATIENCE_SECONDS

    def __init__(self, chance: random.Random, port: int) -> None:
        self.chance, self.port, self.count = chance, port, 0

    def grow(self) -> None:
        """Something is registered, or changes."""
        raise NotImplementedError

    def branch(self) -> None:
        """The newest block is replaced, where there are branches."""

    async def ready(self) -> None:
        """Wait until the service serves what there is."""

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
        return source


class Accounts(Service):
    name = "sol"

    def __init__(self, chance: random.Random, server: SolanaServer) -> None:
        super().__init__(chance, port_of(server.url))
        self.server = server

    def grow(self) -> None:
        self.count += 1
        self.server.put(f"account {self.chance.randrange(6)}", agent(f"Agent {self.count}"))

    def chain(self, port: int, store: ChainStore) -> Chain:
        source = create("sol", f"http://127.0.0.1:{port}/?program={PROGRAM}&chain=solana", store)
        assert isinstance(source, SolanaChain)
        source.poll_seconds = 0.0
        return source


class Mint(Service):
    """A service of a chain of blocks that a test mines: registrations, and moves of the newest one."""

    def __init__(self, chance: random.Random, kit: ChainKit, port: int) -> None:
        super().__init__(chance, port)
        self.kit, self.newest = kit, Outpoint(bytes(32), 0)

    def grow(self) -> None:
        self.count += 1
        is_moved = self.newest.txid in self.kit.tip.txids and self.chance.random() < 0.5
        self.newest = self.kit.move(self.newest) if is_moved else self.kit.inscribe(agent(f"Agent {self.count}"))
        self.kit.mine(self.kit.pay(), self.newest)
        self.publish()

    def branch(self) -> None:
        block = self.kit.mine(parent=self.kit.branch()[-2])
        self.kit.mine(parent=block)
        self.publish()

    def publish(self) -> None:
        """The service has all blocks."""
        raise NotImplementedError


class OfNode(Mint):
    def __init__(self, chance: random.Random, kit: ChainKit, memory: MemoryChain, node: Node) -> None:
        super().__init__(chance, kit, node.port)
        self.memory = memory

    def publish(self) -> None:
        self.memory.arrive(*self.kit.blocks)

    def chain(self, port: int, store: ChainStore) -> Chain:
        return create("demo", f"http://user:pass%2Fword@127.0.0.1:{port}?chain=bsv", store)


class OfJungleBus(Mint):
    """An unproved transaction is requested again after an hour at most."""

    patience = 3_600.0

    def __init__(self, chance: random.Random, server: JungleBus) -> None:
        super().__init__(chance, server.kit, port_of(server.url.removesuffix("/v1")))
        self.server = server

    def publish(self) -> None:
        self.server.follow()

    def chain(self, port: int, store: ChainStore) -> Chain:
        url = f"http://127.0.0.1:{port}/v1"
        source = create("demo", f"junglebus:{SUBSCRIPTION}?url={url}&network=regtest&chain=bsv", store)
        assert isinstance(source, JungleBusChain)
        source.poll_seconds = 0.0
        return source


class OfOverlay(Mint):
    def __init__(self, chance: random.Random, kit: ChainKit, memory: MemoryChain, runner: Runner) -> None:
        super().__init__(chance, kit, port_of(runner.url))
        self.memory, self.runner = memory, runner

    def publish(self) -> None:
        self.memory.arrive(*self.kit.blocks)

    async def ready(self) -> None:
        tip = self.memory.best[-1]
        await until(lambda: self.runner.status.progress[self.name].hash == tip.hash)

    def chain(self, port: int, store: ChainStore) -> Chain:
        source = create("demo", f"overlay:http://127.0.0.1:{port}?network=regtest", store)
        assert isinstance(source, OverlayChain)
        source.poll_seconds = 0.0
        return source


def port_of(url: str) -> int:
    return int(url.rsplit(":", 1)[1].strip("/"))


@asynccontextmanager
async def service(kind: str, chance: random.Random, folder: Path) -> AsyncIterator[Service]:
    """A service of this kind; `folder` is for what it stores."""
    kit = ChainKit()
    memory = MemoryChain(*kit.blocks)
    if kind == "evm":
        async with EvmServer(finality=chance.choice((2, None))) as evm:
            evm.blooms = False  # no header tells what an answer leaves out
            yield Evm(chance, evm)
    elif kind == "junglebus":
        async with JungleBus(kit) as jungle_bus:
            yield OfJungleBus(chance, jungle_bus)
    elif kind == "node":
        async with Node(memory) as node:
            yield OfNode(chance, kit, memory, node)
    elif kind == "overlay":
        async with running(new_app(folder, memory, limits="off")) as (runner, _):
            await until(lambda: runner.url and runner.status.ready() is None)
            yield OfOverlay(chance, kit, memory, runner)
    else:
        async with SolanaServer() as solana:
            solana.genesis = Hash.from_string(next(iter(GENESIS)))
            yield Accounts(chance, solana)
