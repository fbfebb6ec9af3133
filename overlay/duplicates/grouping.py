"""Groups of near-identical texts: which listings are shown (heads), and the head of each hidden one.

In order of seniority, a listing is shown unless a more senior shown listing shares a cluster key with it; the most
senior of these is its head. A change affects only listings of lower seniority, so each is examined once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Set
from heapq import heapify, heappop, heappush

Queue = set[tuple[bytes, int]]
"""(seniority, number) of the listings to examine."""

HEAD = "head"
"""The kind of the cluster keys of shown listings, which are stored beside their claims."""

_OLDEST_HEAD = """
SELECT heads.number FROM claims CROSS JOIN claims AS heads ON heads.kind = 'head' AND heads.value = claims.value
WHERE claims.number = ? AND claims.kind = 'cluster' AND heads.place < ? ORDER BY heads.place, heads.number LIMIT 1
"""
_YOUNGER = """
SELECT younger.place, younger.number FROM claims CROSS JOIN claims AS younger USING (kind, value)
WHERE claims.number = ? AND kind = 'cluster' AND younger.place > ?
"""
_LIST = "INSERT INTO claims SELECT 'head', value, place, number FROM claims WHERE number = ? AND kind = 'cluster'"
_UNLIST = "DELETE FROM claims WHERE number = ? AND kind = 'head'"
_FOLLOWERS = "SELECT place, number FROM listings WHERE head = ?"


def leave(db: sqlite3.Connection, numbers: Set[int]) -> tuple[set[int], Queue]:
    """Remove listings from their groups; returns the numbers of their heads, and the listings to examine again."""
    changed: set[int] = set()
    queue: Queue = set()
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
    while heap:
        seniority, number = item = heappop(heap)
        while heap and heap[0] == item:
            heappop(heap)
        is_shown, former = db.execute("SELECT is_shown, head FROM listings WHERE number = ?", (number,)).fetchone()
        (head,) = db.execute(_OLDEST_HEAD, (number, seniority)).fetchone() or (None,)
        if (head is None, head) == (bool(is_shown), former):
            continue
        changed |= {number, head, former}
        db.execute("UPDATE listings SET is_shown = ?, head = ? WHERE number = ?", (head is None, head, number))
        affected: Iterable[tuple[bytes, int]] = ()
        if head is None:
            db.execute(_LIST, (number,))
            affected = db.execute(_YOUNGER, (number, seniority)).fetchall()
        elif is_shown:
            affected = _unlist(db, number)
        for other in affected:
            heappush(heap, other)
    return {number for number in changed if number is not None}


def _unlist(db: sqlite3.Connection, number: int) -> Queue:
    """Stop showing a listing; returns the listings that it was the head of."""
    db.execute(_UNLIST, (number,))
    return set(db.execute(_FOLLOWERS, (number,)))
