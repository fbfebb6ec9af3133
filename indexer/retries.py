"""The pauses after failures: by their number, and by the demand of the other side (Retry-After)."""

from __future__ import annotations

import time
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import NamedTuple


class Backoff(NamedTuple):
    """Growing pauses in seconds: `first` after one failure, each further one `factor` times as long, up to
    `longest`."""

    first: float
    longest: float
    factor: float = 2.0

    def pause(self, failures: int) -> float:
        """The seconds to wait after so many failures in a row."""
        return min(self.first * self.factor ** min(max(failures - 1, 0), 256), self.longest)

    def pause_ms(self, failures: int) -> int:
        """The pause in whole milliseconds."""
        return int(self.pause(failures) * 1_000)

    def pauses(self, number: int) -> tuple[float, ...]:
        """The pauses after the first failures."""
        return tuple(self.pause(failures) for failures in range(1, number + 1))


def retry_after(text: str, longest: float, now: float | None = None) -> float | None:
    """The seconds in a Retry-After header (a number, or a date: RFC 9110 §10.2.3), at most `longest`; None for any
    other text. `now` is in seconds since 1970."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:12]), longest)
    try:
        until = parsedate_to_datetime(text)
        until = until if until.tzinfo else until.replace(tzinfo=UTC)  # RFC 9110 §5.6.7: always UTC
        return min(max(until.timestamp() - (time.time() if now is None else now), 0.0), longest)
    except (ValueError, OverflowError):
        return None
