"""The cost of the most that strangers can write, at several sizes: `python -m tests.bench.bench_hostile [CASE …]
[--sizes N,N]`.

Each case is a chain of one block, in block files: `registrations` and `near` (registrations that lack one thing) in MB,
`cards` (registrations with a card of 1 MB) in MB, `pointers` (of other hashes, to one host) in thousands, `updates`
(1,000 registrations, which N transactions of the block update each), `satoshi` (one registration, in thousands of
updates). A process of its own stores the block and projects
it into an index. Reported are processor milliseconds of both, for a megabyte of the block and for an event, and the
highest private memory of both, for each size: what is linear stays the same, and what is bounded does not grow. One
thread searches the index meanwhile: the time of which 99 % of its searches are below is reported too, and the same of
searches in the complete index when nothing else runs in the process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from random import Random
from typing import NamedTuple

from indexer.chains import create
from indexer.store import Store, Writer, connect
from indexer.sync.follower import Follower
from overlay.app.runner import SWITCH_SECONDS
from overlay.duplicates.duplicate_index import DuplicateIndex
from overlay.projection.projector import IndexProjector
from overlay.projection.search_index import SearchIndex
from overlay.search.query import Query
from parsers.bitcoin.tx import Outpoint, TxInput, TxOutput, serialise, sha256d
from tests.bench.bench_follow import mined, write
from tests.bench.bench_up import resident
from tests.chainkit import ChainKit, agent
from tests.chainkit_scripts import body_of, inscription, p2pkh, pointer_script

MB = 1_000_000
FIELDS = {"app": "bench", "type": "a2b-agent"}
UPDATED = 1_000
LARGE_CARD = 1_000_000
SAMPLE_SECONDS, CALM_SECONDS = 0.01, 5.0

_random = Random(35)


def transaction(script: bytes, satoshis: int = 1, spent: Outpoint | None = None) -> bytes:
    """A transaction of one input and one output."""
    prevout = spent or Outpoint(_random.randbytes(32), 0)
    return serialise((TxInput(prevout, b"\x07unlocks", 0xFFFFFFFF),), (TxOutput(satoshis, script),))


def card(number: int, size: int = 0) -> bytes:
    """An agent card, of about `size` bytes if that is more."""
    words = [f"word{_random.randrange(20_000)}" for _ in range(40)]
    skills = [
        {"id": f"s{n}", "name": f"Skill {n}", "description": " ".join(_random.choices(words, k=50)), "tags": ["a"]}
        for n in range(max(1, size // 560))
    ]
    return body_of(agent(f"Agent {number}", description=f"Number {number} does {words[0]}.", skills=skills))


def until(size: int, make: Callable[[int], bytes]) -> Iterator[bytes]:
    """Transactions of about `size` MB together."""
    total = number = 0
    while total < size * MB:
        raw = make(number)
        total, number = total + len(raw), number + 1
        yield raw


def registration(number: int) -> bytes:
    return transaction(inscription(card(number), FIELDS, f"owner {number % 500}"))


def near_miss(number: int) -> bytes:
    """A transaction that would be a registration with one satoshi instead of two, with a type that exists, or with a
    valid card."""
    faults = ({"satoshis": 2}, {"fields": FIELDS | {"type": "a2b-agnt"}}, {"body": card(number)[:-1]})
    fault = faults[number % len(faults)]
    script = inscription(fault.get("body", card(number)), fault.get("fields", FIELDS), "owner")
    return transaction(script, fault.get("satoshis", 1))


def large_card(number: int) -> bytes:
    return transaction(inscription(card(number, LARGE_CARD), FIELDS, f"owner {number}"))


def pointers(size: int) -> Iterator[bytes]:
    return (transaction(pointer_script("many.example", _random.randbytes(32)), 0) for _ in range(1_000 * size))


def updates(size: int, registrations: int = UPDATED) -> Iterator[bytes]:
    """Each registration with all its updates: every one spends the one before."""
    for number in range(registrations):
        raw = registration(number)
        yield raw
        for update in range(size):
            spent = Outpoint(sha256d(raw), 0)
            raw = transaction(inscription(card(update), FIELDS, "owner") if update % 8 == 0 else p2pkh("b"), 1, spent)
            yield raw


CASES: dict[str, tuple[str, Callable[[int], Iterator[bytes]]]] = {
    "registrations": ("1,4", lambda size: until(size, registration)),
    "near": ("1,4", lambda size: until(size, near_miss)),
    "cards": ("20,80", lambda size: until(size, large_card)),
    "pointers": ("2,8", pointers),
    "updates": ("4,16", updates),
    "satoshi": ("2,8", lambda size: updates(1_000 * size, 1)),
}


class Stage(NamedTuple):
    """Processor seconds of a part of the work, the highest private memory meanwhile, in MB, and the time in ms of which
    99 % of the searches are below."""

    seconds: float
    peak: float
    search: float


def measured(work: Callable[[], object], search: Callable[[], object] = lambda: None) -> Stage:
    """Do a part of the work, and search meanwhile."""
    ended, peak, took, began = threading.Event(), [0.0], [0.0], time.process_time()

    def watch() -> None:
        while not ended.wait(SAMPLE_SECONDS):
            peak.append(resident("self")[1])
            start = time.perf_counter()
            search()
            took.append(1e3 * (time.perf_counter() - start))

    watcher = threading.Thread(target=watch)
    watcher.start()
    work()
    ended.set()
    watcher.join()
    return Stage(time.process_time() - began, max(peak), sorted(took)[len(took) * 99 // 100])


def measure(blocks: str, folder: str) -> tuple[int, Stage, Stage, Stage]:
    """The number of events of a chain, what storing and projecting them takes, and searches afterwards."""
    engine = connect(f"sqlite:///{folder}/a2b.db")
    store, writer = Store(engine), Writer(engine)
    follower = Follower(create("bsv", f"files:{blocks}"), store, writer)

    async def follow() -> None:
        await follower.open()
        await follower.catch_up()

    storing = measured(lambda: asyncio.run(follow()))
    index, duplicates = SearchIndex(f"native:{folder}/index"), DuplicateIndex(folder)
    words = cycle(Query(f"agent word{number}") for number in range(0, 20_000, 7))
    projector = IndexProjector(store, index, duplicates)
    projector.initialize()

    def search() -> object:
        return index.search(next(words))

    projecting = measured(projector.run, search)
    calm = measured(lambda: time.sleep(CALM_SECONDS), search)
    for opened in (duplicates, index, writer):
        opened.close()
    engine.dispose()
    return follower.progress.events, storing, projecting, calm


def make(folder: Path, transactions: Iterator[bytes]) -> int:
    """Write the chain; the bytes of its block."""
    genesis = ChainKit(funds=1).blocks[0].raw
    block = mined(sha256d(genesis[:80]), 1, list(transactions))
    folder.mkdir()
    write(folder, [genesis, block])
    return len(block)


def main() -> None:
    """Print a row for each case and size."""
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(CASES)}; all by default")
    parser.add_argument("--sizes", help="of each case, with commas")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    sys.setswitchinterval(SWITCH_SECONDS)
    if args.measure:
        for chain in reversed(args.measure):  # the second one first, which has all kernels loaded
            with tempfile.TemporaryDirectory() as folder:
                result = measure(chain, folder)
        print(json.dumps(result))
        return
    print(
        f"{'':<24}{'events':>9}{'MB':>6}   store: ms/MB   ms/event  peak MB   project: ms/MB   ms/event  peak MB"
        "  search p99 ms, calm"
    )
    with tempfile.TemporaryDirectory() as name:
        warming, blocks = Path(name, "warming"), Path(name, "blocks")
        make(warming, until(1, registration))
        for case in args.cases or CASES:
            sizes, transactions = CASES[case]
            for size in map(int, (args.sizes or sizes).split(",")):
                megabytes = make(blocks, transactions(size)) / MB
                command = [sys.executable, "-m", "tests.bench.bench_hostile", "--measure", str(blocks), str(warming)]
                done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
                events, *stages, calm = json.loads(done.stdout)
                cells = [f"{1e3 * s / megabytes:>15.1f}{1e3 * s / events:>11.3f}{peak:>9.0f}" for s, peak, _ in stages]
                print(
                    f"{case + f' {size:,}':<24}{events:>9,}{megabytes:>6.0f}{'  '.join(cells)}"
                    f"{stages[-1][-1]:>15.1f}{calm[-1]:>6.1f}",
                    flush=True,
                )
                for path in blocks.iterdir():
                    path.unlink()
                blocks.rmdir()


if __name__ == "__main__":
    main()
