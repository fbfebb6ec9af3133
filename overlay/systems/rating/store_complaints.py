"""Reads and writes of complaints. Several threads and processes may use them at once."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, delete, func, or_, select

from indexer.store.database import writing
from indexer.store.queries import Queries, insert_new, row_of, upsert
from overlay.systems.rating.store import RECEIPTS_LOCK, SubmittedDocument, receipts, signed_documents, touch
from overlay.systems.rating.store_complaint_rows import ComplaintCounts, StoredComplaint, complaints
from parsers.claims.canonical_json import DocumentError
from parsers.claims.complaint_codes import WITHDRAWN


class ListedComplaint(NamedTuple):
    """A complaint, whether a receipt names its payment, and whether it counts (`ComplaintQueries.counts`)."""

    complaint: StoredComplaint
    is_disputed: bool
    is_counted: bool


class ComplaintQueries(Queries):
    """The complaints in a database. Every method raises StoreError when the database refuses."""

    def submit(self, complaint: StoredComplaint, documents: list[SubmittedDocument]) -> bool:
        """Store a complaint and its documents where it is newer than the stored one about its payment, whose document
        it replaces, or proves its payment again; returns whether it did. Raises DocumentError where the stored one is
        about another listing."""
        with writing(self._engine, RECEIPTS_LOCK) as connection:
            if not _store(connection, complaint):
                return False
            insert_new(connection, signed_documents, [document._asdict() for document in documents])
            touch(connection, [complaint.listing])
        return True

    def of_payment(self, txid: str) -> StoredComplaint | None:
        """The complaint about a payment (txid in hex)."""
        row = self._first(select(complaints).where(complaints.c.payment == txid))
        return StoredComplaint(**row) if row else None

    def newest(self, listing: str, transfer: tuple[str, int, int] | None, limit: int) -> list[ListedComplaint]:
        """At most `limit` complaints about a listing, the newest first, with what they are since a transfer."""
        columns = [complaints.c[name] for name in StoredComplaint.__dataclass_fields__]
        judged = (_has_receipt().label("disputed"), and_(*_counting(transfer)).label("counts"))
        of_listing = select(*columns, *judged).where(complaints.c.listing == listing)
        rows = self._rows(of_listing.order_by(complaints.c.received_at.desc(), complaints.c.payment).limit(limit))
        return [
            ListedComplaint(
                StoredComplaint(**{column.name: row[column.name] for column in columns}),
                bool(row["disputed"]),
                bool(row["counts"]),
            )
            for row in rows
        ]

    def counts(self, listing: str, transfer: tuple[str, int, int] | None) -> ComplaintCounts:
        """The complaints about a listing that count for its owner since a transfer (chain, height, seconds since 1970):
        they are not withdrawn, and their payment is proved and not from before it."""
        number = select(func.count()).where(complaints.c.listing == listing, *_counting(transfer))
        disputed = number.where(_has_receipt())
        with self._engine.connect() as connection:
            return ComplaintCounts(*(connection.execute(query).scalar_one() for query in (number, disputed)))


def _counting(transfer: tuple[str, int, int] | None) -> list[ColumnElement[bool]]:
    counting: list[ColumnElement[bool]] = [complaints.c.is_proved, complaints.c.code != WITHDRAWN]
    if transfer is not None:
        chain, height, time = transfer
        here = complaints.c.chain == chain
        later = or_(
            and_(here, complaints.c.pay_height >= height), and_(~here, complaints.c.received_at >= time * 1_000)
        )
        counting.append(later)
    return counting


def _has_receipt() -> ColumnElement[bool]:
    """Whether a receipt names the payment of a complaint: by the index of the blocks of payments."""
    same_block = (receipts.c.chain == complaints.c.chain, receipts.c.pay_height == complaints.c.pay_height)
    named = (receipts.c.payment == complaints.c.payment, receipts.c.listing == complaints.c.listing)
    return select(receipts.c.digest).where(*same_block, *named).exists()


def _store(connection: Connection, complaint: StoredComplaint) -> bool:
    row = connection.execute(select(complaints).where(complaints.c.payment == complaint.payment)).mappings().first()
    values = row_of(complaint)
    if row is not None:
        if row["listing"] != complaint.listing:
            raise DocumentError("payment-reused", f"the complaint about this payment names {row['listing'][:200]}")
        is_again_proved = row["document"] == complaint.document and not row["is_proved"]
        if row["stated_at"] >= complaint.stated_at and not is_again_proved:
            return False
        values["received_at"] = row["received_at"]
        if row["document"] != complaint.document:
            connection.execute(delete(signed_documents).where(signed_documents.c.sha256 == row["document"]))
    statement = upsert(connection, complaints).values(**values)
    connection.execute(statement.on_conflict_do_update(index_elements=["payment"], set_=values))
    return True
