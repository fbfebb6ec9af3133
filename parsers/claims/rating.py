"""The rating of a listing from receipts of its work, on the rungs E0 to E3 (docs/rating.md).

Pure, and in integers alone: anyone computes the same number from the same receipts. Weights are millionths, scores
thousandths, times milliseconds since 1970. Signatures and payments are verified before a record is built.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from parsers.claims.rating_windows import paid_window, signed_window

HALF_LIFE_MS = 90 * 86_400_000
"""The half-life of 90 days, after which a record weighs half; in between its weight falls along a straight line."""

CONFIDENCE = 2_706_000
"""The square of z = 1.645 in millionths: the score is the end of a one-sided interval of 95 % (Wilson 1927)."""

RATED_AT = 400
"""The score, without E3, from which a payer counts as rated itself: receipts for its payments are E3. Two stars."""

STARS_FROM = 10
"""Customers from which a score is shown as stars: with fewer, the interval is so wide that its lower end says more
about their number than about the work."""


class RungRule(NamedTuple):
    """The weight of a fresh receipt of a rung, at most by one counterparty, and at most by all; in millionths."""

    record: int
    counterparty: int
    total: int | None


RULES = (
    RungRule(0, 0, 0),
    RungRule(50_000, 100_000, 150_000),
    RungRule(250_000, 500_000, 3_900_000),
    RungRule(500_000, 1_000_000, None),
)
"""The rules by rung. Keys cost nothing, so all of E1 is less than half a star, and with one unrated payer less than a
whole one; paying oneself costs fees, so E1 and E2 together end below three."""


class ReceiptRecord(NamedTuple):
    """One verified receipt, with the facts that bind a second party to it.

    `digest` is the SHA-256 of the receipt, `worker` the key that signed it, `counter_signer` the other key that did
    (empty: none), `payer` the payer. `payment` is the outpoint that paid `paid` satoshis of the `price` due, proved to
    be in a block (empty: not proved). `completed_at` is in milliseconds since 1970. `before_transfer`: the listing had
    another owner then. `task` names worker and task, which count once however often they were signed (empty: unknown).
    `received_at` is when it was first accepted, in milliseconds since 1970.
    """

    digest: str
    worker: str
    counter_signer: str = ""
    payer: str = ""
    payment: str = ""
    paid: int = 0
    price: int = 0
    outcome: str = "completed"
    completed_at: int = 0
    before_transfer: bool = False
    task: str = ""
    received_at: int = 0

    @property
    def is_paid(self) -> bool:
        """Whether a payment of the price is proved, by any payer."""
        return bool(self.payment and self.payer) and self.paid >= max(self.price, 1)

    @property
    def is_counter_signed(self) -> bool:
        """Whether another key than the worker's signed it."""
        return self.counter_signer not in ("", self.worker)


@dataclass(frozen=True, slots=True)
class RatedListing:
    """The parties of counted receipts: the keys and pay-to addresses bound to a listing, and its owner. `owner_of` has
    the owners of other keys; keys of one owner are one counterparty. `rated` are payers with a score of RATED_AT."""

    keys: frozenset[str]
    owner: str = ""
    owner_of: Mapping[str, str] = field(default_factory=dict)
    rated: frozenset[str] = frozenset()

    def party(self, key: str) -> str:
        """The owner of a key, else the key itself."""
        return self.owner_of.get(key) or key

    def is_independent(self, key: str) -> bool:
        """Whether a key belongs to another party than the listing's owner."""
        return bool(key) and not {key, self.party(key)} & (self.keys | {self.owner} | set(map(self.party, self.keys)))


class BasisEntry(NamedTuple):
    """The weight of one record: its rung, its weight in millionths before the limits of its counterparty and rung, and
    why it does not count, or not higher: not-bound, previous-owner, claimed, own-key, denied, payment-reused."""

    digest: str
    rung: int
    outcome: str
    weight: int
    reason: str = ""
    counterparty: str = ""


class Rating(NamedTuple):
    """`score` in thousandths, 200 to a star, None where nothing counts; `rung` is the highest one that counts.
    `completed` and `failed` are the tasks that count, `paid_tasks` those of both that were paid in full, by `customers`
    distinct parties. `basis` has every task once, by digest."""

    score: int | None
    rung: int
    completed: int
    failed: int
    paid_tasks: int
    customers: int
    basis: tuple[BasisEntry, ...]

    def as_json(self) -> dict[str, Any]:
        """The rating with its basis, in its published form."""
        entries = [{**entry._asdict(), "rung": f"E{entry.rung}"} for entry in self.basis]
        score = None if self.score is None else self.score / 1000
        return {
            "score": score,
            "rung": f"E{self.rung}",
            "completed": self.completed,
            "failed": self.failed,
            "basis": entries,
        }


def rate(records: Iterable[ReceiptRecord], listing: RatedListing, now: int) -> Rating:
    """The rating of a listing at a time. The order of the records does not matter; a digest counts
    once, and so does a task. Of more receipts than can count, the windows of `rating_windows` do."""
    unique = _unique(_within_windows(records), listing)
    paid = (record for record in unique if not _fault(record, listing) and _rung(record, listing) > 1)
    payments = Counter(record.payment for record in paid)
    reused = {payment for payment, uses in payments.items() if uses > 1}
    basis = tuple(_entry(record, listing, now, record.payment in reused) for record in unique)
    counted = [entry for entry in basis if entry.weight]
    completed, total = _weights(counted)
    outcomes = Counter(entry.outcome for entry in counted)
    payers = [entry.counterparty for entry in counted if entry.rung > 1]
    return Rating(
        lower_bound(completed, total) if total else None,
        max((entry.rung for entry in counted), default=0),
        outcomes["completed"],
        outcomes["failed"],
        len(payers),
        len(set(payers)),
        basis,
    )


def stars(score: int, customers: int) -> float | None:
    """A score in thousandths as stars of five, in tenths, rounded down; None with fewer than `STARS_FROM` customers."""
    return score // 20 / 10 if customers >= STARS_FROM else None


def lower_bound(completed: int, total: int) -> int:
    """The lower end of Wilson's interval for the share of completed weight, in whole thousandths, rounded down: the
    greatest t for which (completed − total·p)² ≥ z²·total·p·(1 − p) at p = t / 1000, and p is at most the share.
    `total` is above zero."""

    def is_above(t: int) -> bool:
        margin = 1000 * completed - total * t
        return margin < 0 or margin**2 < CONFIDENCE * total * t * (1000 - t)

    return bisect_left(range(1001), True, lo=1, key=is_above) - 1


def decayed(weight: int, age: int) -> int:
    """A weight after some milliseconds; a record dated ahead is fresh."""
    halvings, rest = divmod(max(age, 0), HALF_LIFE_MS)
    return (weight * (2 * HALF_LIFE_MS - rest) // (2 * HALF_LIFE_MS)) >> min(halvings, 64)


def _within_windows(records: Iterable[ReceiptRecord]) -> Iterator[ReceiptRecord]:
    """The records of the receipts that can count, and the records without a counter-signer, which never do."""
    forms: dict[str, list[ReceiptRecord]] = defaultdict(list)
    for record in records:
        forms[record.digest].append(record)
    paid = sorted(
        (-form.paid, form.received_at, form.digest, form.payment, form.outcome)
        for same_work in forms.values()
        for form in same_work
        if form.is_paid
    )
    counted = set(paid_window(row[2:] for row in paid))
    unpaid = [
        min((form.received_at, form.counter_signer, digest) for form in same_work if form.is_counter_signed)
        for digest, same_work in forms.items()
        if any(form.is_counter_signed for form in same_work) and not any(form.is_paid for form in same_work)
    ]
    newest = sorted(unpaid, key=lambda row: (row[0], row[2]), reverse=True)
    counted.update(signed_window((digest, signer) for _, signer, digest in newest))
    for digest, same_work in forms.items():
        if digest in counted or not any(form.is_paid or form.is_counter_signed for form in same_work):
            yield from same_work


def _unique(records: Iterable[ReceiptRecord], listing: RatedListing) -> list[ReceiptRecord]:
    """One record for each digest, the strongest and of equal ones the first that was accepted; then one for each task,
    the strongest and of equal ones a failed one; sorted by digest."""

    def strength(record: ReceiptRecord) -> tuple[Any, ...]:
        return not _fault(record, listing), _rung(record, listing), record.outcome == "failed", record

    def form(record: ReceiptRecord) -> tuple[Any, ...]:
        return *strength(record)[:2], -record.received_at, record

    by_digest = {record.digest: record for record in sorted(records, key=form)}
    by_task = {record.task or record.digest: record for record in sorted(by_digest.values(), key=strength)}
    return sorted(by_task.values())


def _fault(record: ReceiptRecord, listing: RatedListing) -> str:
    """Why a record does not count at all; empty where it does."""
    if record.worker not in listing.keys:
        return "not-bound"
    if record.before_transfer:
        return "previous-owner"
    if not record.counter_signer:
        return "claimed"
    if not listing.is_independent(record.counter_signer):
        return "own-key"
    return "denied" if record.outcome == "denied" else ""


def _rung(record: ReceiptRecord, listing: RatedListing) -> int:
    """The rung of a single record."""
    if _fault(record, listing) not in ("", "denied"):
        return 0
    if not record.is_paid or not listing.is_independent(record.payer):
        return 1
    return 3 if record.payer in listing.rated else 2


def _entry(record: ReceiptRecord, listing: RatedListing, now: int, is_reused: bool) -> BasisEntry:
    """The basis entry of a record. A payment that two receipts name proves no completed one."""
    fault, rung = _fault(record, listing), _rung(record, listing)
    if fault:
        return BasisEntry(record.digest, rung, record.outcome, 0, fault)
    reason = ""
    if rung > 1 and is_reused and record.outcome == "completed":
        rung, reason = 1, "payment-reused"
    weight = decayed(RULES[rung].record, now - record.completed_at)
    counterparty = listing.party(record.payer if rung > 1 else record.counter_signer)
    return BasisEntry(record.digest, rung, record.outcome, weight, reason, counterparty)


def _weights(entries: Iterable[BasisEntry]) -> tuple[int, int]:
    """The weight of completed records, and of all records, within the limits of counterparties and rungs."""
    by_counterparty: dict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0])
    for entry in entries:
        sums = by_counterparty[entry.rung, entry.counterparty]
        sums[0] += entry.weight if entry.outcome == "completed" else 0
        sums[1] += entry.weight
    by_rung = {rung: [0, 0] for rung in range(len(RULES))}
    for (rung, _), (completed, total) in by_counterparty.items():
        limited = _limited(completed, total, RULES[rung].counterparty)
        by_rung[rung] = [sum(pair) for pair in zip(by_rung[rung], limited, strict=True)]
    limits = [_limited(completed, total, RULES[rung].total) for rung, (completed, total) in by_rung.items()]
    return sum(completed for completed, _ in limits), sum(total for _, total in limits)


def _limited(completed: int, total: int, limit: int | None) -> tuple[int, int]:
    """Weights scaled down to a limit of their total, the completed part rounded down."""
    if limit is None or total <= limit:
        return completed, total
    return completed * limit // total, limit
