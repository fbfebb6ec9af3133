"""How well search finds the tool that meets a stated need: `python -m tests.bench.needs FOLDER… [--engine native]`.

Each folder has `tools.jsonl` (`{"id", "payload": {"mcpServers": …}}`) and `queries.jsonl` (`{"query", "gold": [ids]}`).
The payloads are inscribed, read from their blocks into a store and carried into an index, as `a2b up` does; a question
is the whole text as `q`. Beside it is plain BM25 (Lucene's formula, Snowball's stemmer, 33 stop words) over the same
names and texts. Reported: recall at 1, 5 and 10 (the share of the right tools among the first), MRR and nDCG at 10.

With `--haystack` the same questions are asked over all sets and the tools of three public lists together. Files beside
the sets are measured, too, and named with the half that they are: `foreign-*.jsonl`, needs of a set in other languages
(`{"gold": id, LANGUAGE: text}`), and with `--plain` over the tools of the lists `plain-*.jsonl`, questions with the
judgement of results by name (`{"q", "judged": {NAME: "g", "a" or "w"}}`: good, acceptable, wrong). Judgements that are
missing there are in `plain-labels.jsonl` (`{"q", "name", "label", "reason"}`); first results without any are printed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import log2
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

from overlay.api.search_request import from_pairs
from overlay.api.values import MAX_TEXT_BYTES
from overlay.projection.search_index import SearchIndex
from tests.bench.plain_bm25 import DEPTH, Search, plain_bm25
from tests.bench.relevance.__main__ import SHARED, mine, through_the_store
from tests.bench.relevance.lists import Entry, entries

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


LABELS = Path(__file__).with_name("plain-labels.jsonl")
"""Judgements of first results that the files of plain questions do not have."""


def sets_in(folder: Path) -> list[Path]:
    """The sets in a folder: itself, or its folders."""
    if (folder / "queries.jsonl").exists():
        return [folder]
    return sorted(path.parent for path in folder.glob("*/queries.jsonl"))


def listed() -> list[Entry]:
    """The tools of the public lists."""
    return [entry for list_ in entries(SHARED).values() for entry in list_]


def languages(search: Search, path: Path) -> str:
    """For each language the share of its needs of which the right tool is among the first ten."""
    rows = list(_rows(path))
    found_by = {
        language: mean(row["gold"] in search(row[language]) for row in rows)
        for language in rows[0]
        if language != "gold"
    }
    return f"{path.stem}: " + ", ".join(f"{language} {share:.2f}" for language, share in found_by.items())


def judged(search: Search, names: Mapping[str, str], path: Path) -> Iterator[str]:
    """How many first results of plain questions are good, acceptable and wrong, and those that nobody has judged."""
    labels = {(row["q"], row["name"]): row["label"] for row in _rows(LABELS)}
    counts, unlabelled = Counter[str](), list[str]()
    for row in _rows(path):
        first = next((names[id_] for id_ in search(row["q"])), None)
        label = "nothing" if first is None else row["judged"].get(first) or labels.get((row["q"], first), "unlabelled")
        counts[label] += 1
        unlabelled += [f"  unlabelled: {row['q']}: {first}"] * (label == "unlabelled")
    yield f"{path.stem}: {counts['g'] / counts.total():.1%} good; {dict(counts)}"
    yield from unlabelled


def indexed(tools: Sequence[Tool | Entry], folder: Path, engine: str, *, meaning: bool) -> Search:
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


def in_haystack(folders: Sequence[Path], engine: str, *, meaning: bool) -> None:
    """Print the rows of all sets among the tools of the public lists."""
    read_sets = {folder.name: read(folder) for folder in folders}
    tools = [tool._replace(id=f"{name}/{tool.id}") for name, (of_set, _) in read_sets.items() for tool in of_set]
    with tempfile.TemporaryDirectory() as workspace:
        search = indexed([*listed(), *tools], Path(workspace), engine, meaning=meaning)
        for name, (_, needs) in read_sets.items():
            renamed = [Need(need.text, frozenset(f"{name}/{id_}" for id_ in need.gold)) for need in needs]
            print(row(f"{name} in the haystack", search, renamed, report=lambda *_: None), flush=True)


def main() -> None:
    """Index each folder and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--engine", default="native", help="engine in a folder")
    parser.add_argument("--meaning", choices=("on", "off"), default="on", help="as A2B_MEANING")
    parser.add_argument("--haystack", action="store_true", help="all sets among the tools of the public lists, too")
    parser.add_argument("--plain", action="store_true", help="plain questions over these tools, too")
    parser.add_argument("--misses", type=Path, help="write the questions whose first right tool is not among ten")
    args = parser.parse_args()
    misses: list[str] = []
    print(f"{'':<28}{'R@1':>10}{'R@5':>10}{'R@10':>10}{'MRR@10':>10}{'nDCG@10':>10}{'p50 ms':>10}")
    folders = [folder for path in args.folders for folder in sets_in(path)]
    for folder in folders:
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
            for path in sorted(folder.parent.glob("foreign-*.jsonl")):
                if {item["gold"] for item in _rows(path)} <= {tool.id for tool in tools}:
                    print(languages(search, path), flush=True)
    if args.haystack:
        in_haystack(folders, args.engine, meaning=args.meaning == "on")
    for path in sorted(args.folders[0].glob("plain-*.jsonl")) if args.plain else ():
        with tempfile.TemporaryDirectory() as workspace:
            search = indexed(listed(), Path(workspace), args.engine, meaning=args.meaning == "on")
            print("\n".join(judged(search, {entry.id: entry.name for entry in listed()}, path)), flush=True)
    if args.misses:
        args.misses.write_text("".join(f"{line}\n" for line in misses))


if __name__ == "__main__":
    main()
