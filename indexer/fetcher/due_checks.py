"""What a kind of check brings to the loop that fetches."""

from __future__ import annotations

from typing import Protocol

from indexer.fetcher.connections import Admit
from indexer.fetcher.reasons import FetchError
from indexer.fetcher.schedule import Priority


class DueChecks(Protocol):
    """Checks of one kind, each named by a URL or a host. Due times are in the database, in milliseconds since 1970."""

    prefix: str
    """Of the keys of its jobs, with a colon at the end."""
    priority: Priority

    def due(self, now: int, limit: int, after: tuple[int, str], /) -> list[tuple[int, str]]:
        """At most `limit` names to check, as (due since, name), in order, after such a pair. Raises StoreError."""
        ...

    async def check(self, name: str, now: int, admit: Admit, /) -> tuple[int, FetchError | None]:
        """Check, and store the result. Returns how many listings may be shown otherwise, and what could not be fetched
        of it. Raises FetchError where nothing could be, which `fail` stores, and StoreError."""
        ...

    async def fail(self, name: str, reason: str, now: int, /) -> int:
        """Store that a check failed with a reason code; how many listings may be shown otherwise. Raises StoreError."""
        ...
