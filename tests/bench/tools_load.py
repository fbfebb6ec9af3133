"""The load of `bench_serve --tools`: HTTP search over the tools of three public lists, in processor time.

The entries of the lists (`relevance.lists`; made-up offers where the shared data are missing) are inscribed, stored and
indexed as always, and `a2b serve` answers pages of 20. Questions are two or three words that one entry holds, some with
a filter, and filters alone. Either each is another one, so that no page is kept, or they repeat as real ones do
(`--zipf`: the question of rank r is sent in proportion to 1 / r). Beside it is a plain aiohttp handler that sends
the same bytes and nothing else, and with `--against` the same command of another checkout, run by its `.venv`. All are
measured in turns; what counts is the processor time of the server for a request, and ratios within one run.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from statistics import median
from typing import NamedTuple
from urllib.parse import urlencode
from urllib.request import urlopen

from aiohttp import web

from tests.bench.bench_http import SHARED, questions
from tests.bench.bench_serve import CONNECTIONS, ROOT, WARM_UP, Server, fill, load
from tests.bench.listings import listings, offers_of
from tests.bench.relevance.__main__ import mine
from tests.bench.relevance.lists import Entry, entries
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.ports import free_port

REQUESTS, POOL, SAMPLE, OFFERS = 20_000, 2_000, 400, 20_000
"""Requests of a list; different questions of `--zipf`; pages that the plain handler sends; offers without the data."""

_WORD = re.compile(r"[a-z]{4,}")


class Checkout(NamedTuple):
    """A checkout of the program, and the index that its command serves ("" for its default)."""

    name: str
    root: Path
    search: str = ""

    def serving(self, data: Path, port: int) -> Server:
        """Its `a2b serve` over a copy of `data`, made at the first time."""
        data_folder = data / self.name
        if not data_folder.exists():
            data_folder.mkdir()
            for file in data.glob("a2b.db*"):
                shutil.copyfile(file, data_folder / file.name)
        environment = {"A2B_DATA": str(data_folder), "A2B_LIMITS": "read=999999/1", "PYTHONPATH": str(self.root)}
        if self.search:
            environment["A2B_SEARCH"] = f"{self.search}:{data_folder}/{self.search}"
        python = self.root / ".venv" / "bin" / "python"
        command = [str(python if python.exists() else sys.executable), "-m", "overlay", "serve", "--port", str(port)]
        return Server(command, port, "/readyz", folder=self.root, **environment)


def tool_questions(tools: Sequence[Entry], seed: int = 7) -> Iterator[str]:
    """Query strings without end: two or three words of an entry, a fifth with its tag or nothing but filters."""
    chance = random.Random(seed)
    while True:
        entry, dice = chance.choice(tools), chance.random()
        words = sorted(set(_WORD.findall(f"{entry.name} {entry.description}".lower())))
        tag = {"tag": entry.keywords[0]} if entry.keywords else {"type": "tool"}
        if dice >= 0.95:
            yield urlencode(tag | {"sort": chance.choice(("updated", "created")), "offset": chance.randrange(100)})
        elif len(words) > 3:
            text = " ".join(chance.sample(words, 2 if dice < 0.5 else 3))
            yield urlencode({"q": text} | (tag if dice >= 0.85 else {}))


def paths(questions_of: Iterator[str], *, zipf: bool) -> list[str]:
    """The requests of a run, each of another question, or with `zipf` of POOL questions that repeat."""
    different: dict[str, None] = {}
    for question in questions_of:
        different[f"/v1/search?{question}"] = None
        if len(different) == (POOL if zipf else REQUESTS):
            break
    ranked = list(different)
    if not zipf:
        return ranked
    return random.Random(1).choices(ranked, [1 / rank for rank in range(1, len(ranked) + 1)], k=REQUESTS)


def filled(folder: Path) -> Iterator[str]:
    """Fill the database in `folder` where there is none; the questions for it."""
    is_new = not (folder / "a2b.db").exists()
    if SHARED.is_dir():
        tools = [entry for rows in entries(SHARED).values() for entry in rows]
        if is_new:
            asyncio.run(_fill(folder, tools))
        return tool_questions(tools)
    documents = offers_of(listings(), OFFERS)
    if is_new:
        asyncio.run(fill(folder, documents))
    return questions(documents)


async def _fill(folder: Path, tools: Sequence[Entry]) -> None:
    kit, _ = mine(tools)
    with Indexing(f"sqlite:///{folder / 'a2b.db'}", MemoryChain(*kit.blocks, name="bsv")) as source:
        await source.catch_up()


def plain(port: int, pages: Path) -> None:
    """Serve the pages in `pages`, in turn, until stopped."""
    bodies, number = [file.read_bytes() for file in sorted(pages.iterdir())], 0

    async def answer(_: web.Request) -> web.Response:
        nonlocal number
        number += 1
        return web.Response(body=bodies[number % len(bodies)], content_type="application/json")

    app = web.Application()
    app.router.add_get("/v1/search", answer)
    web.run_app(app, host="127.0.0.1", port=port, access_log=None, print=None)


def sample(port: int, requests: Sequence[str], into: Path) -> float:
    """Store the pages of some requests; their mean size in bytes."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir()
    size = 0
    for number, path in enumerate(islice(requests, 0, None, max(1, len(requests) // SAMPLE))):
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            size += (into / f"{number:05}").write_bytes(answer.read())
    return size / len(list(into.iterdir()))


class Cost(NamedTuple):
    """Milliseconds of processor time for a request, those between request and answer (median, 99 %), and failures."""

    cpu: float
    p50: float
    p99: float
    failed: int


def cost(server: Server, listed: Path, coding: str, seconds: float) -> Cost:
    """The cost of a server under load."""
    cpu = server.cpu()
    loaded = load(server.port, listed, coding, seconds)
    return Cost(1_000 * (server.cpu() - cpu) / (loaded.rate * seconds), loaded.p50, loaded.p99, loaded.failed)


def measure(folder: Path, checkouts: Sequence[Checkout], args: argparse.Namespace) -> None:
    """Ask all servers in turns, and print the table."""
    requests, coding, pages = paths(filled(folder), zipf=args.zipf), "gzip" if args.gzip else "", folder / "pages"
    listed = folder / "paths"
    listed.write_text("\n".join(requests))
    ports = [free_port() for _ in range(len(checkouts) + 1)]
    servers = {one.name: one.serving(folder, port) for one, port in zip(checkouts, ports, strict=False)}
    try:
        for server in servers.values():
            server.settle()
        size = sample(ports[0], requests, pages)
        command = [sys.executable, "-m", "tests.bench.bench_serve", "--plain", str(ports[-1]), str(pages)]
        servers["plain"] = Server(command, ports[-1], "/v1/search")
        how = "questions repeat (Zipf, s = 1)" if args.zipf else "each question another one"
        print(f"\n{how}{', gzip' * args.gzip}; {size / 1000:.1f} kB a page, {CONNECTIONS} connections", flush=True)
        for server in servers.values():
            load(server.port, listed, coding, WARM_UP)
        rounds = [
            {name: cost(server, listed, coding, args.seconds) for name, server in servers.items()}
            for _ in range(args.rounds)
        ]
        table(rounds)
    finally:
        for server in servers.values():
            server.__exit__()


def table(rounds: Sequence[dict[str, Cost]]) -> None:
    """Print medians over the rounds; ratios are those of one round each."""
    print(f"{'':<14}{'CPU ms':>9}{'req/s core':>12}{'p50 ms':>9}{'p99 ms':>9}{'× first':>9}{'of plain':>10}")
    first = next(iter(rounds[0]))
    for name in rounds[0]:
        cpu, p50, p99, failed = (median(values) for values in zip(*(one[name] for one in rounds), strict=True))
        faster = median(one[first].cpu / one[name].cpu for one in rounds)
        share = median(one["plain"].cpu / one[name].cpu for one in rounds)
        row = f"{name:<14}{cpu:>9.3f}{1000 / cpu:>12,.0f}{p50:>9.2f}{p99:>9.2f}{faster:>9.2f}{share:>9.0%}"
        print(f"{row}{f'  {failed:,.0f} failed' if failed else ''}", flush=True)


def main(args: argparse.Namespace) -> None:
    """Measure this checkout, after the one that it is compared with."""
    checkout = Checkout("after" if args.against else "this", ROOT, args.engine[0] if args.engine else "")
    checkouts = [Checkout("before", args.against.resolve()), checkout] if args.against else [checkout]
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.data or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        measure(folder, checkouts, args)
