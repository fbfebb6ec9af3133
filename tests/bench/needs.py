"""How well search finds the tool that meets a stated need: `python -m tests.bench.needs FOLDER… [--engine native]`.

Each folder has `tools.jsonl` (`{"id", "payload": {"mcpServers": …}}`) and `queries.jsonl` (`{"query", "gold": [ids]}`).
The payloads are inscribed, read from their blocks into a store and carried into an index, as `a2b up` does; a question
is the whole text as `q`. Beside it is plain BM25 (Lucene's formula, Snowball's stemmer, 33 stop words) over the same
names and texts. Reported: recall at 1, 5 and 10 (the share of the right tools among the first), MRR and nDCG at 10.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import log2
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

from overlay.api.search_request import from_pairs
from overlay.api.values import MAX_TEXT_BYTES
from overlay.projection.search_index import SearchIndex
from tests.bench.plain_bm25 import DEPTH, Search, plain_bm25
from tests.bench.relevance.__main__ import mine, through_the_store

Json = dict[str, Any]


class Tool(NamedTuple):
    """A listing: its id in the benchmark, and the MCP config to inscribe."""

    id: str
    payload: Json

    def config(self) -> Json:
        """The MCP config."""
        return self.payload

    def text(self) -> str:
        """Names and descriptions, for plain BM25."""
        return " ".join(_texts(self.payload["mcpServers"]))


class Need(NamedTuple):
    """A question and the ids of the tools that meet it."""

    text: str
    gold: frozenset[str]


def _texts(servers: Json) -> Iterator[str]:
    for name, server in servers.items():
        yield f"{name} {server.get('description') or ''}"
        yield from (f"{tool.get('name')} {tool.get('description') or ''}" for tool in server.get("tools", ()))


def read(folder: Path) -> tuple[list[Tool], list[Need]]:
    """The listings and questions of a folder."""
    tools = [Tool(row["id"], row["payload"]) for row in _rows(folder / "tools.jsonl")]
    return tools, [Need(row["query"], frozenset(row["gold"])) for row in _rows(folder / "queries.jsonl")]


def _rows(path: Path) -> Iterator[Json]:
    with path.open() as lines:
        yield from map(json.loads, lines)


def indexed(tools: Sequence[Tool], folder: Path, engine: str, *, meaning: bool) -> Search:
    """A search of the listings, read from their blocks; a hidden duplicate counts where the shown one is."""
    kit, ids = mine(tools)
    url = f"{engine}:{folder}/index"
    _, heads = asyncio.run(through_the_store(kit, folder, [url]))
    index = SearchIndex(url, meaning=meaning)
    hidden: dict[str, list[str]] = {}
    for duplicate, head in heads.items():
        hidden.setdefault(head, []).append(duplicate)

    def search(text: str) -> list[str]:
        question = text.encode()[:MAX_TEXT_BYTES].decode(errors="ignore")  # a longer one is refused
        hits = index.search(from_pairs([("q", question), ("limit", str(DEPTH))], {}).query).hits
        return [ids[id_] for head in hits for id_ in (head.id, *hidden.get(head.id, ()))][:DEPTH]

    return search


class Figures(NamedTuple):
    """The figures of one question."""

    recall_1: float
    recall_5: float
    recall_10: float
    mrr: float
    ndcg: float
    milliseconds: float


def figures(search: Search, need: Need) -> Figures:
    """Run one question."""
    began = time.perf_counter()
    results = search(need.text)
    milliseconds = 1000 * (time.perf_counter() - began)
    right = [id_ in need.gold for id_ in results]
    gain = sum(1 / log2(index + 2) for index, is_right in enumerate(right) if is_right)
    ideal = sum(1 / log2(index + 2) for index in range(min(len(need.gold), DEPTH)))
    recall = [sum(right[:stop]) / len(need.gold) for stop in (1, 5, 10)]
    return Figures(*recall, 1 / (right.index(True) + 1) if any(right) else 0.0, gain / ideal, milliseconds)


def row(title: str, search: Search, needs: Iterable[Need], *, report: Callable[[Need, Figures], None]) -> str:
    """Run all questions: a row of the table."""
    rows = []
    for need in needs:
        rows.append(figures(search, need))
        report(need, rows[-1])
    *means, _ = map(mean, zip(*rows, strict=True))
    return f"{title:<28}" + "".join(f"{value:>10.3f}" for value in means) + f"{median(one[-1] for one in rows):>10.2f}"


def main() -> None:
    """Index each folder and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--engine", default="native", help="engine in a folder")
    parser.add_argument("--meaning", choices=("on", "off"), default="on", help="as A2B_MEANING")
    parser.add_argument("--misses", type=Path, help="write the questions whose first right tool is not among ten")
    args = parser.parse_args()
    misses: list[str] = []
    print(f"{'':<28}{'R@1':>10}{'R@5':>10}{'R@10':>10}{'MRR@10':>10}{'nDCG@10':>10}{'p50 ms':>10}")
    for folder in args.folders:
        tools, needs = read(folder)
        with tempfile.TemporaryDirectory() as workspace:
            search = indexed(tools, Path(workspace), args.engine, meaning=args.meaning == "on")
            print(
                row(
                    f"{folder.name}: plain BM25",
                    plain_bm25({tool.id: tool.text() for tool in tools}),
                    needs,
                    report=lambda *_: None,
                ),
                flush=True,
            )

            def missed(need: Need, result: Figures) -> None:
                if not result.mrr:
                    misses.append(json.dumps({"query": need.text, "gold": sorted(need.gold)}))

            print(row(f"{folder.name}: {args.engine}", search, needs, report=missed), flush=True)
    if args.misses:
        args.misses.write_text("".join(f"{line}\n" for line in misses))


if __name__ == "__main__":
    main()
