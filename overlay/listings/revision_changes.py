"""The changes by each revision of a history, compared with the one before it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

from indexer.model import Status
from overlay.listings.card_texts import read_card
from overlay.listings.listing import notice_of
from overlay.listings.pending_changes import MAX_CHANGES, PendingChange, card_changes, notice_text
from parsers.cards import ToolConfig
from parsers.errors import CardError

if TYPE_CHECKING:
    from overlay.listings.listing import Shown
    from overlay.listings.records import HistoryEntry
    from overlay.listings.repository import ListingRepository

MAX_CARDS = 64
"""Cards that are compared, those of the newest revisions: reading a card takes up to 20 ms."""


def with_changes(
    repository: ListingRepository,
    registration_id: str,
    entries: Sequence[HistoryEntry],
    revisions: list[dict[str, Any]],
) -> list[dict[str, Any]]:
    """The revisions (newest first) with `changes` where one changed anything, as in `pending`."""
    counting = [number for number, entry in enumerate(entries) if _counts(entry) and _digest(entry) is not None]
    digests = dict.fromkeys(digest for number in counting if (digest := _digest(entries[number])) is not None)
    bodies = repository.cards(islice(digests, MAX_CARDS))
    for later, earlier in pairwise(counting):
        changes = [
            *_owner(entries[earlier], entries[later]),
            *_cards(registration_id, entries[earlier], entries[later], bodies),
        ]
        if changes:
            rows = [{"what": what, "from": before, "to": after} for what, before, after in changes[:MAX_CHANGES]]
            revisions[later] = revisions[later] | {"changes": rows}
    return revisions


def _counts(entry: HistoryEntry) -> bool:
    """Whether an event may have changed anything: one that is not valid moves a registration all the same."""
    state = entry.event.state
    return entry.event.valid if state is None else state.status is not Status.BURNED


def _digest(entry: HistoryEntry) -> bytes | None:
    event = entry.event
    return event.state.card if event.state else event.pointer.digest if event.pointer else None


def _owner(before: HistoryEntry, after: HistoryEntry) -> Iterator[PendingChange]:
    owners = [entry.event.state.owner if entry.event.state else entry.event.owner for entry in (before, after)]
    if owners[0] != owners[1]:
        yield PendingChange("owner", owners[0], owners[1])


def _cards(
    id_: str, before: HistoryEntry, after: HistoryEntry, bodies: Mapping[bytes, bytes]
) -> Iterator[PendingChange]:
    """The changes of the card, and of the owner's notice that the listing is deprecated."""
    old, new = (_shown(id_, entry, bodies.get(_digest(entry) or b"")) for entry in (before, after))
    if not (old and new):
        return
    if _digest(before) != _digest(after):
        yield from card_changes(old, new)
    notices = [
        notice_text(
            notice_of(entry.event.state.map if entry.event.state else {}, shown[0] if len(shown) == 1 else None)
        )
        for entry, shown in ((before, old), (after, new))
    ]
    if notices[0] != notices[1]:
        yield PendingChange("deprecated", *notices)


def _shown(id_: str, entry: HistoryEntry, body: bytes | None) -> Sequence[Shown]:
    """The agent or the servers of the card after a revision; empty where it is not stored, or cannot be read."""
    state, pointer = entry.event.state, entry.event.pointer
    kind = state.kind if state else pointer.kind if pointer else None
    if body is None or kind is None:
        return ()
    try:
        card = read_card(id_, body, kind)
    except CardError:
        return ()
    return card.servers if isinstance(card, ToolConfig) else (card,)
