"""What a source of excerpts needs remembered: transactions found by asking, and when each owner was last checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sqlalchemy import Connection, Engine, Select, delete, insert, select, tuple_

from indexer.store import stories
from indexer.store.batches import batches
from indexer.store.tables import checks, events, found, meta
from parsers.tx import Outpoint

TOLD_SECONDS = 6 * 3600
"""How old the time in the search index may be: four changes a day for each registration, whoever checks how often."""

PARTIAL, UNPROVED = "partial:", "unproved:"
"""Marks of a chain: blocks were read from excerpts; merge-mined headers were taken without their proof of work."""
"""Before a chain's name, a key in `meta`: blocks of it were read from excerpts, and it stays so for good."""


def load(engine: Engine, chain: str) -> Iterator[tuple[int, bytes, bytes]]:
    """Height, raw transaction and merkle path of what was found of a chain, lowest first."""
    statement = select(found.c.height, found.c.raw, found.c.bump).where(found.c.chain == chain).order_by(found.c.height)
    with engine.connect().execution_options(yield_per=100) as connection:
        for row in connection.execute(statement):
            yield row[0], row[1], row[2]


def keep(connection: Connection, row: dict[str, Any]) -> None:
    """Keep a row of `found`, in place of the one of the same transaction."""
    drop(connection, row["chain"], row["txid"])
    connection.execute(insert(found).values(**row))


def drop(connection: Connection, chain: str, txid: bytes) -> None:
    """Keep a transaction no longer."""
    connection.execute(delete(found).where(found.c.chain == chain, found.c.txid == txid))


def due(chain: str, before: int, limit: int) -> Select[Any]:
    """The outpoints of live registrations that were last asked for before that time (seconds since 1970): first those
    that never were, the newest first, then those of longest ago."""
    seat = (checks.c.txid == events.c.at_txid) & (checks.c.vout == events.c.at_vout)
    return (
        select(events.c.at_txid, events.c.at_vout)
        .outerjoin(checks, seat & (checks.c.chain == chain))
        .where(events.c.chain == chain, events.c.at_txid.is_not(None), stories.is_newest(chain))
        .where(checks.c.asked_at.is_(None) | (checks.c.asked_at < before))
        .order_by(checks.c.asked_at.is_not(None), checks.c.asked_at, events.c.place.desc())
        .limit(limit)
    )


def note(connection: Connection, chain: str, when: int, spent: Mapping[Outpoint, bool | None]) -> list[str]:
    """Remember what was said of outpoints at that time (seconds since 1970): spent, unspent, or None for nothing.

    Returned are the registrations at unspent ones of which the outbox has not told a time for TOLD_SECONDS.
    """
    rows, stale = [], []
    for outpoint, answer in spent.items():
        row = (checks.c.chain == chain, checks.c.txid == outpoint.txid, checks.c.vout == outpoint.vout)
        former = connection.execute(select(checks.c.checked_at, checks.c.told_at).where(*row)).first()
        checked_at, told_at = former or (None, None)
        connection.execute(delete(checks).where(*row))
        if answer is False:
            checked_at = when
            if told_at is None or when - told_at >= TOLD_SECONDS:
                told_at = when
                stale += _there(connection, chain, outpoint)
        if not answer:
            at = {"chain": chain, "txid": outpoint.txid, "vout": outpoint.vout}
            rows.append(at | {"asked_at": when, "checked_at": checked_at, "told_at": told_at})
    if rows:
        connection.execute(insert(checks), rows)
    return stale


def _there(connection: Connection, chain: str, outpoint: Outpoint) -> list[str]:
    """The registrations that ever were at an outpoint."""
    seat = (events.c.chain == chain, events.c.at_txid == outpoint.txid, events.c.at_vout == outpoint.vout)
    return list(connection.execute(select(events.c.registration).where(*seat).distinct()).scalars())


def checked(engine: Engine, chain: str, outpoints: Iterable[Outpoint]) -> dict[Outpoint, int]:
    """When each of these outpoints was last seen unspent, in seconds since 1970; those never checked are left out."""
    times: dict[Outpoint, int] = {}
    with engine.connect() as connection:
        for batch in batches(set(outpoints)):
            among = tuple_(checks.c.txid, checks.c.vout).in_([tuple(each) for each in batch])
            statement = select(checks.c.txid, checks.c.vout, checks.c.checked_at).where(
                checks.c.chain == chain, checks.c.checked_at.is_not(None), among
            )
            times |= {Outpoint(txid, vout): when for txid, vout, when in connection.execute(statement)}
    return times


def mark(connection: Connection, kind: str, chain: str) -> bool:
    """Remember a mark of a chain for good; False when it had that already."""
    if connection.execute(select(meta.c.key).where(meta.c.key == kind + chain)).scalar() is not None:
        return False
    connection.execute(insert(meta).values(key=kind + chain, value="yes"))
    return True


def is_marked(engine: Engine, kind: str, chain: str) -> bool:
    """Whether a chain has a mark."""
    with engine.connect() as connection:
        return connection.execute(select(meta.c.key).where(meta.c.key == kind + chain)).scalar() is not None
