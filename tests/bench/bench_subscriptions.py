"""A block of 5,000 changed listings compared with 10,000 saved searches: `python -m tests.bench.bench_subscriptions`.

Beside it the time that analysing the texts of these listings takes, and that of running each search once. Then the
deliveries are queued in SQLite. Times are of this process's processor, but for SQLite's.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from hashlib import sha256
from itertools import islice
from pathlib import Path
from time import perf_counter, process_time

from sqlalchemy import insert

from indexer.store import Store, connect
from overlay.projection.search_index import SearchIndex
from overlay.search.forward import Analysed
from overlay.search.query import Query
from overlay.systems.webhooks.matcher import Percolator
from overlay.systems.webhooks.store import ListingReport, NewDelivery, StoredWebhooks
from overlay.systems.webhooks.store import subscriptions as table
from tests.bench.bench_search import SHARED, Questions, build
from tests.bench.listings import listings
from tests.contracts.listed import EPOCH

LISTINGS, SEARCHES, TIMED = 5_000, 10_000, 500


def main() -> None:
    """Print a line for each part."""
    documents = list(islice(listings(data=SHARED), LISTINGS))
    questions, chance = Questions(documents), random.Random(3)

    def saved() -> Query:
        text = " ".join(questions.word() for _ in range(chance.choice((1, 2, 2, 3))))
        filters = chance.choice(({}, {}, {"kind": "agent"}, questions.priced(), questions.filters()))
        return Query(text=text, **filters)

    queries = [(str(number), saved()) for number in range(SEARCHES)]
    began = process_time()
    for document in documents:
        Analysed.of(document)
    print(f"analysing {LISTINGS:,} listings: {process_time() - began:.2f} s")
    began = process_time()
    percolator = Percolator(queries, questions.vocabulary.frequency)
    print(f"filing {SEARCHES:,} searches: {process_time() - began:.2f} s")
    began = process_time()
    met = {document.id: list(percolator.matching(document)) for document in documents}
    count = sum(map(len, met.values()))
    print(f"comparing, analysing included: {process_time() - began:.2f} s, {count:,} matches")
    with tempfile.TemporaryDirectory() as folder:
        engine = SearchIndex(f"native:{folder}/index")
        build(engine, documents)
        began = process_time()
        for _, query in queries[:TIMED]:
            engine.search(query)
        print(f"a search for each: {(process_time() - began) * SEARCHES / TIMED:.1f} s")
        engine.close()
        queue(Path(folder), met)


def queue(folder: Path, met: dict[str, list[str]]) -> None:
    """Queue one delivery for each saved search that has matches."""
    store = Store(connect(f"sqlite:///{folder}/a2b.db"))
    subscriptions = StoredWebhooks(store.engine)
    counts = Counter(id_ for ids in met.values() for id_ in ids)
    row = {"url": "https://a.example", "search": "q=x", "base": "", "created_at": 0, "since_seq": 0, "sequence": 0}
    row |= {"reason": "", "secret_sha256": sha256(b"").digest()}
    with store.engine.begin() as connection:
        connection.execute(insert(table), [row | {"id": id_, "client": id_} for id_ in map(str, range(SEARCHES))])
    reports: dict[str, list[ListingReport]] = {id_: [] for id_ in counts}
    for listing, ids in met.items():
        for id_ in ids:
            if len(reports[id_]) < 50:
                reports[id_].append(ListingReport(listing, listing, b"\1" * 16))
    new = [NewDelivery(id_, 1, b"x" * 600 * len(of_one), of_one) for id_, of_one in reports.items()]
    began = perf_counter()
    assert subscriptions.enqueue(None, (EPOCH, 1), new, 1)
    rows_queued = sum(len(one.reports) for one in new)
    print(f"queueing {len(new):,} deliveries, {rows_queued:,} reports: {perf_counter() - began:.2f} s")
    store.close()


if __name__ == "__main__":
    main()
