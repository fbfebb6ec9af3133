"""How much of the outbox of a database an index has not read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indexer.store import Store, StoreUnavailableError
from indexer.store.outbox import OutboxPosition
from overlay.engines import IndexPosition

if TYPE_CHECKING:
    from overlay.projection.search_index import SearchIndex


def continues(position: IndexPosition, outbox: OutboxPosition) -> bool:
    """Whether a position is of this outbox: a restored or failed-over database has another epoch, or fewer rows."""
    return position.epoch == outbox.epoch and position.seq <= outbox.newest_seq


def is_ahead(store: Store, position: IndexPosition, outbox: OutboxPosition) -> bool:
    """Whether the index was fed from the primary of this replica, which has yet to catch up."""
    if not outbox.is_replica or continues(position, outbox):
        return False
    if position.epoch == outbox.epoch:
        return True
    try:
        return store.on_primary().outbox.position().epoch == position.epoch
    except StoreUnavailableError:
        return True


def is_of_this_database(store: Store, position: IndexPosition) -> bool:
    """Whether the changes after a position are in this database, or in the primary of this replica."""
    outbox = store.outbox.position()
    return continues(position, outbox) or is_ahead(store, position, outbox)


def pending_changes(store: Store, index: SearchIndex) -> int:
    """Number of changes in the outbox that the index has not read. Raises UnavailableError."""
    position, outbox = index.position(), store.outbox.position()
    if position is not None and is_ahead(store, position, outbox):
        return 0
    return outbox.newest_seq - (position.seq if position and continues(position, outbox) else 0)
