"""Logos as pages show them: small pictures from the store. What was looked for is noted later, not while answering."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from indexer.store.logos import Logos as Stored

MOST_NOTED = 2_000
"""Logos looked for since the last note: what is more is noted when it is looked for again."""


class Logos:
    """What is shown of logos. `flush` is called now and then, beside the answers."""

    def __init__(self, stored: Stored) -> None:
        self._stored = stored
        self._wanted: set[str] = set()
        self._lock = Lock()
        self._newest = 0

    def shown(self, urls: Iterable[str]) -> Mapping[str, str]:
        """The SHA-256 (hex) of the small picture of each of these logos that there is one of; all are wanted."""
        asked = {url for url in urls if url}
        with self._lock:
            if len(self._wanted) + len(asked) <= MOST_NOTED:
                self._wanted |= asked
        return self._stored.shown(asked) if asked else {}

    def stamp(self) -> int:
        """Another number when there are other pictures; from memory."""
        return self._newest

    def picture(self, digest: str) -> bytes | None:
        """The small picture (WebP) with this SHA-256 (hex)."""
        return self._stored.body(bytes.fromhex(digest))

    @property
    def are_noted(self) -> bool:
        """Whether any were looked for since the last `flush`."""
        return bool(self._wanted)

    def flush(self) -> None:
        """Note what was looked for, and see whether there is anything new. Raises what the database raises."""
        with self._lock:
            wanted, self._wanted = self._wanted, set()
        if wanted:
            self._stored.want(wanted, int(time.time() * 1000))
        self._newest = self._stored.newest()


class NoLogos:
    """Where none are fetched."""

    def shown(self, urls: Iterable[str]) -> Mapping[str, str]:  # noqa: ARG002
        """None."""
        return {}

    def stamp(self) -> int:
        """Always the same."""
        return 0

    def picture(self, digest: str) -> bytes | None:  # noqa: ARG002
        """None."""
        return None
