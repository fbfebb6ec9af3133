"""Groups of near-identical texts: which listings are shown (heads), and the head of each hidden one.

In order of seniority, a listing is shown unless a more senior shown listing shares a cluster key with it; the most
senior of these is its head. A change affects only listings of lower seniority, so each is examined once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from overlay.duplicates.claims import CLUSTER

Queue = set[tuple[bytes, int]]
"""(seniority, number) of the listings to examine."""

_OLDEST_HEAD = """
SELECT heads.number FROM claims CROSS JOIN heads USING (value)
WHERE claims.number = ? AND kind = ? AND heads.place < ? ORDER BY heads.place, heads.number LIMIT 1
"""
_YOUNGER = """
SELECT younger.place, younger.number FROM claims CROSS JOIN claims AS younger USING (kind, value)
WHERE claims.number = ? AND kind = ? AND younger.place > ?
"""
_LIST = "INSERT INTO heads SELECT value, place, number FROM claims WHERE number = ? AND kind = ?"
_UNLIST = """
DELETE FROM heads WHERE (value, place, number) IN (
  SELECT value, place, number FROM claims WHERE number = ? AND kind = ?)
"""
_FOLLOWERS = "SELECT place, number FROM listings WHERE head = ?"


def leave(db: sqlite3.Connection, numbers: Iterable[int]) -> tuple[set[int], Queue]:
    """Remove listings from their groups; returns the numbers of their heads, and the listings to examine again."""
    changed: set[int] = set()
    queue: Queue = set()
    numbers = set(numbers)
    for number in numbers:
        (head,) = db.execute("SELECT head FROM listings WHERE number = ?", (number,)).fetchone()
        changed |= {head} - {None}
        queue |= _unlist(db, number)
        db.execute("UPDATE listings SET is_shown = 0, head = NULL WHERE number = ?", (number,))
    return changed, {(seniority, number) for seniority, number in queue if number not in numbers}


def regroup(db: sqlite3.Connection, queue: Queue) -> set[int]:
    """Examine listings, and those affected by them; the numbers of those whose status has changed."""
    heap = list(queue)
    heapify(heap)
    changed: set[int | None] = set()
    previous = None
    while heap:
        seniority, number = item = heappop(heap)
        if item == previous:
            continue
        previous = item
        row = db.execute("SELECT is_shown, head FROM listings WHERE number = ?", (number,)).fetchone()
        if row is None:
            continue  # removed together with its head
        (head,) = db.execute(_OLDEST_HEAD, (number, CLUSTER, seniority)).fetchone() or (None,)
        if (head is None, head) == (bool(row[0]), row[1]):
            continue
        changed |= {number, head, row[1]}
        db.execute("UPDATE listings SET is_shown = ?, head = ? WHERE number = ?", (head is None, head, number))
        if head is None:
            db.execute(_LIST, (number, CLUSTER))
            younger = set(db.execute(_YOUNGER, (number, CLUSTER, seniority)))
        else:
            younger = _unlist(db, number) if row[0] else set()
        for entry in younger:
            heappush(heap, entry)
    return {number for number in changed if number is not None}


def _unlist(db: sqlite3.Connection, number: int) -> Queue:
    """Stop showing a listing; returns the listings that it was the head of."""
    db.execute(_UNLIST, (number, CLUSTER))
    return set(db.execute(_FOLLOWERS, (number,)))
