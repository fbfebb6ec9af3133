"""Proofs kept of transactions in blocks, and runs of stored headers: what is handed to who checks for himself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, and_, delete, func, select

from indexer.facts import BlockRef, Proof, Reading
from indexer.store import rows
from indexer.store.batches import batches
from indexer.store.headers import PAGE, SIZE
from indexer.store.tables import blocks, coinbases, events, headers, proofs, witness_paths
from parsers.witness_commitment import Coinbase

BESIDE = and_(*(witness_paths.c[name] == proofs.c[name] for name in ("chain", "height", "txid")))
"""Which row of `witness_paths` belongs to one of `proofs`."""


@dataclass(frozen=True, slots=True)
class Proved:
    """A proof that is kept, and the block it hangs from. `coinbase` proves the transaction's witness, None on chains
    whose witnesses carry no envelopes and where it was not stored."""

    ref: BlockRef
    proof: Proof
    coinbase: Coinbase | None = None


def of(reading: Reading) -> Iterator[dict[str, Any]]:
    """The rows of a block's proofs."""
    ref = reading.ref
    for txid, proof in reading.proofs.items():
        yield {"chain": ref.chain, "height": ref.height, "txid": txid, "raw": proof.raw, "bump": proof.bump}


def witness_paths_of(reading: Reading) -> Iterator[dict[str, Any]]:
    """The rows of the merkle paths of a block's wtxids."""
    ref = reading.ref
    for txid, proof in reading.proofs.items():
        if proof.witness is not None:
            yield {"chain": ref.chain, "height": ref.height, "txid": txid, "bump": proof.witness}


def coinbases_of(readings: Iterable[Reading]) -> Iterator[dict[str, Any]]:
    """The rows of the coinbases that prove witnesses."""
    for reading in readings:
        if reading.coinbase is not None:
            yield {"chain": reading.ref.chain, "height": reading.ref.height, **reading.coinbase._asdict()}


def drop_silent(connection: Connection, chain: str, txids: Iterable[bytes]) -> None:
    """Delete the proofs of those of these transactions that say nothing any more."""
    speaks = select(events.c.txid).where(events.c.chain == chain, events.c.txid == proofs.c.txid).exists()
    for batch in batches(txids):
        silent = (proofs.c.chain == chain, proofs.c.txid.in_(batch), ~speaks)
        connection.execute(delete(proofs).where(*silent))


def size(engine: Engine, chain: str, txids: Sequence[bytes]) -> int | None:
    """Bytes of these transactions of a chain together (txids in internal byte order), None when one is not kept."""
    wanted, total, kept = list(set(txids)), 0, 0
    with engine.connect() as connection:
        for batch in batches(wanted):
            # a transaction may be kept twice: its block was read again after a reorg brought it back elsewhere
            lengths = (
                select(proofs.c.txid, func.max(func.length(proofs.c.raw)).label("size"))
                .where(proofs.c.chain == chain, proofs.c.txid.in_(batch))
                .group_by(proofs.c.txid)
                .subquery()
            )
            count, sizes = connection.execute(select(func.count(), func.sum(lengths.c.size)).select_from(lengths)).one()
            kept, total = kept + count, total + (sizes or 0)
    return int(total) if kept == len(wanted) else None


def proof(engine: Engine, chain: str, txid: bytes) -> Proved | None:
    """The proof of a transaction (txid in internal byte order) in its block of a chain, None when none is kept."""
    statement = (
        select(blocks, proofs.c.raw, proofs.c.bump, witness_paths.c.bump.label("witness"))
        .join(proofs, (blocks.c.chain == proofs.c.chain) & (blocks.c.height == proofs.c.height))
        .outerjoin(witness_paths, BESIDE)
        .where(proofs.c.chain == chain, proofs.c.txid == txid)
        .limit(1)
    )
    with engine.connect() as connection:
        row = connection.execute(statement).mappings().first()
        if row is None:
            return None
        ref = rows.block(row)
        of_block = (coinbases.c.chain == chain, coinbases.c.height == ref.height)
        columns = [coinbases.c[name] for name in Coinbase._fields]
        first = connection.execute(select(*columns).where(*of_block)).first()
    return Proved(ref, Proof(row["raw"], row["bump"], row["witness"]), Coinbase(*first) if first is not None else None)


def kept(engine: Engine, txids: Iterable[bytes]) -> set[bytes]:
    """Those of these transactions (internal byte order) of which a proof is kept, on whatever chain."""
    found: set[bytes] = set()
    with engine.connect() as connection:
        for batch in batches(txids):
            some = select(proofs.c.txid).where(proofs.c.txid.in_(batch))
            found.update(connection.execute(some).scalars())
    return found


def raws(engine: Engine, chain: str, txids: Sequence[bytes]) -> dict[bytes, bytes]:
    """Raw transactions of a chain by txid, as far as they are kept; ask for their `size` before."""
    found: dict[bytes, bytes] = {}
    with engine.connect() as connection:
        for batch in batches(txids):
            some = (proofs.c.chain == chain, proofs.c.txid.in_(batch))
            found |= dict(connection.execute(select(proofs.c.txid, proofs.c.raw).where(*some)).all())
    return found


def run(engine: Engine, chain: str, first: int, count: int) -> list[bytes]:
    """At most `count` consecutive headers (80 bytes each) of a chain's best branch from height `first` on.

    They are those that its source keeps, or else those of the blocks that were read; empty when neither reach there.
    """
    with engine.connect() as connection:
        return list(_kept(connection, chain, first, count)) or list(_of_blocks(connection, chain, first, count))


def _kept(connection: Connection, chain: str, first: int, count: int) -> Iterator[bytes]:
    statement = select(headers.c.first, headers.c.raw).where(
        headers.c.chain == chain, headers.c.first > first - PAGE, headers.c.first < first + count
    )
    wanted = first
    for start, raw in connection.execute(statement.order_by(headers.c.first)):
        if start > wanted:
            return
        for at in range(SIZE * (wanted - start), len(raw), SIZE):
            if wanted == first + count:
                return
            yield raw[at : at + SIZE]
            wanted += 1


def _of_blocks(connection: Connection, chain: str, first: int, count: int) -> Iterator[bytes]:
    statement = select(blocks.c.height, blocks.c.header).where(
        blocks.c.chain == chain, blocks.c.height >= first, blocks.c.height < first + count
    )
    for wanted, (height, header) in enumerate(connection.execute(statement.order_by(blocks.c.height)), first):
        if height != wanted:
            return
        yield header[:SIZE]
