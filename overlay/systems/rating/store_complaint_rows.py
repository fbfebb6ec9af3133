"""The table of complaints. Times are milliseconds since 1970, amounts satoshis. Complaints come from clients: only a
backup restores them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Index

from indexer.store.schema import BYTEWISE, columns_of, original_table


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredComplaint:
    """The complaint about a payment (txid in hex): what its payer, by its public key (hex) and address, states of a
    listing, in a document (SHA-256); the proof of the payment (SHA-256), the amount paid and the price then, and the
    block of the payment by height and merkle root on a configured chain."""

    payment: str
    listing: str
    code: str
    stated_at: int
    received_at: int
    key: str
    document: bytes
    payer: str
    proof: bytes
    paid: int
    price: int
    chain: str
    pay_height: int
    pay_root: bytes
    is_proved: bool = True


class ComplaintCounts(NamedTuple):
    """The number of complaints that count, and how many of these are about a payment that a receipt names, too."""

    complaints: int = 0
    disputed: int = 0


complaints = original_table(
    "complaints",
    *columns_of(StoredComplaint, {"payment"}, listing=BYTEWISE),
    Index("complaints_by_listing", "listing", "received_at"),
    Index("complaints_by_payment", "chain", "pay_height"),
)
"""One row for each payment. A withdrawn complaint stays, so that nobody can repeat its document."""
