"""Listings in a terminal with the query's words in bold, and what to say when there are none."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from overlay.text.safe_text import visible

Piece = tuple[str, bool]
"""A part of a text, and whether it is marked."""

_SPACES = re.compile(r"\s+")
_BOLD, _PLAIN = "\x1b[1m", "\x1b[22m"
_ELSEWHERE = 3
"""Other texts that are shown of a listing whose summary does not hold the words."""
_LONGEST = 80


def can_mark() -> bool:
    """Whether standard output is a terminal that knows bold."""
    return sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def pieces(text: str, ranges: Sequence[Sequence[int]], longest: int | None = None) -> list[Piece]:
    """A stranger's text on one line, cut where marked stretches (in UTF-16 code units) begin and end, and after
    `longest` characters."""
    units = text.encode("utf-16-le", "surrogatepass")
    bounds = [0, *(place for start, end in ranges for place in (start, end)), len(units) // 2]
    cut_pieces: list[Piece] = []
    left = len(text) if longest is None else longest
    for number, (start, end) in enumerate(pairwise(bounds)):
        part = _SPACES.sub(" ", units[2 * start : 2 * end].decode("utf-16-le", "replace"))
        if len(part) > left:
            part = f"{part[: max(left - 1, 0)]}…"
        if part and left > 0:
            cut_pieces.append((part, number % 2 == 1))
        left -= len(part)
    return cut_pieces


def inked(line: Sequence[Piece]) -> str:
    """Pieces as a terminal shows them: nothing in them steers it."""
    return "".join(f"{_BOLD}{visible(text)}{_PLAIN}" if marked else visible(text) for text, marked in line)


def marks(item: Mapping[str, Any]) -> dict[str, list[list[int]]]:
    """The ranges of an item by their pointers."""
    return {
        highlight["pointer"]: highlight["ranges"] for highlight in item.get("highlights", ()) if highlight["ranges"]
    }


def elsewhere(item: Mapping[str, Any]) -> Iterator[str]:
    """Lines for other texts in which the words stand: what they are, and they, marked."""
    marked = marks(item)
    if "/summary" in marked:
        return
    others = [pointer for pointer in marked if pointer not in ("/name", "/description")]
    for pointer in ["/description"] * ("/description" in marked) + others[:_ELSEWHERE]:
        text, ranges = _text_at(item, pointer), marked[pointer]
        if not text:
            continue
        start = max(0, ranges[0][0] - _LONGEST // 4)
        units = text.encode("utf-16-le", "surrogatepass")
        shown = units[2 * start :].decode("utf-16-le", "replace")
        moved = [[range_[0] - start, range_[1] - start] for range_ in ranges]
        label = pointer.split("/")[1].removesuffix("s")
        yield f"    {label}: {'…' if start else ''}{inked(pieces(shown, moved, _LONGEST))}"


def _text_at(item: Mapping[str, Any], pointer: str) -> str:
    """The text at a pointer, which another server wrote; empty where it leads to none."""
    from overlay.search.highlighting import text_at

    try:
        return text_at(item, pointer) if pointer.startswith("/") else ""
    except (KeyError, IndexError, TypeError, ValueError):
        return ""


def help_lines(page: Mapping[str, Any]) -> Iterator[str]:
    """What may have been meant, and what emptied the answer."""
    for suggestion in page.get("didYouMean", ()):
        yield f"did you mean: {suggestion['q']} ({suggestion['total']:,})"
    for relaxation in page.get("emptiedBy", ()):
        yield f"without {' and '.join(relaxation['parameters'])}: {relaxation['total']:,}"
