"""How far each kind of participant moves a rating, and what it costs: `python -m tests.bench.bench_rating`.

Honest agents, sybil rings, wash traders and slanderers, by the rules of `parsers/claims/rating.py`. Costs are in
satoshis: fees are lost, a price paid to oneself comes back, a price paid to a victim does not. Deterministic.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from itertools import count
from random import Random

from parsers.claims.rating import HALF_LIFE_MS, RATED_AT, RatedListing, ReceiptRecord, rate

NOW = 1_790_000_000_000
PAYMENT_BYTES, INSCRIPTION_BYTES = 226, 1_500
"""A transaction of one input and two outputs, and one that registers a small card with its satoshi."""

USER_REPEATS = 2
"""Payments by which one payer reaches its limit at once."""

FREE_KEYS = 2
"""Keys that pay nothing and reach the limit of all of E1 at once."""


@dataclass(frozen=True)
class Cost:
    """Satoshis of a payment (fee) and an inscription, and the price of a task."""

    fee: int
    inscription: int
    price: int


class Evidence:
    """Evidence of one listing as it is collected."""

    def __init__(self, worker: str = "worker") -> None:
        self.listing = RatedListing(frozenset((worker,)), f"owner of {worker}")
        self.records: list[ReceiptRecord] = []
        self._worker, self._numbers = worker, count()

    def add(self, party: str, outcome: str = "completed", *, paid: bool = True, age: int = 0) -> None:
        """One task for a counterparty, some milliseconds ago."""
        digest = f"{self._worker}{next(self._numbers):09}"
        payment, satoshis = (f"{digest}:0", 1) if paid else ("", 0)
        self.records.append(
            ReceiptRecord(digest, self._worker, party, party, payment, satoshis, satoshis, outcome, NOW - age)
        )

    def stars(self, rated: frozenset[str] = frozenset()) -> float:
        """The rating in stars of five, where these payers are rated."""
        return (rate(self.records, replace(self.listing, rated=rated), NOW).score or 0) / 200


def honest(users: int, rated: int, tasks: int, success: float, random: Random) -> tuple[Evidence, frozenset[str]]:
    """An agent with paying users, some of them rated agents, over the last half-life."""
    evidence = Evidence()
    for _ in range(tasks):
        outcome = "completed" if random.random() < success else "failed"
        evidence.add(f"u{random.randrange(users)}", outcome, age=random.randrange(HALF_LIFE_MS))
    return evidence, frozenset(f"u{number}" for number in range(rated))


def sybil_ring(parties: int, *, paid: bool, repeats: int = USER_REPEATS, worker: str = "worker") -> Evidence:
    """An agent that keys of its own make, each some completed tasks."""
    evidence = Evidence(worker)
    for number in range(parties):
        for _ in range(repeats):
            evidence.add(f"s{number}", paid=paid)
    return evidence


def washed(payments: int) -> Evidence:
    """An agent that keys of its own sign for free, and others pay as often as counts in full."""
    evidence = sybil_ring(FREE_KEYS, paid=False)
    for number in range(payments):
        evidence.add(f"payer {number // USER_REPEATS}")
    return evidence


def payments_to_be_rated() -> int:
    """How many payments of unrelated payers make an accomplice count as rated."""
    return next(payments for payments in count(1) if washed(payments).stars() * 200 >= RATED_AT)


def ring(payments: int, accomplices: int) -> tuple[float, int, int]:
    """Stars, transactions and inscriptions of an agent paid by sybils and by accomplices whom the same sybils rated.
    Every payer is funded by a transaction of its own."""
    evidence = washed(payments)
    rated = [f"a{number}" for number in range(accomplices)]
    for accomplice in rated:
        for _ in range(USER_REPEATS):
            evidence.add(accomplice)
    for_one = payments_to_be_rated() if accomplices else 0
    sybils = -(-max(payments, for_one) // USER_REPEATS)
    transactions = payments + sybils + (for_one + USER_REPEATS + 1) * accomplices
    return evidence.stars(frozenset(rated)), transactions, accomplices


def cheapest(stars: float, cost: Cost) -> tuple[int, int, int, int]:
    """The least fees for some stars with sybils and accomplices: fees, payments by sybils, accomplices,
    transactions."""
    options = []
    for payments in range(20):
        for accomplices in range(60):
            reached, transactions, inscriptions = ring(payments, accomplices)
            if reached >= stars:
                fees = transactions * cost.fee + inscriptions * cost.inscription
                options.append((fees, payments, accomplices, transactions))
                break
    return min(options)


def line(name: str, before: float, after: float, fees: int, lost: int = 0) -> None:
    print(f"  {name:66} {before:5.2f} {after:5.2f} {fees:9,} {lost:12,}")


def participants(cost: Cost) -> None:
    """One line for each kind of participant: stars before and after, fees, and satoshis that go to others."""
    print(f"  {'':66} {'stars':>5} {'after':>5} {'fees':>9} {'to a victim':>12}")
    for users, rated, tasks, success in (
        (5, 0, 50, 0.95),
        (50, 0, 500, 0.95),
        (50, 10, 500, 0.95),
        (50, 50, 500, 0.99),
        (50, 10, 500, 0.5),
    ):
        evidence, payers = honest(users, rated, tasks, success, Random(1))
        name = f"honest: {tasks} tasks, {users} paying users, {rated} of them rated, {success:.0%} completed"
        line(name, 0, evidence.stars(payers), 0)
    alone = Evidence()
    for _ in range(10_000):
        alone.add("worker")
    line("self-dealer: 10,000 receipts that its own key counter-signed", 0, alone.stars(), 0)
    for keys in (1, 10, 10_000):
        line(f"sybil ring: {keys:,} keys counter-sign, none pays", 0, sybil_ring(keys, paid=False).stars(), 0)
    for keys, repeats in ((1, 1_000), (4, 2), (8, 2), (1_000, 2)):
        fees = keys * (repeats + 1) * cost.fee
        name = f"wash trader: {keys:,} unrated keys pay {repeats:,} times"
        line(name, 0, sybil_ring(keys, paid=True, repeats=repeats).stars(), fees)
    for accomplices in (4, 8, 30):
        stars, transactions, inscriptions = ring(8 * USER_REPEATS, accomplices)
        fees = transactions * cost.fee + inscriptions * cost.inscription
        line(f"wash ring: 8 unrated keys and {accomplices} accomplices that these rated", 0, stars, fees)
    slanders(cost)


def slanders(cost: Cost) -> None:
    """Failed tasks at an honest agent; each needs a receipt that the agent signed."""
    for paid, keys, repeats in ((False, 10_000, 2), (True, 1, 1_000), (True, 8, 2), (True, 100, 2)):
        evidence, payers = honest(50, 10, 500, 0.95, Random(1))
        before = evidence.stars(payers)
        for number in range(keys):
            for _ in range(repeats):
                evidence.add(f"x{number}", "failed", paid=paid)
        payments, funding = (keys * repeats, keys) if paid else (0, 0)
        name = f"slanderers: {keys:,} unrated keys, {repeats:,} failed tasks each, {'paid' if paid else 'not paid'}"
        line(name, before, evidence.stars(payers), (payments + funding) * cost.fee, payments * cost.price)


def prices(cost: Cost) -> None:
    """Print the least cost of each star, to an attacker who owns every key."""
    print("\n  stars      fees  payments  accomplices  transactions")
    for half_stars in range(1, 10):
        fees, payments, accomplices, transactions = cheapest(half_stars / 2, cost)
        print(f"  {half_stars / 2:5.1f} {fees:9,} {payments:9} {accomplices:12} {transactions:13}")


def main() -> None:
    """Print what each participant reaches, and the price of each star."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--rate", type=int, default=50, help="fee in satoshis for 1,000 bytes")
    options.add_argument("--price", type=int, default=500, help="price of a task in satoshis")
    args = options.parse_args()
    cost = Cost(-(-PAYMENT_BYTES * args.rate // 1000), -(-INSCRIPTION_BYTES * args.rate // 1000) + 1, args.price)
    print(f"a payment costs {cost.fee} satoshis in fees, an inscription {cost.inscription}, a task {cost.price}\n")
    participants(cost)
    prices(cost)


if __name__ == "__main__":
    main()
