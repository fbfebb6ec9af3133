"""Data for verification by others: transactions with their proofs, and bytes stored under their hash."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import BindParameter, Connection, Select, String, and_, bindparam, delete, func, select

from indexer.model import BlockFacts, BlockRef, Proof
from indexer.store import event_codec
from indexer.store.queries import Queries, Row, batches
from indexer.store.schema import (
    blocks,
    coinbases,
    events,
    proofs,
    witness_paths,
)
from parsers.bitcoin.witness_commitment import CoinbaseProof

SAME_TRANSACTION = and_(*(witness_paths.c[name] == proofs.c[name] for name in ("chain", "height", "txid")))
"""Joins `witness_paths` with `proofs`."""

_SAME_BLOCK = and_(*(coinbases.c[name] == proofs.c[name] for name in ("chain", "height")))


@dataclass(frozen=True, slots=True)
class Proved:
    """A transaction (txid in internal byte order) with its stored proof and its block. `coinbase` proves the
    transaction's witness; None on chains without envelopes in witnesses, and where it was not stored."""

    txid: bytes
    ref: BlockRef
    proof: Proof
    coinbase: CoinbaseProof | None = None


class ProofQueries(Queries):
    """Stored proofs by txid (internal byte order)."""

    def sizes(self, chain: str, txids: Iterable[bytes]) -> dict[bytes, int]:
        """The bytes of the stored proofs of these transactions of a chain, each with the coinbase that proves its
        witness."""
        matches = (row for batch in batches(set(txids)) for row in self._rows(_sizes(), chain=chain, txids=batch))
        return {row["txid"]: row["size"] for row in matches}

    def get(self, chain: str, txid: bytes) -> Proved | None:
        """The proof of a transaction in its block of a chain, None when none is stored."""
        return self.get_many(chain, [txid]).get(txid)

    def get_many(self, chain: str, txids: Iterable[bytes]) -> dict[bytes, Proved]:
        """The stored proofs of these transactions of a chain by txid; check their `sizes` first."""
        matches = (row for batch in batches(set(txids)) for row in self._rows(_proved(), chain=chain, txids=batch))
        return {row["txid"]: _proved_of(row) for row in matches}

    def paths(self, chain: str, height: int, txids: Iterable[bytes]) -> dict[bytes, bytes]:
        """The merkle paths (BRC-74) of the transactions, of those passed in, that are stored with the block at a
        height."""
        in_block = select(proofs.c.txid, proofs.c.bump).where(proofs.c.chain == chain, proofs.c.height == height)
        return {row["txid"]: row["bump"] for row in self._rows_in(in_block, proofs.c.txid, txids)}

    def stored(self, txids: Iterable[bytes]) -> set[bytes]:
        """The txids (internal byte order), of those passed in, for which a proof is stored, on any chain."""
        return {row["txid"] for row in self._rows_in(select(proofs.c.txid), proofs.c.txid, txids)}


def _of_transactions(statement: Select[Any]) -> Select[Any]:
    """The rows of a statement that are of the bound `txids` of a `chain`. Cached by its callers: composing it takes
    longer than its answer."""
    chain: BindParameter[str] = bindparam("chain", type_=String)
    txids: BindParameter[Any] = bindparam("txids", expanding=True)
    return statement.where(proofs.c.chain == chain, proofs.c.txid.in_(txids))


@cache
def _sizes() -> Select[Any]:
    # a transaction may be stored twice: a reorg brought it back in another block
    size = func.max(func.length(proofs.c.raw) + func.coalesce(func.length(coinbases.c.raw), 0))
    statement = select(proofs.c.txid, size.label("size")).outerjoin(coinbases, _SAME_BLOCK)
    return _of_transactions(statement).group_by(proofs.c.txid)


@cache
def _proved() -> Select[Any]:
    """The transactions with their blocks and proofs, the latest block last."""
    coinbase = [coinbases.c[name].label(f"coinbase_{name}") for name in CoinbaseProof._fields]
    columns = (proofs.c.txid, proofs.c.raw, proofs.c.bump, witness_paths.c.bump.label("witness"))
    statement = (
        select(blocks, *columns, *coinbase)
        .join(proofs, (blocks.c.chain == proofs.c.chain) & (blocks.c.height == proofs.c.height))
        .outerjoin(witness_paths, SAME_TRANSACTION)
        .outerjoin(coinbases, _SAME_BLOCK)
    )
    return _of_transactions(statement).order_by(proofs.c.height)


def _proved_of(row: Row) -> Proved:
    coinbase = [row[f"coinbase_{name}"] for name in CoinbaseProof._fields]
    proof = Proof(row["raw"], row["bump"], row["witness"])
    return Proved(row["txid"], event_codec.block(row), proof, None if coinbase[0] is None else CoinbaseProof(*coinbase))


def proof_rows(facts: BlockFacts) -> Iterator[dict[str, Any]]:
    """The rows of `proofs` for a block."""
    ref = facts.ref
    for txid, proof in facts.proofs.items():
        yield {"chain": ref.chain, "height": ref.height, "txid": txid, "raw": proof.raw, "bump": proof.bump}


def delete_unused(connection: Connection, chain: str, txids: Iterable[bytes]) -> None:
    """Delete the proofs of the transactions, of those passed in, that have no events any more."""
    has_events = select(events.c.txid).where(events.c.chain == chain, events.c.txid == proofs.c.txid).exists()
    for batch in batches(txids):
        connection.execute(delete(proofs).where(proofs.c.chain == chain, proofs.c.txid.in_(batch), ~has_events))
