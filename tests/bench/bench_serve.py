"""The command under load: `python -m tests.bench.bench_serve [--offers N ...] [--workers N ...] [--engine NAME ...]`.

A registry of N offers is mined, indexed and stored as always, and `a2b serve --workers W` answers from it, without a
result cache: searches (the mix of `bench_http`), completions of what is being typed, and listings by id; each without
`Accept-Encoding` and with gzip. Beside it stands `hello`: a plain aiohttp handler that answers with a word, in as many
processes, which is the most that this machine could do. It is asked right before each kind of load, since a machine
may be a third faster than it was minutes ago. The load comes in a separate process, with 16 connections that are
kept open: `wrk` where it is installed (Debian has it), else one of Python's.

`--tools [--zipf] [--gzip] [--against CHECKOUT] [--data FOLDER]` measures searches over real tools instead, in processor
time and beside another checkout (`tests.bench.tools_load`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple
from urllib.parse import quote
from urllib.request import urlopen

from aiohttp import web

from overlay.app.workers import Workers
from overlay.engines import ENGINES
from overlay.search.document import Document
from tests.bench.bench_engines import size
from tests.bench.bench_http import SHARED, _cpu, questions
from tests.bench.bench_up import OUTPUTS, mine
from tests.bench.listings import listings, offers_of
from tests.chainkit import ChainKit
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
CONNECTIONS, PATHS, WARM_UP, SETTLED = 16, 5_000, 4.0, 3.0
LUA = """
local paths, at = {}, 0
for line in io.lines(os.getenv("PATHS")) do paths[#paths + 1] = line end
local headers = os.getenv("CODING") ~= "" and {["Accept-Encoding"] = os.getenv("CODING")} or {}
request = function() at = at %% #paths + 1; return wrk.format("GET", paths[at], headers) end
""".replace("%%", "%")


class Loaded(NamedTuple):
    """The result of a load: requests a second, milliseconds, and the number of answers other than 200."""

    rate: float
    p50: float
    p99: float
    failed: int


class Server:
    """A command that serves, and what it costs."""

    def __init__(self, command: Sequence[str], port: int, ready: str, folder: Path = ROOT, **environment: str) -> None:
        self.port, began = port, time.monotonic()
        stored = {name: value for name, value in os.environ.items() if not name.startswith("A2B_")}
        self._process = subprocess.Popen(
            command, env={**stored, "PYTHONPATH": str(ROOT), **environment}, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, cwd=folder,
        )  # fmt: skip
        while not self._answers(ready):
            if self._process.poll() is not None:
                raise SystemExit(f"{' '.join(command)} ended with exit code {self._process.returncode}")
            time.sleep(0.05)
        self.took = time.monotonic() - began

    def _answers(self, path: str) -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def settle(self) -> None:
        """Wait until it has nothing more to do by itself."""
        busy = True
        while busy:
            before = self.cpu()
            time.sleep(SETTLED)
            busy = self.cpu() - before > 0.05 * SETTLED

    def pids(self) -> list[int]:
        """Its processes."""
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *map(int, children)]

    def cpu(self) -> float:
        """Seconds of CPU that they have used."""
        return sum(map(_cpu, self.pids()))

    def memory(self) -> float:
        """Their resident memory, what they share counted once each, in MB."""
        pages = (int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self.pids())
        return sum(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        """End it, and wait."""
        self._process.terminate()
        self._process.wait()


def load(port: int, paths: Path, coding: str, seconds: float) -> Loaded:
    """Ask a server for paths, from another process."""
    answers = {**os.environ, "PATHS": str(paths), "CODING": coding}
    if wrk := shutil.which("wrk"):
        script = paths.with_suffix(".lua")
        script.write_text(LUA)
        command = [
            wrk,
            "-t1",
            f"-c{CONNECTIONS}",
            f"-d{seconds:.0f}s",
            "--timeout",
            "30s",
            "--latency",
            "-s",
            str(script),
        ]
        result = subprocess.run(
            [*command, f"http://127.0.0.1:{port}"], env=answers, capture_output=True, text=True, check=True
        )
        return _of_wrk(result.stdout)
    command = [sys.executable, "-m", "tests.bench.bench_serve", "--load", str(port), "--seconds", str(seconds)]
    result = subprocess.run(command, env=answers, capture_output=True, text=True, check=True)
    return Loaded(*json.loads(result.stdout))


def _of_wrk(text: str) -> Loaded:
    def milliseconds(percent: str) -> float:
        hits = re.search(rf"^\s*{percent}%\s+([0-9.]+)(us|ms|s)\s*$", text, re.MULTILINE)
        assert hits, text
        return float(hits[1]) * {"us": 0.001, "ms": 1.0, "s": 1000.0}[hits[2]]

    rate, failed = re.search(r"Requests/sec:\s+([0-9.]+)", text), re.search(r"Non-2xx or 3xx responses: ([0-9]+)", text)
    assert rate, text
    return Loaded(float(rate[1]), milliseconds("50"), milliseconds("99"), int(failed[1]) if failed else 0)


async def ask(port: int, paths: list[str], coding: str, seconds: float) -> Loaded:
    """The load of `wrk`, sent by Python."""
    took: list[float] = []
    failed, until = 0, time.monotonic() + seconds

    async def connection(number: int) -> None:
        nonlocal failed
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        header = f"Accept-Encoding: {coding}\r\n" if coding else ""
        position = number * len(paths) // CONNECTIONS
        while (began := time.monotonic()) < until:
            writer.write(f"GET {paths[position % len(paths)]} HTTP/1.1\r\nHost: a\r\n{header}\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.lower().split(b"content-length: ", 1)[1].split(b"\r\n", 1)[0]))
            took.append(1000 * (time.monotonic() - began))
            failed += not head.startswith(b"HTTP/1.1 200")
            position += 1
        writer.close()

    await asyncio.gather(*map(connection, range(CONNECTIONS)))
    cuts = quantiles(took, n=100)
    return Loaded(len(took) / seconds, cuts[49], cuts[98], failed)


def hello(port: int, workers: int) -> None:
    """Serve a word, in so many processes, until it is stopped."""
    group = Workers(workers)

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="hello")

    async def serve() -> None:
        app = web.Application()
        app.router.add_get("/", answer)
        runner = web.AppRunner(app, access_log=None, handle_signals=True)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, reuse_port=True).start()
        await asyncio.Event().wait()

    try:
        asyncio.run(serve())
    except web.GracefulExit:
        group.stop()


async def fill(folder: Path, documents: list[Document]) -> None:
    """A database that holds these listings."""
    kit = ChainKit(funds=len(documents) // OUTPUTS + 100)
    mine(kit, documents)
    with Indexing(f"sqlite:///{folder / 'a2b.db'}", MemoryChain(*kit.blocks, name="bsv")) as source:
        await source.catch_up()


def paths_of(documents: list[Document], ids: list[str]) -> dict[str, list[str]]:
    """The requested paths, by kind."""
    chance = random.Random(7)
    names = [
        word
        for document in documents[:2_000]
        for word in document.name.lower().split()
        if word.isascii() and len(word) > 3
    ]
    begun = [word[: chance.randrange(1, len(word))] for word in (chance.choice(names) for _ in range(PATHS))]
    return {
        "search": [f"/v1/search?{question}" for question in islice(questions(documents[:20_000]), PATHS)],
        "suggest": [f"/v1/suggest?q={quote(item)}" for item in begun],
        "listing": [f"/v1/listings/{quote(item, safe='')}" for item in ids],
    }


def some_ids(port: int) -> list[str]:
    """The ids of many listings."""
    results: list[str] = []
    for offset in range(0, 1_000, 100):
        with urlopen(f"http://127.0.0.1:{port}/v1/search?limit=100&offset={offset}", timeout=60) as answer:
            results += [item["id"] for item in json.load(answer)["items"]]
    return results


def row(name: str, server: Server, paths: Path, coding: str, seconds: float, ceiling: float | None) -> float:
    """Measure and print one line; requests a second."""
    load(server.port, paths, coding, WARM_UP)
    cpu, began = server.cpu(), time.monotonic()
    loaded = load(server.port, paths, coding, seconds)
    item = 1000 * (server.cpu() - cpu) / max(1.0, loaded.rate * (time.monotonic() - began))
    share = f"{100 * loaded.rate / ceiling:.1f} %" if ceiling else ""
    failed = f"  {loaded.failed:,} failed" if loaded.failed else ""
    print(
        f"  {name:<26}{loaded.rate:>9,.0f}{share:>9}{loaded.p50:>10.2f}{loaded.p99:>10.2f}{item:>10.2f}{failed}",
        flush=True,
    )
    return loaded.rate


def measure(folder: Path, index: str, documents: list[Document], workers: Sequence[int], seconds: float) -> None:
    """The table of one engine and size."""
    answers = {"A2B_DATA": str(folder), "A2B_LIMITS": "off", "A2B_SEARCH": index}
    paths, word = folder / "paths", folder / "word"
    word.write_text("/")
    for number in workers:
        port, other = free_port(), free_port()
        serving = [sys.executable, "-m", "overlay", "serve", "--port", str(port), "--workers", str(number)]
        saying = [sys.executable, "-m", "tests.bench.bench_serve", "--hello", str(other), "--workers", str(number)]
        head = f"{number} worker{'s' * (number > 1)}:"
        print(f"{head:<28}{'req/s':>9}{'of hello':>9}{'p50 ms':>10}{'p99 ms':>10}{'CPU ms':>10}")
        with Server(serving, port, "/readyz", **answers) as server, Server(saying, other, "/") as plain:
            server.settle()
            print(f"  ready after {server.took:.1f} s, index {size(index):.0f} MB, memory {server.memory():.0f} MB")
            for name, query in paths_of(documents, some_ids(port)).items():
                paths.write_text("\n".join(query))
                ceiling = row("hello", plain, word, "", seconds, None)
                for coding in ("", "gzip"):
                    row(f"{name}{', gzip' * bool(coding)}", server, paths, coding, seconds, ceiling)
            print(f"  memory afterwards {server.memory():.0f} MB")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--offers", type=int, nargs="+", default=[10_000, 100_000], help="1000000 takes an hour")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--engine", nargs="+", choices=ENGINES)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--tools", action="store_true", help="searches over the tools of public lists")
    parser.add_argument("--zipf", action="store_true", help="with --tools: questions repeat as real ones do")
    parser.add_argument("--gzip", action="store_true", help="with --tools: clients accept gzip")
    parser.add_argument("--against", type=Path, help="with --tools: another checkout, measured in the same run")
    parser.add_argument("--data", type=Path, help="with --tools: a folder to fill, or filled by an earlier run")
    parser.add_argument("--rounds", type=int, default=3, help="with --tools")
    parser.add_argument("--plain", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--hello", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--load", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    from tests.bench import tools_load  # it uses this module

    if args.hello:
        hello(args.hello, args.workers[0])
    elif args.load:
        paths = Path(os.environ["PATHS"]).read_text().split("\n")
        print(json.dumps(asyncio.run(ask(args.load, paths, os.environ["CODING"], args.seconds))))
    elif args.plain:
        tools_load.plain(int(args.plain[0]), Path(args.plain[1]))
    elif args.tools:
        tools_load.main(args)
    else:
        for offers in args.offers:
            documents = offers_of(listings(data=SHARED if SHARED.is_dir() else None), offers)
            with tempfile.TemporaryDirectory() as folder:
                asyncio.run(fill(Path(folder), documents))
                for engine in args.engine or ["native"]:
                    print(f"\n{engine}: {offers:,} offers in {len(documents):,} listings", flush=True)
                    measure(Path(folder), f"{engine}:{folder}/{engine}", documents, args.workers, args.seconds)


if __name__ == "__main__":
    main()
