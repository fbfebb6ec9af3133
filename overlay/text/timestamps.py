"""Times as ISO 8601 in UTC, to the second: `2025-04-20T12:00:00Z`."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import overload


@overload
def timestamp(seconds: int) -> str: ...
@overload
def timestamp(seconds: int | None) -> str | None: ...
def timestamp(seconds: int | None) -> str | None:
    """Seconds since 1970 as text; None stays None."""
    return None if seconds is None else _text(seconds)


@lru_cache(maxsize=4_096)  # many listings have the time of one block
def _text(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def timestamp_of_milliseconds(since: int | None) -> str | None:
    """Milliseconds since 1970 as text; None also for 0, which means never."""
    return timestamp(since // 1000) if since else None
