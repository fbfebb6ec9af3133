"""The words of a text with their offsets: the words of `search.analysis.words`.

Words are taken from the folded text, which may differ in letters and length, so every folded character is mapped to the
range of the text that it comes from. Ranges are folded one by one: a letter with its combining marks.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import NamedTuple

from overlay.search.analysis import MAX_PARTS, MAX_WORD, clusters_of, compounds_of, fold, pieces, without_symbols
from overlay.search.memo import memoized


class Span(NamedTuple):
    """A word of `analysis.words` and its offsets in code points, `end` exclusive."""

    start: int
    end: int
    word: str


def spans(text: str) -> Iterator[Span]:
    """Every word of a text, and the parts of compounds."""
    folded, starts, ends = _aligned(text)
    for match in compounds_of(folded).finditer(folded):
        offset = match.start()
        for start, end, word in _in_compound(match[0]):
            if starts is None or ends is None:
                yield Span(offset + start, offset + end, word)
            else:
                yield Span(starts[offset + start], ends[offset + end - 1], word)


@memoized
def _in_compound(compound: str) -> tuple[Span, ...]:
    clusters: list[Span] = []
    parts: list[Span] = []
    for offset, piece, is_run in pieces(compound):
        if is_run:
            texts = clusters_of(piece)
            bounds = accumulate(map(len, texts), initial=offset)
            run = [Span(*bounds_of_part, text) for bounds_of_part, text in zip(pairwise(bounds), texts, strict=True)]
            clusters += run
            clusters += (Span(first.start, second.end, first.word + second.word) for first, second in pairwise(run))
        else:
            parts.append(Span(offset, offset + len(piece), piece.casefold()[:MAX_WORD]))
    plain = [part._replace(word=word) for part in parts if (word := without_symbols(part.word))]
    if 1 < len(parts) <= MAX_PARTS:
        whole = "".join(part.word for part in parts)[:MAX_WORD]
        parts.append(Span(parts[0].start, parts[-1].end, whole))
    return (*clusters, *parts, *plain)


def _aligned(text: str) -> tuple[str, list[int] | None, list[int] | None]:
    """The folded text, and the start and end of each of its characters in the text; None where they are the same."""
    folded = fold(text)
    if folded == text:
        return folded, None, None
    stretches = _letters(text)
    parts = [_folded(stretch) for stretch in stretches]
    if "".join(parts) != folded:
        stretches, parts = [text], [folded]
    offsets = [0, *accumulate(map(len, stretches))]
    starts = [offsets[index] for index, part in enumerate(parts) for _ in part]
    ends = [offsets[index + 1] for index, part in enumerate(parts) for _ in part]
    return folded, starts, ends


_folded = memoized(fold)


def _letters(text: str) -> list[str]:
    """A text split into letters, each with the characters that may compose with it."""
    letters: list[str] = []
    for letter in text:
        if letters and not letter.isascii() and _joins(letter):
            letters[-1] += letter
        else:
            letters.append(letter)
    return letters


def _joins(letter: str) -> bool:
    """Whether a letter may compose with the one before: marks, skin tones, and the vowel and final jamo of hangul."""
    return (
        unicodedata.category(letter)[0] == "M"
        or "\u1160" <= letter <= "\u11ff"
        or "\uff9e" <= letter <= "\uff9f"
        or "\U0001f3fb" <= letter <= "\U0001f3ff"
    )
