"""Rate limits: a token bucket for each client and kind of route, told in the headers of the IETF's RateLimit draft.

`RateLimit-Policy: "read";q=12000;w=60` and `RateLimit: "read";r=11999;t=1` as in its version 10
(draft-ietf-httpapi-ratelimit-headers): the quota, the seconds in which an empty bucket fills, what is left, and the
seconds until it is full again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from time import monotonic
from typing import NamedTuple

from indexer.settings import Quota

CLIENTS = 50_000
"""Clients that a bucket is kept for; the one that has not asked for longest is forgotten first."""


_ROUNDING = 1e-6  # seconds, and tokens: more than thirds and the like are rounded by


class Taken(NamedTuple):
    """What became of a request: the headers that say so, and the seconds to wait when it is one too many, else 0."""

    headers: Mapping[str, str]
    wait: int


class Limit:
    """The buckets of one kind of route.

    A bucket is one number, the time at which it will be full again; each request moves it by what a token takes to
    come back. This is the token bucket that is known as GCRA.
    """

    def __init__(self, name: str, quota: Quota, clients: int = CLIENTS, clock: Callable[[], float] = monotonic) -> None:
        self.name, self.refused = name, 0
        self._each = quota.seconds / quota.requests
        self._whole = float(quota.seconds)
        self._policy = f'"{name}";q={quota.requests};w={quota.seconds}'
        self._clients, self._clock = clients, clock
        self._full: dict[str, float] = {}

    def take(self, client: str) -> Taken:
        """Take a token from a client's bucket, when there is one."""
        now = self._clock()
        before = self._full.pop(client, now)
        used = before - now if before > now else 0.0
        over = used + self._each - self._whole
        if over > _ROUNDING:
            self._full[client] = before
            self.refused += 1
            wait = ceil(over - _ROUNDING)
            return Taken({**self._told(used), "Retry-After": str(wait)}, wait)
        used += self._each
        self._full[client] = now + used
        if len(self._full) > self._clients:
            del self._full[next(iter(self._full))]
        return Taken(self._told(used), 0)

    def _told(self, used: float) -> dict[str, str]:
        left = int((self._whole - used) / self._each + _ROUNDING)
        return {"RateLimit-Policy": self._policy, "RateLimit": f'"{self.name}";r={left};t={ceil(used - _ROUNDING)}'}


def limits(quotas: Mapping[str, Quota | None]) -> dict[str, Limit]:
    """Buckets by name, without those that are switched off."""
    return {name: Limit(name, quota) for name, quota in quotas.items() if quota is not None}
