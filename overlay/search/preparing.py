"""What a server that holds an index compiles before it answers."""

from __future__ import annotations

import numpy as np

from overlay.search.choosing import ANY
from overlay.search.gathering import gathered
from overlay.search.lexicon import empty
from overlay.search.matching import Gain, Known, Word
from overlay.search.records import Record
from overlay.search.scoring import place
from overlay.search.segment import Flat, Segment


def prepare() -> None:
    """Compile the loops, or load them as an earlier process compiled them, by looking for one word, for what is the
    latest, and making one page."""
    words = empty()
    words.hold()
    words.near(5, 1, 1, 1)
    data = np.frombuffer(Record("", 0, True, "", b"", b"{}", b"").pack(), np.uint8)
    gathered(data, np.zeros((3, 1), np.uint64), 0, 1, ANY)
    keys, rows, levels = np.zeros(1, np.uint64), np.zeros(1, np.uint32), np.ones(1, np.uint8)
    one = Segment.build(Flat(keys, keys, keys, [b""], keys, rows, levels, keys[:0], rows[:0], keys[:0], rows[:0]))
    one.latest(None, 1, 0, 1)
    marks = one.taken()
    found = marks.best(one, [Word(Known([(("a",), Gain(1.0))]), 1.0)], None, 1, 0, 1, every=False)
    marks.senior(one, 0)
    place(found.columns, 1, 0, 1)
