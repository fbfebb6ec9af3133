"""Searching an index of many listings in process: `python -m tests.bench.bench_index [--listings N] [--engine NAME]`.

The index is filled by 20,000 listings. Times are of this thread's processor, in milliseconds; memory is measured after
all questions, without the pages of files, which the processes that search share and the system drops when it needs
memory. With `--folder`, the index is kept there, and not built again. With `--deep`, only pages are measured: in each
order the first page, and the one at position 9,000 by its offset, by a cursor, and by a cursor in an index that has
changed since. `--engine opensearch` starts a server (`tests/opensearch_server.py`), and measures by the wall clock.
"""

from __future__ import annotations

import argparse
import gc
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from decimal import Decimal
from itertools import islice
from pathlib import Path

from overlay.engines import IndexPosition
from overlay.projection.search_index import SearchIndex
from overlay.search.document import Document
from overlay.search.query import FACETS, SORTS, Query, StaleCursorError
from tests.bench.bench_opensearch import server
from tests.bench.bench_search import SHARED, Questions, row, timed
from tests.bench.listings import listings

BATCH = 20_000
SAMPLE = 20_000
"""Listings that the words of the questions are from."""
DEEP, REPEATS = 9_000, 9
RATES = {"BSV": Decimal(50), "EUR": Decimal("1.1"), "MNEE": Decimal(1), "USDC": Decimal(1)}


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
        engine.replace([one.registration for one in batch], batch, IndexPosition("bench", 0))
    engine.replace([], [], IndexPosition("bench", done))
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


def deep(engine: SearchIndex, text: str, clock: Callable[[], float]) -> None:
    """A line for each order: the median of the first page, and of deep pages as multiples of it."""
    print(f"  {repr(text) if text else 'no words':<20} {'first, ms':>9} {'offset':>9} {'cursor':>9} {'changed':>9}")
    for sort in (sign + name for name in SORTS for sign in ("", "-")):
        name = sort.removeprefix("-")
        descending = None if name == sort else name not in ("relevance", "updated", "created", "rating")
        query = Query(text=text, sort=name, descending=descending)
        if name.startswith("price"):
            query = query._replace(price_currency="USD", rates=RATES)
        before = engine.search(query._replace(offset=DEEP - query.limit)).hits
        if not before:
            continue
        following = query._replace(after=before[-1].sort_key)
        pages = (query, query._replace(offset=DEEP), following._replace(offset=DEEP), following)
        first, *others = (_median(engine, page, clock) for page in pages)
        print(f"  {sort:<20} {first:>9.2f}", *(f"{other / first:>9.1f}" for other in others), flush=True)


def _median(engine: SearchIndex, query: Query, clock: Callable[[], float]) -> float:
    """Milliseconds of a page; NaN where there is none in an index that has changed."""
    try:
        return timed([lambda: engine.search(query)] * REPEATS, clock)[REPEATS // 2]
    except StaleCursorError:
        return float("nan")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listings", type=int, default=100_000)
    parser.add_argument("--engine", default="native")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--share", type=float, default=1.0, help="of the full number of questions")
    parser.add_argument("--deep", action="store_true", help="only the first page and deep ones of each order")
    args = parser.parse_args()
    with ExitStack() as stack:
        folder = args.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()), "index")
        url = f"{args.engine}:{folder}"
        if args.engine == "opensearch":
            node = stack.enter_context(server())
            url = f"opensearch:http://{node.address}/bench?shards=1&replicas=0"
        if not folder.exists():
            build(url, args.listings)
        questions = Questions(list(documents(min(SAMPLE, args.listings))))
        gc.collect()
        before = anonymous()
        engine = SearchIndex(url)
        if args.deep:
            clock = time.perf_counter if engine.slow else time.thread_time
            for text in ("", *questions.commonest(2)):
                deep(engine, text, clock)
        else:
            measure(engine, questions, args.share)
        print(f"  opening and searching adds {anonymous() - before:.0f} MB of memory")
        engine.close()


if __name__ == "__main__":
    main()
