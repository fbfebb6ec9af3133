"""Which receipts of a listing count, where there are more than can. Strangers can repeat a receipt and sign it with any
number of keys, so receipts are counted and not records, and paid receipts make room only for receipts of higher
payments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

MAX_PAID, MAX_A_PAYMENT = 10_000, 2
"""Receipts that count by their payment, and of one payment those that did not fail: a second one shows that the payment
is shared, and then proves none of them."""

MAX_COUNTER_SIGNED, MAX_A_SIGNER = 1_000, 100
"""Receipts that count by a second signature alone: the limit of all (their whole weight is limited anyway), and of one
signer."""

MAX_READ = 100_000
"""The number of receipts of each of the two kinds that are looked at."""

D = TypeVar("D", bytes, str)


def paid_window(receipts: Iterable[tuple[D, str, str]]) -> list[D]:
    """The digests that count of (digest, payment, outcome), which come by the largest payment first, of equal ones by
    the first accepted. A digest may come more than once."""
    groups = ((digest, (payment, outcome, outcome == "failed" and digest)) for digest, payment, outcome in receipts)
    return list(islice(_within(groups, MAX_A_PAYMENT), MAX_PAID))


def signed_window(receipts: Iterable[tuple[D, str]]) -> list[D]:
    """The digests that count, from pairs of (digest, first counter-signer), which come by the newest first."""
    return list(islice(_within(receipts, MAX_A_SIGNER), MAX_COUNTER_SIGNED))


def _within(receipts: Iterable[tuple[D, Hashable]], limit: int) -> Iterator[D]:
    """The digests, each once, but of a group only the first `limit`."""
    uses: Counter[Hashable] = Counter()
    seen = set[D]()
    for digest, group in receipts:
        if digest not in seen:
            seen.add(digest)
            if len(seen) > MAX_READ:
                return
            uses[group] += 1
            if uses[group] <= limit:
                yield digest
