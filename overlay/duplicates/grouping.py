"""Groups of near-identical texts: which listings are shown, and which of these stands for each of the others.

In order of seniority a listing is shown unless an older one that is shown shares a cluster key with it; of several the
oldest stands for it. A change can only alter listings that are younger than it, so each is looked at once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from overlay.duplicates.claims import CLUSTER

Queue = set[tuple[bytes, int]]
"""Places in the order of seniority, and numbers, of listings to look at."""

_VALUES = "SELECT value FROM claims WHERE number = ? AND kind = ?"
_OLDEST_HEAD = "SELECT place, number FROM heads WHERE value = ? AND place < ? ORDER BY place, number LIMIT 1"
_YOUNGER = "SELECT place, number FROM claims WHERE kind = ? AND value = ? AND place > ?"
_FOLLOWERS = "SELECT place, number FROM listings WHERE head = ?"


def leave(db: sqlite3.Connection, numbers: Iterable[int]) -> tuple[set[int], Queue]:
    """Take listings out of their groups; the numbers of those that stood for them, and those to look at again."""
    changed: set[int] = set()
    queue: Queue = set()
    numbers = set(numbers)
    for number in numbers:
        (head,) = db.execute("SELECT head FROM listings WHERE number = ?", (number,)).fetchone()
        changed |= {head} - {None}
        queue |= _unlist(db, number)
        db.execute("UPDATE listings SET is_shown = 0, head = NULL WHERE number = ?", (number,))
    return changed, {(place, number) for place, number in queue if number not in numbers}


def regroup(db: sqlite3.Connection, queue: Queue) -> set[int]:
    """Look at listings again, and at those that follow from them; the numbers of those whose status has changed."""
    heap = list(queue)
    heapify(heap)
    changed: set[int | None] = set()
    previous = None
    while heap:
        place, number = item = heappop(heap)
        if item == previous:
            continue
        previous = item
        row = db.execute("SELECT is_shown, head FROM listings WHERE number = ?", (number,)).fetchone()
        if row is None:
            continue  # removed with the listing that stood for it
        values = [value for (value,) in db.execute(_VALUES, (number, CLUSTER))]
        heads = [found for value in values if (found := db.execute(_OLDEST_HEAD, (value, place)).fetchone())]
        head = min(heads)[1] if heads else None
        if (head is None, head) == (bool(row[0]), row[1]):
            continue
        changed |= {number, head, row[1]}
        db.execute("UPDATE listings SET is_shown = ?, head = ? WHERE number = ?", (head is None, head, number))
        if head is None:
            db.executemany("INSERT INTO heads VALUES (?, ?, ?)", [(value, place, number) for value in values])
            younger = {found for value in values for found in db.execute(_YOUNGER, (CLUSTER, value, place))}
        else:
            younger = _unlist(db, number) if row[0] else set()
        for found in younger:
            heappush(heap, found)
    return {number for number in changed if number is not None}


def _unlist(db: sqlite3.Connection, number: int) -> Queue:
    """A listing is not shown any more; those that it stood for."""
    values = [value for (value,) in db.execute(_VALUES, (number, CLUSTER))]
    db.executemany("DELETE FROM heads WHERE value = ? AND number = ?", [(value, number) for value in values])
    return set(db.execute(_FOLLOWERS, (number,)))
