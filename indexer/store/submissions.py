"""Submitted transactions: what serving processes accepted with a proof, and what the mempool reads as unconfirmed.

Whether one is still pending is a query: it is in no indexed block, and its time is not over. A reorganisation that
takes its block makes it pending again without further code.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Table, delete, func, insert, select, update

from indexer.store.database import writing
from indexer.store.locks import AdvisoryLock
from indexer.store.queries import Queries, batches, count, insert_new, rows_in
from indexer.store.schema import blocks, events, pending, submission_inputs, submission_shares, submissions
from parsers.bitcoin.tx import Outpoint

PENDING_BLOCKS = 144
"""Blocks after which a submitted transaction that was not mined is deleted."""

MAX_SUBMISSIONS, MAX_BYTES = 10_000, 512 << 20
"""Submitted transactions, ancestors included, and their bytes at once."""

MAX_OF_OWNER, MAX_OF_CLIENT = 250, 500
"""Submitted transactions at once that no source has in its mempool or a block, by one owner of coins and by one client:
they cost nothing until they are broadcast."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A transaction (txid in internal byte order) with its raw bytes and the outpoints that it spends. `steak` is the
    answer to its client, as JSON, and `beef` its proof; both None for an ancestor of another submission."""

    txid: bytes
    raw: bytes
    spends: tuple[Outpoint, ...]
    steak: str | None = None
    beef: bytes | None = None


class Share(NamedTuple):
    """The accounts that submitted transactions are charged to: the SHA-256 of the script of a coin, and a client."""

    owner: bytes
    client: str


class DoubleSpendError(Exception):
    """An output is spent already by a transaction that is in a block, unconfirmed or submitted."""


class FullError(Exception):
    """The limit of pending transactions is reached."""


class Submissions(Queries):
    """The submitted transactions in one database; several threads and processes may use it at once. Methods that
    write raise StoreError when the database refuses."""

    def add(self, chain: str, transactions: Sequence[Submission], share: Share) -> None:
        """Store transactions, all or none. Stored ones are not changed, except for a missing answer. Raises
        DoubleSpendError, and FullError."""
        with writing(self._engine, AdvisoryLock.SUBMISSIONS) as connection:
            by_txid = {transaction.txid: transaction for transaction in transactions}
            stored = _stored(connection, chain, by_txid)
            new = [transaction for txid, transaction in by_txid.items() if txid not in stored]
            _check_room(connection, new)
            _check_share(connection, chain, share, len(new))
            _check_unspent(connection, chain, new)
            newest = select(func.max(blocks.c.height)).where(blocks.c.chain == chain)
            height = connection.execute(newest).scalar() or 0
            if new:
                connection.execute(insert(submissions), [_row(chain, height, transaction) for transaction in new])
                insert_new(
                    connection, submission_inputs, [row for submission in new for row in _input_rows(chain, submission)]
                )
                shares = [{"chain": chain, "txid": submission.txid, **share._asdict()} for submission in new]
                connection.execute(insert(submission_shares), shares)
            for txid in stored & {submission.txid for submission in transactions if submission.steak is not None}:
                same = (submissions.c.chain == chain, submissions.c.txid == txid, submissions.c.steak.is_(None))
                answered = {"steak": by_txid[txid].steak, "beef": by_txid[txid].beef}
                connection.execute(update(submissions).where(*same).values(answered))

    def steak(self, chain: str, txid: bytes) -> str | None:
        """The answer that a transaction got when it was submitted, None where it was not."""
        text: str | None = self._scalar(
            select(submissions.c.steak).where(submissions.c.chain == chain, submissions.c.txid == txid)
        )
        return text

    def beef(self, chain: str, txid: bytes) -> bytes | None:
        """The BEEF with which a transaction was submitted, else that of a submission that descends from it; None where
        there is neither."""
        seen, level = set[bytes](), [txid]
        with self._engine.connect() as connection:
            while level:
                seen.update(level)
                for batch in batches(level):
                    of_batch = (
                        submissions.c.chain == chain,
                        submissions.c.txid.in_(batch),
                        submissions.c.beef.is_not(None),
                    )
                    held: bytes | None = connection.execute(
                        select(submissions.c.beef).where(*of_batch).limit(1)
                    ).scalar()
                    if held is not None:
                        return held
                level = sorted(set(_children(connection, chain, level)) - seen)
        return None

    def pending(self, chain: str) -> frozenset[bytes]:
        """The txids of the submitted transactions of a chain without an event in a block."""
        return frozenset(self._scalars(select(submissions.c.txid).where(*_pending(chain))))

    def stored(self, chain: str, txids: Iterable[bytes]) -> set[bytes]:
        """Those of these transactions that were submitted."""
        with self._engine.connect() as connection:
            return _stored(connection, chain, txids)

    def raws(self, chain: str, txids: Iterable[bytes]) -> dict[bytes, bytes]:
        """Raw transactions by txid; unknown ones are left out."""
        of_chain = select(submissions.c.txid, submissions.c.raw).where(submissions.c.chain == chain)
        return {row["txid"]: row["raw"] for row in self._rows_in(of_chain, submissions.c.txid, txids)}

    def spends(self, chain: str) -> dict[Outpoint, bytes]:
        """What the pending transactions of a chain spend, with the txid of each."""
        statement = select(submission_inputs).join(submissions, _OWN_INPUTS).where(*_pending(chain))
        return {Outpoint(row["spent_txid"], row["spent_vout"]): row["txid"] for row in self._rows(statement)}

    def unsent(self, chain: str, limit: int, but: Collection[bytes] = ()) -> list[tuple[bytes, bytes]]:
        """At most `limit` pending transactions (txid, raw) that no source has accepted yet, the oldest first, without
        those in `but`."""
        unsent = (submissions.c.chain == chain, ~submissions.c.sent)
        statement = select(submissions.c.txid).where(*unsent).order_by(submissions.c.height)
        pending = self.pending(chain)
        txids = [txid for txid in self._scalars(statement) if txid in pending and txid not in but][:limit]
        raws = self.raws(chain, txids)
        return [(txid, raws[txid]) for txid in txids if txid in raws]

    def settle(self, chain: str, txids: Collection[bytes]) -> None:
        """End the charge of these transactions: the source has them, so they cost their fee."""
        if not txids:
            return
        with writing(self._engine, AdvisoryLock.SUBMISSIONS) as connection:
            for batch in batches(txids):
                of_batch = (submission_shares.c.chain == chain, submission_shares.c.txid.in_(batch))
                connection.execute(delete(submission_shares).where(*of_batch))

    def mark_sent(self, chain: str, txids: Collection[bytes]) -> None:
        """Note that the chain's source accepted these transactions."""
        if not txids:
            return
        with writing(self._engine, AdvisoryLock.SUBMISSIONS) as connection:
            for batch in batches(txids):
                of_batch = (submissions.c.chain == chain, submissions.c.txid.in_(batch))
                connection.execute(update(submissions).where(*of_batch).values(sent=True))

    def drop(self, chain: str, txids: Iterable[bytes]) -> int:
        """Delete these transactions and all submitted ones that descend from them; how many there were."""
        dropped, waiting = set[bytes](), list(txids)
        with writing(self._engine, AdvisoryLock.SUBMISSIONS) as connection:
            while waiting:
                dropped.update(waiting)
                waiting = [txid for txid in dict.fromkeys(_children(connection, chain, waiting)) if txid not in dropped]
            deleted = 0
            for batch in batches(dropped):
                of_batch = (submissions.c.chain == chain, submissions.c.txid.in_(batch))
                deleted += connection.execute(delete(submissions).where(*of_batch)).rowcount
        return deleted

    def trim(self, chain: str, height: int) -> int:
        """Delete the expired transactions of a chain with its newest block at `height`. Returns their number."""
        over = (submissions.c.chain == chain, submissions.c.height <= height - PENDING_BLOCKS)
        if self._scalar(select(submissions.c.txid).where(*over).limit(1)) is None:
            return 0
        with writing(self._engine, AdvisoryLock.SUBMISSIONS) as connection:
            return connection.execute(delete(submissions).where(*over)).rowcount


_OWN_INPUTS = (submission_inputs.c.chain == submissions.c.chain) & (submission_inputs.c.txid == submissions.c.txid)


def _pending(chain: str) -> tuple[Any, ...]:
    return (submissions.c.chain == chain, ~_has_event(submissions))


def _has_event(table: Table) -> ColumnElement[bool]:
    """Whether a block has an event of a row's transaction."""
    return select(events.c.txid).where(events.c.txid == table.c.txid, events.c.chain == table.c.chain).exists()


def _stored(connection: Connection, chain: str, txids: Iterable[bytes]) -> set[bytes]:
    of_chain = select(submissions.c.txid).where(submissions.c.chain == chain)
    return {row["txid"] for row in rows_in(connection, of_chain, submissions.c.txid, txids)}


def _check_room(connection: Connection, new: Sequence[Submission]) -> None:
    stored, size = connection.execute(
        select(
            func.count(), func.sum(func.length(submissions.c.raw) + func.coalesce(func.length(submissions.c.beef), 0))
        )
    ).one()
    added = sum(len(transaction.raw) + len(transaction.beef or b"") for transaction in new)
    if new and (stored + len(new) > MAX_SUBMISSIONS or (size or 0) + added > MAX_BYTES):
        raise FullError(f"{stored:,} submitted transactions wait to be mined, the most that are stored")


def _check_share(connection: Connection, chain: str, share: Share, added: int) -> None:
    """Raise FullError where an owner or a client has reached the limit of unproved transactions."""
    for column, value, limit, holder in (
        (submission_shares.c.owner, share.owner, MAX_OF_OWNER, "the owner of this coin"),
        (submission_shares.c.client, share.client, MAX_OF_CLIENT, "this client"),
    ):
        unsettled = (submission_shares.c.chain == chain, column == value, ~_has_event(submission_shares))
        stored = count(connection, submission_shares, *unsettled)
        if added and stored and stored + added > limit:
            raise FullError(
                f"{stored:,} submitted transactions of {holder} wait, unknown to any source: at most {limit:,} may"
            )


def _check_unspent(connection: Connection, chain: str, new: Iterable[Submission]) -> None:
    """Raise DoubleSpendError where a submitted or unconfirmed transaction spends what a new one spends."""
    spends = {outpoint: submission.txid for submission in new for outpoint in submission.spends}
    for table in (submission_inputs, pending):
        spenders = select(table.c.spent_txid, table.c.spent_vout, table.c.txid).where(table.c.chain == chain)
        txids = {outpoint.txid for outpoint in spends}
        for row in rows_in(connection, spenders, table.c.spent_txid, txids):
            outpoint, rival = Outpoint(row["spent_txid"], row["spent_vout"]), row["txid"]
            if spends.get(outpoint, rival) != rival:
                raise DoubleSpendError(
                    f"transaction {spends[outpoint][::-1].hex()} spends {outpoint}, which transaction "
                    f"{rival[::-1].hex()} has spent"
                )


def _children(connection: Connection, chain: str, txids: Iterable[bytes]) -> list[bytes]:
    """The submitted transactions that spend an output of these."""
    of_chain = select(submission_inputs.c.txid).where(submission_inputs.c.chain == chain)
    return [row["txid"] for row in rows_in(connection, of_chain, submission_inputs.c.spent_txid, txids)]


def _row(chain: str, height: int, submission: Submission) -> dict[str, Any]:
    return {
        "chain": chain, "txid": submission.txid, "raw": submission.raw, "height": height,
        "steak": submission.steak, "beef": submission.beef,
        "sent": False,
    }  # fmt: skip


def _input_rows(chain: str, submission: Submission) -> list[dict[str, Any]]:
    return [
        {"chain": chain, "spent_txid": outpoint.txid, "spent_vout": outpoint.vout, "txid": submission.txid}
        for outpoint in submission.spends
    ]
