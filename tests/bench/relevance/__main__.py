"""How well search finds what is described: `python -m tests.bench.relevance [native whoosh] [--rows N]`.

The entries of three public lists are inscribed as MCP tools, read from their blocks into a store, and carried into an
index for each list, as `a2b up` does. The questions are what another list says of the same server, and what people
type: names, names with an error, two and three words. A question is ranked among the entries of one list. Reported:
recall at 1 and at 10, and MRR at 10 (the mean of 1 / rank, 0 beyond the tenth), for each kind; descriptions also with a
misspelling in every long word. Beside it is plain BM25 over name, description and tags.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import mean, median

from overlay.duplicates.duplicate_index import DuplicateIndex
from overlay.projection.projector import IndexProjector
from overlay.projection.search_index import SearchIndex
from overlay.search.query import Query
from parsers.bitcoin.tx import Transaction
from tests.bench.plain_bm25 import DEPTH, Search, plain_bm25
from tests.bench.relevance.lists import Entry, Question, entries, misspelt, questions, short_questions
from tests.chainkit import ChainKit
from tests.chainkit_scripts import inscription
from tests.fakes import MemoryChain
from tests.indexing import Indexing

SHARED = Path(os.environ.get("A2B_TEST_SHARED", Path(__file__).parents[4] / "shared")) / "data"
OUTPUTS, PER_BLOCK = 500, 2_000

Heads = Mapping[str, str]
"""The entry that is shown for each hidden duplicate."""


def mine(results: Iterable[Entry]) -> tuple[ChainKit, dict[str, str]]:
    """A chain on which the entries are inscribed, and their ids by those of their registrations."""
    rows = list(results)
    kit = ChainKit(funds=len(rows) // OUTPUTS + 30)
    ids: dict[str, str] = {}
    for first in range(0, len(rows), PER_BLOCK):
        created = []
        for index in range(first, min(first + PER_BLOCK, len(rows)), OUTPUTS):
            batch = rows[index : min(index + OUTPUTS, first + PER_BLOCK)]
            created.append(_inscribe(kit, batch))
            ids |= {str(created[-1].outpoint(vout)): entry.id for vout, entry in enumerate(batch)}
        kit.mine(*created)
    return kit, ids


def _inscribe(kit: ChainKit, batch: Sequence[Entry]) -> Transaction:
    fund = kit.fund()
    fields = {"app": "bench", "type": "a2b-mcp"}
    outputs = [
        (1, inscription(json.dumps(item.config()).encode(), fields, f"owner-{number}"))
        for number, item in enumerate(batch)
    ]
    return kit.spend([fund], [*outputs, (kit.satoshis(fund) - len(outputs) - 1000, b"\x51")])


async def through_the_store(
    kit: ChainKit, folder: Path, urls: Iterable[str], *, meaning: bool = True
) -> tuple[list[Search], Heads]:
    """Searches of engines that were fed from a store which has read the chain, and the shown registrations of hidden
    ones."""
    with Indexing(f"sqlite:///{folder}/a2b.db", MemoryChain(*kit.blocks)) as indexing:
        await indexing.catch_up()
        created = []
        heads: dict[str, str] = {}
        for number, url in enumerate(urls):
            engine = SearchIndex(url, meaning=meaning)
            duplicates = DuplicateIndex(str(folder / f"duplicates-{number}"))
            IndexProjector(indexing.store, engine, duplicates).run()
            created.append(engine)
            for batch in (indexing.store.registrations.ids(None, 1_000_000),):
                statuses = duplicates.statuses(dict.fromkeys(id_ for _, id_ in batch))
                heads |= {id_: status.group for (id_, _), status in statuses.items() if status.group}
            duplicates.close()
    return [partial(_ids, engine) for engine in created], heads


def _ids(engine: SearchIndex, text: str) -> list[str]:
    return [hit.id for hit in engine.search(Query(text=text, limit=DEPTH)).hits]


def _translated(search: Search, ids: Mapping[str, str], text: str) -> list[str]:
    return [ids[id_] for id_ in search(text)]


def _text(entry: Entry) -> str:
    return " ".join((entry.name, entry.description, *entry.keywords))


def rank(results: Sequence[str], target: str) -> int:
    """Place of the target, from 1; 0 when it is not there."""
    return results.index(target) + 1 if target in results else 0


def row(title: str, ranks: Sequence[int], milliseconds: Sequence[float]) -> str:
    """A line of the table."""
    mrr = mean(1 / rank if rank else 0.0 for rank in ranks)
    first, ten = mean(rank == 1 for rank in ranks), mean(rank > 0 for rank in ranks)
    return f"{title:<36}{first:>10.3f}{ten:>10.3f}{mrr:>10.3f}{median(milliseconds):>10.2f}"


def measure(title: str, requests: Iterable[tuple[Question, Search]], heads: Heads) -> str:
    """Run each question: a row of the table. A hidden duplicate counts where the shown one is."""
    ranks, taken = [], []
    for question, search in requests:
        began = time.perf_counter()
        hits = search(question.text)
        taken.append(1000 * (time.perf_counter() - began))
        ranks.append(rank(hits, heads.get(question.target, question.target)))
    return row(title, ranks, taken)


def main() -> None:
    """Index the three lists and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engines", nargs="*", default=[], help="engines in folders, native if none and no --url")
    parser.add_argument("--url", help="an index on a cluster, too; the three lists use its name with a number appended")
    parser.add_argument("--kind", action="append", help="only these kinds of questions")
    parser.add_argument("--meaning", choices=("on", "off"), default="on", help="as A2B_MEANING")
    parser.add_argument("--rows", type=int, help="only so many questions of each kind")
    args = parser.parse_args()
    lists, described = entries(SHARED), questions(SHARED)
    kinds = short_questions(SHARED) | {
        "description": described,
        "description, misspelt": [misspelt(question, number) for number, question in enumerate(described)],
    }
    engines = args.engines or ([] if args.url else ["native"])
    searches: dict[tuple[str, str], Search] = {}
    heads: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, (source, result) in enumerate(lists.items()):
            searches["plain BM25", source] = plain_bm25({entry.id: _text(entry) for entry in result})
            kit, ids = mine(result)
            path = Path(folder, source)
            path.mkdir()
            urls = {name: f"{name}:{path}/{name}" for name in engines}
            if args.url:
                base, query = args.url.partition("?")[::2]
                urls["opensearch"] = f"{base}-{number}?{query}".rstrip("?")
            created, shown = asyncio.run(through_the_store(kit, path, urls.values(), meaning=args.meaning == "on"))
            heads |= {ids[hidden]: ids[head] for hidden, head in shown.items()}
            for name, search in zip(urls, created, strict=True):
                searches[name, source] = partial(_translated, search, ids)
        print(f"{'':<36}{'recall@1':>10}{'recall@10':>10}{'MRR@10':>10}{'p50 ms':>10}")
        for name in ("plain BM25", *urls):
            for kind, requested in kinds.items():
                if kind in (args.kind or kinds):
                    found_by = ((item, searches[name, item.source]) for item in requested[: args.rows])
                    shown_heads = {} if name == "plain BM25" else heads
                    print(measure(f"{name}: {kind}", found_by, shown_heads), flush=True)


if __name__ == "__main__":
    main()
