"""Logs of EVM chains a second, from the JSON of an answer to events, beside `json.loads` of the same bytes alone.

`python -m tests.bench.bench_logs`. An answer of 10,000 logs, as many as endpoints give, of which each has a pointer;
the same with cards in full; and all of it followed over HTTP into SQLite, 20 logs a block.
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

from indexer.chains.evm import answers
from indexer.chains.evm.answers import Log
from indexer.chains.evm.pointers import Pointers
from indexer.facts import BlockRef
from parsers.pointer import TOPIC
from tests.evm_server import CONTRACT, EvmServer, says
from tests.indexing import Indexing

LOGS, A_BLOCK, ROUNDS = 10_000, 20, 3
ADDRESS = bytes.fromhex(CONTRACT[2:])
REF = BlockRef("demo", 1, bytes(32), bytes(32), 1_750_000_000, b"")


def pointing(number: int) -> dict[str, Any]:
    """A pointer with a hash."""
    return says(f"https://agent-{number}.example.com/.well-known/agent.json", number.to_bytes(32, "big"))


def carrying(number: int) -> dict[str, Any]:
    """A card in full."""
    skills = [{"id": f"skill-{at}", "name": f"Skill {at}", "tags": ["bench"]} for at in range(3)]
    card = {"name": f"Agent {number}", "url": f"https://agent-{number}.example.com", "skills": skills}
    return says("data:application/json;base64," + base64.b64encode(json.dumps(card).encode()).decode())


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


def decode(body: bytes) -> list[Log]:
    """From the bytes of an answer to logs, in their order."""
    return answers.logs(json.loads(body)["result"], ADDRESS, (TOPIC,), 0, LOGS)


def events(body: bytes) -> None:
    """From the bytes of an answer to events."""
    said = asyncio.run(Pointers().read("eip155:1", REF, decode(body)))
    assert len(said.events) == LOGS
    assert all(event.valid for event in said.events)


async def follow(server: EvmServer) -> float:
    """Seconds of following the chain over HTTP into a new database."""
    async with server:
        chain = server.chain()
        with tempfile.TemporaryDirectory() as folder, Indexing(f"sqlite:///{Path(folder)}/a2b.db", chain) as indexing:
            (follower,) = await indexing.open()
            began = perf_counter()
            await follower.catch_up()
            took = perf_counter() - began
            assert follower.progress.events == LOGS
        await chain.close()
    return took


def main() -> None:
    """Print logs a second for each kind."""
    for kind, make in (("pointers", pointing), ("cards in full", carrying)):
        server = served(make)
        rows = [log for block in server.blocks for log in block.logs]
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": rows}).encode()
        bare, decoded, said = (best(partial(work, body)) for work in (json.loads, decode, events))
        followed = min(asyncio.run(follow(server)) for _ in range(ROUNDS))
        print(f"{LOGS:,} {kind} of {len(body) // LOGS:,} bytes of JSON each")
        print(f"  json.loads       {LOGS / bare:10,.0f} /s")
        print(f"  decoded          {LOGS / decoded:10,.0f} /s, {bare / decoded:.2f} x json.loads")
        print(f"  read as events   {LOGS / said:10,.0f} /s, {bare / said:.2f} x json.loads")
        print(f"  followed, stored {LOGS / followed:10,.0f} /s")


if __name__ == "__main__":
    main()
