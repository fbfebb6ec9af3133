"""State hashes (law 18), stored with the block after which they hold, and brought up to date from what changed.

The hash over pointers is chained over the blocks, so that a new one reads the blocks since the last one only.

SHA-256 covers one line per registration, sorted by id, so any change needs all lines after it again: they are stored,
which makes the hash of a million registrations one sequential read of 250 MB instead of a search for their newest
events.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, delete, func, insert, select

from indexer.model import EventKind, RegistrationState
from indexer.store import event_codec, outbox, second_readings
from indexer.store.map_changes import with_whole_maps
from indexer.store.queries import Queries, Row, batches
from indexer.store.registrations import newest_events
from indexer.store.schema import blocks, changes, events, state_hashes, state_lines
from indexer.store.writer import Writer
from parsers.bitcoin.tx import Outpoint

_LINES_AT_ONCE, _INSERTED_AT_ONCE = 10_000, 1_000

MAX_CHANGES = 100_000
"""Outbox rows above which reading all registrations is faster than looking up those that changed."""


class PointersHash(NamedTuple):
    """The number of valid pointers of a chain up to a height, and the hash (hex) chained over its blocks with any."""

    total: int
    digest: str


NO_POINTERS = PointersHash(0, bytes(32).hex())


class StateHash(NamedTuple):
    """The state hash (hex) of a chain after the block at a height, and the hash over its pointers; None where they
    cannot be known."""

    height: int
    digest: str | None
    pointers: PointersHash | None = None


def line(state: RegistrationState) -> str:
    """A registration as a line of the state: id, status, outpoint, owner, card and height, `-` for a missing one."""
    outpoint = str(state.outpoint) if state.outpoint else "-"
    owner = state.owner or "-"
    return f"{state.id}\t{state.status}\t{outpoint}\t{owner}\t{state.card.hex()}\t{state.updated_height}\n"


def digest(lines: Iterable[str]) -> str:
    """SHA-256 (hex) over lines, which come sorted by id as bytes."""
    sha = hashlib.sha256()
    for text in lines:
        sha.update(text.encode())
    return sha.hexdigest()


def _pointer_line(row: Row) -> bytes:
    """A valid pointer as a line: its output (of a log its transaction and number), its id, and the hash of its card,
    else that of its URI, else `-`."""
    pointer = event_codec.pointer(row)
    if pointer is None:
        raise ValueError(f"the event at place {row['place']} of {row['chain']} is not a pointer")
    commitment = "-"
    if pointer.digest is not None:
        commitment = pointer.digest.hex()
    elif pointer.uri is not None:
        commitment = f"uri:{hashlib.sha256(pointer.uri.encode(errors='surrogatepass')).hexdigest()}"
    return f"{Outpoint(row['txid'], row['vout'])}\t{pointer.id}\t{commitment}\n".encode()


def read_pointers(
    connection: Connection, chain: str, up_to: int, before: PointersHash = NO_POINTERS, above: int = -1
) -> PointersHash:
    """The hash over the valid pointers of a chain up to a height: from nothing, or from the hash `before` after the
    block at height `above`."""
    in_range = (
        events.c.place >= event_codec.event_position(above + 1),
        events.c.place < event_codec.event_position(up_to + 1),
    )
    pointers = select(events).where(events.c.chain == chain, events.c.anchor.is_not(None), events.c.valid, *in_range)
    stream = connection.execute(pointers.order_by(events.c.place).execution_options(yield_per=_LINES_AT_ONCE))
    count, chained = before.total, bytes.fromhex(before.digest)
    for _, of_block in groupby(stream.mappings(), key=itemgetter("height")):
        lines = sorted(map(_pointer_line, of_block))
        count += len(lines)
        chained = hashlib.sha256(chained + b"".join(lines)).digest()
    return PointersHash(count, chained.hex())


class StateHashQueries(Queries):
    """Reads of stored state hashes."""

    def newest(self, chain: str) -> StateHash | None:
        """The stored state hash of a chain at the greatest height, None without any."""
        row = self._first(_newest(chain))
        return StateHash(row["height"], row["hash"].hex(), _pointers(row)) if row else None

    def pointers(self, chain: str, height: int) -> PointersHash:
        """The hash over the valid pointers of a chain up to a height, computed from all of them."""
        with self._engine.connect() as connection:
            return read_pointers(connection, chain, height)


def _newest(chain: str) -> Select[Any]:
    """The stored state hash of a chain at the greatest height."""
    of_chain = select(state_hashes).where(state_hashes.c.chain == chain)
    return of_chain.order_by(state_hashes.c.height.desc()).limit(1)


def _pointers(row: Row) -> PointersHash:
    return PointersHash(row["pointers"], row["pointers_hash"].hex())


def update(writer: Writer, chain: str) -> None:
    """Compute and store the state hash after the newest block of a chain, unless it is stored already or an update is
    undecided. For a chain that is read twice, it is the newest block up to which all were."""
    with writer.transaction() as connection:
        _update(connection, chain)


def _update(connection: Connection, chain: str) -> None:
    twice = second_readings.height_of(connection, chain)
    read = [blocks.c.chain == chain, *([] if twice is None else [blocks.c.height <= twice])]
    height = connection.execute(select(func.max(blocks.c.height)).where(*read)).scalar()
    same = (state_hashes.c.chain == chain, state_hashes.c.height == height)
    if height is None or connection.execute(select(state_hashes.c.height).where(*same)).first() is not None:
        return
    undecided = select(events.c.place).where(events.c.chain == chain, events.c.kind == EventKind.UNDECIDED.value)
    if connection.execute(undecided.limit(1)).first() is not None:
        return
    last = connection.execute(_newest(chain)).mappings().first()
    above, before = (last["height"], _pointers(last)) if last else (-1, NO_POINTERS)
    pointers = read_pointers(connection, chain, height, before, above)
    _update_lines(connection, chain, None if twice is None else (above, height))
    lines = select(state_lines.c.line).where(state_lines.c.chain == chain).order_by(state_lines.c.id)
    stream = connection.execute(lines.execution_options(yield_per=_LINES_AT_ONCE)).scalars()
    values = {"hash": bytes.fromhex(digest(stream)), "pointers": pointers.total}
    values["pointers_hash"] = bytes.fromhex(pointers.digest)
    connection.execute(insert(state_hashes).values(chain=chain, height=height, **values))


def _update_lines(connection: Connection, chain: str, heights: tuple[int, int] | None) -> None:
    """Bring the lines of a chain up to date with the outbox, from its position on or from scratch; with `heights`, from
    the state after the first of these to that after the second, which later blocks do not change."""
    up_to = None if heights is None else heights[1]
    name = f"state:{chain}"
    seq = connection.execute(select(func.max(changes.c.seq))).scalar() or 0
    position = outbox.position_of(connection, name)
    later = (changes.c.chain == chain, changes.c.seq > (position or 0))
    next_ones = select(changes.c.seq).where(*later).limit(MAX_CHANGES + 1).subquery()
    if position is None or connection.execute(select(func.count()).select_from(next_ones)).scalar_one() > MAX_CHANGES:
        connection.execute(delete(state_lines).where(state_lines.c.chain == chain))
        _insert(connection, chain, read_states(connection, chain, up_to=up_to))
    else:
        changed = set(connection.execute(select(changes.c.id).where(*later).distinct()).scalars())
        if heights is not None:
            within = (events.c.chain == chain, events.c.height > heights[0], events.c.height <= heights[1])
            named = select(events.c.registration).where(*within, events.c.registration.is_not(None))
            changed.update(connection.execute(named.distinct()).scalars())
        for ids in batches(changed):
            connection.execute(delete(state_lines).where(state_lines.c.chain == chain, state_lines.c.id.in_(ids)))
            _insert(connection, chain, read_states(connection, chain, ids, up_to=up_to))
    outbox.move_position(connection, seq, name)


def read_states(
    connection: Connection, chain: str, ids: list[str] | None = None, *, up_to: int | None = None
) -> Iterator[RegistrationState]:
    """The states of the registrations of a chain, sorted by id: of all, or of those among `ids`; after the newest
    block, or that at the height `up_to`."""
    conditions: list[ColumnElement[bool]] = [] if ids is None else [events.c.registration.in_(ids)]
    if up_to is not None:
        conditions.append(events.c.place < event_codec.event_position(up_to + 1))
    statement = newest_events(chain, *conditions)
    stream = connection.execute(statement.execution_options(yield_per=_LINES_AT_ONCE)).mappings()
    for some in stream.partitions():
        yield from filter(None, map(event_codec.state, with_whole_maps(connection, some)))


def _insert(connection: Connection, chain: str, states: Iterator[RegistrationState]) -> None:
    while batch := list(islice(states, _INSERTED_AT_ONCE)):
        lines = [{"chain": chain, "id": state.id, "line": line(state)} for state in batch]
        connection.execute(insert(state_lines), lines)
