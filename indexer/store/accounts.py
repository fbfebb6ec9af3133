"""What a source of snapshots is compared with: the newest event about each account."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Engine, func, select

from indexer.facts import BlockRef, Event
from indexer.store import rows
from indexer.store.tables import blocks, events


def newest_block(engine: Engine, chain: str) -> BlockRef | None:
    """The newest block stored of a chain."""
    statement = select(blocks).where(blocks.c.chain == chain).order_by(blocks.c.height.desc()).limit(1)
    with engine.connect() as connection:
        row = connection.execute(statement).mappings().first()
    return rows.block(row) if row else None


def newest_events(engine: Engine, chain: str) -> Iterator[Event]:
    """The newest event about each account of a chain: the whole chain is looked through."""
    newest = (
        select(func.max(events.c.place).label("place"))
        .where(events.c.chain == chain)
        .group_by(events.c.txid)
        .subquery()
    )
    statement = select(events).join(newest, events.c.place == newest.c.place).where(events.c.chain == chain)
    with engine.connect().execution_options(yield_per=5_000) as connection:
        for row in connection.execute(statement).mappings():
            yield rows.event(row)
