"""Logs of EVM chains a second, from the JSON of an answer to events, beside `json.loads` of the same bytes alone.

`python -m tests.bench.bench_logs`. An answer of 10,000 logs, as many as endpoints give, of which each has a pointer;
the same with cards in full; entries of an ERC-8004 registry whose registration file stands at an https URI, and on
chain; and all of it followed over HTTP into SQLite, 20 logs a block.
"""

from __future__ import annotations

import asyncio
import base64
import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from indexer.chains import DeferredEvents, evm
from indexer.chains.evm import EvmChain, LogReader, erc8004, responses
from indexer.chains.evm.erc8004 import Entries
from indexer.chains.evm.pointers import Pointers
from indexer.chains.evm.responses import Log
from indexer.model import BlockRef
from tests import registry_kit
from tests.evm_server import CONTRACT, EvmServer, says
from tests.indexing import Indexing

LOGS, A_BLOCK, ROUNDS = 10_000, 20, 3
OWNER = "0x" + "a1" * 20
Create = Callable[[str, str], EvmChain]
ADDRESS = bytes.fromhex(CONTRACT[2:])
REF = BlockRef("demo", 1, bytes(32), bytes(32), 1_750_000_000, b"")


def pointer_event(number: int) -> dict[str, Any]:
    """A pointer with a hash."""
    return says(f"https://agent-{number}.example.com/.well-known/agent.json", number.to_bytes(32, "big"))


def carrying(number: int) -> dict[str, Any]:
    """A card in full."""
    skills = [{"id": f"skill-{index}", "name": f"Skill {index}", "tags": ["bench"]} for index in range(3)]
    card = {"name": f"Agent {number}", "url": f"https://agent-{number}.example.com", "skills": skills}
    return says("data:application/json;base64," + base64.b64encode(json.dumps(card).encode()).decode())


def row(log: registry_kit.Log) -> dict[str, Any]:
    """A registry's log as endpoints tell it."""
    return {"address": CONTRACT, "topics": [f"0x{topic.hex()}" for topic in log.topics], "data": f"0x{log.data.hex()}"}


def entered(number: int) -> dict[str, Any]:
    """An entry with its file elsewhere."""
    return row(registry_kit.registered(number, f"https://agent-{number}.example.com/agent.json", OWNER))


def filed(number: int) -> dict[str, Any]:
    """An entry with its file on chain."""
    return row(registry_kit.registered(number, registry_kit.data_uri(registry_kit.file(f"Agent {number}")), OWNER))


def served(make: Callable[[int], dict[str, Any]]) -> EvmServer:
    """A chain with all the logs."""
    server = EvmServer()
    for first in range(0, LOGS, A_BLOCK):
        server.mine(*(make(number) for number in range(first, first + A_BLOCK)))
    return server


def best(work: Callable[[], object]) -> float:
    """Seconds of the best of some rounds, as others use the machine too."""
    taken = []
    for _ in range(ROUNDS):
        began = perf_counter()
        work()
        taken.append(perf_counter() - began)
    return min(taken)


def decode(body: bytes, reader: LogReader) -> list[Log]:
    """From the bytes of an answer to logs, in their order."""
    return responses.logs(json.loads(body)["result"], ADDRESS, reader.topics, 0, LOGS)


def events(body: bytes, reader: LogReader) -> None:
    """From the bytes of an answer to events."""
    parsed = reader.read("eip155:1", REF, decode(body, reader))
    message = reader.resolve("eip155:1", parsed, {}) if isinstance(parsed, DeferredEvents) else parsed
    assert len(message.events) == LOGS
    assert all(event.valid for event in message.events)


async def follow(server: EvmServer, create: Create) -> float:
    """Seconds of following the chain over HTTP into a new database."""
    async with server:
        chain = create("demo", f"{server.base}?contract={CONTRACT}")
        with tempfile.TemporaryDirectory() as folder, Indexing(f"sqlite:///{Path(folder)}/a2b.db", chain) as indexing:
            (follower,) = await indexing.open()
            began = perf_counter()
            await follower.catch_up()
            took = perf_counter() - began
            assert follower.progress.events == LOGS
        await chain.close()
    return took


KINDS: tuple[tuple[str, Callable[[int], dict[str, Any]], LogReader, Create], ...] = (
    ("pointers", pointer_event, Pointers(), evm.create),
    ("cards in full", carrying, Pointers(), evm.create),
    ("entries with a file elsewhere", entered, Entries(), erc8004.create),
    ("entries with a file on chain", filed, Entries(), erc8004.create),
)


def main() -> None:
    """Print logs a second for each kind."""
    for kind, make, reader, create in KINDS:
        server = served(make)
        rows = [log for block in server.blocks for log in block.logs]
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": rows}).encode()
        bare = best(partial(json.loads, body))
        decoded, message = (best(partial(work, body, reader)) for work in (decode, events))
        followed = min(asyncio.run(follow(server, create)) for _ in range(ROUNDS))
        print(f"{LOGS:,} {kind} of {len(body) // LOGS:,} bytes of JSON each")
        print(f"  json.loads       {LOGS / bare:10,.0f} /s")
        print(f"  decoded          {LOGS / decoded:10,.0f} /s, {bare / decoded:.2f} x json.loads")
        print(f"  read as events   {LOGS / message:10,.0f} /s, {bare / message:.2f} x json.loads")
        print(f"  followed, stored {LOGS / followed:10,.0f} /s")


if __name__ == "__main__":
    main()
