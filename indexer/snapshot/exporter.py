"""Write a snapshot: all confirmed facts of a database in a file that anyone can verify. The same facts give the same
bytes."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedWriter
from pathlib import Path
from typing import IO, Any

from isal import igzip, isal_zlib

from indexer import durable_files
from indexer.headers.raw_tree import SIZE
from indexer.snapshot.codec import (
    ChainHead,
    Counts,
    SnapshotError,
    block_line,
    card_line,
    coinbase_line,
    end_line,
    event_line,
    header_line,
    headers_line,
    parent_line,
    pointers_line,
    proof_line,
)
from indexer.state_hash import computed_state_hash, hashed_block, stored_state_hash
from indexer.store import Store
from indexer.store.full_scan import FullScan

log = logging.getLogger(__name__)

_igzip: Any = igzip
_DAMAGED: Any = (EOFError, OSError, isal_zlib.error)

MAX_LINE, MAX_RAW_LINE = 2 << 20, 24 << 20
"""Bytes of a line, and of one with a transaction: in base64 a card of 1 MiB has 1.4 MB, one of 16 MiB 22.4 MB."""

BUFFER = 1 << 20

GZIP_LEVEL = 2
"""The level of four: at the size that zlib's level 6 gives, in a tenth of its time."""

Progress = Callable[[int, int], None]
"""Called with blocks done, of how many."""


def export(store: Store, file: IO[bytes], progress: Progress = lambda _done, _all: None) -> Counts:
    """Write everything confirmed to `file`; of chains that are read twice, the blocks that were. Raises SnapshotError
    when a reorg removes blocks meanwhile."""
    since, scan = store.outbox.newest_seq(), FullScan(store.engine)
    heads = _heads(store)
    up_to = {head.name: head.height for head in heads}
    counts: Counter[str] = Counter()
    file.write(header_line(tuple(heads)))
    for body in scan.card_bodies(up_to) if heads else ():
        file.write(card_line(body))
        counts["cards"] += 1
    file.writelines(map(parent_line, scan.parents()))
    block_count = sum(head.height - head.first + 1 for head in heads)
    for head in heads:
        file.writelines(_leading_headers(store, head))
        for reading in scan.block_facts(head.name, head.height):
            file.write(block_line(reading.ref))
            if reading.coinbase is not None:
                file.write(coinbase_line(reading.coinbase))
            file.writelines(proof_line(*proof) for proof in sorted(reading.proofs.items()))
            file.writelines(map(event_line, reading.events))
            counts["blocks"] += 1
            counts["events"] += len(reading.events)
            counts["proofs"] += len(reading.proofs)
            progress(counts["blocks"], block_count)
    if heads and (scan.has_reverted(since, up_to) or not all(_is_current(store, head) for head in heads)):
        raise SnapshotError("a reorg removed blocks while they were being written: export again")
    total = Counts(**{name: counts[name] for name in Counts.__struct_fields__})
    file.write(end_line(total))
    return total


def _heads(store: Store) -> list[ChainHead]:
    heads = []
    for name, caip2 in sorted(store.chains().items()):
        newest, first = hashed_block(store, name), store.blocks.lowest_height(name)
        if newest is None and first is not None:
            log.warning("%s is not in the snapshot: none of its blocks was read twice yet", name)
        if newest is not None and first is not None:
            stored = stored_state_hash(store, name)
            is_current = stored is not None and stored.height == newest.height
            state = stored if stored is not None and is_current else computed_state_hash(store, name, newest.height)
            heads.append(
                ChainHead(
                    name=name, caip2=caip2, first=first, height=newest.height, hash=newest.hash[::-1].hex(),
                    state_hash=state.digest, pointers=pointers_line(state.pointers), partial=store.is_partial(name),
                    rules=store.rules(name),
                )
            )  # fmt: skip
    return heads


def _leading_headers(store: Store, head: ChainHead) -> Iterator[bytes]:
    """The stored headers before the chain's first block, from a checkpoint on."""
    for first, joined in store.headers.load(head.name):
        if first < head.first:
            yield headers_line(head.name, first, joined[: SIZE * (head.first - first)])


def _is_current(store: Store, head: ChainHead) -> bool:
    block = store.blocks.get(head.name, head.height)
    return block is not None and block.hash[::-1].hex() == head.hash


@contextmanager
def new_file(path: Path, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """A new file at `path` with these permissions less the umask, compressed when its name ends in .gz; it appears
    there only once it is complete and on disk."""
    part = path.with_name(f"{path.name}.part")
    with durable_files.new_file(path, mode=mode, beside=part) as file, os.fdopen(file, "wb", closefd=False) as raw:
        if path.suffix == ".gz":
            # neither name nor time in the gzip header: the same facts give the same file
            packed = _igzip.IGzipFile("", "wb", GZIP_LEVEL, raw, mtime=0)
            # lines are short, and each write to it costs more than compressing one
            with BufferedWriter(packed, BUFFER) as buffered:
                yield buffered
        else:
            yield raw


def read_lines(path: Path, longest: int = MAX_RAW_LINE) -> Iterator[bytes]:
    """The lines of a snapshot, or of a backup: lines with raw bytes have `longest` bytes at most. Raises SnapshotError
    for a line that is too long or for damaged compression."""
    with _igzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        try:
            while line := file.readline(longest + 1):
                limit = longest if line.startswith((b'{"proof":', b'{"parent":', b"[")) else MAX_LINE
                if len(line) > limit:
                    raise SnapshotError(f"a line is longer than {limit:,} bytes: {line[:60]!a}")
                if not line.endswith(b"\n"):
                    raise SnapshotError(f"a line is cut off: {line[:60]!a}")
                yield line
        except _DAMAGED as error:
            raise SnapshotError(f"{path} cannot be read to its end: {error}") from None
