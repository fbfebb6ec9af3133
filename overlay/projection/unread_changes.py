"""How much of the outbox of a database an index has not read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indexer.store import Store, StoreUnavailableError
from indexer.store.outbox import OutboxPosition
from overlay.engines import IndexPosition

if TYPE_CHECKING:
    from overlay.projection.search_index import SearchIndex


def continues(store: Store, position: IndexPosition) -> bool:
    """Whether a position is of this database, which may have been put back, or be of a server that took over."""
    return store.outbox.has(*position)


def is_ahead(store: Store, position: IndexPosition, outbox: OutboxPosition) -> bool:
    """Whether the index was fed from the primary of this replica, which has yet to catch up."""
    if not outbox.is_replica or continues(store, position):
        return False
    try:
        return continues(store.on_primary(), position)
    except StoreUnavailableError:
        return True


def is_of_this_database(store: Store, position: IndexPosition) -> bool:
    """Whether the changes after a position are in this database, or in the primary of this replica."""
    outbox = store.outbox.position()
    return continues(store, position) or is_ahead(store, position, outbox)


def pending_changes(store: Store, index: SearchIndex) -> int:
    """Number of changes in the outbox that the index has not read. Raises UnavailableError."""
    position, outbox = index.position(), store.outbox.position()
    if position is not None and is_ahead(store, position, outbox):
        return 0
    return outbox.newest_seq - (position.seq if position and continues(store, position) else 0)
