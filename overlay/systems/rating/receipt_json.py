"""The receipts behind a rating, as published: every record with its rung and reason, and all data to compute the rating
again."""

from __future__ import annotations

from typing import Any

from indexer.store import Store
from overlay.listings.ids import parse_id
from overlay.listings.lookup import ListingNotFoundError, check_hidden
from overlay.listings.repository import ListingRepository
from overlay.systems.rating.listing_facts import FactsReader, listing_of
from overlay.systems.rating.rating_facts import item_rating
from overlay.systems.rating.store import ReceiptQueries, StoredReceipt
from overlay.systems.rating.store_complaints import ComplaintQueries, ListedComplaint
from parsers.claims.rating import BasisEntry, rate

PAGE, COMPLAINTS = 1_000, 100
"""Records and complaints of an answer."""


class ForeignPositionError(Exception):
    """A position is not that of a record of the listing."""


class ReceiptReader:
    """Reads the receipts of listings; several threads may use it at once."""

    def __init__(self, store: Store) -> None:
        self._facts, self._repository = FactsReader(store), ListingRepository(store)
        self._receipts, self._complaints = ReceiptQueries(store.engine), ComplaintQueries(store.engine)

    def receipts_json(self, text: str, after: tuple[bytes, str] | None = None) -> dict[str, Any]:
        """The receipts of the listing with an id, and the newest complaints about it: its rating, the facts that it is
        rated by, and a page of its records by digest, with `next` for the page after it. Raises ListingNotFoundError,
        and ForeignPositionError unless `after` is that of one of its records."""
        id_ = parse_id(text)[0]
        check_hidden(self._repository, [id_], text)
        listing = listing_of(self._repository.listing(id_))
        if listing is None:
            raise ListingNotFoundError(f"no listing with a card has the id {text[:200]!a}")
        if after is not None and not self._receipts.has(id_, after):
            raise ForeignPositionError(f"`after` is not a record of {id_}, or is no longer one: read from the start")
        counted = self._receipts.counted(id_)
        rows = self._receipts.page(id_, after, PAGE + 1)
        facts = self._facts.facts(listing, counted)
        rating = self._receipts.ratings([id_]).get(id_)
        as_of = rating.as_of if rating else 0
        basis = rate([facts.record(row) for row in counted if row.received_at <= as_of], facts.rated, as_of).basis
        entries = {entry.digest: entry for entry in basis}
        more = rows[PAGE - 1] if len(rows) > PAGE else None
        return {
            "id": id_,
            "rating": item_rating(rating),
            "asOf": rating.as_of if rating else None,
            "basisSha256": rating.basis_sha256.hex() if rating and rating.basis_sha256 else None,
            "completed": rating.completed if rating else 0,
            "failed": rating.failed if rating else 0,
            "facts": facts.as_json(),
            "binds": [
                {
                    "key": bind.key,
                    "token": bind.document.hex() if bind.document else None,
                    "receivedAt": bind.received_at,
                }
                for bind in self._receipts.keys_of(id_)
            ],
            "records": [
                record_json(row, entries.get(row.digest.hex()), is_before=facts.record(row).before_transfer)
                for row in rows[:PAGE]
            ],
            "complaints": [*map(complaint_json, self._complaints.newest(id_, facts.transfer, COMPLAINTS))],
            "next": f"{more.digest.hex()}-{more.counter_signer}" if more else None,
        }

    def document(self, sha256: bytes) -> bytes | None:
        """The bytes of a document: a receipt tree, an attestation, an envelope, the proof of a payment, or a token.
        Raises ListingHiddenError for one with records of a hidden listing."""
        check_hidden(self._repository, self._receipts.listings_of(sha256), sha256.hex())
        document = self._receipts.document(sha256)
        return document.body if document else None


def record_json(row: StoredReceipt, entry: BasisEntry | None, *, is_before: bool) -> dict[str, Any]:
    """A record and the weight of its receipt; `entry` is None for a record that does not count."""
    unsigned = "own-key" if row.counter_signer == row.worker else "" if row.counter_signer else "claimed"
    payment = {
        "txid": row.payment, "payer": row.payer or None, "paid": row.paid, "price": row.price, "chain": row.chain,
        "height": row.pay_height, "proved": row.is_proved, "funding": row.funding,
        "proof": row.proof.hex() if row.proof else None,
    }  # fmt: skip
    return {
        "digest": row.digest.hex(),
        "document": row.document.hex(),
        "worker": row.worker,
        "counterSigner": row.counter_signer or None,
        "task": row.task,
        "outcome": row.outcome,
        "completedAt": row.completed_at,
        "receivedAt": row.received_at,
        "beforeTransfer": is_before,
        "payment": payment if row.payment else None,
        "rung": f"E{entry.rung}" if entry else "E0",
        "weight": entry.weight if entry else 0,
        "reason": (entry.reason if entry else unsigned) or None,
        "counterparty": (entry.counterparty if entry else "") or None,
    }


def complaint_json(listed: ListedComplaint) -> dict[str, Any]:
    """A complaint as published, with the payment that it is about."""
    complaint = listed.complaint
    return {
        "txid": complaint.payment, "code": complaint.code, "at": complaint.stated_at,
        "receivedAt": complaint.received_at, "payer": complaint.payer, "paid": complaint.paid,
        "price": complaint.price, "chain": complaint.chain, "height": complaint.pay_height,
        "proved": complaint.is_proved, "disputed": listed.is_disputed, "counts": listed.is_counted,
        "document": complaint.document.hex(), "proof": complaint.proof.hex(),
    }  # fmt: skip
