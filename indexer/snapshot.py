"""Snapshots: all facts of a database in a file that anyone can check. The same facts give the same bytes."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, NamedTuple

from indexer.continuity import ContradictionError, check_event
from indexer.facts import BlockRef, Event, Proof, Reading, State
from indexer.networks import by_caip2, mined
from indexer.snapshot_fields import SnapshotError
from indexer.snapshot_lines import (
    FORMAT,
    ChainHead,
    block_line,
    card_line,
    dump,
    event_line,
    load,
    read_block,
    read_card,
    read_event,
    read_heads,
)
from indexer.snapshot_proofs import check_proof, check_witness, proof_lines, read_coinbase, read_proof
from indexer.statehash import state_hash
from indexer.store import Store, Writer, adopt, walk
from parsers.strict_json import MAX_BYTES
from parsers.tx import sha256d
from parsers.witness_commitment import Coinbase

MAX_LINE = 24 << 20
"""Bytes of a line: a transaction of 16 MiB in base64 is 22.4 MB."""

BATCH_LINES, BATCH_BYTES = 500, 8 << 20
"""Lines and bytes held in memory before they are checked and stored: a block's events always together."""

MAX_BLOCK_BYTES = 1 << 30
"""Bytes of one block's lines: a million events."""

Progress = Callable[[int, int], None]
"""Told (lines or blocks done, of how many); the latter is 0 while it is not known."""


class Counts(NamedTuple):
    """What a snapshot holds."""

    cards: int
    blocks: int
    events: int
    proofs: int


def export(store: Store, file: IO[bytes], progress: Progress = lambda _done, _all: None) -> Counts:
    """Write everything confirmed to `file`. Raises SnapshotError when a reorg removes blocks meanwhile."""
    since = store.newest_seq()
    heads = _heads(store)
    upto = {head.name: head.height for head in heads}
    counts: Counter[str] = Counter()
    file.write(dump({"format": FORMAT, "chains": [head.as_json() for head in heads]}))
    for body in walk.bodies(store.engine, upto) if heads else ():
        file.write(card_line(body))
        counts["card"] += 1
    everything = sum(head.height - head.first + 1 for head in heads)
    for head in heads:
        for reading in walk.readings(store.engine, head.name, head.height):
            file.write(block_line(reading.ref))
            file.writelines(map(event_line, reading.events))
            file.writelines(proof_lines(reading))
            counts["block"] += 1
            counts["event"] += len(reading.events)
            counts["proof"] += len(reading.proofs)
            progress(counts["block"], everything)
    if heads and (walk.has_reverted(store.engine, since, upto) or not all(_still(store, head) for head in heads)):
        raise SnapshotError("a reorg removed blocks while they were being written: export again")
    total = Counts(*(counts[name.removesuffix("s")] for name in Counts._fields))
    file.write(dump({"end": total._asdict()}))
    return total


def _heads(store: Store) -> list[ChainHead]:
    heads = []
    for name, caip2 in sorted(store.chains().items()):
        newest, first = store.newest(name), store.first(name)
        if newest is not None and first is not None:
            digest = state_hash(store, name, newest.height)
            partial = store.is_partial(name)
            heads.append(ChainHead(name, caip2, first, newest.height, newest.hash, digest, partial))
    return heads


def _still(store: Store, head: ChainHead) -> bool:
    block = store.block(head.name, head.height)
    return block is not None and block.hash == head.hash


@contextmanager
def written(path: Path) -> Iterator[IO[bytes]]:
    """A new file at `path`, compressed when its name ends in .gz; it appears there only once it is complete."""
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as raw:
            if path.suffix == ".gz":
                # neither name nor time in the gzip header: the same facts give the same file
                with gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed:
                    yield packed  # type: ignore[misc]
            else:
                yield raw
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def lines(path: Path) -> Iterator[bytes]:
    """The lines of a snapshot. Raises SnapshotError for one that is too long or for damaged compression."""
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        try:
            while line := file.readline(MAX_LINE + 1):
                if not line.endswith(b"\n"):
                    fault = "is cut off" if len(line) <= MAX_LINE else f"is longer than {MAX_LINE:,} bytes"
                    raise SnapshotError(f"a line {fault}: {line[:60]!a}")
                yield line
        except (EOFError, gzip.BadGzipFile, OSError) as error:
            raise SnapshotError(f"{path} cannot be read to its end: {error}") from None


def take_over(
    source: Iterable[bytes], store: Store, writer: Writer, progress: Progress = lambda _done, _all: None
) -> Counts:
    """Fill an empty database from a snapshot's lines, checking card hashes, block linkage, every event against the
    one before, and at last the state hashes; all or nothing, also when interrupted.

    `writer` proves that nobody else writes. Raises SnapshotError saying what differs, StoreError when the database
    holds blocks already or refuses.
    """
    adopt.begin(store.engine)
    try:
        counts = _Import(store, writer, progress).run(source)
    except BaseException:
        adopt.empty(store.engine)
        raise
    adopt.finish(store.engine)
    return counts


class _Import:
    """One import: lines in, checked batches out."""

    def __init__(self, store: Store, writer: Writer, progress: Progress) -> None:
        self._store, self._writer, self._progress = store, writer, progress
        self._heads: dict[str, ChainHead] = {}
        self._tips: dict[str, BlockRef] = {}
        self._seen: Counter[str] = Counter()
        self._cards: list[bytes] = []
        self._last_card = b""
        self._blocks: list[tuple[BlockRef, list[Event], dict[bytes, Proof]]] = []
        self._coinbases: dict[BlockRef, Coinbase] = {}
        self._held = self._held_of_block = 0
        self._ended = False

    def run(self, source: Iterable[bytes]) -> Counts:
        for number, line in enumerate(source, 1):
            self._held += len(line)
            self._held_of_block += len(line)
            try:
                self._take(*load(line), number)
            except (SnapshotError, ContradictionError) as error:
                raise SnapshotError(f"line {number:,}: {error}") from None
        self._flush()
        if not self._ended:
            raise SnapshotError("the file is cut off: its last line is missing")
        for head in self._heads.values():
            self._check_head(head)
        return Counts(*(self._seen[name.removesuffix("s")] for name in Counts._fields))

    def _take(self, key: str, value: Any, number: int) -> None:
        if self._ended or (key == "format") != (number == 1):
            raise SnapshotError("the header stands first, and the end last")
        if key == "format":
            self._head({head.name: head for head in read_heads(value)})
        elif key == "card":
            self._card(read_card(value))
        elif key == "block":
            self._block(read_block(value))
        elif key == "event":
            self._event(read_event(value))
        elif key == "coinbase":
            self._coinbase(read_coinbase(value))
        elif key == "proof":
            self._proof(*read_proof(value))
        elif key == "end":
            self._end(value)
        else:
            raise SnapshotError(f"nobody knows what {key[:60]!a} is")
        self._seen[key] += 1

    def _head(self, heads: dict[str, ChainHead]) -> None:
        self._heads = heads
        for head in heads.values():
            if head.height < head.first:
                raise SnapshotError(f"{head.name} ends at block {head.height:,} and begins at {head.first:,}")
            self._writer.name_chain(head.name, head.caip2)
            if head.partial:
                self._writer.mark_partial(head.name)

    def _card(self, body: bytes) -> None:
        digest = sha256(body).digest()
        if len(body) > MAX_BYTES:
            raise SnapshotError(f"a card has {len(body):,} bytes, more than {MAX_BYTES:,}")
        if self._seen["block"] or digest <= self._last_card:
            raise SnapshotError(f"the card {digest.hex()} is out of order: cards come first, sorted by SHA-256")
        self._last_card = digest
        self._cards.append(body)
        if self._held >= BATCH_BYTES or len(self._cards) >= BATCH_LINES:
            self._flush_cards()

    def _flush_cards(self) -> None:
        adopt.keep_cards(self._store.engine, self._cards)
        self._cards, self._held = [], 0

    def _block(self, ref: BlockRef) -> None:
        head = self._heads.get(ref.chain)
        if head is None:
            raise SnapshotError(f"the header does not name the chain {ref.chain[:60]!a}")
        tip = self._tips.get(ref.chain)
        expected = (tip.height + 1, tip.hash) if tip else (head.first, ref.prev)
        if mined(head.caip2):
            _check_header(ref)
        elif ref.header:
            raise SnapshotError(f"block {ref.height:,} has a header, as blocks of {head.caip2} have not")
        elif tip is not None:
            expected = (max(ref.height, tip.height + 1), tip.hash)  # blocks that said nothing may be left out
        if (ref.height, ref.prev) != expected or ref.height > head.height:
            raise SnapshotError(
                f"block {ref.height:,} ({ref.hash[::-1].hex()}) does not continue the chain {ref.chain}"
            )
        if (
            self._held >= BATCH_BYTES
            or len(self._blocks) + sum(len(said) for _, said, _ in self._blocks) >= BATCH_LINES
        ):
            self._flush()
        self._held_of_block = 0
        self._tips[ref.chain] = ref
        self._blocks.append((ref, [], {}))

    def _event(self, event: Event) -> None:
        if not self._blocks:
            raise SnapshotError("an event stands before the first block")
        if self._held_of_block > MAX_BLOCK_BYTES:
            raise SnapshotError(f"the events of a block take more than {MAX_BLOCK_BYTES:,} bytes")
        _, before, proofs = self._blocks[-1]
        if proofs:
            raise SnapshotError(f"event {event.position} stands behind the proofs of its block")
        if before and event.position <= before[-1].position:
            raise SnapshotError(f"event {event.position} stands after event {before[-1].position} of its block")
        before.append(event)

    def _coinbase(self, coinbase: Coinbase) -> None:
        if not self._blocks or self._blocks[-1][2] or self._blocks[-1][0] in self._coinbases:
            raise SnapshotError("a coinbase stands elsewhere than between the events and the proofs of a block")
        self._coinbases[self._blocks[-1][0]] = coinbase

    def _proof(self, txid: bytes, proof: Proof) -> None:
        if not self._blocks:
            raise SnapshotError("a proof stands before the first block")
        ref, said, proofs = self._blocks[-1]
        if txid <= next(reversed(proofs), b""):
            raise SnapshotError(f"the proof of {txid[::-1].hex()} is out of order: proofs are sorted by txid")
        network = by_caip2(self._heads[ref.chain].caip2)
        check_proof(txid, proof, ref, said, segwit=network is not None and network.rules.segwit)
        check_witness(txid, proof, ref, self._coinbases.get(ref))
        proofs[txid] = proof

    def _end(self, value: Any) -> None:
        found = {name: self._seen[name.removesuffix("s")] for name in Counts._fields}
        if value != found:
            raise SnapshotError(f"the end says {value!a:.100}, and there are {found}")
        self._ended = True

    def _flush(self) -> None:
        """Check and store the blocks read so far."""
        self._flush_cards()
        for chain in dict.fromkeys(ref.chain for ref, _, _ in self._blocks):
            readings = [
                Reading(ref, tuple(said), {}, proofs, self._coinbases.get(ref))
                for ref, said, proofs in self._blocks
                if ref.chain == chain
            ]
            _check_events(self._store, chain, readings)
            self._writer.append(chain, readings, sparse=not mined(self._heads[chain].caip2))
        self._blocks, self._coinbases = [], {}
        self._progress(self._seen["block"], sum(head.height - head.first + 1 for head in self._heads.values()))

    def _check_head(self, head: ChainHead) -> None:
        tip = self._tips.get(head.name)
        if tip is None or (tip.height, tip.hash) != (head.height, head.hash):
            raise SnapshotError(f"{head.name} ends at another block than the header says: {head.hash[::-1].hex()}")
        found = state_hash(self._store, head.name, head.height)
        if found != head.state_hash:
            raise SnapshotError(
                f"{head.name}: the state hash at block {head.height:,} is {found}, "
                f"and the header says {head.state_hash}"
            )


def _check_header(ref: BlockRef) -> None:
    """The header is what names the block, its parent and its time."""
    header = ref.header
    if sha256d(header) != ref.hash:
        raise SnapshotError(f"the header of block {ref.height:,} does not hash to {ref.hash[::-1].hex()}")
    if (header[4:36], int.from_bytes(header[68:72], "little")) != (ref.prev, ref.time):
        raise SnapshotError(f"block {ref.height:,} has another parent or time than its header says")


def _check_events(store: Store, chain: str, readings: list[Reading]) -> None:
    """Every event of a batch against the state that its registration had before it."""
    said = [event for reading in readings for event in reading.events]
    seats = store.at(chain, [event.spent for event in said if event.spent])
    states: dict[str, State] = {state.id: state for sitting in seats.values() for state in sitting}
    newcomers = [event.state.id for event in said if event.state and event.spent is None]
    for id_, history in store.histories(newcomers).items():
        if history[-1].chain == chain and history[-1].event.state:
            states[id_] = history[-1].event.state
    bodies = store.cards([event.card for event in said if event.card])
    for reading in readings:
        for event in reading.events:
            before = states.get(event.state.id) if event.state else None
            try:
                check_event(event, reading.ref.height, before, bodies)
            except ContradictionError as error:
                named = f"{event.kind} in {event.txid[::-1].hex()}, block {reading.ref.height:,}"
                raise SnapshotError(f"{named}: {error}") from None
            if event.state is not None:
                states[event.state.id] = event.state
