"""The words of all current segments: frequencies, similar words and completions (`term_dictionary.Terms`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from overlay.engines.native.segment import Segment
from overlay.search.term_dictionary import LONGEST, SHORTEST, Near, nearest, signatures

_SHORT_PREFIX = 2
_END = "\U0010ffff"


class NativeTerms:
    """Counts of words in the segments of one commit. Thread-safe."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = segments
        self.listings = sum(segment.listings for segment in segments)
        self._frequencies: dict[str, int] = {}
        self._completions: dict[tuple[str, int], list[str]] = {}

    def frequency(self, term: str) -> int:
        """Number of listings that contain an index term."""
        count = self._frequencies.get(term)
        if count is None:
            count = self._count("terms", term)
            if count:  # so that the terms in use bound the cache
                self._frequencies[term] = count
        return count

    def _count(self, table: str, text: str) -> int:
        count = 0
        for segment in self._segments:
            (place,) = segment.positions(table, [text])
            if place >= 0:
                count += int((segment.of_term if table == "terms" else segment.of_surface)[place])
        return count

    def similar(self, word: str, edits: int) -> list[Near]:
        """Words within `edits` of a word, by distance, then by falling frequency, then by spelling."""
        (bits,) = signatures([word])
        others: dict[str, None] = {}
        for segment in self._segments:
            starts, signed = segment.arrays["near_starts"], segment.arrays["near_signatures"]
            for length in range(max(SHORTEST, len(word) - edits), min(LONGEST, len(word) + edits) + 1):
                start, end = starts[length - SHORTEST], starts[length - SHORTEST + 1]
                most = 2 * edits - abs(length - len(word))
                near = np.flatnonzero(np.bitwise_count(signed[start:end] ^ bits) <= most) + start
                for number in segment.arrays["near_surfaces"][near].tolist():
                    others[segment.string("surfaces", number)] = None
        return nearest(word, list(others), edits, lambda other: self._count("surfaces", other))

    def completions(self, prefix: str, limit: int) -> list[str]:
        """Surfaces with a prefix, itself excluded, by falling frequency, then by spelling."""
        key = prefix, limit
        if key in self._completions:
            return self._completions[key]
        counts: Counter[str] = Counter()
        for segment in self._segments:
            counts.update(self._most_frequent(segment, prefix, limit + 1))
        if len(self._segments) > 1:
            counts = Counter({word: self._count("surfaces", word) for word in counts})
        best = sorted((word for word in counts if counts[word]), key=lambda word: (-counts[word], word))
        completions = [word for word in best if word != prefix][:limit]
        if completions and len(prefix) <= _SHORT_PREFIX:
            self._completions[key] = completions
        return completions

    def _most_frequent(self, segment: Segment, prefix: str, limit: int) -> dict[str, int]:
        """The most frequent surfaces of a segment with a prefix; of one segment among several, more of them, as others
        may be more frequent in all."""
        low, high = (
            place if place >= 0 else -1 - place
            for place in segment.positions("surfaces", [prefix, prefix + _END]).tolist()
        )
        counts = segment.of_surface[low:high].astype(np.int64)
        chosen = np.flatnonzero(counts)
        if len(self._segments) == 1 and len(chosen) > limit:
            least = np.partition(counts, len(counts) - limit)[len(counts) - limit]
            chosen = np.flatnonzero(counts >= max(least, 1))
            order = np.lexsort((chosen, -counts[chosen]))[:limit]
            chosen = chosen[order]
        return {segment.string("surfaces", low + place): int(counts[place]) for place in chosen.tolist()}
