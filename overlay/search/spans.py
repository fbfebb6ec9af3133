"""Where the words of a text stand in it: the same words that `search.text` gives, with their places.

Words are cut from the folded text, which may have other letters and another length, so every folded character remembers
the stretch of the text that it comes from. Stretches are folded one by one: a letter with the marks that follow it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from overlay.search.analysis import JOINER, MAX_PARTS, MAX_WORD, compounds_of, fold, pieces


class Span(NamedTuple):
    """A word, as `text.words` gives it, and where it stands: from `start` until before `end`, in code points."""

    start: int
    end: int
    word: str


def spans(text: str) -> Iterator[Span]:
    """Every word of a text, those within others after them."""
    folded, starts, ends = _aligned(text)
    for match in compounds_of(folded).finditer(folded):
        at = match.start()
        for start, end, word in _in_compound(match[0]):
            if starts is None or ends is None:
                yield Span(at + start, at + end, word)
            else:
                yield Span(starts[at + start], ends[at + end - 1], word)


@lru_cache(maxsize=16_384)
def _in_compound(compound: str) -> tuple[Span, ...]:
    found: list[Span] = []
    parts: list[Span] = []
    at = 0
    for segment in JOINER.split(compound):
        for piece, cjk in pieces(segment):
            end = at + len(piece)
            if cjk:
                found += (Span(each, each + 1, compound[each]) for each in range(at, end))
                found += (Span(each, each + 2, compound[each : each + 2]) for each in range(at, end - 1))
            else:
                parts.append(Span(at, end, piece.casefold()[:MAX_WORD]))
            at = end
        at += 1
    if 1 < len(parts) <= MAX_PARTS:
        whole = "".join(part.word for part in parts)[:MAX_WORD]
        parts.append(Span(parts[0].start, parts[-1].end, whole))
    return (*found, *parts)


def _aligned(text: str) -> tuple[str, list[int] | None, list[int] | None]:
    """The folded text, and where in the text each of its characters begins and ends; None: just where it stands."""
    folded = fold(text)
    if folded == text:
        return folded, None, None
    for stretches in (_letters(text), _runs(text)):
        parts = [_folded(stretch) for stretch in stretches]
        if "".join(parts) == folded:
            break
    else:
        stretches, parts = [text], [folded]
    places = [0, *accumulate(map(len, stretches))]
    starts = [places[at] for at, part in enumerate(parts) for _ in part]
    ends = [places[at + 1] for at, part in enumerate(parts) for _ in part]
    return folded, starts, ends


_folded = lru_cache(maxsize=8_192)(fold)


def _letters(text: str) -> list[str]:
    """A text in letters, each with what follows and may be composed with it."""
    found: list[str] = []
    for letter in text:
        if found and not letter.isascii() and _joins(letter):
            found[-1] += letter
        else:
            found.append(letter)
    return found


def _joins(letter: str) -> bool:
    """Whether a letter may become one with the one before: marks, and the vowels and finals of hangul in parts."""
    return unicodedata.category(letter)[0] == "M" or "\u1160" <= letter <= "\u11ff" or "\uff9e" <= letter <= "\uff9f"


def _runs(text: str) -> list[str]:
    """A text in words between spaces and the spaces."""
    found: list[str] = []
    for letter in text:
        if found and letter.isspace() == found[-1][-1].isspace():
            found[-1] += letter
        else:
            found.append(letter)
    return found
