"""The cost of a search through each system: `python -m tests.bench.bench_systems [--rounds N]`.

One process serves a registry of 2,000 offers without limits. The same question, with ten results, goes through every
system in turn, in blocks, so that all meet the machine in the same state. The cost is the CPU time of the server, which
other processes on the machine hardly change; the median time of an answer stands beside it. The ratio is to the API,
which is asked for tools where the system has only tools. Systems may cost 1.5 times as much; MCP and the outputs of a
BSV overlay, which come with their transactions and proofs, are printed only. The exit code is 1 where another system
costs more.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import httpx

from tests.bench.bench_http import SHARED
from tests.bench.bench_serve import Server, fill
from tests.bench.listings import listings, offers_of
from tests.ports import free_port

WORDS, LIMIT, MOST = "file", 10, 1.5
OFFERS, BLOCK = 2_000, 50


class Question(NamedTuple):
    """A search as one system takes it, what its cost is compared with, and whether it is bounded."""

    path: str
    body: Any = None
    baseline: str = "API"
    bounded: bool = True


class Cost(NamedTuple):
    """CPU milliseconds of the server for an answer, and the median milliseconds until it came."""

    cpu: float
    wall: float


def _a2a(name: str, message: dict[str, Any]) -> Any:
    return {"jsonrpc": "2.0", "id": 1, "method": name, "params": {"message": {"messageId": "1", **message}}}


_SEARCH = {"q": WORDS, "limit": LIMIT}
_CALL = {"name": "search", "arguments": _SEARCH}
QUESTIONS = {
    "API": Question(f"/v1/search?q={WORDS}&limit={LIMIT}"),
    "API, tools": Question(f"/v1/search?q={WORDS}&limit={LIMIT}&type=tool"),
    "A2A 1.0": Question("/a2a", _a2a("SendMessage", {"role": "ROLE_USER", "parts": [{"data": _SEARCH}]})),
    "A2A 0.3": Question("/a2a", _a2a("message/send", {"role": "user", "parts": [{"kind": "data", "data": _SEARCH}]})),
    "ARD": Question("/search", {"query": {"text": WORDS}, "pageSize": LIMIT}),
    "MCP Registry": Question(f"/v0.1/servers?search={WORDS}&limit={LIMIT}&version=latest", None, "API, tools"),
    "x402 Bazaar": Question(f"/discovery/search?query={WORDS}&limit={LIMIT}"),
    "JSON Feed": Question(f"/v1/feeds/search.json?q={WORDS}&limit={LIMIT}"),
    "MCP": Question("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": _CALL}, bounded=False),
    "BSV overlay": Question("/lookup", {"service": "ls_agent_registry", "query": _SEARCH}, bounded=False),
}
_HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}


def ask(client: httpx.Client, question: Question) -> tuple[float, httpx.Response]:
    """Milliseconds of one search, and its answer."""
    method = "GET" if question.body is None else "POST"
    began = time.perf_counter()
    response = client.request(method, question.path, json=question.body)
    took = time.perf_counter() - began
    response.raise_for_status()
    return 1_000 * took, response


def measured(server: Server, rounds: int) -> dict[str, Cost]:
    """The cost of a search through each system."""
    times: dict[str, list[float]] = {name: [] for name in QUESTIONS}
    cpu = dict.fromkeys(QUESTIONS, 0.0)
    with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", headers=_HEADERS, timeout=60) as client:
        for name, many in (("API", "items"), ("API, tools", "items"), ("MCP Registry", "servers")):
            count = len(ask(client, QUESTIONS[name])[1].json()[many])
            if count != LIMIT:
                raise SystemExit(f"{name} finds {count} of {LIMIT} results: choose another word")
        for number in range(1 + rounds // BLOCK):
            for name, question in QUESTIONS.items():
                before = server.cpu()
                took = [ask(client, question)[0] for _ in range(BLOCK)]
                if number > 0:  # the first block warms up
                    times[name] += took
                    cpu[name] += server.cpu() - before
    return {name: Cost(1_000 * cpu[name] / len(times[name]), median(times[name])) for name in QUESTIONS}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=400)
    rounds, port = parser.parse_args().rounds, free_port()
    documents = offers_of(listings(data=SHARED if SHARED.is_dir() else None), OFFERS)
    command = [sys.executable, "-m", "overlay", "serve", "--port", str(port), "--workers", "1"]
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(fill(Path(folder), documents))
        settings = {"A2B_DATA": folder, "A2B_LIMITS": "off", "A2B_SEARCH": f"native:{folder}/index"}
        with Server(command, port, "/readyz", **settings) as server:
            server.settle()
            costs = measured(server, rounds)
    slow = 0
    for name, cost in costs.items():
        question = QUESTIONS[name]
        ratio = cost.cpu / costs[question.baseline].cpu
        is_slow = question.bounded and ratio > MOST
        slow += is_slow
        note = f"more than {MOST}" if is_slow else "" if question.bounded else "not bounded"
        print(f"{name:17}{cost.cpu:8.2f} ms CPU{cost.wall:8.2f} ms{ratio:7.2f} x  {note}".rstrip())
    return int(slow > 0)


if __name__ == "__main__":
    sys.exit(main())
