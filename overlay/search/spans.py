"""The words of a text with their offsets: the words of `search.analysis.words`.

Words are taken from the folded text, which may differ in letters and length, so every folded character is mapped to the
range of the text that it comes from. Ranges are folded one by one: a letter with its combining marks.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import NamedTuple

from overlay.search.analysis import (
    MAX_WORD,
    clusters_of,
    compounds_of,
    dropped_apostrophes,
    fold_letters,
    pieces,
    whole_of,
    without_symbols,
)
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
    if whole := whole_of(compound, [part.word for part in parts]):
        start = 0 if len(parts) == 1 else parts[0].start  # with what is elided
        parts.append(Span(start, parts[-1].end, whole))
    return (*clusters, *parts, *plain)


def _aligned(text: str) -> tuple[str, list[int] | None, list[int] | None]:
    """The folded text, and the start and end of each of its characters in the text; None where they are the same."""
    letters = fold_letters(text)
    dropped = dropped_apostrophes(letters) if "'" in letters else frozenset[int]()
    if letters == text and not dropped:
        return letters, None, None
    stretches = _letters(text)
    parts = [_folded(stretch) for stretch in stretches]
    if "".join(parts) != letters:
        stretches, parts = [text], [letters]
    offsets = [0, *accumulate(map(len, stretches))]
    origins = [index for index, part in enumerate(parts) for _ in part]
    held = [number for number in range(len(letters)) if number not in dropped]
    starts, ends = ([offsets[origins[number] + more] for number in held] for more in (0, 1))
    return "".join(letters[number] for number in held), starts, ends


_folded = memoized(fold_letters)


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
