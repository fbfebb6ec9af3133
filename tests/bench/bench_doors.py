"""What a search costs through each door: `python -m tests.bench.bench_doors [--rounds N]`.

One process serves the packaged sample chain without limits. The same question, with ten results, goes through every
door in turn, round by round, so that all meet the machine in the same state; the ratio is to the house API. Doors may
take 1.5 times as long; MCP and the outputs of a BSV overlay, which come with their transactions and proofs, are printed
only. The exit code is 1 where another door takes longer.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import httpx

from tests.running import Running

WORDS, LIMIT, MOST = "weather", 10, 1.5
WARM_UP = 50


class Question(NamedTuple):
    """A search as one door takes it, and whether its cost is bounded."""

    path: str
    body: Any = None
    bounded: bool = True


def _a2a(name: str, message: dict[str, Any]) -> Any:
    return {"jsonrpc": "2.0", "id": 1, "method": name, "params": {"message": {"messageId": "1", **message}}}


_SEARCH = {"q": WORDS, "limit": LIMIT}
_CALL = {"name": "search", "arguments": _SEARCH}
QUESTIONS = {
    "house API": Question(f"/v1/search?q={WORDS}&limit={LIMIT}"),
    "A2A 1.0": Question("/a2a", _a2a("SendMessage", {"role": "ROLE_USER", "parts": [{"data": _SEARCH}]})),
    "A2A 0.3": Question("/a2a", _a2a("message/send", {"role": "user", "parts": [{"kind": "data", "data": _SEARCH}]})),
    "ARD": Question("/search", {"query": {"text": WORDS}, "pageSize": LIMIT}),
    "MCP Registry": Question(f"/v0.1/servers?search={WORDS}&limit={LIMIT}"),
    "x402 Bazaar": Question(f"/discovery/search?query={WORDS}&limit={LIMIT}"),
    "JSON Feed": Question(f"/v1/feeds/search.json?q={WORDS}&limit={LIMIT}"),
    "MCP": Question("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": _CALL}, bounded=False),
    "BSV overlay": Question("/lookup", {"service": "ls_agent_registry", "query": _SEARCH}, bounded=False),
}
HOUSE = "house API"
_HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}


def ask(client: httpx.Client, question: Question) -> float:
    """Milliseconds of one search."""
    method = "GET" if question.body is None else "POST"
    began = time.perf_counter()
    response = client.request(method, question.path, json=question.body)
    took = time.perf_counter() - began
    response.raise_for_status()
    return 1_000 * took


def measured(url: str, rounds: int) -> dict[str, float]:
    """The median milliseconds of a search through each door."""
    times: dict[str, list[float]] = {name: [] for name in QUESTIONS}
    with httpx.Client(base_url=url, headers=_HEADERS, timeout=60) as client:
        for number in range(WARM_UP + rounds):
            for name, question in QUESTIONS.items():
                took = ask(client, question)
                if number >= WARM_UP:
                    times[name].append(took)
    return {name: median(taken) for name, taken in times.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=400)
    rounds = parser.parse_args().rounds
    with (
        tempfile.TemporaryDirectory() as folder,
        Running("up", "--port", "0", "--limits", "off", cwd=Path(folder)) as up,
    ):
        up.until_ready()
        medians = measured(up.url, rounds)
    slow = 0
    for name, milliseconds in medians.items():
        ratio = milliseconds / medians[HOUSE]
        is_slow = QUESTIONS[name].bounded and ratio > MOST
        slow += is_slow
        note = f"more than {MOST}" if is_slow else "" if QUESTIONS[name].bounded else "not bounded"
        print(f"{name:14}{milliseconds:8.2f} ms{ratio:7.2f} x  {note}".rstrip())
    return int(slow > 0)


if __name__ == "__main__":
    sys.exit(main())
