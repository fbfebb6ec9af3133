"""How much of a stranger's texts a page shows: a page stays below 100 kB, whatever a card holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from overlay.pages.cards import cut

PAGE_BYTES = 66_000
"""What a page may have: style sheet, scripts, a logo and what is put in later fit beside it into 100 kB."""

LISTING_BYTES = 60_000
"""The same of a listing's page, whose script checks the proof."""

WITH_LOGOS = 69_000
"""What a page of results may have with the logos on it, each taken for one of LOGO_BYTES (1,300): style sheet, scripts
and completions fit beside them into 100 kB. So 20 logos, 26 kB, go with a page of 43 kB, where 20 usual cards make one
of 20 to 40."""

_SCALES = (1.0, 0.5, 0.2, 0.06)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Measure:
    """What is shown of texts and lists: all that is usual, times `scale`."""

    scale: float = 1.0

    def text(self, value: str, most: int) -> str:
        """At most so many characters of a text."""
        return cut(value, max(8, int(most * self.scale)))

    def some(self, values: Sequence[T], most: int) -> Sequence[T]:
        """At most so many entries of a list."""
        return values[: max(2, int(most * self.scale))]

    def left(self, values: Sequence[T], most: int) -> int:
        """How many entries `some` leaves out."""
        return len(values) - len(self.some(values, most))


def measured(made: Callable[[Measure], bytes], room: int = PAGE_BYTES) -> bytes:
    """A page made with the largest measure that keeps it small enough; ordinary listings are made once."""
    body = b""
    for scale in _SCALES:
        body = made(Measure(scale))
        if len(body) <= room:
            break
    return body
