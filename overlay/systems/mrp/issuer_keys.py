"""The keys that issuers of signed MRP messages publish at `/.well-known/mrp-keys.json`, cached."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

from indexer.fetcher.on_demand import OnDemandFetcher
from indexer.fetcher.reasons import FetchError
from parsers.claims.canonical_json import DocumentError, read
from parsers.claims.mrp.signed_envelope import mrp_keys

WELL_KNOWN_KEYS = "/.well-known/mrp-keys.json"
CACHE_SECONDS, RETRY_SECONDS = 600.0, 60.0
"""The seconds for which keys are cached, and the seconds after which they are fetched again for a key that is not among
them, or after a failed fetch."""

MAX_ISSUERS = 256
"""Issuers cached, at up to 64 kB each."""


class _CachedKeys(NamedTuple):
    keys: Mapping[str, bytes]
    error: str
    fetched_at: float
    tried_at: float


class IssuerKeys:
    """The key cache of an issuer: an origin like `https://agent.example`."""

    def __init__(self, visits: OnDemandFetcher) -> None:
        self._visits = visits
        self._cache: OrderedDict[str, _CachedKeys] = OrderedDict()
        self._fetching: dict[str, asyncio.Task[None]] = {}

    async def get(self, issuer: str, key_id: str) -> tuple[str, Mapping[str, bytes]]:
        """The host of an issuer, and its keys by id, fetched again where `key_id` may be new. Raises FetchError for an
        issuer without a URL that is fetched, DocumentError where it publishes no keys now."""
        target = await self._visits.target(issuer)
        if target.path != "/":
            raise FetchError("fetch-url", f"an issuer is an origin, without {target.path[:100]!a}")
        url = target._replace(path=WELL_KNOWN_KEYS).url
        entry = self._cache.get(url)
        if entry is None or self._is_due(entry, key_id):
            task = self._fetching.get(url)
            if task is None:
                task = self._fetching[url] = asyncio.create_task(self._fetch(url))
                task.add_done_callback(lambda _: self._fetching.pop(url))
            await asyncio.shield(task)
            entry = self._cache[url]
        if entry.error:
            raise DocumentError("bad-keys", entry.error)
        return target.host, entry.keys

    def _is_due(self, entry: _CachedKeys, key_id: str) -> bool:
        now = self._visits.clock()
        is_missing = key_id not in entry.keys and now - entry.tried_at >= RETRY_SECONDS
        return is_missing or now - entry.fetched_at >= CACHE_SECONDS

    async def _fetch(self, url: str) -> None:
        now, stored = self._visits.clock(), self._cache.get(url)
        try:
            entry = _CachedKeys(mrp_keys(read(await self._visits.get(url))), "", now, now)
        except (FetchError, DocumentError) as refused:
            # any client can name a key that is not published: the fetch that this causes must not void the others
            is_good = stored is not None and stored.keys and now - stored.fetched_at < CACHE_SECONDS
            entry = stored._replace(tried_at=now) if stored and is_good else _CachedKeys({}, str(refused), now, now)
        self._cache[url] = entry
        self._cache.move_to_end(url)
        while len(self._cache) > MAX_ISSUERS:
            self._cache.popitem(last=False)
