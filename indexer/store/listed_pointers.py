"""The status of each listing from pointers, as it was counted last, and up to where the outbox was read for that."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import delete, insert, select

from indexer.store import outbox
from indexer.store.queries import Queries, batches
from indexer.store.schema import BYTEWISE, keys, outbox_positions, rebuilt_table, required
from indexer.store.writer import Writer

POSITION = "pointer counts"

listed_pointers = rebuilt_table("listed_pointers", *keys(id=BYTEWISE), *required(status=BYTEWISE))


class ListedPointerQueries(Queries):
    """Reads of what was counted."""

    def counted(self) -> tuple[str, int, dict[str, str]] | None:
        """The outbox position (epoch and sequence number) and the status, live or burned, of each listing from a
        pointer; None where they must be counted again."""
        with self._engine.connect() as connection:
            if (seq := outbox.position_of(connection, POSITION)) is None:
                return None
            epoch = connection.execute(
                select(outbox_positions.c.epoch).where(outbox_positions.c.name == POSITION)
            ).scalar_one()
            return epoch, seq, dict(connection.execute(select(listed_pointers)).all())


def store_statuses(writer: Writer, statuses: Mapping[str, str | None], seq: int, *, has_all: bool) -> None:
    """Store the statuses of listings, as the outbox was read up to a sequence number; None is the status of what is no
    listing. With `has_all` these are all: others are deleted."""
    rows = [{"id": id_, "status": status} for id_, status in statuses.items() if status is not None]
    with writer.transaction() as connection:
        if has_all:
            connection.execute(delete(listed_pointers))
        for batch in batches(statuses):
            connection.execute(delete(listed_pointers).where(listed_pointers.c.id.in_(batch)))
        if rows:
            connection.execute(insert(listed_pointers), rows)
        outbox.move_position(connection, seq, POSITION)
