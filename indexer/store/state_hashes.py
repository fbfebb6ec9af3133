"""State hashes (law 18), stored with the block after which they hold, and brought up to date from what changed.

SHA-256 covers one line per registration, sorted by id, so any change needs all lines after it again: they are stored,
which makes the hash of a million registrations one sequential read of 250 MB instead of a search for their newest
events.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, insert, select

from indexer.model import EventKind, RegistrationState
from indexer.store import outbox, rows
from indexer.store.queries import Queries, batches
from indexer.store.registrations import newest_events
from indexer.store.schema import blocks, changes, events, state_hashes, state_lines
from indexer.store.writer import Writer

_LINES_AT_ONCE, _INSERTED_AT_ONCE = 10_000, 1_000

MAX_CHANGES = 100_000
"""Outbox rows above which reading all registrations is faster than looking up those that changed."""


class StateHash(NamedTuple):
    """The state hash (hex) of a chain after the block at a height; None where it cannot be known."""

    height: int
    digest: str | None


def line(state: RegistrationState) -> str:
    """A registration as a line of the state: id, status, outpoint, owner, card and height, `-` for what it has not."""
    outpoint = str(state.outpoint) if state.outpoint else "-"
    owner = state.owner or "-"
    return f"{state.id}\t{state.status}\t{outpoint}\t{owner}\t{state.card.hex()}\t{state.updated_height}\n"


def digest(lines: Iterable[str]) -> str:
    """SHA-256 (hex) over lines, which come sorted by id as bytes."""
    sha = hashlib.sha256()
    for text in lines:
        sha.update(text.encode())
    return sha.hexdigest()


class StateHashQueries(Queries):
    """Reads of stored state hashes."""

    def newest(self, chain: str) -> StateHash | None:
        """The stored state hash of a chain at the greatest height, None without any."""
        of_chain = select(state_hashes).where(state_hashes.c.chain == chain)
        row = self._first(of_chain.order_by(state_hashes.c.height.desc()).limit(1))
        return StateHash(row["height"], row["hash"].hex()) if row else None


def update(writer: Writer, chain: str) -> None:
    """Compute and store the state hash after the newest stored block of a chain, unless it is stored already or an
    update is undecided."""
    with writer.transaction() as connection:
        _update(connection, chain)


def _update(connection: Connection, chain: str) -> None:
    height = connection.execute(select(func.max(blocks.c.height)).where(blocks.c.chain == chain)).scalar()
    same = (state_hashes.c.chain == chain, state_hashes.c.height == height)
    if height is None or connection.execute(select(state_hashes.c.height).where(*same)).first() is not None:
        return
    undecided = select(events.c.place).where(events.c.chain == chain, events.c.kind == EventKind.UNDECIDED.value)
    if connection.execute(undecided.limit(1)).first() is not None:
        return
    _update_lines(connection, chain)
    lines = select(state_lines.c.line).where(state_lines.c.chain == chain).order_by(state_lines.c.id)
    stream = connection.execute(lines.execution_options(yield_per=_LINES_AT_ONCE)).scalars()
    connection.execute(insert(state_hashes).values(chain=chain, height=height, hash=bytes.fromhex(digest(stream))))


def _update_lines(connection: Connection, chain: str) -> None:
    """Bring the lines of a chain up to date with the outbox, from its position on or from scratch."""
    name = f"state:{chain}"
    seq = connection.execute(select(func.max(changes.c.seq))).scalar() or 0
    position = outbox.position_of(connection, name)
    later = (changes.c.chain == chain, changes.c.seq > (position or 0))
    next_ones = select(changes.c.seq).where(*later).limit(MAX_CHANGES + 1).subquery()
    if position is None or connection.execute(select(func.count()).select_from(next_ones)).scalar_one() > MAX_CHANGES:
        connection.execute(delete(state_lines).where(state_lines.c.chain == chain))
        _insert(connection, chain, read_states(connection, chain))
    else:
        changed = select(changes.c.id).where(*later).distinct()
        for ids in batches(connection.execute(changed).scalars()):
            connection.execute(delete(state_lines).where(state_lines.c.chain == chain, state_lines.c.id.in_(ids)))
            _insert(connection, chain, read_states(connection, chain, ids))
    outbox.move_position(connection, seq, name)


def read_states(connection: Connection, chain: str, ids: list[str] | None = None) -> Iterator[RegistrationState]:
    """The states of the registrations of a chain, sorted by id: of all, or of those among `ids`."""
    statement = newest_events(chain, *([] if ids is None else [events.c.registration.in_(ids)]))
    stream = connection.execute(statement.execution_options(yield_per=_LINES_AT_ONCE)).mappings()
    return (state for row in stream if (state := rows.state(row)) is not None)


def _insert(connection: Connection, chain: str, states: Iterator[RegistrationState]) -> None:
    while batch := list(islice(states, _INSERTED_AT_ONCE)):
        lines = [{"chain": chain, "id": state.id, "line": line(state)} for state in batch]
        connection.execute(insert(state_lines), lines)
