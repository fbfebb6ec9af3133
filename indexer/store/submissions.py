"""Submitted transactions: serving processes accept them with a proof, and the mempool reads them as unconfirmed.

Whether one is still pending is a query: it is in no indexed block, and its time is not over. A reorganisation that
takes its block makes it pending again without further code.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Table, delete, func, insert, select, update

from indexer.client_networks import networks_of
from indexer.store.database import writing
from indexer.store.locks import advisory_lock
from indexer.store.pending import PROVED
from indexer.store.queries import Queries, batches, insert_new, of_network, rows_in
from indexer.store.schema import blocks, events, pending, submission_inputs, submission_shares, submissions
from parsers.bitcoin.tx import Outpoint

SUBMISSIONS_LOCK = advisory_lock("s")
"""While a submitted transaction is compared with the others and added."""

log = logging.getLogger(__name__)

PENDING_BLOCKS = 144
"""Blocks after which a submitted transaction that was not mined is deleted."""

MAX_SUBMISSIONS, MAX_BYTES = 10_000, 512 << 20
"""Submitted transactions, ancestors included, and their bytes with those of their proofs at once. Beyond, the oldest of
the largest owner are deleted."""

MAX_LISTINGS, MAX_SHARE_BYTES = 20, 16 << 20
"""The limits of transactions that no source has in its mempool or a block, which cost nothing until they are broadcast:
the listings at once that they make or change, and their bytes, of one owner of coins and of one client
(`client_networks`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A transaction (txid in internal byte order) with its raw bytes, the outpoints that it spends, and the number of
    listings that each of its records makes or changes. `steak` is the answer to its client, as JSON, and `beef` its
    proof; both None for an ancestor of another submission."""

    txid: bytes
    raw: bytes
    spends: tuple[Outpoint, ...]
    listings: tuple[int, ...] = ()
    steak: str | None = None
    beef: bytes | None = None

    @property
    def size(self) -> int:
        """The bytes of the transaction and of its proof."""
        return len(self.raw) + len(self.beef or b"")


class Share(NamedTuple):
    """The accounts that submitted transactions are charged to: the SHA-256 of the script of a coin, and a client, which
    is "" for none, as where the operator names a peer."""

    owner: bytes
    client: str


class DoubleSpendError(Exception):
    """An output is spent already by a transaction that is in a block, unconfirmed or submitted."""


class FullError(Exception):
    """A limit of submitted transactions is reached."""


class Submissions(Queries):
    """The submitted transactions in one database; several threads and processes may use it at once. Methods that
    write raise StoreError when the database refuses."""

    def add(self, chain: str, transactions: Sequence[Submission], share: Share) -> None:
        """Store transactions, all or none. Stored ones are not changed, except for a missing answer. Raises
        DoubleSpendError, and FullError."""
        with writing(self._engine, SUBMISSIONS_LOCK) as connection:
            by_txid = {transaction.txid: transaction for transaction in transactions}
            stored = _stored(connection, chain, by_txid)
            new = [transaction for txid, transaction in by_txid.items() if txid not in stored]
            if new:
                # those that the source has in its mempool, or had, as far as the mempool was read
                of_mempool = select(pending.c.txid).where(pending.c.chain == chain, PROVED)
                matches = rows_in(connection, of_mempool, pending.c.txid, [submission.txid for submission in new])
                settled = {row["txid"] for row in matches}
                _check_share(
                    connection, chain, share, [submission for submission in new if submission.txid not in settled]
                )
                _check_unspent(connection, chain, new)
                _make_room(connection, share.owner, new, but={(chain, txid) for txid in stored})
                _insert(connection, chain, share, new, settled)
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
        """The txids (internal byte order), of those passed in, that were submitted."""
        with self._engine.connect() as connection:
            return _stored(connection, chain, txids)

    def raws(self, chain: str, txids: Iterable[bytes]) -> dict[bytes, bytes]:
        """Raw transactions by txid; unknown ones are left out."""
        of_chain = select(submissions.c.txid, submissions.c.raw).where(submissions.c.chain == chain)
        return {row["txid"]: row["raw"] for row in self._rows_in(of_chain, submissions.c.txid, txids)}

    def spends(self, chain: str) -> dict[Outpoint, bytes]:
        """The outpoints that the pending transactions of a chain spend, each with the txid that spends it."""
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

    def unsettled(self, chain: str) -> dict[bytes, bool]:
        """The txids of the submitted transactions of a chain that no source was known to have, with whether a block has
        an event of each by now."""
        of_chain = (submission_shares.c.chain == chain, ~submission_shares.c.settled)
        rows = self._rows(
            select(submission_shares.c.txid, _has_event(submission_shares).label("mined")).where(*of_chain)
        )
        return {row["txid"]: bool(row["mined"]) for row in rows}

    def settle(self, chain: str, txids: Collection[bytes]) -> None:
        """End the charge of these transactions: the source has them, so they cost their fee."""
        self._update(submission_shares, chain, txids, settled=True)

    def mark_sent(self, chain: str, txids: Collection[bytes]) -> None:
        """Note that the chain's source accepted these transactions."""
        self._update(submissions, chain, txids, sent=True)
        self.settle(chain, txids)

    def _update(self, table: Table, chain: str, txids: Collection[bytes], **values: bool) -> None:
        if not txids:
            return
        with writing(self._engine, SUBMISSIONS_LOCK) as connection:
            for batch in batches(txids):
                of_batch = (table.c.chain == chain, table.c.txid.in_(batch))
                connection.execute(update(table).where(*of_batch).values(**values))

    def drop(self, chain: str, txids: Iterable[bytes]) -> int:
        """Delete these transactions and all submitted ones that descend from them; returns their number."""
        with writing(self._engine, SUBMISSIONS_LOCK) as connection:
            return _drop(connection, chain, txids)

    def trim(self, chain: str, height: int) -> int:
        """Delete the expired transactions of a chain with its newest block at `height`. Returns their number."""
        over = (submissions.c.chain == chain, submissions.c.height <= height - PENDING_BLOCKS)
        if self._scalar(select(submissions.c.txid).where(*over).limit(1)) is None:
            return 0
        with writing(self._engine, SUBMISSIONS_LOCK) as connection:
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


def _check_share(connection: Connection, chain: str, share: Share, new: Sequence[Submission]) -> None:
    """Raise FullError where transactions that no source has are too many for an owner or a client. The first record is
    taken however many listings it makes, as is a proof of any size."""
    records = [count for submission in new for count in submission.listings]
    added, size = sum(records), sum(submission.size for submission in new)
    charged = select(func.sum(submission_shares.c.listings), func.sum(submission_shares.c.size)).where(
        submission_shares.c.chain == chain, ~submission_shares.c.settled, ~_has_event(submission_shares)
    )
    networks = networks_of(share.client) if share.client else ()
    for charge, factor, holder in (
        (submission_shares.c.owner == share.owner, 1, "the owner of this coin"),
        *(
            (of_network(connection, submission_shares.c.client, network), network.factor, network.title)
            for network in networks
        ),
    ):
        listings, stored = (int(total or 0) for total in connection.execute(charged.where(charge)).one())
        most, most_bytes = MAX_LISTINGS * factor, MAX_SHARE_BYTES * factor
        if added and listings + added > most and (listings or len(records) > 1):
            what = f"{listings + added:,} listings of {holder}: at most {most:,} are"
        elif new and stored and stored + size > most_bytes:
            what = f"{stored + size:,} bytes of {holder}: at most {most_bytes:,} are"
        else:
            continue
        raise FullError(f"{what} stored that no source has; broadcast them first, or submit more once those are seen")


def _make_room(
    connection: Connection, owner: bytes, new: Sequence[Submission], but: Collection[tuple[str, bytes]]
) -> None:
    """Delete the oldest submitted transaction, but none of `but`, of the owner with the most, and its descendants,
    until new ones of an owner fit. Raises FullError where the new ones are more than any other owner has."""
    size = func.length(submissions.c.raw) + func.coalesce(func.length(submissions.c.beef), 0)
    count, total = connection.execute(select(func.count(), func.sum(size)).select_from(submissions)).one()
    excess = count + len(new) - MAX_SUBMISSIONS
    excess_bytes = int(total or 0) + sum(submission.size for submission in new) - MAX_BYTES
    if excess <= 0 and excess_bytes <= 0:
        return
    of_share = (submission_shares.c.chain == submissions.c.chain) & (submission_shares.c.txid == submissions.c.txid)
    columns = (submissions.c.chain, submissions.c.txid, submission_shares.c.owner, size.label("size"))
    oldest = select(*columns).outerjoin(submission_shares, of_share)
    by_owner: defaultdict[bytes, deque[tuple[str, bytes, int]]] = defaultdict(deque)
    for row in connection.execute(oldest.order_by(submission_shares.c.number, submissions.c.height)):
        if (row.chain, row.txid) not in but:
            by_owner[row.owner or b""].append((row.chain, row.txid, row.size))
    part = Counter({owner: sum(_part(submission.size) for submission in new)})
    for holder, transactions in by_owner.items():
        part[holder] += sum(_part(bytes_) for *_, bytes_ in transactions)
    largest = [(-value, holder == owner, holder) for holder, value in part.items()]  # of equal ones another
    heapify(largest)
    dropped: defaultdict[str, list[bytes]] = defaultdict(list)
    while excess > 0 or excess_bytes > 0:
        value, is_own, holder = heappop(largest)
        if not by_owner[holder]:
            raise FullError("all room for submitted transactions is taken, by smaller ones of others")
        chain, txid, bytes_ = by_owner[holder].popleft()
        dropped[chain].append(txid)
        excess, excess_bytes = excess - 1, excess_bytes - bytes_
        heappush(largest, (value + _part(bytes_), is_own, holder))
    for chain, txids in dropped.items():
        log.warning("%s: %d submitted transactions dropped to make room", chain, _drop(connection, chain, txids))


def _part(size: int) -> int:
    """The part of all room that one transaction takes, by number and by bytes together."""
    return MAX_BYTES + size * MAX_SUBMISSIONS


def _insert(
    connection: Connection, chain: str, share: Share, new: Sequence[Submission], settled: Collection[bytes]
) -> None:
    newest = select(func.max(blocks.c.height)).where(blocks.c.chain == chain)
    height = connection.execute(newest).scalar() or 0
    first = (connection.execute(select(func.max(submission_shares.c.number))).scalar() or 0) + 1
    connection.execute(insert(submissions), [_row(chain, height, submission) for submission in new])
    inputs = [
        {"chain": chain, "spent_txid": outpoint.txid, "spent_vout": outpoint.vout, "txid": submission.txid}
        for submission in new
        for outpoint in submission.spends
    ]
    insert_new(connection, submission_inputs, inputs)
    shares = [
        {
            "chain": chain, "txid": submission.txid, **share._asdict(), "number": number, "size": submission.size,
            "listings": sum(submission.listings), "settled": submission.txid in settled,
        }
        for number, submission in enumerate(new, first)
    ]  # fmt: skip
    connection.execute(insert(submission_shares), shares)


def _drop(connection: Connection, chain: str, txids: Iterable[bytes]) -> int:
    """Delete these transactions and all submitted ones that descend from them; returns their number."""
    dropped, waiting = set[bytes](), list(txids)
    while waiting:
        dropped.update(waiting)
        waiting = [txid for txid in dict.fromkeys(_children(connection, chain, waiting)) if txid not in dropped]
    deleted = 0
    for batch in batches(dropped):
        of_batch = (submissions.c.chain == chain, submissions.c.txid.in_(batch))
        deleted += connection.execute(delete(submissions).where(*of_batch)).rowcount
    return deleted


def _check_unspent(connection: Connection, chain: str, new: Iterable[Submission]) -> None:
    """Raise DoubleSpendError where a submitted or unconfirmed transaction spends an outpoint that a new one spends."""
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
