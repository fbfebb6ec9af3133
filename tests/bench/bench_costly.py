"""Other routes while costly ones are attacked: `python -m tests.bench.bench_costly [--seconds N]`.

`a2b up` serves the packaged sample. A reader asks for listings, searches, histories and proofs at a steady rate, first
alone and while an attack goes on, by turns: ten connections from ten addresses (127.0.0.x) that hand in what costs
most, one after the other.
Reported are the reader's median and 99th percentile in milliseconds per route, and what the attackers got. The rate
limits are off, so that only places and bounds protect the reader. The reader, the attackers and the server share this
machine's cores: an attack costs the reader something even where the server does nothing.
`404` is the floor: a few bytes to a route that does not exist.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import median, quantiles

import aiohttp

from parsers.bitcoin.tx import Outpoint, TxInput, TxOutput, serialise
from parsers.pointers.pointer import build
from tests.chainkit_scripts import inscription
from tests.ports import free_port
from tests.running import Running

ATTACKERS, RATE, ROUNDS = 10, 50.0, 4
COIN = [TxInput(Outpoint(bytes(31) + b"\1", 0), b"", 0)]


def raw(inputs: list[TxInput], outputs: list[TxOutput]) -> tuple[str, bytes]:
    """A diagnosis of a raw transaction: its path and body."""
    return "/v1/diagnose", json.dumps({"rawTx": serialise(tuple(inputs), tuple(outputs)).hex()}).encode()


def attacks() -> dict[str, tuple[str, bytes]]:
    """The texts and bytes that are handed in, by name."""
    pointer = TxOutput(0, build("a.example"))
    big = b'{"name":"x","url":"https://a.example","skills":[' + b",".join(b'{"id":"%d"}' % i for i in range(60_000))
    card = TxOutput(1, inscription(big + b"]}", {"app": "x", "type": "a2b-agent"}, "eve"))
    spent = [TxInput(Outpoint(random.Random(i).randbytes(32), 0), b"", 0) for i in range(48_000)]
    tools = b",".join(b'{"name":"%d"}' % i for i in range(900))
    servers = b",".join(b'"s%d":{"command":"x","tools":[%s]}' % (i, tools) for i in range(64))
    return {
        "404": ("/nothing", bytes(1000)),
        "100,000 pointers": raw(COIN, [pointer] * 80_000),
        "2,000 pointers": raw(COIN, [pointer] * 2_000),
        "48,000 inputs": raw(spent, [pointer]),
        "2,000 inputs": raw(spent[:2_000], [pointer]),
        "a card of 900 kB": raw(COIN, [card]),
        "a check of 860 kB": ("/v1/check", b'{"mcpServers":{' + servers + b"}}"),
    }


async def attack(base: str, number: int, path: str, body: bytes, met: Counter[int]) -> None:
    """Ask without a pause, from an address of its own."""
    connector = aiohttp.TCPConnector(local_addr=(f"127.0.0.{number + 2}", 0))
    async with aiohttp.ClientSession(base, connector=connector) as session:
        while True:
            try:
                async with session.post(path, data=body) as answer:
                    await answer.read()
                    met[answer.status] += 1
            except aiohttp.ClientError:
                met[0] += 1
            await asyncio.sleep(0.01)


async def flood(name: str, base: str) -> None:
    """Attack until a signal comes, and print what came back by status (0: no answer)."""
    path, body = attacks()[name]
    met: Counter[int] = Counter()
    done = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, done.set)
    tasks = [asyncio.create_task(attack(base, number, path, body, met)) for number in range(ATTACKERS)]
    print("ready", flush=True)
    await done.wait()
    for task in tasks:
        task.cancel()
    print(json.dumps(met))


async def read(base: str, paths: list[str], seconds: float) -> dict[str, list[float]]:
    """Milliseconds of each answer by route, asked at a steady rate whatever was answered."""
    took: dict[str, list[float]] = defaultdict(list)

    async def ask(session: aiohttp.ClientSession, path: str) -> None:
        start = time.perf_counter()
        async with session.get(path) as answer:
            await answer.read()
            assert answer.status == 200, (path, answer.status)
        took[path.rsplit("/", maxsplit=1)[-1].split("?", maxsplit=1)[0][:7]].append(
            1000 * (time.perf_counter() - start)
        )

    async with aiohttp.ClientSession(base) as session, asyncio.TaskGroup() as tasks:
        for number in range(int(seconds * RATE)):
            tasks.create_task(ask(session, paths[number % len(paths)]))
            await asyncio.sleep(1 / RATE)
    return took


def shown(took: list[float]) -> str:
    """Median and 99th percentile of milliseconds."""
    return f"p50 {median(took):6.1f} p99 {quantiles(took, n=100)[98]:6.1f} ms"


async def measure(base: str, seconds: float, only: str) -> None:
    async with aiohttp.ClientSession(base) as session, session.get("/v1/search?limit=1") as answer:
        id_ = (await answer.json())["items"][0]["id"]
    listing = f"/v1/listings/{id_}"
    paths = ["/v1/search?q=a", listing, f"{listing}/history", f"{listing}/proof"]
    await read(base, paths, 2.0)
    for name in filter(lambda name: name.startswith(only), attacks()):
        calm: dict[str, list[float]] = defaultdict(list)
        attacked: dict[str, list[float]] = defaultdict(list)
        statuses: Counter[str] = Counter()
        for _ in range(ROUNDS):  # by turns, as a machine may be busy with something else for a while
            join(calm, await read(base, paths, seconds / ROUNDS))
            attacker = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.bench.bench_costly", "--attack", name, base,
                stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip
            assert attacker.stdout is not None
            await attacker.stdout.readline()
            join(attacked, await read(base, paths, seconds / ROUNDS))
            attacker.terminate()
            met, _ = await attacker.communicate()
            statuses.update(json.loads(met))
            await asyncio.sleep(1.0)
        print(f"{name}: attackers got {dict(statuses)}")
        for route, took in calm.items():
            print(f"  {route:8} calm {shown(took)}   attacked {shown(attacked[route])}", flush=True)


def join(all_: dict[str, list[float]], more: Mapping[str, list[float]]) -> None:
    for route, took in more.items():
        all_[route] += took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--only", default="", help="attacks whose names begin so")
    parser.add_argument("--attack", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.attack:
        os.nice(19)  # what the attackers need themselves is not what is measured
        asyncio.run(flood(*args.attack))
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        Running("up", "--port", str(free_port()), cwd=Path(folder), A2B_LIMITS="off") as up,
    ):
        up.until_ready()
        asyncio.run(measure(up.url, args.seconds, args.only))
        up.stop()


if __name__ == "__main__":
    main()
