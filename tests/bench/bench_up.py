"""From block files to searchable, the whole program: `python -m tests.bench.bench_up [--listings N] [--tools]`.

A folder of blocks is mined with N registrations of 400 owners, or with the tools of three public lists, and `a2b up` is
started on it as a user would. Reported are the processor time of the process for a registration until all are
searchable, in all and by tenths; the highest private memory; memory when it is idle; and how long a new block takes to
be found by a search. Kernels are compiled before.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from itertools import islice, pairwise
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple
from urllib.request import urlopen

from overlay.search.document import Document
from tests.bench.listings import listings
from tests.bench.relevance.__main__ import mine as mine_tools
from tests.bench.relevance.lists import entries
from tests.chainkit import ChainKit, agent
from tests.chainkit_scripts import inscription

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("A2B_TEST_SHARED", ROOT.parent / "shared")) / "data"
OUTPUTS, PER_BLOCK = 500, 2_000
"""Registrations in a transaction, and in a block."""

OWNERS = 400
"""Owners of all listings; the largest has a twentieth of them."""


def owner_of(document: Document) -> str:
    """The owner of a listing; its domain is the host of those that have no other."""
    share = int(document.id[:8], 16) / 2**32  # uniform, as an id begins with a digest
    return f"owner-{int(OWNERS * share**2)}"


def card(document: Document) -> dict[str, Any]:
    """The agent card or MCP config that says what `document` does."""
    says = [
        {"id": s.id, "name": s.name, "description": s.description, "tags": list(s.tags), "examples": list(s.examples)}
        for s in document.skills
    ]
    prices = [
        {
            "id": o.id, "name": o.name, "currency": o.currency, "amount": float(o.amount), "address": o.address,
            "acceptedCurrencies": list(o.accepted), "interval": o.interval, "skillIds": list(o.skill_ids or ()),
        }
        for o in document.offers
    ]  # fmt: skip
    messages = {"description": document.description, "version": "1.0.0"}
    host = document.domain or f"{owner_of(document)}.example"
    if document.kind == "tool":
        tools = [item | {"name": item["id"]} for item in says]
        server = {"url": f"https://{host}/mcp", "keywords": list(document.tags), "tools": tools}
        return {"mcpServers": {document.name: messages | server}, "x-payment-config": prices}
    agent = {"name": document.name, "url": f"https://{host}/a2a", "capabilities": {}, "skills": says}
    return agent | messages | {"x-payment-config": prices}


def mine(kit: ChainKit, documents: list[Document]) -> None:
    """Inscribe all documents, some thousand a block."""
    for first in range(0, len(documents), PER_BLOCK):
        batch = documents[first : first + PER_BLOCK]
        kit.mine(*(_inscribe(kit, batch[index : index + OUTPUTS]) for index in range(0, len(batch), OUTPUTS)))


def _inscribe(kit: ChainKit, batch: list[Document]) -> Any:
    fund = kit.fund()
    types = {"agent": "a2b-agent", "tool": "a2b-mcp"}
    outputs = [
        (1, inscription(json.dumps(card(item)).encode(), {"app": "bench", "type": types[item.kind]}, owner_of(item)))
        for item in batch
    ]
    return kit.spend([fund], [*outputs, (kit.satoshis(fund) - len(outputs) - 1000, b"\x51")])


def ask(base: str, path: str) -> Any:
    """The JSON that the server answers."""
    with urlopen(f"{base}{path}", timeout=30) as answer:  # noqa: S310 - the address is our own
        return json.load(answer)


def resident(pid: int | str) -> tuple[float, float]:
    """Resident memory in MB: all of it, and the part that is not mapped from files; 0 of an ended process."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    return int(status.get("VmRSS", "0").split()[0]) / 1024, int(status.get("RssAnon", "0").split()[0]) / 1024


def processor(pid: int) -> float:
    """Seconds of processor time of a process and of those that it has ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


class Sample(NamedTuple):
    """So many changes were searchable after so many seconds of processor time."""

    seq: int
    cpu: float


class Peak(Thread):
    """The highest private memory of a process, in MB, in looks a tenth of a second apart."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid, self._ends, self.highest = pid, Event(), 0.0
        self.start()

    def run(self) -> None:
        """Look until stopped."""
        while not self._ends.wait(0.1):
            self.highest = max(self.highest, resident(self._pid)[1])

    def stop(self) -> float:
        """The highest so far."""
        self._ends.set()
        self.join()
        return self.highest


def until_found(base: str, words: str) -> float:
    """Seconds until a search finds a listing."""
    began = time.perf_counter()
    while not ask(base, f"/v1/search?q={words}&limit=1")["total"]:
        time.sleep(0.002)
    return time.perf_counter() - began


def start(folder: Path, blocks: str = "blocks") -> tuple[subprocess.Popen[str], str]:
    """`a2b up` on the blocks in a folder in `folder`, and its address."""
    environment = {
        **os.environ, "A2B_DATA": str(folder / "data"), "A2B_CHAINS": f"bsv=files:{folder / blocks}",
        "A2B_PORT": "0", "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    command = [sys.executable, "-m", "overlay", "up"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout
    for line in process.stdout:
        if hits := re.search(r"serving on (http://\S+)", line):
            return process, hits[1]
    raise SystemExit("a2b up did not start")


def main() -> None:
    """Mine, start, measure, stop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listings", type=int, default=100_000, help="registrations of 400 owners")
    parser.add_argument("--tools", action="store_true", help="instead: the tools of three public lists")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "blocks").mkdir()
        kit = filled(args.listings, tools=args.tools)
        [blocks] = kit.write(folder / "blocks")
        measure(folder, kit, blocks)


def filled(count: int, *, tools: bool) -> ChainKit:
    """A chain of so many registrations, or of the tools of the public lists."""
    if tools:
        return mine_tools([entry for rows in entries(SHARED).values() for entry in rows])[0]
    documents = list(islice(listings(data=SHARED if SHARED.is_dir() else None), count))
    kit = ChainKit(funds=count // OUTPUTS + 100)
    mine(kit, documents)
    return kit


def compiled(folder: Path) -> None:
    """Have the kernels compiled, by a run over one block."""
    (folder / "one").mkdir()
    ChainKit(funds=1).write(folder / "one")
    process, base = start(folder, "one")
    while ask(base, "/v1/status")["index"].get("compiling"):
        time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    process.wait(30)
    for file in (folder / "data").glob("a2b.db*"):
        file.unlink()
    shutil.rmtree(folder / "data" / "index")


def until_searchable(base: str, pid: int, height: int) -> list[Sample]:
    """Samples, about one a second, until the index answers for a height."""
    samples = [Sample(0, processor(pid))]
    while True:
        status = ask(base, "/v1/status")
        index, chains = status["index"], status["chains"]
        samples.append(Sample(index["seq"], processor(pid)))
        if chains and chains[0]["height"] == height and index["seq"] and not index["behind"]:
            return samples
        time.sleep(1)


def tenths(samples: list[Sample]) -> list[float]:
    """Milliseconds of processor time of a change in each tenth of them, between the samples nearest to its ends."""
    last = samples[-1].seq
    ends = [min(samples, key=lambda sample: abs(sample.seq - last * number / 10)) for number in range(11)]
    pairs = ((earlier, later) for earlier, later in pairwise(ends) if later != earlier)
    return [1e3 * (later.cpu - earlier.cpu) / (later.seq - earlier.seq) for earlier, later in pairs]


def measure(folder: Path, kit: ChainKit, blocks: Path) -> None:
    """Print the table."""
    compiled(folder)
    process, base = start(folder)
    peak, began = Peak(process.pid), time.perf_counter()
    try:
        samples = until_searchable(base, process.pid, kit.tip.height)
        taken, (count, cpu) = time.perf_counter() - began, samples[-1]
        print(f"{count:,} registrations in {kit.tip.height:,} blocks")
        print(
            f"processor time           {cpu:8.1f} s   {count / cpu:8,.0f} registrations/s  {1e3 * cpu / count:.3f} ms"
        )
        print(f"on the clock             {taken:8.1f} s   {count / taken:8,.0f} registrations/s")
        print(f"by tenths, ms each       {' '.join(f'{cost:.2f}' for cost in tenths(samples))}")
        print(f"highest private memory   {peak.stop():8.0f} MB")
        idle(process, "idle after it")
        delays = []
        for number in range(10):
            name = f"Zyxwv{chr(97 + number) * 3}"
            block = kit.mine(kit.inscribe(agent(name)))
            kit.append(blocks, block)
            delays.append(until_found(base, name))
        print(f"block file to search     {sorted(delays)[5] * 1e3:8.0f} ms  {max(delays) * 1e3:8.0f} ms at most")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    process, base = start(folder)
    try:
        while ask(base, "/v1/status")["index"]["behind"]:
            time.sleep(0.2)
        idle(process, "started again")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def idle(process: subprocess.Popen[str], when: str) -> None:
    """Print what a process takes once it has nothing more to do."""
    time.sleep(8)
    total, private = resident(process.pid)
    print(f"resident, {when:<13}  {total:8.0f} MB  {private:8.0f} MB without mapped files")


if __name__ == "__main__":
    main()
