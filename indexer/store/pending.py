"""Unconfirmed events: the events that would follow if the source's mempool were mined next.

The functions work inside a transaction of the writer and return rows for the outbox. The bodies of these cards are in a
separate table: they are deleted with the mempool.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace as changed
from itertools import groupby
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, delete, func, select

from indexer.model import UNCONFIRMED, BlockFacts, BlockRef, Event, Status
from indexer.store import event_codec, outbox
from indexer.store.event_codec import event_position, event_row
from indexer.store.history import Unconfirmed, cards_first, in_transaction
from indexer.store.queries import Queries, Row, batches, insert_rows, rows_in
from indexer.store.schema import POSITION_BITS, events, pending, pending_cards
from indexer.store.writer import Writer
from parsers.bitcoin.tx import Outpoint
from parsers.reasons import UNPROVED

_POSITION_COLUMNS = ("tx_index", "updated_height", "created_height")
"""Columns of an event that change when it is mined, though its meaning stays."""

_PENDING_PLACES = range(event_position(UNCONFIRMED), event_position(UNCONFIRMED) + (1 << POSITION_BITS))
"""Values for `place`. An event keeps its own as long as it follows the same events: with 5,000 of them, one more takes
0.15 s, and writing all again takes 1.2 s."""

OutboxRow = dict[str, Any]
Content = tuple[Any, ...]
"""A row of `pending` without its place."""

_NAMES = tuple(column.name for column in pending.columns if column.name != "place")
_CARD, _ID = (_NAMES.index(name) for name in ("card", "registration"))


PROVED = func.coalesce(pending.c.reasons, "").not_like(f'%["{UNPROVED}"%')
"""Events, without those of submitted transactions that no block is known to be able to hold."""


class PendingQueries(Queries):
    """Reads of unconfirmed events."""

    def events(self, chain: str) -> list[Event]:
        """The unconfirmed events of a chain in the order in which they would follow one another."""
        of_chain = select(pending).where(pending.c.chain == chain).order_by(pending.c.place)
        following = map(event_codec.event, self._rows(of_chain))
        return [changed(event, position=number) for number, event in enumerate(following)]

    def of_transaction(self, txid: bytes, vout: int | None = None, limit: int | None = None) -> list[Unconfirmed]:
        """At most `limit` unconfirmed events of a transaction, as `HistoryQueries.of_transaction`."""
        statement = select(pending).where(in_transaction(pending, txid, vout)).order_by(*cards_first(pending))
        return [Unconfirmed(row["chain"], event_codec.event(row)) for row in self._rows(statement.limit(limit))]

    def count_of_transaction(self, txid: bytes, vout: int | None = None) -> int:
        """How many events `of_transaction` selects without a limit."""
        return self._count(pending, in_transaction(pending, txid, vout))

    def new_ids(self) -> list[str]:
        """The registrations that are in no block of any chain, sorted."""
        confirmed = select(events.c.registration).where(events.c.registration == pending.c.registration)
        unconfirmed = select(pending.c.registration).where(pending.c.registration.is_not(None), ~confirmed.exists())
        return self._scalars(unconfirmed.distinct().order_by(pending.c.registration))

    def new_count(self, chain: str) -> int:
        """How many registrations of a chain are live and in no block of it yet, without those that are unproved."""
        last = select(func.max(pending.c.place)).where(pending.c.chain == chain, pending.c.registration.is_not(None))
        newest = (pending.c.place.in_(last.group_by(pending.c.registration)), pending.c.status == Status.LIVE.value)
        confirmed = select(events.c.registration).where(
            events.c.registration == pending.c.registration, events.c.chain == pending.c.chain
        )
        statement = select(func.count()).where(pending.c.chain == chain, *newest, PROVED, ~confirmed.exists())
        return int(self._scalar(statement.select_from(pending)))


def replace_pending(writer: Writer, chain: str, following: Sequence[Event], bodies: Mapping[bytes, bytes]) -> int:
    """Make these the unconfirmed events of a chain, in spend order, and these the cards (by SHA-256) they name; return
    how many registrations change by it."""
    with writer.transaction() as connection:
        changes = _replace(connection, chain, following, bodies)
        outbox.append(connection, changes)
    return len(changes)


def announce_submitted(writer: Writer, chain: str, txids: Iterable[bytes]) -> int:
    """Have readers look again at the registrations of unconfirmed transactions that can be proved from now on; return
    how many they are."""
    with writer.transaction() as connection:
        of_chain = select(pending.c.registration).where(pending.c.chain == chain, pending.c.registration.is_not(None))
        unconfirmed = {row["registration"] for row in rows_in(connection, of_chain, pending.c.txid, txids)}
        return outbox.announce(connection, sorted(unconfirmed), "pending", chain)


def clear_pending(writer: Writer) -> None:
    """Delete the unconfirmed events of every chain: they are of an earlier run of the program."""
    with writer.transaction() as connection:
        for chain in connection.execute(select(pending.c.chain).distinct()).scalars().all():
            outbox.append(connection, _replace(connection, chain, (), {}))


def _replace(
    connection: Connection, chain: str, following: Iterable[Event], bodies: Mapping[bytes, bytes]
) -> list[OutboxRow]:
    """Only what differs from the stored rows is written."""
    nowhere = BlockRef(chain, UNCONFIRMED, b"", b"", 0, b"")
    rows = (event_row(nowhere, event) for event in following)
    after = [tuple(row[name] for name in _NAMES) for row in rows]
    columns = (pending.c.place, *(pending.c[name] for name in _NAMES))
    matches = connection.execute(select(*columns).where(pending.c.chain == chain).order_by(pending.c.place)).all()
    old_places, before = [row[0] for row in matches], [tuple(row)[1:] for row in matches]
    if before == after:
        return []
    unmoved = {new: old_places[old] for new, old in unmoved_items(before, after).items()}
    new_places = allocate(unmoved, len(after), _PENDING_PLACES)
    if new_places is None:
        unmoved, new_places = {}, allocate({}, len(after), _PENDING_PLACES) or []
    reused = set(unmoved.values())
    removed = {key: content for key, content in zip(old_places, before, strict=True) if key not in reused}
    added = {key: content for key, content in zip(new_places, after, strict=True) if key not in reused}
    _delete(connection, chain, list(removed))
    insert_rows(
        connection, pending, [dict(zip(_NAMES, content, strict=True), place=key) for key, content in added.items()]
    )
    _replace_cards(connection, chain, {digest for row in after if (digest := row[_CARD]) in bodies}, bodies)
    touched = {content[_ID] for content in (*removed.values(), *added.values())}
    old, new = _by_registration(before, touched), _by_registration(after, touched)
    changed_ids = sorted(id_ for id_, contents in new.items() if old.get(id_) != contents)
    upserts = [_change(chain, id_, "upsert", "pending") for id_ in changed_ids]
    return upserts + _evicted(connection, chain, old.keys() - new.keys())


def _replace_cards(
    connection: Connection, chain: str, digests: Collection[bytes], bodies: Mapping[bytes, bytes]
) -> None:
    """Make these the stored cards of a chain's unconfirmed events."""
    of_chain = pending_cards.c.chain == chain
    stored = set(connection.execute(select(pending_cards.c.sha256).where(of_chain)).scalars())
    for batch in batches(stored.difference(digests)):
        connection.execute(delete(pending_cards).where(of_chain, pending_cards.c.sha256.in_(batch)))
    new = [{"chain": chain, "sha256": digest, "body": bodies[digest]} for digest in digests if digest not in stored]
    insert_rows(connection, pending_cards, new)


def _by_registration(contents: Iterable[Content], ids: Collection[str]) -> dict[str, list[Row]]:
    """The rows of these registrations, without what changes when an event is mined."""
    grouped: dict[str, list[Row]] = {}
    for content in contents:
        if content[_ID] is not None and content[_ID] in ids:
            row = dict(zip(_NAMES, content, strict=True))
            grouped.setdefault(content[_ID], []).append({n: v for n, v in row.items() if n not in _POSITION_COLUMNS})
    return grouped


def remove_mined(connection: Connection, chain: str, mined: Sequence[BlockFacts]) -> list[OutboxRow]:
    """Delete the unconfirmed events that these blocks hold or contradict; those that follow from them stay.

    The blocks' own outbox rows name every registration of their events. Returned are rows for the others that lose an
    event: a mined transaction may have other events than it had unconfirmed, when not all before it were known.
    """
    columns = (pending.c.place, pending.c.txid, pending.c.registration, pending.c.spent_txid, pending.c.spent_vout)
    stored = connection.execute(select(*columns).where(pending.c.chain == chain).order_by(pending.c.place)).all()
    if not stored:
        return []
    pending_txids, registrations = {row.txid for row in stored}, {row.registration for row in stored}
    txids, outpoints = set[bytes](), dict[str, Outpoint | None]()
    # a block may hold more events than memory: only those that concern stored rows are collected
    for event in (event for block in mined for event in block.events):
        if event.txid in pending_txids:
            txids.add(event.txid)
        if event.state and event.state.id in registrations:
            outpoints[event.state.id] = event.state.outpoint
    removed, by_id = [row for row in stored if row.txid in txids], attrgetter("registration")
    rest = sorted((row for row in stored if row.txid not in txids and row.registration in outpoints), key=by_id)
    for id_, group in groupby(rest, key=by_id):
        following = list(group)
        if Outpoint(following[0].spent_txid, following[0].spent_vout) != outpoints[id_]:
            removed += following
    lost = {row.registration for row in removed if row.registration is not None} - outpoints.keys()
    removed += [row for row in stored if row.registration in lost]
    _delete(connection, chain, list({row.place for row in removed}))
    return _evicted(connection, chain, lost)


def _evicted(connection: Connection, chain: str, ids: Collection[str]) -> list[OutboxRow]:
    """Outbox rows for registrations that have no unconfirmed event any more."""
    of_chain = select(events.c.registration).where(events.c.chain == chain).distinct()
    confirmed = {row["registration"] for row in rows_in(connection, of_chain, events.c.registration, ids)}
    return [_change(chain, id_, "upsert" if id_ in confirmed else "remove", "evicted") for id_ in sorted(ids)]


def _change(chain: str, id_: str, op: str, reason: str) -> OutboxRow:
    return {"chain": chain, "op": op, "id": id_, "height": None, "reason": reason}


def _delete(connection: Connection, chain: str, event_places: Sequence[int]) -> None:
    for batch in batches(event_places):
        connection.execute(delete(pending).where(pending.c.chain == chain, pending.c.place.in_(batch)))


def remove_registrations(connection: Connection, chain: str, ids: Sequence[str]) -> None:
    """Delete the unconfirmed events of these registrations after a rollback of their blocks."""
    for batch in batches(ids):
        connection.execute(delete(pending).where(pending.c.chain == chain, pending.c.registration.in_(batch)))


def unmoved_items(before: Sequence[Hashable], after: Sequence[Hashable]) -> dict[int, int]:
    """A longest common subsequence where equal items are paired in order: index in `after` to index in `before`.

    O(n log n): the longest increasing subsequence of the indexes in `before` (Schensted).
    """
    indexes: defaultdict[Hashable, deque[int]] = defaultdict(deque)
    for index, item in enumerate(before):
        indexes[item].append(index)
    tails: list[int] = []  # for increasing subsequences of each length: the lowest index that one ends in
    tail_items: list[int] = []  # and the item of `after` with that index
    matched: dict[int, int] = {}
    previous: dict[int, int] = {}
    for new, item in enumerate(after):
        if not indexes.get(item):
            continue
        old = matched[new] = indexes[item].popleft()
        length = bisect_left(tails, old)
        previous[new] = tail_items[length - 1] if length else -1
        tails[length : length + 1], tail_items[length : length + 1] = [old], [new]
    unmoved, item_index = {}, tail_items[-1] if tail_items else -1
    while item_index >= 0:
        unmoved[item_index] = matched[item_index]
        item_index = previous[item_index]
    return unmoved


def allocate(fixed: Mapping[int, int], count: int, available: range) -> list[int] | None:
    """Increasing positions for `count` items, from those `available`. Items in `fixed` (index to place) keep theirs;
    the items between two of them are spread evenly over the positions between. None where these are too few."""
    allocated: list[int] = []
    below = available.start - 1
    for index in [*sorted(fixed), count]:
        above = fixed.get(index, available.stop)
        new = index - len(allocated)
        if new >= above - below:
            return None
        allocated += [below + (above - below) * number // (new + 1) for number in range(1, new + 1)]
        if index < count:
            allocated.append(above)
            below = above
    return allocated
