"""Searching an index of many listings in process: `python -m tests.bench.bench_index [--listings N] [--engine NAME]`.

The index is filled by 20,000 listings. Times are of this thread's processor, in milliseconds; memory is measured after
all questions, without the pages of files, which the processes that search share and the system drops when it needs
memory. With `--folder`, the index is kept there, and not built again.
"""

from __future__ import annotations

import argparse
import gc
import re
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from overlay.engines import Cursor
from overlay.projection.search_index import SearchIndex
from overlay.search.document import Document
from overlay.search.query import FACETS, Query
from tests.bench.bench_search import SHARED, Questions, row, timed
from tests.bench.listings import listings

BATCH = 20_000
SAMPLE = 20_000
"""Listings that the words of the questions are from."""


def anonymous() -> float:
    """Memory of this process but for pages of files, in MB (Linux)."""
    text = Path("/proc/self/smaps_rollup").read_text()
    return sum(int(size) for size in re.findall(r"^Anonymous: +(\d+) kB", text, re.MULTILINE)) / 1e3


def documents(count: int) -> Iterator[Document]:
    """The listings of an index."""
    return islice(listings(1, SHARED if SHARED.is_dir() else None), count)


def build(url: str, count: int) -> None:
    """Write the listings to an index."""
    engine, stream = SearchIndex(url), documents(count)
    began, done = time.process_time(), 0
    while batch := list(islice(stream, BATCH)):
        done += len(batch)
        engine.replace([one.registration for one in batch], batch, Cursor("bench", 0))
    engine.replace([], [], Cursor("bench", done))
    print(f"built {done:,} listings in {time.process_time() - began:.0f} s of processor time")
    engine.close()


def measure(engine: SearchIndex, questions: Questions, share: float) -> None:
    """The table of an index."""
    print(f"  {'milliseconds of processor time':<44} {'p50':>9} {'p90':>9} {'p99':>9} {'most':>9}")
    engine.search(Query(text=questions.misspelt(), facets=FACETS))
    kinds = [*questions.kinds(), ("nothing: all facets", 20, lambda: Query(facets=FACETS, limit=0))]
    kinds += [(f"nothing: the facet {name}", 20, lambda name=name: Query(facets=(name,), limit=0)) for name in FACETS]
    kinds.append(("prices of all in one currency", 10, lambda: Query(sort="price", price_currency="USD")))
    for name, number, make in kinds:
        requests = [make() for _ in range(max(3, round(number * share)))]
        row(name, timed(lambda query=query: engine.search(query) for query in requests))
    begun = [questions.word()[: index % 5 + 1] for index in range(max(5, round(200 * share)))]
    row("completions of one to five letters", timed(lambda text=text: engine.suggest(text, 10) for text in begun))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listings", type=int, default=100_000)
    parser.add_argument("--engine", default="native")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--share", type=float, default=1.0, help="of the full number of questions")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary, "index")
        url = f"{args.engine}:{folder}"
        if not folder.exists():
            build(url, args.listings)
        questions = Questions(list(documents(min(SAMPLE, args.listings))))
        gc.collect()
        before = anonymous()
        engine = SearchIndex(url)
        measure(engine, questions, args.share)
        print(f"  opening and searching adds {anonymous() - before:.0f} MB of memory")
        engine.close()


if __name__ == "__main__":
    main()
