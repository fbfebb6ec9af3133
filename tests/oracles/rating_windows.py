"""Which receipts of a listing count, by the sentences of docs/rating.md alone: slow, with limits of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple


class Limits(NamedTuple):
    """How many receipts count: paid ones, of one payment, counter-signed ones, of one signer."""

    paid: int
    a_payment: int
    signed: int
    a_signer: int


def counted(records: Iterable[Any], limits: Limits) -> set[Any]:
    """The digests of the receipts that can count. Records have the members of ReceiptRecord."""
    by_digest: dict[Any, list[Any]] = {}
    for record in records:
        by_digest.setdefault(record.digest, []).append(record)
    paid: list[tuple[Any, ...]] = []
    signed: list[tuple[Any, ...]] = []
    for digest, forms in by_digest.items():
        payments = [one for one in forms if one.payment and one.payer and one.paid >= one.price and one.paid > 0]
        others = [one for one in forms if one.counter_signer and one.counter_signer != one.worker]
        if payments:
            best = min(payments, key=lambda one: (-one.paid, one.received_at))
            paid.append((-best.paid, best.received_at, digest, best))
        elif others:
            first = min(others, key=lambda one: (one.received_at, one.counter_signer))
            signed.append((first.received_at, digest, first))
    chosen: list[Any] = []
    for *_, one in sorted(paid, key=lambda row: row[:3]):
        same = [
            other
            for other in chosen
            if one.outcome != "failed" and (other.payment, other.outcome) == (one.payment, one.outcome)
        ]
        if len(same) < limits.a_payment and len(chosen) < limits.paid:
            chosen.append(one)
    newest: list[Any] = []
    for *_, one in sorted(signed, key=lambda row: row[:2], reverse=True):
        same = [other for other in newest if other.counter_signer == one.counter_signer]
        if len(same) < limits.a_signer and len(newest) < limits.signed:
            newest.append(one)
    return {one.digest for one in [*chosen, *newest]}
