"""Proofs kept of transactions in blocks, and runs of stored headers: what is handed to who checks for himself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
    """A transaction (txid in internal byte order) with its stored proof and the block that it was mined in. `coinbase`
    proves the transaction's witness, None on chains whose witnesses carry no envelopes and where it was not stored."""

    txid: bytes
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


def sizes(engine: Engine, chain: str, txids: Iterable[bytes]) -> dict[bytes, int]:
    """Bytes of those of these transactions of a chain (txids in internal byte order) that are stored, each with the
    coinbase that proves its witness."""
    lengths: dict[bytes, int] = {}
    beside = func.coalesce(func.length(coinbases.c.raw), 0)
    of_block = and_(*(coinbases.c[name] == proofs.c[name] for name in ("chain", "height")))
    with engine.connect() as connection:
        for batch in batches(set(txids)):
            # a transaction may be kept twice: its block was read again after a reorg brought it back elsewhere
            statement = (
                select(proofs.c.txid, func.max(func.length(proofs.c.raw) + beside))
                .outerjoin(coinbases, of_block)
                .where(proofs.c.chain == chain, proofs.c.txid.in_(batch))
                .group_by(proofs.c.txid)
            )
            lengths |= dict(connection.execute(statement).all())
    return lengths


def proof(engine: Engine, chain: str, txid: bytes) -> Proved | None:
    """The proof of a transaction (txid in internal byte order) in its block of a chain, None when none is kept."""
    return several(engine, chain, [txid]).get(txid)


def several(engine: Engine, chain: str, txids: Iterable[bytes]) -> dict[bytes, Proved]:
    """The proofs of these transactions of a chain by txid, as far as they are stored; check their `sizes` first."""
    stored: dict[bytes, Proved] = {}
    with engine.connect() as connection:
        for batch in batches(set(txids)):
            statement = (
                select(blocks, proofs.c.txid, proofs.c.raw, proofs.c.bump, witness_paths.c.bump.label("witness"))
                .join(proofs, (blocks.c.chain == proofs.c.chain) & (blocks.c.height == proofs.c.height))
                .outerjoin(witness_paths, BESIDE)
                .where(proofs.c.chain == chain, proofs.c.txid.in_(batch))
                .order_by(proofs.c.height)
            )
            matches = connection.execute(statement).mappings().all()
            first = _coinbases(connection, chain, {row["height"] for row in matches})
            for row in matches:
                proof = Proof(row["raw"], row["bump"], row["witness"])
                stored[row["txid"]] = Proved(row["txid"], rows.block(row), proof, first.get(row["height"]))
    return stored


def _coinbases(connection: Connection, chain: str, heights: Iterable[int]) -> dict[int, Coinbase]:
    """The stored coinbases of blocks of a chain, by height."""
    columns = [coinbases.c[name] for name in Coinbase._fields]
    stored: dict[int, Coinbase] = {}
    for batch in batches(heights):
        statement = select(coinbases.c.height, *columns).where(
            coinbases.c.chain == chain, coinbases.c.height.in_(batch)
        )
        stored |= {height: Coinbase(*rest) for height, *rest in connection.execute(statement)}
    return stored


def kept(engine: Engine, txids: Iterable[bytes]) -> set[bytes]:
    """Those of these transactions (internal byte order) of which a proof is kept, on whatever chain."""
    found: set[bytes] = set()
    with engine.connect() as connection:
        for batch in batches(txids):
            some = select(proofs.c.txid).where(proofs.c.txid.in_(batch))
            found.update(connection.execute(some).scalars())
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
