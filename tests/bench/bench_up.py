"""The whole program on a chain of 100,000 offers: `python -m tests.bench.bench_up [--offers N]`.

A folder of blocks is mined with that many offers, `a2b up` is started on it as a user would, and these are measured:
how long it takes to index, what memory it holds when it is idle, how long a new block takes to be found by a search,
and how many searches a second it answers (see bench_http for those on one core).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from overlay.search.document import Document
from tests.bench.listings import listings, offers_of
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


def resident(pid: int) -> tuple[float, float]:
    """Resident memory in MB: all of it, and the part that is not mapped from files; 0 of a process that has ended."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    total, private = (int(status.get(name, "0").split()[0]) / 1024 for name in ("VmRSS", "RssAnon"))
    return total, private


def until_found(base: str, words: str) -> float:
    """Seconds until a search finds a listing."""
    began = time.perf_counter()
    while not ask(base, f"/v1/search?q={words}&limit=1")["total"]:
        time.sleep(0.002)
    return time.perf_counter() - began


def start(folder: Path) -> tuple[subprocess.Popen[str], str]:
    """`a2b up` on the blocks in `folder`, and its address."""
    environment = {
        **os.environ, "A2B_DATA": str(folder / "data"), "A2B_CHAINS": f"bsv=files:{folder / 'blocks'}",
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
    parser.add_argument("--offers", type=int, default=100_000)
    offers = parser.parse_args().offers
    documents = offers_of(listings(data=SHARED if SHARED.is_dir() else None), offers)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "blocks").mkdir()
        kit = ChainKit(funds=len(documents) // OUTPUTS + 100)
        mine(kit, documents)
        [blocks] = kit.write(folder / "blocks")
        measure(folder, kit, len(documents), offers, blocks)


def measure(folder: Path, kit: ChainKit, count: int, offers: int, blocks: Path) -> None:
    """Print the table."""
    process, base = start(folder)
    began = time.perf_counter()
    try:
        while ask(base, "/v1/status")["index"]["seq"] < count or ask(base, "/v1/status")["index"]["behind"]:
            time.sleep(0.2)
        taken = time.perf_counter() - began
        print(f"{count:,} listings with {offers:,} offers in {kit.tip.height:,} blocks")
        print(f"indexed and searchable   {taken:8.1f} s   {count / taken:8,.0f} registrations/s")
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
        process.wait(10)
    process, base = start(folder)
    try:
        while ask(base, "/v1/status")["index"]["behind"]:
            time.sleep(0.2)
        idle(process, "started again")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(10)


def idle(process: subprocess.Popen[str], when: str) -> None:
    """Print what a process takes once it has nothing more to do."""
    time.sleep(8)
    total, own = resident(process.pid)
    print(f"resident, {when:<13}  {total:8.0f} MB  {own:8.0f} MB without mapped files")


if __name__ == "__main__":
    main()
