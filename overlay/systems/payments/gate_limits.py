"""How much a gate sells at once: requests and satoshis in some seconds (A2B §8), to one payer and to all.

The payer is the script that the first input of a payment spends, so nobody uses up the limit of another. The limits are
those of one process. Each bucket is one number, the time at which it will be full again (GCRA).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import ceil
from typing import NamedTuple

PAYERS = 10
"""How many times the limit of one payer all may use, where no limit is named for all."""

MAX_BUCKETS = 100_000
"""Payers whose buckets are not full. Where there are more, the bucket that is full first is taken for full."""

_NAMES = ("requests", "satoshis", "all-requests", "all-satoshis")
_LIMIT = re.compile(rf"({'|'.join(_NAMES)})=([1-9][0-9]{{0,15}})/([1-9][0-9]{{0,4}})")


class SaleLimit(NamedTuple):
    """At most `amount` at once, refilled over `seconds`."""

    amount: int
    seconds: int


class GateLimits:
    """The limits in a text such as `requests=60/60 satoshis=100000/1`: each amount is for the seconds after it and for
    one payer. All together may use PAYERS times as much, or what `all-requests` and `all-satoshis` name. `clock` gives
    seconds. Raises ValueError."""

    def __init__(self, text: str, clock: Callable[[], float]) -> None:
        self._clock, self._limits = clock, dict[str, SaleLimit]()
        self._full_at: dict[tuple[str, str], float] = {}
        for word in text.split():
            named = _LIMIT.fullmatch(word)
            if named is None or named[1] in self._limits:
                raise ValueError(f"{word[:100]!a} is not a limit: write requests=60/60 satoshis=100000/1")
            self._limits[named[1]] = SaleLimit(int(named[2]), int(named[3]))
        for name in ("requests", "satoshis"):
            if name in self._limits:
                amount, seconds = self._limits[name]
                self._limits.setdefault(f"all-{name}", SaleLimit(PAYERS * amount, seconds))

    def take(self, payer: str, satoshis: int) -> int:
        """Take a request and its satoshis from all buckets; the seconds to wait where one has too few of them, and then
        nothing is taken. A payment above a whole limit waits for a full bucket alone, which it empties for longer."""
        now, moved, wait = self._clock(), dict[tuple[str, str], float](), 0.0
        for name, limit in self._limits.items():
            bucket = (name, "" if name.startswith("all-") else payer)
            used = max(0.0, self._full_at.get(bucket, 0.0) - now)
            cost = (satoshis if name.endswith("satoshis") else 1) * limit.seconds / limit.amount
            wait = max(wait, min(used, used + cost - limit.seconds))
            moved[bucket] = now + used + cost
        if wait > 1e-6:  # more than the rounding of floating point
            return ceil(wait)
        self._full_at |= moved
        if len(self._full_at) > MAX_BUCKETS:
            latest = sorted(self._full_at.items(), key=lambda pair: pair[1])[-MAX_BUCKETS // 2 :]
            self._full_at = {bucket: full_at for bucket, full_at in latest if full_at > now}
        return 0
