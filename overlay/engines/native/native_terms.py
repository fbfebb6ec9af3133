"""The words of all current segments: frequencies, similar words and completions (`term_dictionary.Terms`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from overlay.engines.native.segment import Ints, Segment
from overlay.engines.native.tables import StringTable, commonest, merge
from overlay.search.term_dictionary import LONGEST, MAX_COMPARED, SHORTEST, Near, alike, nearest, signatures

_SHORT_PREFIX = 2


class _Vocabulary(NamedTuple):
    """The surfaces of all segments in one table, the number of listings with each, and the numbers of each segment's
    surfaces there."""

    table: StringTable
    counts: npt.NDArray[np.uint32]
    numbers: Sequence[npt.NDArray[np.uint32]]


class NativeTerms:
    """Counts of words in the segments of one commit. Thread-safe."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = segments
        self.listings = sum(segment.listings for segment in segments)
        self._completions: dict[tuple[str, int], list[str]] = {}

    @cached_property
    def _vocabulary(self) -> _Vocabulary:
        """The surfaces of the segments; where there are several, without those that no listing has: their numbers are
        outside the table."""
        segments = self._segments
        tables = [
            StringTable(segment.arrays["surfaces_bytes"], segment.arrays["surfaces_offsets"]) for segment in segments
        ]
        if len(segments) == 1:
            numbers = np.arange(len(segments[0].of_surface), dtype=np.uint32)
            return _Vocabulary(tables[0], segments[0].of_surface, [numbers])
        used = [segment.of_surface != 0 for segment in segments]
        table, renumbered = merge(tables, [marks.view(np.uint8) for marks in used])
        counts = np.zeros(len(table.offsets) - 1, np.uint32)
        for segment, marks, new in zip(segments, used, renumbered, strict=True):
            counts[new[marks]] += segment.of_surface[marks]
        return _Vocabulary(table, counts, renumbered)

    def frequency(self, term: str) -> int:
        """Number of listings that contain an index term."""
        return self.frequencies((term,))[0]

    def frequencies(self, terms: Sequence[str]) -> list[int]:
        """Numbers of listings that contain each of some terms, in one look-up."""
        counts = [0] * len(terms)
        for segment in self._segments:
            of_term = segment.of_term
            for index, number in enumerate(segment.term_numbers(terms)):
                if number >= 0:
                    counts[index] += of_term.item(number)
        return counts

    def similar(self, word: str, edits: int) -> list[Near]:
        """Words within `edits` of a word, by distance, then by falling frequency, then by spelling."""
        (bits,) = signatures([word])
        counts = self._vocabulary.counts
        chosen, differences = [np.empty(0, np.uint32)], [np.empty(0, np.uint8)]
        for segment, numbers in zip(self._segments, self._vocabulary.numbers, strict=True):
            starts, signed = segment.arrays["near_starts"], segment.arrays["near_signatures"]
            for length in range(max(SHORTEST, len(word) - edits), min(LONGEST, len(word) + edits) + 1):
                start, end = starts[length - SHORTEST], starts[length - SHORTEST + 1]
                near, bits_apart = alike(signed[start:end], bits, 2 * edits - abs(length - len(word)))
                chosen.append(numbers[segment.arrays["near_surfaces"][near + start]])
                differences.append(bits_apart)
        others, firsts = np.unique(np.concatenate(chosen).astype(np.int64), return_index=True)
        closest = np.argsort(np.concatenate(differences)[firsts], kind="stable")[:MAX_COMPARED]
        others = np.sort(others[closest])
        others = others[others < len(counts)]
        of_word = dict(zip(self._strings(others), counts[others].tolist(), strict=True))
        return nearest(word, list(of_word), edits, of_word.__getitem__)

    def completions(self, prefix: str, limit: int) -> list[str]:
        """Surfaces with a prefix, itself excluded, by falling frequency, then by spelling."""
        key = prefix, limit
        if key in self._completions:
            return self._completions[key]
        text, vocabulary = np.frombuffer(prefix.encode("utf-8", "surrogatepass"), np.uint8), self._vocabulary
        words = self._strings(commonest(*vocabulary.table, vocabulary.counts, text, limit + 1))
        completions = [word for word in words if word != prefix][:limit]
        if completions and len(prefix) <= _SHORT_PREFIX:
            self._completions[key] = completions
        return completions

    def _strings(self, numbers: Ints) -> list[str]:
        """The surfaces with these numbers."""
        data, offsets = self._vocabulary.table.bytes.data, self._vocabulary.table.offsets
        ends = zip(offsets[numbers].tolist(), offsets[numbers + 1].tolist(), strict=True)
        strings = [bytes(data[start:end]) for start, end in ends]
        try:
            return [string.decode("utf-8", "surrogatepass") for string in strings]
        except UnicodeDecodeError:
            for segment in self._segments:
                segment.is_suspect = True
            return [string.decode("utf-8", "replace") for string in strings]
