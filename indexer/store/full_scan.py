"""All facts in order, streamed: the source of a snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Generic, TypeVar

from sqlalchemy import and_, or_, select

from indexer.model import BlockFacts, Event, Proof
from indexer.store import event_codec
from indexer.store.map_changes import EventQueries
from indexer.store.proofs import SAME_TRANSACTION
from indexer.store.schema import blocks, cards, changes, coinbases, events, parents, proofs, witness_paths
from parsers.bitcoin.witness_commitment import CoinbaseProof

_T = TypeVar("_T")

ROWS_AT_ONCE, BODIES_AT_ONCE = 1_000, 16
"""Rows in memory at a time; of card bodies and transactions, of up to 16 MiB, fewer."""


class FullScan(EventQueries):
    """Reads of everything, a few rows in memory at a time."""

    def block_facts(self, chain: str, up_to: int) -> Iterator[BlockFacts]:
        """The stored blocks of a chain up to a height, in order, each with its events and proofs; without card
        bodies."""
        of_chain = select(blocks).where(blocks.c.chain == chain, blocks.c.height <= up_to).order_by(blocks.c.height)
        block_events = _ByHeight(self._events(chain, up_to))
        block_proofs = _ByHeight(self._proofs(chain, up_to))
        coinbase_at = _ByHeight(self._coinbases(chain, up_to))
        for row in self._stream(of_chain, ROWS_AT_ONCE):
            height, ref = row["height"], event_codec.block(row)
            proved = block_proofs.take(height) or {}
            yield BlockFacts(ref, block_events.take(height) or (), {}, proved, coinbase_at.take(height))

    def _events(self, chain: str, up_to: int) -> Iterator[tuple[int, tuple[Event, ...]]]:
        of_chain = select(events).where(events.c.chain == chain, events.c.place < event_codec.event_position(up_to + 1))
        stream = self._stream(of_chain.order_by(events.c.place), ROWS_AT_ONCE)
        for height, of_block in groupby(stream, key=lambda row: int(row["height"])):
            yield height, tuple(map(event_codec.event, of_block))

    def _proofs(self, chain: str, up_to: int) -> Iterator[tuple[int, dict[bytes, Proof]]]:
        of_chain = (
            select(proofs, witness_paths.c.bump.label("witness"))
            .outerjoin(witness_paths, SAME_TRANSACTION)
            .where(proofs.c.chain == chain, proofs.c.height <= up_to)
            .order_by(proofs.c.height)
        )
        for height, of_block in groupby(self._stream(of_chain, BODIES_AT_ONCE), key=lambda row: int(row["height"])):
            yield height, {row["txid"]: Proof(row["raw"], row["bump"], row["witness"]) for row in of_block}

    def _coinbases(self, chain: str, up_to: int) -> Iterator[tuple[int, CoinbaseProof]]:
        of_chain = select(coinbases).where(coinbases.c.chain == chain, coinbases.c.height <= up_to)
        for row in self._stream(of_chain.order_by(coinbases.c.height), BODIES_AT_ONCE):
            yield row["height"], CoinbaseProof(row["raw"], row["reserved"], row["bump"])

    def card_bodies(self, up_to: Mapping[str, int]) -> Iterator[bytes]:
        """The card bodies that events of these chains up to these heights name, sorted by their SHA-256."""
        within = or_(
            *(
                and_(events.c.chain == name, events.c.place < event_codec.event_position(h + 1))
                for name, h in up_to.items()
            )
        )
        named = select(events.c.card).where(events.c.card.is_not(None), within)
        bodies = select(cards.c.body).where(cards.c.sha256.in_(named)).order_by(cards.c.sha256)
        for row in self._stream(bodies, BODIES_AT_ONCE):
            yield row["body"]

    def parents(self) -> Iterator[bytes]:
        """The raw transactions that output values were looked up in, sorted by txid in internal byte order."""
        for row in self._stream(select(parents.c.raw).order_by(parents.c.txid), BODIES_AT_ONCE):
            yield row["raw"]

    def has_reverted(self, since: int, up_to: Mapping[str, int]) -> bool:
        """Whether blocks up to these heights were rolled back after the sequence number `since`."""
        lower = or_(*(and_(changes.c.chain == chain, changes.c.height < height) for chain, height in up_to.items()))
        reverted = select(changes.c.seq).where(changes.c.seq > since, changes.c.op == "revert", lower)
        return bool(self._rows(reverted.limit(1)))


class _ByHeight(Generic[_T]):
    """Values by ascending height, consumed while all blocks are scanned."""

    def __init__(self, pairs: Iterator[tuple[int, _T]]) -> None:
        self._pairs, self._next = pairs, next(pairs, None)

    def take(self, height: int) -> _T | None:
        """The value of a height, None without one. Heights must ascend."""
        if self._next is None or self._next[0] != height:
            return None
        value, self._next = self._next[1], next(self._pairs, None)
        return value
