"""Limits on the size of pages: below 100 kB with all they load, whatever a card contains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from overlay.web.cards import cut

PAGE_BYTES = 65_500
"""Bytes of a page, so that style sheet, scripts, a logo and later updates fit beside it into 100 kB."""

LISTING_BYTES = 59_800
"""The same for a listing's page, whose script verifies the proof."""

WITH_LOGOS = 67_500
"""What a page of results may have with the logos on it, each taken for one of LOGO_BYTES (1,300): style sheet, scripts
and completions fit beside them into 100 kB. So 20 logos, 26 kB, go with a page of 41 kB, where 20 usual cards make one
of 20 to 40."""

_SCALES = (1.0, 0.5, 0.2, 0.06)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Measure:
    """How much of texts and lists is shown: the usual amount times `scale`."""

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


def render_within(render_page: Callable[[Measure], bytes], room: int = PAGE_BYTES) -> bytes:
    """The page rendered at the largest scale with which it fits; usual listings are rendered once."""
    body = b""
    for scale in _SCALES:
        body = render_page(Measure(scale))
        if len(body) <= room:
            break
    return body
