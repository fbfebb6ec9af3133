"""From block files to searchable, in an empty folder: `python -m tests.bench.bench_catch_up [--listings N] [--late S]`.

Everything runs in one process, as in `a2b up`, over block files of N registrations of real words that are there when it
starts. Twice a second a look at the store and at the index says how much is stored and how much is found. Printed are:
documents written for a registration (1.00: each once), for how many seconds anything stored was not found at most,
registrations a second of a core, and the highest private memory. With `--late S`, kernels are ready S seconds after the
start, as in a folder where they are not compiled yet. No host is visited.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

from indexer.settings import Settings
from overlay.app import search_start
from overlay.app.compilation import BLOCK_LOOPS, SEARCH_LOOPS, cache_folder, prepare, wait_until_compiled
from overlay.app.composition import AppContext, build
from overlay.app.runner import Runner
from overlay.engines import IndexPosition
from overlay.projection.search_index import SearchIndex
from overlay.search.document import Document
from tests.bench.bench_growth import mixed
from tests.bench.bench_up import ROOT, resident
from tests.bench.long_chain import LongChain

LOOK_SECONDS = 0.5


class CountingIndex(SearchIndex):
    """An index that counts the documents that are written to it."""

    written = 0

    def replace(self, registrations: Sequence[str], documents: Iterable[Document], position: IndexPosition) -> None:
        """As that of an index."""
        super().replace(registrations, self._counted(documents), position)

    def _counted(self, documents: Iterable[Document]) -> Iterator[Document]:
        for document in documents:
            CountingIndex.written += 1
            yield document


async def measure(folder: Path, number: int, height: int) -> None:
    """Follow the chain until everything is found, and print the table."""
    settings = Settings.load({"data": str(folder / "data"), "port": 0, "chains": f"bsv=files:{folder / 'blocks'}"})
    context = build(settings, follow=True, serve=True)
    began, core, peak = time.monotonic(), time.process_time(), 0.0
    looks: list[tuple[float, int, int]] = []
    task = asyncio.create_task(Runner(context).run())
    first = 0.0
    while not looks or looks[-1][2] < looks[-1][1] or context.status.progress["bsv"].height != height:
        await asyncio.sleep(LOOK_SECONDS)
        looks.append((time.monotonic() - began, *await asyncio.to_thread(counts, context)))
        first = first or (looks[-1][0] if looks[-1][2] else 0.0)
        peak = max(peak, resident("self")[1])
        if task.done():
            task.result()
    seconds, core = looks[-1][0], time.process_time() - core
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    context.close()
    print(f"{number:,} registrations, all found after {seconds:.0f} s and {core:.0f} s of a core")
    print(f"documents written for a registration   {CountingIndex.written / number:>8.3f}")
    print(f"first found after                      {first:>8.1f} s")
    print(f"stored and not found, at most          {longest_wait(looks):>8.1f} s")
    print(f"registrations a second of a core       {number / core:>8,.0f}")
    print(f"private memory at most                 {peak:>8,.0f} MB")


def counts(context: AppContext) -> tuple[int, int]:
    """The numbers of the newest stored change, and of the newest one that searches answer for."""
    assert context.engine is not None
    position = context.engine.position()
    return context.store.outbox.newest_seq(), position.seq if position is not None else 0


def longest_wait(looks: Sequence[tuple[float, int, int]]) -> float:
    """For how many seconds anything was stored and not found, by looks (time, stored, found)."""
    waits = [0.0]
    for when, stored, _ in looks:
        found_at = next((time for time, _, searchable in looks if searchable >= stored), looks[-1][0])
        waits.append(found_at - when)
    return max(waits)


def main() -> None:
    """Mine in a folder that is removed at the end, then measure in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listings", type=int, default=20_000)
    parser.add_argument("--late", type=float, default=0.0)
    parser.add_argument("--follow", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.follow:
        follow(Path(args.follow[0]), int(args.follow[1]), int(args.follow[2]), args.late)
        return
    with tempfile.TemporaryDirectory() as name:
        (folder := Path(name) / "blocks").mkdir()
        chain = LongChain(folder, mixed(), args.listings)
        chain.write_first()
        chain.write(folder)
        follow_args = (name, f"{chain.registrations}", f"{chain.height}")
        command = [sys.executable, "-m", "tests.bench.bench_catch_up", "--late", f"{args.late}", "--follow"]
        cache = os.environ.get("NUMBA_CACHE_DIR", ROOT / ".pytest_cache" / "numba")
        env = {**os.environ, "NUMBA_CACHE_DIR": str(cache_folder(Path(cache)))}
        subprocess.run([*command, *follow_args], env=env, check=True)


def follow(folder: Path, number: int, height: int, late: float) -> None:
    """Measure with kernels that are ready after some seconds."""
    logging.disable(logging.WARNING)
    for loops in (BLOCK_LOOPS, SEARCH_LOOPS):
        wait_until_compiled(loops)
        prepare(loops)

    async def compiled(_: object) -> None:
        await asyncio.sleep(late)

    with (
        patch.object(search_start, "compile_in_subprocess", compiled),
        patch("overlay.projection.search_index.SearchIndex", CountingIndex),
        patch("overlay.app.background.sends_requests", lambda _: False),
    ):
        asyncio.run(measure(folder, number, height))


if __name__ == "__main__":
    main()
