"""Anchors of the registry's topic (BRC-136) on a BSV chain: chained digests of what each block adds to the registry.

Admitted are all transactions with an event of a registration, and those with a valid pointer; near misses are not.
Anchors follow from blocks and events alone: they are computed in the transaction that appends a block, and deleted with
it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, and_, delete, func, insert, or_, select, true

from indexer.headers.networks import topic_genesis
from indexer.model import EventKind
from indexer.store.queries import Queries
from indexer.store.schema import CHAIN, blocks, events, meta, topic_anchors
from indexer.store.writer import Writer
from parsers.bitcoin import basm
from parsers.bitcoin.basm import AdmittedTransaction, TopicAnchor

EVERY = 256
"""An anchor without admitted transactions is stored at each multiple of this height: so many blocks are hashed again,
at most, to compute one between."""

ADMITTED = or_(events.c.registration.is_not(None), and_(events.c.anchor.is_not(None), events.c.valid))
"""Events of admitted transactions."""

SAME_BLOCK = and_(topic_anchors.c.chain == blocks.c.chain, topic_anchors.c.height == blocks.c.height)
"""Joins `topic_anchors` with `blocks`."""


@dataclass(frozen=True, slots=True)
class AdmittedList:
    """Admitted transactions of a block, in block order, of `count` in all."""

    block_hash: bytes
    count: int
    transactions: tuple[AdmittedTransaction, ...]


class TopicAnchorQueries(Queries):
    """Anchors by chain and height."""

    def genesis(self, chain: str) -> int | None:
        """The height of the first anchor of a chain: the topic's first, or the first block that was read where that is
        above it. None on chains without anchors."""
        with self._engine.connect() as connection:
            return _genesis(connection, chain)

    def newest(self, chain: str) -> TopicAnchor | None:
        """The anchor of the newest block of a chain; None before the topic's first block, and without a topic."""
        last = select(func.max(topic_anchors.c.height)).where(topic_anchors.c.chain == chain)
        anchors = self._from(chain, last.scalar_subquery(), None)
        return anchors[-1] if anchors else None

    def between(self, chain: str, first: int, last: int) -> list[TopicAnchor]:
        """The anchors of the blocks of a chain from one height to another, as far as these exist."""
        before = select(func.max(topic_anchors.c.height)).where(
            topic_anchors.c.chain == chain, topic_anchors.c.height < first
        )
        return [anchor for anchor in self._from(chain, before.scalar_subquery(), last) if anchor.height >= first]

    def _from(self, chain: str, stored: Any, last: int | None) -> list[TopicAnchor]:
        """The anchors from that at a `stored` height on, else from the first; up to `last`, else to the newest. They
        are read in one statement: a reorganisation meanwhile does not mix two branches."""
        genesis = self.genesis(chain)
        if genesis is None:
            return []
        columns = (blocks.c.height, blocks.c.hash, topic_anchors.c.root, topic_anchors.c.admitted, topic_anchors.c.tac)
        statement = (
            select(*columns)
            .outerjoin(topic_anchors, SAME_BLOCK)
            .where(blocks.c.chain == chain, blocks.c.height >= func.coalesce(stored, genesis))
        )
        if last is not None:
            statement = statement.where(blocks.c.height <= last)
        anchors: list[TopicAnchor] = []
        tac = basm.NO_HASH
        for row in self._rows(statement.order_by(blocks.c.height)):
            if row["tac"] is None:
                tac = basm.chained(tac, row["hash"], basm.NO_HASH)
                anchors.append(TopicAnchor(row["height"], row["hash"], basm.NO_HASH, 0, tac))
            else:
                tac = row["tac"]
                anchors.append(TopicAnchor(row["height"], row["hash"], row["root"], row["admitted"], tac))
        return anchors

    def admitted(self, chain: str, height: int, offset: int = 0, limit: int | None = None) -> AdmittedList | None:
        """The admitted transactions of the block of a chain at a height, from an offset on; None without a block
        there."""
        listed = (
            select(events.c.tx_index, events.c.txid)
            .where(events.c.chain == chain, events.c.height == height, ADMITTED)
            .distinct()
            .order_by(events.c.tx_index)
            .offset(offset)
            .limit(limit)
            .subquery()
        )
        of_block = (blocks.c.chain == chain, blocks.c.height == height)
        # one statement, so that a reorganisation meanwhile does not mix two blocks
        statement = (
            select(blocks.c.hash, func.coalesce(topic_anchors.c.admitted, 0).label("count"), listed)
            .outerjoin(topic_anchors, SAME_BLOCK)
            .outerjoin(listed, true())
            .where(*of_block)
            .order_by(listed.c.tx_index)
        )
        matches = self._rows(statement)
        if not matches:
            return None
        transactions = (AdmittedTransaction(row["txid"], row["tx_index"]) for row in matches if row["txid"] is not None)
        return AdmittedList(matches[0]["hash"], matches[0]["count"], tuple(transactions))

    def undecided_from(self, chain: str) -> int | None:
        """The height of the first undecided event of a chain (law 3); from there on other overlays may have admitted
        more. None without one."""
        height: int | None = self._scalar(
            select(func.min(events.c.height)).where(events.c.chain == chain, events.c.kind == EventKind.UNDECIDED.value)
        )
        return height


def _genesis(connection: Connection, chain: str) -> int | None:
    caip2 = connection.execute(select(meta.c.value).where(meta.c.key == CHAIN + chain)).scalar()
    genesis = topic_genesis(caip2) if caip2 is not None else None
    lowest = connection.execute(select(func.min(blocks.c.height)).where(blocks.c.chain == chain)).scalar()
    return None if genesis is None or lowest is None else max(genesis, lowest)


def extend(connection: Connection, chain: str) -> None:
    """Store the anchors of the newest blocks of a chain, from the newest stored anchor on."""
    genesis = _genesis(connection, chain)
    if genesis is None:
        return
    stored = select(topic_anchors.c.height, topic_anchors.c.tac).where(topic_anchors.c.chain == chain)
    last = connection.execute(stored.order_by(topic_anchors.c.height.desc()).limit(1)).first()
    height, tac = (last.height, last.tac) if last else (genesis - 1, basm.NO_HASH)
    newest = connection.execute(select(func.max(blocks.c.height)).where(blocks.c.chain == chain)).scalar_one()
    for first in range(height + 1, newest + 1, EVERY):
        last_height = min(first + EVERY - 1, newest)
        of_heights = select(blocks.c.height, blocks.c.hash).where(
            blocks.c.chain == chain, blocks.c.height.between(first, last_height)
        )
        statement = (
            select(events.c.height, events.c.tx_index, events.c.txid)
            .where(events.c.chain == chain, events.c.height.between(first, last_height), ADMITTED)
            .distinct()
            .order_by(events.c.height, events.c.tx_index)
        )
        by_height = groupby(connection.execute(statement), key=lambda row: row.height)
        admitted = {height: [row.txid for row in of_block] for height, of_block in by_height}
        new = []
        for number, block_hash in connection.execute(of_heights.order_by(blocks.c.height)).all():
            txids = admitted.get(number, ())
            root = basm.root(txids)
            tac = basm.chained(tac, block_hash, root)
            if txids or number % EVERY == 0:
                new.append({"chain": chain, "height": number, "root": root, "admitted": len(txids), "tac": tac})
        if new:
            connection.execute(insert(topic_anchors), new)


def rebuild(writer: Writer, chain: str) -> None:
    """Compute the anchors of the topic (BRC-136) again from the stored blocks and events of a chain."""
    with writer.transaction() as connection:
        connection.execute(delete(topic_anchors).where(topic_anchors.c.chain == chain))
        extend(connection, chain)
