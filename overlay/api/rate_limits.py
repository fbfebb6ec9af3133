"""Rate limits: a token bucket for each client and kind of route, reported in the headers of the IETF RateLimit draft.

`RateLimit-Policy: "read";q=12000;w=60` and `RateLimit: "read";r=11999;t=1` as in its version 10
(draft-ietf-httpapi-ratelimit-headers): the quota, the seconds in which an empty bucket fills, what is left, and the
seconds until it is full again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil, inf
from time import monotonic
from typing import NamedTuple

from indexer.client_networks import networks_of
from indexer.setting_values import Quota
from overlay.api.counters import SharedBuckets

_ROUNDING = 1e-6  # seconds, and tokens: more than floating-point rounding

LEAST_INCLUDED = 0.005
"""Seconds of processor time that one request includes at least: most searches take 1 to 2 ms."""


class LimitResult(NamedTuple):
    """The headers of a counted request, and the seconds to wait when it exceeds the limit, else 0."""

    headers: Mapping[str, str]
    wait: int


_Bucket = tuple[int, float, float]
"""The bucket of a network: its slot, the seconds until it is full, and those in which a token comes back."""


class RateLimit:
    """The token buckets of one kind of route. A client of IPv6 takes from its own bucket and from the larger one of its
    /48 (`client_networks`).

    A request includes `included_seconds` of processor time: what a token takes to come back, so that a client that uses
    up its limit occupies one core. Processes that share `buckets` share the limit. A bucket is one number, the time at
    which it will be full again; each request moves it by what a token takes to come back. This is the token bucket that
    is known as GCRA.
    """

    def __init__(
        self, name: str, quota: Quota, buckets: SharedBuckets, kind: int = 0, clock: Callable[[], float] = monotonic
    ) -> None:
        self.name, self._buckets, self._kind, self._clock = name, buckets, kind, clock
        self._token_seconds = quota.seconds / quota.requests
        self._whole = float(quota.seconds)
        self._policy = f'"{name}";q={quota.requests};w={quota.seconds}'
        self.included_seconds = max(self._token_seconds, LEAST_INCLUDED)

    def take(self, client: str) -> LimitResult:
        """Take a token from each bucket of a client, if there is one in all of them."""
        now = self._clock()
        buckets = self._buckets_of(client, now)
        over = max([used + token_seconds for _, used, token_seconds in buckets]) - self._whole
        if over > _ROUNDING:
            wait = ceil(over - _ROUNDING)
            return LimitResult({**self._headers(buckets), "Retry-After": str(wait)}, wait)
        return LimitResult(self._headers(self._move(buckets, now, 1)), 0)

    def credit(self, client: str, requests: int) -> None:
        """Give tokens back to the buckets of a client, at most until they are full."""
        now = self._clock()
        self._move(self._buckets_of(client, now), now, -requests)

    def charge(self, client: str, tokens: float) -> None:
        """Take tokens from the buckets of a client that took one already, also more than there are: then it waits until
        they have come back."""
        now = self._clock()
        self._move(self._buckets_of(client, now), now, tokens)

    def headers(self, client: str) -> Mapping[str, str]:
        """The headers that say how much of its limit a client has left."""
        return self._headers(self._buckets_of(client, self._clock()))

    def _buckets_of(self, client: str, now: float) -> list[_Bucket]:
        buckets = []
        for network in networks_of(client):
            slot = self._buckets.slot(self._kind, network.name, now)
            used = max(0.0, self._buckets.full_at(slot) - now)
            buckets.append((slot, used, self._token_seconds / network.factor))
        return buckets

    def _move(self, buckets: Sequence[_Bucket], now: float, tokens: float) -> list[_Bucket]:
        """Take tokens from buckets, or give them back where they are less than none."""
        moved = []
        for slot, used, token_seconds in buckets:
            still_used = max(0.0, used + tokens * token_seconds)
            self._buckets.set_full_at(slot, now + still_used)
            moved.append((slot, still_used, token_seconds))
        return moved

    def _headers(self, buckets: Sequence[_Bucket]) -> dict[str, str]:
        """The headers with the requests that the client has left, and the seconds until it has its whole quota again:
        with a bucket of more tokens, before that is full."""
        tokens, until = inf, 0.0
        for _, used, token_seconds in buckets:
            tokens = min(tokens, (self._whole - used) / token_seconds)
            until = max(until, used - self._whole * (1 - token_seconds / self._token_seconds))
        left, seconds = max(0, int(tokens + _ROUNDING)), ceil(until - _ROUNDING)
        return {"RateLimit-Policy": self._policy, "RateLimit": f'"{self.name}";r={left};t={seconds}'}


def limits(quotas: Mapping[str, Quota | None], buckets: SharedBuckets) -> dict[str, RateLimit]:
    """The limits by kind of route, without those that are switched off."""
    return {
        name: RateLimit(name, quota, buckets, kind)
        for kind, (name, quota) in enumerate(sorted(quotas.items()))
        if quota is not None
    }
