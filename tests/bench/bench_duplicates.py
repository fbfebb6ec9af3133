"""Duplicates of N listings: `python -m tests.bench.bench_duplicates [--listings N] [--file]`, by processor time.

Listings as a registry has them: sixteen keys of a text, a name, a URL and an address; of ten, two have the name
of another, one its URL, and one its text. Batches of 1,000 are updated and read as a rebuild does.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from time import process_time

from overlay.duplicates.duplicate_index import FILE, DuplicateIndex
from overlay.duplicates.text_keys import ADDRESS, CLUSTER, NAME, SIMILAR, TEXT, URL, digest
from overlay.engines import IndexPosition
from overlay.search.document import Document, Fingerprint, Since, TextKey
from tests.bench.listings import listings

BATCH = 1_000


def batches(count: int) -> Iterator[list[Document]]:
    """So many listings."""
    chance, plain = Random(1), next(listings())
    for first in range(0, count, BATCH):
        yield [_listing(chance, plain, number) for number in range(first, min(first + BATCH, count))]


def _listing(chance: Random, plain: Document, number: int) -> Document:
    def value(kind: str, shared: float) -> int:
        return digest(kind, str(chance.randrange(number + 1) if chance.random() < shared else number))

    since = Since(number // 2_000, "bsv", number // 2_000, number // 2_000, number)
    text = value(TEXT, 0.1)
    text_keys = [(CLUSTER, digest(CLUSTER, str(text), str(band))) for band in range(8)]
    text_keys += [(SIMILAR, digest(SIMILAR, str(text), str(band))) for band in range(8)]
    text_keys += [(TEXT, text), (NAME, value(NAME, 0.2)), (URL, value(URL, 0.1)), (ADDRESS, value(ADDRESS, 0))]
    fingerprint = Fingerprint(tuple(TextKey(kind, key, since) for kind, key in text_keys))
    id_ = f"{digest('id', str(number)) % 2**64:064x}_0"
    return replace(plain, id=id_, registration=id_, fingerprint=fingerprint, item=b"")


def main() -> None:
    """Print the microseconds a listing, of opening the file, and its size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listings", type=int, default=100_000)
    parser.add_argument("--file", action="store_true", help="in a file, as a running indexer; else as a rebuild")
    args = parser.parse_args()
    update = read = reread = 0.0
    with tempfile.TemporaryDirectory() as folder:
        with closing(DuplicateIndex(folder if args.file else "")) as index:
            for batch in batches(args.listings):
                ids, start = [document.id for document in batch], process_time()
                index.update(ids, batch, IndexPosition("e", 0))
                updated = process_time()
                index.statuses(ids)
                done = process_time()
                waiting = index.queued()
                index.statuses(waiting)
                index.dequeue(waiting)
                update, read, reread = update + updated - start, read + done - updated, reread + process_time() - done
            if not args.file:
                with closing(DuplicateIndex(folder)) as saved:
                    saved.copy_from(index)
        for name, seconds in (("update", update), ("read", read), ("changed others", reread)):
            print(f"{name:16}{1e6 * seconds / args.listings:8.1f} µs a listing")
        with closing(DuplicateIndex(folder)) as index:
            start = process_time()
            index.statuses(["none"])
            print(f"{'loaded':16}{process_time() - start:8.2f} s")
        print(f"{'file':16}{Path(folder, FILE).stat().st_size / args.listings:8.0f} bytes a listing")


if __name__ == "__main__":
    main()
