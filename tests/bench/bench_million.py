"""The whole program on a chain of a million registrations: `python -m tests.bench.bench_million [--listings N]`.

Block files with N registrations, and updates, transfers and burns of some, are written (`long_chain`); `a2b index`
stores them and `a2b serve` makes them searchable, both from nothing and at the same time, as processes of their own.
Then: what a client waits for, one request after the other over one connection; a reorganisation of ten blocks that held
2 % of the registrations; a restart; and the commands that read or write everything. What the program reports is
compared with what was mined, so that a fast wrong answer fails. Times are of the wall clock except those of a core
(CPU), which count where other work runs beside; private memory is without pages of files, mapped is those.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import re
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count, islice, repeat
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from indexer.sqlite_heights import heights
from overlay.search.document import Document
from tests.bench.bench_engines import size
from tests.bench.bench_http import _cpu, questions
from tests.bench.bench_search import SHARED, timed
from tests.bench.bench_up import resident
from tests.bench.listings import listings
from tests.bench.long_chain import BLOCKS, NEW, REPLACED, LongChain
from tests.running import Running

TENTHS = 10
POLL_SECONDS = 0.1
REQUESTS, SAMPLE = 400, 20_000
"""Requests of each kind, and registrations that the words of the questions are from."""


class Command(Running):
    """A command of the program on the data of this run, in a folder of its own for what it prints."""

    def __init__(self, folder: Path, *arguments: str, data: str = "data") -> None:
        run_folder = folder / "-".join(("run", *re.findall(r"\w+", arguments[0])))
        run_folder.mkdir(exist_ok=True)
        super().__init__(
            *arguments, cwd=run_folder, A2B_DATA=str(folder / data), A2B_CHAINS=f"bsv=files:{folder / 'blocks'}",
            A2B_PORT="0", A2B_LIMITS="read=999999/1", A2B_LOG="text",
        )  # fmt: skip

    def cpu(self) -> float:
        """Seconds of processor time so far."""
        return _cpu(self.process.pid)

    def memory(self) -> tuple[float, float]:
        """Private and mapped memory in MB."""
        total, private = resident(self.process.pid)
        return private, total - private

    def wait_until(self, is_done: Callable[[], object], seconds: float = POLL_SECONDS) -> None:
        """Wait, however long it takes, while the command runs."""
        while not is_done():
            if self.process.poll() is not None:
                raise SystemExit(f"it ended with {self.process.returncode}: {self.out}{self.err}")
            time.sleep(seconds)


class Finished(NamedTuple):
    """The cost of a command: seconds, processor seconds, MB of private memory at most, and its output."""

    seconds: float
    cpu: float
    peak: float
    out: str


def finished(folder: Path, *arguments: str, data: str = "data") -> Finished:
    """Run a command to its end. Raises SystemExit when it fails."""
    began, peak = time.perf_counter(), 0.0
    with Command(folder, *arguments, data=data) as command:
        pid = command.process.pid
        while not (ended := os.wait4(pid, os.WNOHANG))[0]:
            peak = max(peak, command.memory()[0])
            time.sleep(0.02)
        command.process.returncode = os.waitstatus_to_exitcode(ended[1])
    if command.process.returncode:
        raise SystemExit(f"a2b {' '.join(arguments)}: {command.out}{command.err}")
    return Finished(time.perf_counter() - began, ended[2].ru_utime + ended[2].ru_stime, peak, command.out)


class Step(NamedTuple):
    """When a process had done so many registrations, its processor seconds, and its private MB."""

    when: float
    done: int
    cpu: float
    private: float


class Progress:
    """How far a process is, by tenths of its goal; what it had used by the first look after each."""

    def __init__(self, command: Command, goal: int) -> None:
        self._command, self._goal = command, goal
        self.steps: dict[int, Step] = {}
        self.peak = 0.0
        self.note(0)

    def note(self, done: int) -> None:
        """So many registrations are done now."""
        step = Step(time.perf_counter(), done, self._command.cpu(), self._command.memory()[0])
        self.peak = max(self.peak, step.private)
        self.steps.setdefault(min(TENTHS, TENTHS * max(0, done) // self._goal), step)

    def cells(self, tenth: int) -> str:
        """Registrations a second and processor milliseconds of one since the step before this tenth, and private MB;
        blank where no look found it there."""
        if tenth not in self.steps:
            return f"{'':>36}"
        step, before = self.steps[tenth], self.steps[max(number for number in self.steps if number < tenth)]
        new = step.done - before.done
        cpu = 1000 * (step.cpu - before.cpu) / new
        return f"{new / (step.when - before.when):>12,.0f}{cpu:>12.3f}{step.private:>12.0f}"


class Run:
    """One run in a folder: the chain, and the two processes."""

    def __init__(self, folder: Path, registrations: int, documents: Iterator[Document] | None = None) -> None:
        """A run with these listings, or those of `listings`."""
        self.folder = folder
        self.database = folder / "data" / "a2b.db"
        (folder / "blocks").mkdir(exist_ok=True)
        documents = documents or listings(data=SHARED if SHARED.is_dir() else None)
        self.words: list[Document] = list(islice(documents, min(SAMPLE, registrations)))
        self.chain = LongChain(folder / "blocks", documents, registrations)

    def print_chain(self) -> None:
        """Mine everything, outside the folder that is followed."""
        began = time.perf_counter()
        self.chain.write_first()
        (self.folder / "mined").mkdir()
        written = self.chain.write(self.folder / "mined")
        print(
            f"{self.chain.registrations:,} registrations in {BLOCKS} blocks of {written / 1e6:,.0f} MB "
            f"({time.perf_counter() - began:.0f} s to mine); {self.chain.burned:,} are burned"
        )

    def stored(self) -> int:
        """The stored height, -1 before there is any, or a database with tables."""
        try:
            return heights(self.database).get("bsv", -1)
        except OSError:
            return -1

    def is_hashed(self, server: Command) -> bool:
        """Whether the state hash of the newest block is stored, which comes last."""
        return bool(server.get("/v1/status")["stateHash"].get("bsv", {}).get("height") == self.chain.height)

    def print_catch_up(self, indexer: Command, server: Command) -> None:
        """Both from nothing, by tenths."""
        goal = self.chain.registrations
        stored, searchable = Progress(indexer, goal), Progress(server, self.chain.live)
        for path in sorted((self.folder / "mined").iterdir()):
            path.rename(self.folder / "blocks" / path.name)

        def done() -> bool:
            stored.note((self.stored() - 1) * self.chain.in_block)
            searchable.note(server.get("/v1/search?limit=1")["total"])
            return self.stored() == self.chain.height and is_ready(server)

        indexer.wait_until(done)
        stored.note(goal)
        searchable.note(self.chain.live)
        print(f"{'catch-up':<10}{'indexer':>36}{'server':>36}")
        print(f"{'':<10}" + 2 * f"{'a second':>12}{'CPU ms each':>12}{'private MB':>12}")
        for number in range(1, TENTHS + 1):
            print(f"{number:>7}/10{stored.cells(number)}{searchable.cells(number)}")
        for name, progress in (("stored", stored), ("searchable", searchable)):
            first, last = progress.steps[0], progress.steps[TENTHS]
            cpu = 1000 * (last.cpu - first.cpu) / goal
            line(f"{name}, in all", f"{goal / (last.when - first.when):,.0f} a second, {cpu:.3f} ms of a core each")
        line("at most, private", f"{stored.peak:,.0f} MB indexer, {searchable.peak:,.0f} MB server")

    def print_sizes(self) -> None:
        """Megabytes on disk."""
        listed = self.chain.registrations
        for name, path in (("blocks", "blocks"), ("index and duplicate index", "data/index")):
            taken = size(f":{self.folder / path}")
            line(f"on disk: {name}", f"{taken:,.0f} MB  {1e6 * taken / listed:,.0f} bytes a registration")
        taken = sum(path.stat().st_size for path in self.database.parent.glob("a2b.db*")) / 1e6
        line("on disk: database", f"{taken:,.0f} MB  {1e6 * taken / listed:,.0f} bytes a registration")

    def print_requests(self, server: Command, number: int) -> None:
        """Print the milliseconds for which a client waits."""
        print(f"{'milliseconds of a request':<42}{'p50':>10}{'p90':>10}{'p99':>10}{'most':>10}{'CPU':>10}")
        connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=600)

        def get(path: str) -> None:
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
            assert answer.status == 200, (path, body)

        for name, requests in self._requests().items():
            paths = list(islice(requests, number + 1))
            get(paths.pop())  # the first of a kind may load something
            before = server.cpu()
            took = timed((lambda path=path: get(path) for path in paths), time.perf_counter)
            cuts = [took[round((len(took) - 1) * part)] for part in (0.5, 0.9, 0.99, 1)]
            cuts.append(1000 * (server.cpu() - before) / len(took))
            print(f"{name:<42}" + "".join(f"{milliseconds:>10.2f}" for milliseconds in cuts), flush=True)
        connection.close()

    def _requests(self) -> dict[str, Iterator[str]]:
        chance = random.Random(7)
        ids = [quote(str(outpoint), safe="") for outpoint in self.chain.sample]

        def of_listings(more: str = "") -> Iterator[str]:
            return (f"/v1/listings/{chance.choice(ids)}{more}" for _ in count())

        words = [word.lower() for item in self.words for word in item.name.split() if word.isascii() and len(word) > 3]
        begun = iter(lambda: chance.choice(words), "")
        newest = self.chain.registrations
        return {
            "search": (f"/v1/search?{text}" for text in questions(self.words, 7)),
            "search with all facets": (f"/v1/search?{text}&facets=all" for text in questions(self.words, 8)),
            "completions": (f"/v1/suggest?q={quote(word[: chance.randrange(1, len(word))])}" for word in begun),
            "listing": of_listings(),
            "history": of_listings("/history"),
            "proof": of_listings("/proof"),
            "changes, 100 from anywhere": (f"/v1/changes?limit=100&since={chance.randrange(newest)}" for _ in count()),
            "status": repeat("/v1/status", 20),
        }

    def print_reorganisation(self, indexer: Command, server: Command) -> None:
        """Ten blocks replaced by eleven."""
        self.chain.write_fork()
        began = time.perf_counter(), indexer.cpu(), server.cpu()
        indexer.wait_until(lambda: self.stored() == self.chain.height)
        name = f"reorganisation of {REPLACED * self.chain.in_block:,}"
        line(f"{name}: stored", since(began[0], indexer, began[1]))
        server.wait_until(lambda: has_listed(server, NEW))
        line(f"{name}: searchable", since(began[0], server, began[2]))
        server.wait_until(lambda: is_ready(server))
        assert server.get("/v1/status")["listings"]["live"] == self.chain.live + 1, "live after the fork"

    def print_restart(self, indexer: Command, server: Command) -> None:
        """Both are killed, and a block comes while they do not run."""
        for command in (indexer, server):
            command.stop(signal.SIGKILL)
        name = "Zyxwvagain"
        self.chain.write_block(name)
        began = time.perf_counter()
        with Command(self.folder, "index") as indexer, Command(self.folder, "serve") as server:
            server.wait_until(lambda: "total" in server.get("/v1/search?limit=1"), 0.02)
            line("restart after kill -9: first answer", since(began, server))
            indexer.wait_until(lambda: self.stored() == self.chain.height)
            line("restart: a block that came meanwhile: stored", since(began, indexer))
            server.wait_until(lambda: has_listed(server, name))
            line("restart: a block that came meanwhile: searchable", since(began, server))
            server.wait_until(lambda: self.is_hashed(server))
            print_memory("after the restart", indexer, server)

    def print_commands(self) -> None:
        """Print the cost of commands that read or write everything, each alone."""
        stored = self._status("status", "--json")
        assert self._status("status --recompute", "--json", "--recompute") == stored, "the stored state hash"
        file = str(self.folder / "snapshot.gz")
        command_line("export", finished(self.folder, "export", file))
        line("on disk: snapshot", f"{Path(file).stat().st_size / 1e6:,.0f} MB")
        imported = finished(self.folder, "import", file, data="imported")
        command_line("import", imported, self.chain.registrations)
        assert stored in imported.out, "the state hash of the import"
        command_line("rebuild", finished(self.folder, "rebuild"), self.chain.registrations)

    def _status(self, title: str, *options: str) -> str:
        """The state hash that the command reports."""
        result = finished(self.folder, "status", *options)
        command_line(title, result)
        answer = json.loads(result.out)
        assert answer["listings"]["live"] == self.chain.live + 2, "live at the end"
        digest: str = answer["stateHash"]["bsv"]["hash"]
        return digest


def is_ready(server: Command) -> bool:
    """Whether the server is ready, and all that is stored is searchable."""
    return server.get("/readyz").get("status") == "ready" and not server.get("/v1/status")["index"]["behind"]


def has_listed(server: Command, name: str) -> bool:
    """Whether a search finds a name."""
    return bool(server.get(f"/v1/search?q={name}&limit=1").get("total"))


def line(name: str, text: str) -> None:
    """A line of the table."""
    print(f"{name:<50}{text}", flush=True)


def since(began: float, command: Command, cpu: float = 0.0) -> str:
    """Seconds since then, of the clock and of the processor for a command."""
    return f"{time.perf_counter() - began:.2f} s, {command.cpu() - cpu:.2f} s of a core"


def print_memory(when: str, indexer: Command, server: Command) -> None:
    """Print the memory of both processes."""
    for name, command in (("indexer", indexer), ("server", server)):
        private, mapped = command.memory()
        line(f"{name} {when}", f"{private:,.0f} MB private, {mapped:,.0f} MB mapped")


def command_line(name: str, result: Finished, registrations: int = 0) -> None:
    """The line of a command that ended; with registrations, how many of them a second of processor time."""
    rate = f", {registrations / result.cpu:,.0f} a second of a core" if registrations else ""
    line(f"a2b {name}", f"{result.seconds:.2f} s, {result.cpu:.2f} s of a core{rate}; {result.peak:,.0f} MB private")


def measure(folder: Path, registrations: int, requests: int = REQUESTS) -> None:
    """Print the table."""
    run = Run(folder, registrations)
    run.print_chain()
    with Command(folder, "serve") as server, Command(folder, "index") as indexer:
        server.wait_until(lambda: is_ready(server))
        run.print_catch_up(indexer, server)
        server.wait_until(lambda: run.is_hashed(server))
        print_memory("idle after it", indexer, server)
        run.print_sizes()
        run.print_requests(server, requests)
        print_memory("after the requests", indexer, server)
        run.print_reorganisation(indexer, server)
        run.print_restart(indexer, server)
    run.print_commands()


def main() -> None:
    """Measure in a folder that is removed at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listings", type=int, default=1_000_000, help=f"rounded down to a multiple of {BLOCKS}")
    parser.add_argument("--requests", type=int, default=REQUESTS, help="of each kind")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), args.listings, args.requests)


if __name__ == "__main__":
    main()
