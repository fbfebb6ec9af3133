"""The groups of near-identical texts, and the first holders of names, URLs and addresses, in memory.

In order of rank and seniority, a listing is shown (a head) unless it shares a cluster key with a more senior head, the
most senior of which is its head. Groups therefore do not depend on the order of reading, every hidden text is
near-identical to the shown one, and no two heads share a key. A change examines the changed listings, and where a head
is added or removed, those that share its keys.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from overlay.duplicates.duplicate_status import WARNED, DuplicateStatus, brings_nothing
from overlay.duplicates.text_key_table import PLACE_BYTES, TextKeyTable
from overlay.duplicates.text_keys import ADDRESS, CLUSTER, TEXT, URL, Key, digest
from overlay.search.document import AT_HOME, NAMED, NOTHING, UNVERIFIED
from overlay.search.facts import HERE

if TYPE_CHECKING:
    from overlay.search.document import Document

NAMING = 100
"""Listings with warnings that are updated when the earliest holder changes; further ones name the former holder until
they change."""

VIEW = "@"
"""The prefix of the kinds of text keys for a text, one for each view (`facts.collapsed`) in which only the first is
shown."""


class KeyedListing(NamedTuple):
    """An indexed listing, by its number. A text key has a kind, a key and an entry: the position in the order of
    seniority (`Since.ordering`), and the number; that of a cluster key is the seniority of the listing."""

    number: int
    id: str
    chain: str
    registration: str
    owner: str
    rank: int
    text_keys: tuple[tuple[str, int, bytes], ...]

    @classmethod
    def of(cls, number: int, document: Document) -> KeyedListing:
        """A document; its text has a text key for each view."""
        text_keys, rank, owner, _ = document.fingerprint or NOTHING
        chains = (document.chain, *document.also_on)
        views = {VIEW + HERE: (document.domain, str(rank < UNVERIFIED), *sorted(chains))}
        views |= {VIEW + chain: () for chain in chains}
        tail, former, rows = number.to_bytes(4, "big"), None, []
        for kind, value, since in text_keys:
            is_text = kind in (TEXT, CLUSTER)
            if former != (former := (since, is_text)):
                entry = since.ordering(rank if is_text else 0, document.id) + tail
            if kind == TEXT:
                rows += [(view, digest(view, str(value), *like), entry) for view, like in views.items()]
            else:
                rows.append((kind, value, entry))
        return cls(number, document.id, document.chain, document.registration, owner, rank, tuple(rows))

    @property
    def clusters(self) -> list[int]:
        """The cluster keys."""
        return [key for kind, key, _ in self.text_keys if kind == CLUSTER]

    @property
    def destinations(self) -> set[Key]:
        """The text keys of its URL and its pay-to addresses."""
        return {(kind, key) for kind, key, _ in self.text_keys if kind in (URL, ADDRESS)}

    @property
    def seniority(self) -> bytes:
        """The entry by which heads are chosen."""
        no_text_keys = bytes(PLACE_BYTES) + self.number.to_bytes(4, "big")
        return next((entry for kind, _, entry in self.text_keys if kind == CLUSTER), no_text_keys)


class TextKeyGroups:
    """All text keys, the head of each listing (0 before it is examined), how many listings each is the head of, and the
    listings of the last update by registration. `find` reads a stored listing; large arrays are in files in the folder.
    Not safe for threads."""

    def __init__(self, find: Callable[[int], KeyedListing | None], folder: Path | None = None) -> None:
        self.text_keys, self.heads, self.sizes = TextKeyTable(folder), array("i", [0]), array("i", [0])
        self._find = find
        self.recent: dict[str, list[KeyedListing]] = {}

    def load_heads(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Give all listings, by number, their heads, at once."""
        numbers, heads = np.array(pairs, np.int32).reshape(-1, 2).T
        size = int(max(0, numbers.max(initial=0), heads.max(initial=0))) + 1
        by_number = np.zeros(size, np.int32)
        by_number[numbers] = heads
        sizes = np.bincount(heads, minlength=size).astype(np.int32)
        self.heads, self.sizes = array("i", by_number.tobytes()), array("i", sizes.tobytes())

    def lead(self, number: int, head: int) -> None:
        """Give a listing a head, 0 for none."""
        if (missing := max(number, head) + 1 - len(self.heads)) > 0:
            self.heads.extend([0] * missing)
            self.sizes.extend([0] * missing)
        self.sizes[self.heads[number]] -= 1
        self.sizes[head] += 1
        self.heads[number] = head

    def update(self, before: Mapping[int, KeyedListing], after: Mapping[int, KeyedListing]) -> set[int]:
        """Replace listings; returns the numbers of others with a status that may have changed."""
        self.text_keys.compact()
        self.fetch([*before.values(), *after.values()])
        changed: set[int] = set()
        queue = [row.seniority for row in after.values()]
        for number, row in before.items():
            head, later = self.heads[number], after.get(number)
            is_same = later is not None and (row.seniority, row.clusters) == (later.seniority, later.clusters)
            if head == number and not is_same:
                queue += self._members(row)
                self.lead(number, 0)
            elif later is None:
                changed.add(head)
                self.lead(number, 0)
        for number in after.keys() - before.keys():
            self.lead(number, 0)
        changed |= self._exchange(before, after)
        changed |= self._regroup(queue, before.keys() | after.keys(), after)
        self.recent = {}
        for row in after.values():
            self.recent.setdefault(row.registration, []).append(row)
        return changed - before.keys() - after.keys()

    def fetch(self, listings: Iterable[KeyedListing]) -> None:
        """Make the text keys of listings ready for reading."""
        self.text_keys.fetch([key for row in listings for _, key, _ in row.text_keys])

    def _exchange(self, before: Mapping[int, KeyedListing], after: Mapping[int, KeyedListing]) -> set[int]:
        """Replace text keys; the listings of each text key that has another first holder."""
        firsts: dict[int, tuple[str, bytes]] = {}
        for rows, others, change in ((before, after, self.text_keys.remove), (after, before, self.text_keys.add)):
            for number, row in rows.items():
                text_keys: Iterable[tuple[str, int, bytes]] = row.text_keys
                if number in others:
                    text_keys = set(text_keys).difference(others[number].text_keys)
                for kind, key, entry in text_keys:
                    first = change(key, entry)
                    if first is not None and kind != CLUSTER:
                        firsts.setdefault(key, (kind, first))
        for number in before.keys() & after.keys():
            former, present = before[number], after[number]
            if (former.owner, former.destinations) != (present.owner, present.destinations):  # which warnings compare
                warned = [text_key for text_key in present.text_keys if text_key[0] in WARNED]
                firsts |= {key: (kind, b"") for kind, key, entry in warned if self.text_keys.run(key)[0] == entry}
        concerned: set[int] = set()
        for key, (kind, first) in firsts.items():
            run = self.text_keys.run(key)
            if run and run[0] != first:
                concerned.update(map(number_of, run[:NAMING] if kind in WARNED else (run[0], first)))
        return concerned

    def _members(self, head: KeyedListing) -> set[bytes]:
        """The entries of the listings that one is shown for."""
        runs = map(self.text_keys.run, head.clusters)
        return {entry for run in runs for entry in run if self.heads[number_of(entry)] == head.number}

    def _regroup(self, queue: list[bytes], replaced: Set[int], after: Mapping[int, KeyedListing]) -> set[int]:
        """Examine listings, and those affected by them, which are of lower seniority; the numbers of those whose group
        has changed. An entry in the queue may be outdated."""
        heapify(queue)
        changed: set[int] = set()
        while queue:
            entry = heappop(queue)
            number = number_of(entry)
            row = after.get(number) if number in replaced else self._find(number)
            if row is None or row.seniority != entry:
                continue
            if number not in replaced:
                self.fetch([row])
            runs = [run for key in row.clusters if len(run := self.text_keys.run(key)) > 1]
            older = [next((other for other in run if other >= entry or self._is_head(other)), entry) for run in runs]
            former, head = self.heads[number], number_of(min([entry, *older]))
            if head == former:
                continue
            changed |= {number, head, former}
            affected: Iterable[bytes] = ()
            if head == number:
                affected = {other for run in runs for other in run if other > entry}
            elif former == number:
                affected = self._members(row)
            self.lead(number, head)
            for other in affected:
                heappush(queue, other)
        return changed

    def _is_head(self, entry: bytes) -> bool:
        number = number_of(entry)
        return self.heads[number] == number

    def status(self, mine: KeyedListing) -> DuplicateStatus:
        """The status of a listing with fetched text keys."""
        head = self.heads[mine.number]
        hidden_in = [] if head == mine.number else [""]
        earlier: dict[str, tuple[str, bool]] = {}
        uncontested = WARNED.keys() if mine.rank == NAMED else {URL} if mine.rank == AT_HOME else ()
        others = [
            (run[0], kind)
            for kind, key, entry in mine.text_keys
            if kind != CLUSTER and (run := self.text_keys.run(key))[0] != entry
        ]
        for first, kind in sorted(others):
            if kind.startswith(VIEW):
                hidden_in.append(kind.removeprefix(VIEW))
            elif kind not in uncontested and kind not in earlier:
                other = self._find(number_of(first))
                if other is None or other.registration == mine.registration:
                    continue
                same_owner = bool(mine.owner) and other.owner == mine.owner
                if not (same_owner and brings_nothing(kind, mine.destinations, other.destinations)):
                    earlier[kind] = other.id, same_owner
        members = self.sizes[mine.number] - 1
        warnings = tuple((kind, *earlier[kind]) for kind in WARNED if kind in earlier)
        shown = mine if head == mine.number else self._find(head)
        group = shown.id if shown is not None and (members > 0 or shown is not mine) else ""
        return DuplicateStatus(tuple(sorted(hidden_in)), max(0, members), group, warnings)


def number_of(entry: bytes) -> int:
    """The number of the listing that an entry is of."""
    return int.from_bytes(entry[PLACE_BYTES:], "big")
