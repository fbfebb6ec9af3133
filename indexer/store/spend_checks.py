"""Checks of outpoints at sources that deliver only selected transactions: when each was last checked, the transactions
that spend one and had not been delivered, and those that are delivered and not proved. Times are seconds since 1970."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from sqlalchemy import Connection, delete, insert, select, tuple_

from indexer.store import outbox
from indexer.store.queries import Queries, batches, insert_new
from indexer.store.registrations import is_live
from indexer.store.schema import events, extra_transactions, spend_checks, unproved_transactions
from indexer.store.writer import Writer
from parsers.bitcoin.tx import Outpoint

ANNOUNCE_EVERY = 6 * 3600
"""Seconds: how old the time of a check in the search index may be. Four changes a day for each registration, however
often its outpoint is checked."""


class SpendCheckQueries(Queries):
    """Reads of checks and of the transactions that they brought."""

    def transactions(self, chain: str) -> Iterator[tuple[int, bytes, bytes]]:
        """Height, raw transaction and merkle path (BRC-74) of the transactions of a chain, lowest first."""
        columns = select(extra_transactions.c.height, extra_transactions.c.raw, extra_transactions.c.bump)
        for row in self._stream(
            columns.where(extra_transactions.c.chain == chain).order_by(extra_transactions.c.height), 100
        ):
            yield row["height"], row["raw"], row["bump"]

    def unproved(self, chain: str) -> list[bytes]:
        """Txids (internal byte order) that a chain's source could not prove yet."""
        txid = unproved_transactions.c.txid
        return [row["txid"] for row in self._rows(select(txid).where(unproved_transactions.c.chain == chain))]

    def due(self, chain: str, before: int, limit: int) -> list[Outpoint]:
        """At most `limit` outpoints of live registrations that were last checked before the time `before`: those never
        checked first, the newest of them first, then those of longest ago."""
        outpoint = (spend_checks.c.txid == events.c.at_txid) & (spend_checks.c.vout == events.c.at_vout)
        statement = (
            select(events.c.at_txid, events.c.at_vout)
            .outerjoin(spend_checks, outpoint & (spend_checks.c.chain == chain))
            .where(is_live(chain, self._engine.dialect.name))
            .where(spend_checks.c.tried_at.is_(None) | (spend_checks.c.tried_at < before))
            .order_by(spend_checks.c.tried_at.is_not(None), spend_checks.c.tried_at, events.c.place.desc())
            .limit(limit)
        )
        return [Outpoint(row["at_txid"], row["at_vout"]) for row in self._rows(statement)]

    def unspent_at(self, chain: str, outpoints: Iterable[Outpoint]) -> dict[Outpoint, int]:
        """When these outpoints were last seen unspent; those never checked are left out."""
        times: dict[Outpoint, int] = {}
        for batch in batches(set(outpoints)):
            among = tuple_(spend_checks.c.txid, spend_checks.c.vout).in_([tuple(outpoint) for outpoint in batch])
            statement = select(spend_checks.c.txid, spend_checks.c.vout, spend_checks.c.checked_at).where(
                spend_checks.c.chain == chain, spend_checks.c.checked_at.is_not(None), among
            )
            times |= {Outpoint(row["txid"], row["vout"]): row["checked_at"] for row in self._rows(statement)}
        return times


def store_transaction(connection: Connection, row: dict[str, Any]) -> None:
    """Store a row of `extra_transactions`, in place of the one of the same transaction."""
    delete_transaction(connection, row["chain"], row["txid"])
    connection.execute(insert(extra_transactions).values(**row))


def delete_transaction(connection: Connection, chain: str, txid: bytes) -> None:
    """Delete a transaction (internal byte order)."""
    connection.execute(
        delete(extra_transactions).where(extra_transactions.c.chain == chain, extra_transactions.c.txid == txid)
    )


def update_unproved(connection: Connection, chain: str, added: Collection[bytes], removed: Collection[bytes]) -> None:
    """Add and remove txids (internal byte order) of unproved transactions."""
    for batch in batches(set(removed)):
        same = (unproved_transactions.c.chain == chain) & unproved_transactions.c.txid.in_(batch)
        connection.execute(delete(unproved_transactions).where(same))
    insert_new(connection, unproved_transactions, [{"chain": chain, "txid": txid} for txid in added])


def record(writer: Writer, chain: str, now: int, spent: Mapping[Outpoint, bool | None]) -> int:
    """Store the answers of a source about outpoints at a time (seconds since 1970): spent, unspent, or None for no
    answer. Returns the number of registrations with a newer time of their check in the outbox."""
    if not spent:
        return 0
    with writer.transaction() as connection:
        return outbox.announce(connection, _record(connection, chain, now, spent), "owner-checked", chain)


def _record(connection: Connection, chain: str, now: int, spent: Mapping[Outpoint, bool | None]) -> list[str]:
    """Store the answers of a source about outpoints at the time `now`: spent, unspent, or None for no answer.

    Returns the registrations at unspent outpoints that the outbox has not announced for `ANNOUNCE_EVERY`.
    """
    new: list[dict[str, Any]] = []
    to_announce: list[str] = []
    for outpoint, answer in spent.items():
        same = (
            spend_checks.c.chain == chain,
            spend_checks.c.txid == outpoint.txid,
            spend_checks.c.vout == outpoint.vout,
        )
        before = connection.execute(select(spend_checks.c.checked_at, spend_checks.c.announced_at).where(*same)).first()
        checked_at, announced_at = before or (None, None)
        connection.execute(delete(spend_checks).where(*same))
        if answer is False:
            checked_at = now
            if announced_at is None or now - announced_at >= ANNOUNCE_EVERY:
                announced_at = now
                at_it = (events.c.chain == chain, events.c.at_txid == outpoint.txid, events.c.at_vout == outpoint.vout)
                to_announce += connection.execute(select(events.c.registration).where(*at_it).distinct()).scalars()
        if not answer:
            key = {"chain": chain, "txid": outpoint.txid, "vout": outpoint.vout}
            new.append(key | {"tried_at": now, "checked_at": checked_at, "announced_at": announced_at})
    if new:
        connection.execute(insert(spend_checks), new)
    return to_announce
