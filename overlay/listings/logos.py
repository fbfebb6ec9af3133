"""Thumbnails of logos from the store. Missing ones are requested in batches, not while a page is rendered."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from indexer.store.logos import Logos as Stored

MOST_NOTED = 2_000
"""Logos requested between two flushes; further ones are requested when a page needs them again."""


class LogoImages:
    """Thumbnails of logos, none without a store. Requests are kept in memory until `flush`, which is called from time
    to time."""

    def __init__(self, stored: Stored | None = None) -> None:
        self._stored = stored
        self._requested: set[str] = set()
        self._lock = Lock()
        self._newest = 0

    def shown(self, urls: Iterable[str]) -> Mapping[str, str]:
        """The SHA-256 (hex) of the thumbnail of each of these logos that has one; all are requested."""
        if self._stored is None:
            return {}
        requested = {url for url in urls if url}
        with self._lock:
            if len(self._requested) + len(requested) <= MOST_NOTED:
                self._requested |= requested
        return self._stored.thumbnails(requested) if requested else {}

    def stamp(self) -> int:
        """A number that changes when thumbnails do; from memory."""
        return self._newest

    def picture(self, digest: str) -> bytes | None:
        """The thumbnail (WebP) with this SHA-256 (hex)."""
        return self._stored.body(bytes.fromhex(digest)) if self._stored else None

    @property
    def has_requests(self) -> bool:
        """Whether any were requested since the last `flush`."""
        return bool(self._requested)

    def flush(self) -> None:
        """Store the requests, and update `stamp`. Raises the errors of the database."""
        if self._stored is None:
            return
        with self._lock:
            requested, self._requested = self._requested, set()
        if requested:
            self._stored.request(requested, int(time.time() * 1000))
        self._newest = self._stored.newest()
