"""Searches in a growing registry: `python -m tests.bench.bench_growth [--listings N ...] [--workers N ...]`.

For each size a chain is mined whose listings have names and descriptions mixed of two public tools each, so that words
are as frequent as real ones; it is indexed and served as always. Then 16 connections ask different questions (60 %
two words of a listing, 25 % one misspelt word, 15 % a tag), pages of 20; then some kinds of questions are asked one
after the other. Costs are milliseconds of a core for a request; ratios count within one run. Where the variable
MEILISEARCH names its program, that answers the same questions over the same names, descriptions and tags.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from http.client import HTTPConnection
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote
from urllib.request import Request, urlopen

from overlay.search.document import Document
from tests.bench.bench_million import Command, Run, finished
from tests.bench.bench_search import SHARED
from tests.bench.bench_serve import WARM_UP, Server, load
from tests.bench.listings import listings
from tests.bench.relevance.lists import entries
from tests.ports import free_port

SIZES, SECONDS, QUESTIONS, SAMPLE = (20_000, 100_000, 500_000), 15.0, 4_000, 20_000
"""Listings; seconds of a load; different questions of it; listings that the questions are from."""
IN_TURN = 200
"""Questions of a kind that are asked one after the other."""
_WORD, _CUT = re.compile(r"[A-Za-z]{4,}"), re.compile(r"(?<=[.;,:])\s+|\s+(?:and|for|with|to)\s+")


def mixed(seed: int = 4) -> Iterator[Document]:
    """Endless listings with names and descriptions of two public tools each; without the shared data, made-up ones."""
    chance = random.Random(seed)
    tools = [entry for rows in entries(SHARED).values() for entry in rows] if SHARED.is_dir() else []
    for document in listings(seed):
        if not tools:
            yield document
            continue
        first, second = chance.choice(tools), chance.choice(tools)
        yield replace(
            document,
            name=_halves(chance, first.name, second.name, re.compile(r"[\s/]+"))[:100] or document.name,
            description=_halves(chance, first.description, second.description, _CUT)[:3_000],
            tags=tuple(dict.fromkeys(first.keywords[:3] + second.keywords[:3])),
        )


def _halves(chance: random.Random, first: str, second: str, cut: re.Pattern[str]) -> str:
    """Half of the parts of two texts."""
    parts = [chance.sample(pieces, (len(pieces) + 1) // 2) for pieces in (cut.split(first), cut.split(second))]
    return " ".join((*parts[0], *parts[1])).strip()


def misspelt(chance: random.Random, word: str) -> str:
    """A word with two neighbours swapped."""
    position = chance.randrange(len(word) - 1)
    return word[:position] + word[position + 1] + word[position] + word[position + 2 :]


def questions(documents: Sequence[Document], seed: int = 7) -> Iterator[str]:
    """The texts of the mix, without end."""
    chance = random.Random(seed)
    while True:
        document, dice = chance.choice(documents), chance.random()
        words = sorted(set(_WORD.findall(f"{document.name} {document.description}")))
        if dice < 0.6 and len(words) > 1:
            yield " ".join(chance.sample(words, 2))
        elif dice < 0.85 and words:
            yield misspelt(chance, chance.choice(words))
        elif document.tags:
            yield chance.choice(document.tags)


class Row(NamedTuple):
    """A line of the table: requests a second, milliseconds of a core each, p50 and p99, and kB of a page."""

    rate: float
    cpu: float
    p50: float
    p99: float
    page: float


def row(name: str, server: Server, paths: Sequence[str], folder: Path) -> Row:
    """Load a server, and print the line."""
    listed = folder / "paths"
    listed.write_text("\n".join(paths))
    load(server.port, listed, "", WARM_UP)
    before = server.cpu()
    loaded = load(server.port, listed, "", SECONDS)
    cpu = 1000 * (server.cpu() - before) / max(1.0, loaded.rate * SECONDS)
    page = sum(len(answer(server.port, path)) for path in paths[:IN_TURN]) / IN_TURN / 1000
    result = Row(loaded.rate, cpu, loaded.p50, loaded.p99, page)
    print(f"  {name:<34}" + "".join(f"{value:>10.2f}" for value in result), flush=True)
    return result


def answer(port: int, path: str) -> bytes:
    """The body of a page."""
    with urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as page:
        return bytes(page.read())


def print_kinds(server: Server, sample: Sequence[Document], path: str) -> None:
    """Print the milliseconds of a core of questions that are asked one after the other, by kind."""
    chance = random.Random(9)
    words = [word for document in sample for word in _WORD.findall(document.description)]
    names = [document.name for document in sample]
    held = Counter(
        word for document in sample for word in set(_WORD.findall(f"{document.name} {document.description}"))
    )
    rare = [word for word, number in held.items() if number == 1]
    kinds = {
        "Server MCP": [
            "".join(chance.choice((letter.lower(), letter.upper())) for letter in "Server MCP") for _ in range(IN_TURN)
        ],
        "words of one listing in 20,000": chance.sample(rare, IN_TURN),
        "two words": [" ".join(chance.sample(words, 2)) for _ in range(IN_TURN)],
        "a misspelt word": [misspelt(chance, chance.choice(words)) for _ in range(IN_TURN)],
        "whole names": chance.sample(names, IN_TURN),
    }
    connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
    for name, texts in kinds.items():
        before = server.cpu()
        for text in texts:
            connection.request("GET", path + quote(text))
            connection.getresponse().read()
        print(f"  {name:<34}{'':>10}{1000 * (server.cpu() - before) / len(texts):>10.2f}", flush=True)


def measure(folder: Path, size: int, workers: Sequence[int]) -> None:
    """Print the table of one size."""
    (folder / "blocks").mkdir(parents=True)
    run, sample = Run(folder, size, mixed()), list(islice(mixed(), min(size, SAMPLE)))
    run.print_chain()
    for path in sorted((folder / "mined").iterdir()):
        path.rename(folder / "blocks" / path.name)
    with Command(folder, "index") as indexer:
        indexer.wait_until(lambda: run.stored() == run.chain.height)
    texts = list(islice(questions(sample), QUESTIONS))
    print(f"  {'':<34}" + "".join(f"{name:>10}" for name in ("req/s", "core ms", "p50 ms", "p99 ms", "kB")))
    for number in workers:
        with ExitStack() as stack:
            server = stack.enter_context(served(folder, number))
            row(
                f"{number} process{'es' * (number > 1)}",
                server,
                [f"/v1/search?q={quote(text)}" for text in texts],
                folder,
            )
            if number == 1:
                print_kinds(server, sample, "/v1/search?q=")
    built = finished(folder, "rebuild")
    rate = run.chain.registrations / built.cpu
    print(f"a2b rebuild: {rate:,.0f} a second of a core, {built.peak:,.0f} MB private at most", flush=True)
    if program := os.environ.get("MEILISEARCH"):
        with meilisearch(program, folder, islice(mixed(), size)) as server:
            path = "/indexes/listings/search?limit=20&q="
            row("Meilisearch", server, [path + quote(text) for text in texts], folder)
            print_kinds(server, sample, path)


def served(folder: Path, workers: int) -> Server:
    """`a2b serve` over the data of a run, ready and idle."""
    port = free_port()
    command = [sys.executable, "-m", "overlay", "serve", "--port", str(port), "--workers", str(workers)]
    server = Server(command, port, "/readyz", folder=folder, A2B_DATA=str(folder / "data"), A2B_LIMITS="read=999999/1")
    server.settle()
    return server


def meilisearch(program: str, folder: Path, documents: Iterator[Document]) -> Server:
    """A Meilisearch that has indexed listings, idle."""
    port = free_port()
    command = [program, "--http-addr", f"127.0.0.1:{port}", "--db-path", str(folder / "meili"), "--no-analytics"]
    server, began = Server(command, port, "/health", folder=folder), time.monotonic()
    number = 0
    while batch := list(islice(documents, 10_000)):
        rows: list[dict[str, Any]] = [
            {"id": number + index, "name": item.name, "description": item.description, "tags": item.tags}
            for index, item in enumerate(batch)
        ]
        number += len(batch)
        headers = {"Content-Type": "application/json"}
        body = json.dumps(rows).encode()
        urlopen(Request(f"http://127.0.0.1:{port}/indexes/listings/documents", body, headers), timeout=600).close()
    while json.loads(answer(port, "/tasks?statuses=enqueued,processing"))["total"]:
        time.sleep(0.2)
    print(f"Meilisearch: {number / (time.monotonic() - began):,.0f} a second, {server.cpu():.0f} s of a core")
    server.settle()
    return server


def main() -> None:
    """Measure in folders that are removed at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listings", type=int, nargs="+", default=SIZES)
    parser.add_argument("--workers", type=int, nargs="+", default=(1, 2))
    args = parser.parse_args()
    for size in args.listings:
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder), size, args.workers)


if __name__ == "__main__":
    main()
