"""The groups of near-identical texts, and the first holders of names, URLs and addresses, in memory.

In order of rank and seniority, a listing is shown (a head) unless it shares a cluster key with a more senior head that
may hide it (`may_hide`), the most senior of which is its head. Groups therefore do not depend on the order of reading,
every hidden text is near-identical to the shown one, and of two heads that share a key the more senior one is the later
registration and leads elsewhere. A change examines the changed listings, and where a head is added or removed, those
that share its keys.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from overlay.duplicates.duplicate_status import WARNED, DuplicateStatus, brings_nothing
from overlay.duplicates.text_key_table import AGE_BYTES, PLACE_BYTES, TextKeyTable
from overlay.duplicates.text_keys import ADDRESS, CLUSTER, COMMAND, NAME, SIMILAR, TEXT, URL, Key, digest
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
    seniority (`Since.ordering`), and the number; that of a cluster key is the seniority of the listing. `destination`
    and `host` are those of its `Fingerprint`."""

    number: int
    id: str
    chain: str
    registration: str
    owner: str
    rank: int
    destination: int
    host: int
    text_keys: tuple[tuple[str, int, bytes], ...]

    @classmethod
    def of(cls, number: int, document: Document) -> KeyedListing:
        """A document; its text has a text key for each view."""
        text_keys, rank, owner, _, destination, host = document.fingerprint or NOTHING
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
        placed = number, document.id, document.chain, document.registration
        return cls(*placed, owner, rank, destination, host, tuple(rows))

    @property
    def clusters(self) -> list[int]:
        """The cluster keys."""
        return [key for kind, key, _ in self.text_keys if kind == CLUSTER]

    @property
    def destinations(self) -> set[Key]:
        """The text keys of its URL, its command and its pay-to addresses."""
        return {(kind, key) for kind, key, _ in self.text_keys if kind in (URL, COMMAND, ADDRESS)}

    @property
    def seniority(self) -> bytes:
        """The entry by which heads are chosen."""
        no_text_keys = bytes(PLACE_BYTES) + self.number.to_bytes(4, "big")
        return next((entry for kind, _, entry in self.text_keys if kind == CLUSTER), no_text_keys)

    @property
    def views(self) -> Iterator[int]:
        """The text keys of its text, one for each view."""
        return (key for kind, key, _ in self.text_keys if kind.startswith(VIEW))

    def is_compared_like(self, other: KeyedListing) -> bool:
        """Whether the listing may hide the same listings, and be hidden by the same ones, as another state of it."""
        former, present = ((row.seniority, row.clusters, row.destination, row.host) for row in (self, other))
        return former == present

    def is_named_like(self, other: KeyedListing) -> bool:
        """Whether warnings that name the listing are the same as for another state of it."""
        former, present = ((row.owner, row.destinations, row.destination, row.host) for row in (self, other))
        return former == present


def age(entry: bytes) -> bytes:
    """The part of an entry by which registrations are compared by age."""
    return entry[PLACE_BYTES - AGE_BYTES : PLACE_BYTES]


def has_authority(mine: KeyedListing, other: KeyedListing) -> bool:
    """Whether the domain of a listing confirms it, and is the host of the URL of another, too."""
    return mine.rank <= AT_HOME and mine.host == other.host != 0


def may_hide(senior: KeyedListing, other: KeyedListing) -> bool:
    """Whether a listing may be shown instead of one of lower rank or seniority (law 21): the older registration may, or
    one that leads to the same place, or one that the domain confirms to which the other leads."""
    is_older = age(senior.seniority) <= age(other.seniority)
    return is_older or senior.destination == other.destination or has_authority(senior, other)


class TextKeyGroups:
    """All text keys, the head of each listing (0 before it is examined), how many listings each is the head of, and the
    listings of the last update by registration. `find` reads a stored listing; large arrays are in files in the folder.
    Not safe for threads."""

    def __init__(self, find: Callable[[int], KeyedListing | None], folder: Path | None = None) -> None:
        self.text_keys, self.heads, self.sizes = TextKeyTable(folder), array("i", [0]), array("i", [0])
        self._find = find
        self.recent: dict[str, list[KeyedListing]] = {}
        self._shown: dict[int, frozenset[bytes]] = {}

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
        self._shown = {}
        self.fetch([*before.values(), *after.values()])
        changed: set[int] = set()
        queue = [row.seniority for row in after.values()]
        for number, row in before.items():
            head, later = self.heads[number], after.get(number)
            is_same = later is not None and row.is_compared_like(later)
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
        """Replace text keys; the listings of each text key that has another first holder, and those that are shown in a
        view only before or after."""
        shown = {key: self._shown_of(key, {}) for key in _changed_views(before, after)}
        firsts: dict[int, bytes] = {}
        for rows, others, change in ((before, after, self.text_keys.remove), (after, before, self.text_keys.add)):
            for number, row in rows.items():
                text_keys: Iterable[tuple[str, int, bytes]] = row.text_keys
                if number in others:
                    text_keys = set(text_keys).difference(others[number].text_keys)
                for kind, key, entry in text_keys:
                    first = change(key, entry)
                    if first is not None and kind in WARNED:
                        firsts.setdefault(key, first)
        for number in before.keys() & after.keys():
            present = after[number]
            if not before[number].is_named_like(present):
                warned = [text_key for text_key in present.text_keys if text_key[0] in WARNED]
                firsts |= {key: b"" for _, key, entry in warned if self.text_keys.run(key)[0] == entry}
        concerned: set[int] = set()
        for key, first in firsts.items():
            run = self.text_keys.run(key)
            if run and run[0] != first:
                concerned.update(map(number_of, run[:NAMING]))
        for key, entries in shown.items():
            concerned.update(map(number_of, entries ^ self._shown_of(key, after)))
        return concerned

    def _shown_of(self, key: int, changed: Mapping[int, KeyedListing]) -> frozenset[bytes]:
        """The entries of the listings with a text key for a view that are shown in it: in their order, each that no
        earlier one may hide. `changed` are listings that are not stored yet."""
        run = self.text_keys.run(key)
        heads, rows, oldest = list(run[:1]), list[KeyedListing](), age(run[0]) if run else b""
        for entry in run[1:]:
            if age(entry) >= oldest:
                continue
            rows = rows or self._rows(heads, changed)
            for mine in self._rows([entry], changed):
                if not any(may_hide(head, mine) for head in rows):
                    heads.append(entry)
                    rows.append(mine)
                    oldest = age(entry)
        return frozenset(heads)

    def _rows(self, entries: Iterable[bytes], changed: Mapping[int, KeyedListing]) -> list[KeyedListing]:
        rows = (changed.get(number) or self._find(number) for number in map(number_of, entries))
        return [row for row in rows if row is not None]

    def _members(self, head: KeyedListing) -> set[bytes]:
        """The entries of the listings that one is shown for."""
        runs = map(self.text_keys.run, head.clusters)
        return {entry for run in runs for entry in run if self.heads[number_of(entry)] == head.number}

    def _regroup(self, queue: list[bytes], replaced: Set[int], after: Mapping[int, KeyedListing]) -> set[int]:
        """Examine listings, and the ones of lower seniority that they affect; returns the numbers of the listings whose
        group has changed. An entry in the queue may be outdated."""
        heapify(queue)
        changed: set[int] = set()
        heads: dict[int, KeyedListing | None] = {}
        while queue:
            entry = heappop(queue)
            number = number_of(entry)
            row = after.get(number) if number in replaced else self._find(number)
            if row is None or row.seniority != entry:
                continue
            if number not in replaced:
                self.fetch([row])
            runs = [run for key in row.clusters if len(run := self.text_keys.run(key)) > 1]
            older = [self._head_of(row, run, after, heads) for run in runs]
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

    def _head_of(
        self,
        row: KeyedListing,
        run: Sequence[bytes],
        after: Mapping[int, KeyedListing],
        heads: dict[int, KeyedListing | None],
    ) -> bytes:
        """The most senior head of a text key that may hide a listing; its own entry where there is none. `heads` are
        those that were read."""
        for entry in run:
            if entry >= row.seniority:
                break
            number = number_of(entry)
            if self.heads[number] != number:
                continue
            if age(entry) <= age(row.seniority):
                return entry
            if number not in heads:
                heads[number] = after.get(number) or self._find(number)
            head = heads[number]
            if head is not None and may_hide(head, row):
                return entry
        return row.seniority

    def status(self, mine: KeyedListing) -> DuplicateStatus:
        """The status of a listing with fetched text keys."""
        head = self.heads[mine.number]
        hidden_in = [] if head == mine.number else [""]
        hidden_in += [
            kind.removeprefix(VIEW)
            for kind, key, entry in mine.text_keys
            if kind.startswith(VIEW) and entry not in self._shown_in(key)
        ]
        members = self.sizes[mine.number] - 1
        shown = mine if head == mine.number else self._find(head)
        group = shown.id if shown is not None and (members > 0 or shown is not mine) else ""
        return DuplicateStatus(tuple(sorted(hidden_in)), max(0, members), group, self._earlier(mine))

    def _shown_in(self, key: int) -> Collection[bytes]:
        """As `_shown_of`, after an update."""
        run = self.text_keys.run(key)
        if len(run) == 1:
            return run
        if key not in self._shown:
            self._shown[key] = self._shown_of(key, {})
        return self._shown[key]

    def _earlier(self, mine: KeyedListing) -> tuple[tuple[str, str, bool], ...]:
        """The first holders of its text keys that its warnings name: (kind, id, same owner), one of each kind."""
        earlier: dict[str, tuple[str, bool]] = {}
        others = {
            (run[0], kind)
            for kind, key, entry in mine.text_keys
            if kind in WARNED and (run := self.text_keys.run(key))[0] != entry
        }
        for first, kind in sorted(others):
            other = self._find(number_of(first))
            if other is None or other.registration == mine.registration:
                continue
            same_owner = bool(mine.owner) and other.owner == mine.owner
            for warned in warned_of(kind, mine, other):
                if not (same_owner and brings_nothing(warned, mine.destinations, other.destinations)):
                    earlier.setdefault(warned, (other.id, same_owner))
        return tuple((kind, *earlier[kind]) for kind in WARNED if kind in earlier)


def warned_of(kind: str, mine: KeyedListing, other: KeyedListing) -> Iterator[str]:
    """The kinds of warnings of a listing: another listing had its text key of such a kind before. A similar text has a
    similar name, too; it needs no warning where both lead to the same place, or where the domain of that place confirms
    the later one."""
    uncontested = (NAME, URL, ADDRESS) if mine.rank == NAMED else (URL,) if mine.rank == AT_HOME else ()
    if kind == SIMILAR and mine.destination != other.destination and not has_authority(mine, other):
        yield SIMILAR
    if (named := NAME if kind == SIMILAR else kind) not in uncontested:
        yield named


def _changed_views(before: Mapping[int, KeyedListing], after: Mapping[int, KeyedListing]) -> set[int]:
    """The text keys of views of listings that are not compared as before in all views."""
    changed: set[int] = set()
    for number in before.keys() | after.keys():
        former, present = before.get(number), after.get(number)
        views = [set(state.views) if state else set() for state in (former, present)]
        if not (former and present and views[0] == views[1] and former.is_compared_like(present)):
            changed.update(*views)
    return changed


def number_of(entry: bytes) -> int:
    """The number of the listing that an entry is of."""
    return int.from_bytes(entry[PLACE_BYTES:], "big")
