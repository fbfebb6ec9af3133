"""A small index whose files are damaged, and a program that does so: `python -m tests.overlay.engines.native.damaging`.

The program reads lines of JSON, [file, start, stop, bit]: it flips a bit of the byte `start` of a file of the index, or
removes the bytes from `start` to `stop`, opens the index, searches it in every way, and prints what it found.
"""

from __future__ import annotations

import json
import shutil
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

from overlay.engines import IndexPosition
from overlay.engines.native import NativeEngine, manifest
from overlay.engines.native.manifest import SegmentEntry
from overlay.engines.native.segment_file import SegmentFile
from overlay.engines.native.writing import damaged
from overlay.search.document import Document
from overlay.search.planner import plan
from overlay.search.query import FACETS, SORTS, Matches, Operators, Query
from overlay.search.suggesting import suggest
from tests.contracts.listed import listing, price

QUERIES = [
    *(Query(text="alpha gatewy", sort=sort, calls=Decimal(9), facets=FACETS) for sort in SORTS),
    *(Query(sort=sort, descending=True, price_currency="USD", rates={"EUR": Decimal(2)}) for sort in SORTS),
    Query(text="alpha beta the", operators=Operators(phrases=("alpha beta",), excluded=("gamma",), not_tags=("b",))),
    Query(text="pay", skills=("search",), currencies=("USD",), intervals=("P1M",), max_price=Decimal(50)),
    Query(
        statuses=(),
        tags=("a",),
        owners=("alice",),
        updated_since=1,
        from_height=1,
        to_height=10_000,
        height_chain="bsv",
    ),
    Query(statuses=(), as_of=105, height_chain="bsv", with_duplicates=True),
    Query(text="alpha", as_of=105, height_chain="bsv", statuses=("live",)),
]

TYPED = ("a", "al", "alpha pay", "b", "tr")


def documents() -> list[Document]:
    """Listings with all that a segment holds."""
    offers = [price("5", "USD", "P1M", "EUR", skills=("search",)), price("0", "EUR"), price("1e30", "MNEE", "P1D")]
    return [
        listing(
            f"{number}", f"Alpha beta {'gateway' if number % 2 else 'payments'}",
            description=f"gamma delta word{'abcdefgh'[number]} the alpha. Beta of it", verified=number % 2 == 0,
            tags=("a", "b", "B")[: number % 4], skills=("search", "translate")[: number % 3],
            offers=offers[: number % 4], owner=("alice", "bob")[number % 2], until_height=110 if number == 7 else None,
        )
        for number in range(8)
    ]  # fmt: skip


def index(folder: Path) -> Path:
    """An index of these documents, with a segment of history, and one with a tombstone."""
    engine = NativeEngine(folder, make=True)
    some = documents()
    engine.write(None, some, IndexPosition("e", 1))
    engine.write(["1"], [], IndexPosition("e", 2))
    engine.close()
    return folder


def largest(folder: Path) -> SegmentEntry:
    """The segment with most documents."""
    published = manifest.read(folder)
    assert published is not None
    return max(published.segments, key=lambda entry: entry.documents)


def place_of(path: Path, array: str) -> tuple[int, int]:
    """Where an array is in its file, and its length in bytes."""
    file = SegmentFile.open(path)
    start = file.arrays[array].ctypes.data - min(held.ctypes.data for held in file.arrays.values())
    table = 64 * (1 + len(file.arrays))
    return table + start, file.arrays[array].nbytes


def flip(path: Path, array: str) -> None:
    """Flip a bit of an array in its file, for those who open it next."""
    start, _ = place_of(path, array)
    data = bytearray(path.read_bytes())
    data[start] ^= 1
    path.unlink()
    path.write_bytes(data)


def searched(engine: NativeEngine, query: Query) -> Matches:
    """The matches of an engine."""
    return engine.search(query, plan(query.text, engine.terms()), 0, 20)


def answers(engine: NativeEngine) -> list[Any]:
    """The answers of an engine to every query, and its similar words and completions."""
    lists: list[Any] = []
    for query in QUERIES:
        matches = searched(engine, query)
        rows = [(hit.record.id, round(hit.score, 6), hit.record.item) for hit in matches.rows]
        facets = {name: counts.commonest("", 9) for name, counts in matches.facets.items()}
        lists.append((matches.total, matches.matched, facets, rows))
    terms = engine.terms()
    return [*lists, terms.listings, terms.frequency("alpha"), terms.completions("al", 5), terms.similar("gatewy", 2)]


def tried(source: Path, name: str, start: int, stop: int, bit: int) -> dict[str, Any]:
    """The answers of a copy of an index with a damaged file."""
    copy = source.parent / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(source, copy)
    data = bytearray((copy / name).read_bytes())
    if stop > start:
        del data[start:stop]
    else:
        data[start] ^= 1 << bit
    (copy / name).write_bytes(data)
    outside: list[str] = []

    class Watched(NativeEngine):
        def _is_found_damaged(self) -> bool:
            outside.extend([repr(error)] if isinstance(error := sys.exc_info()[1], IndexError) else [])
            return super()._is_found_damaged()

    opened = Watched(copy, make=False)
    refused = opened.damage()
    entry = next(entry for entry in manifest.read(source).segments if f"{entry.name}.segment" == name)  # type: ignore[union-attr]
    checked = damaged(copy, entry)
    for query in QUERIES:
        opened.suspected = float("-inf")
        for hit in searched(opened, query).rows:
            assert len(bytes(hit.record.item)) == len(hit.record.item)
    for text in TYPED:
        suggest(text, 9, opened.terms(), opened.complete)
    opened.close()
    return {"refused": refused, "checked": checked, "outside": outside}


def main() -> None:
    """See above."""
    folder = index(Path(sys.argv[1]))
    print(json.dumps([entry.name for entry in manifest.read(folder).segments]), flush=True)  # type: ignore[union-attr]
    for line in sys.stdin:
        print(json.dumps(tried(folder, *json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
