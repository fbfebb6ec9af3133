"""Rate limits: a token bucket for each client and kind of route, reported in the headers of the IETF RateLimit draft.

`RateLimit-Policy: "read";q=12000;w=60` and `RateLimit: "read";r=11999;t=1` as in its version 10
(draft-ietf-httpapi-ratelimit-headers): the quota, the seconds in which an empty bucket fills, what is left, and the
seconds until it is full again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from time import monotonic
from typing import NamedTuple

from indexer.setting_values import Quota
from overlay.api.counters import SharedBuckets

_ROUNDING = 1e-6  # seconds, and tokens: more than floating-point rounding


class LimitResult(NamedTuple):
    """The headers of a counted request, and the seconds to wait when it exceeds the limit, else 0."""

    headers: Mapping[str, str]
    wait: int


class RateLimit:
    """The token buckets of one kind of route.

    Processes that share `buckets` share the limit. A bucket is one number, the time at which it will be full again;
    each request moves it by what a token takes to come back. This is the token bucket that is known as GCRA.
    """

    def __init__(
        self, name: str, quota: Quota, buckets: SharedBuckets, kind: int = 0, clock: Callable[[], float] = monotonic
    ) -> None:
        self.name, self._buckets, self._kind, self._clock = name, buckets, kind, clock
        self._token_seconds = quota.seconds / quota.requests
        self._whole = float(quota.seconds)
        self._policy = f'"{name}";q={quota.requests};w={quota.seconds}'

    def take(self, client: str) -> LimitResult:
        """Take a token from a client's bucket, if there is one."""
        now = self._clock()
        slot = self._buckets.slot(self._kind, client, now)
        used = max(0.0, self._buckets.full_at(slot) - now)
        over = used + self._token_seconds - self._whole
        if over > _ROUNDING:
            wait = ceil(over - _ROUNDING)
            return LimitResult({**self._headers(used), "Retry-After": str(wait)}, wait)
        used += self._token_seconds
        self._buckets.set_full_at(slot, now + used)
        return LimitResult(self._headers(used), 0)

    def credit(self, client: str, requests: int) -> None:
        """Give tokens back to a client's bucket, at most until it is full."""
        now = self._clock()
        slot = self._buckets.slot(self._kind, client, now)
        self._buckets.set_full_at(slot, max(now, self._buckets.full_at(slot) - requests * self._token_seconds))

    def _headers(self, used: float) -> dict[str, str]:
        left = int((self._whole - used) / self._token_seconds + _ROUNDING)
        return {"RateLimit-Policy": self._policy, "RateLimit": f'"{self.name}";r={left};t={ceil(used - _ROUNDING)}'}


def limits(quotas: Mapping[str, Quota | None], buckets: SharedBuckets) -> dict[str, RateLimit]:
    """The limits by kind of route, without those that are switched off."""
    return {
        name: RateLimit(name, quota, buckets, kind)
        for kind, (name, quota) in enumerate(sorted(quotas.items()))
        if quota is not None
    }
