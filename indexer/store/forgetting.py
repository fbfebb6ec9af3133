"""Remove a chain with all that hangs on it, as if it had never been followed: its facts, the bodies that were fetched
for it alone, and the results of visits to hosts that only its listings name. Readers of the outbox see each removal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Table, delete, exists, or_, select

from indexer.store import checks as queue
from indexer.store import outbox
from indexer.store.badges import BADGE_CHECK
from indexer.store.card_signatures import KEYS_CHECK
from indexer.store.chain_counts import chain_counts
from indexer.store.followers import followers
from indexer.store.host_topics import topics
from indexer.store.observed_tools import forget_tools
from indexer.store.peer_addresses import peer_addresses
from indexer.store.queries import batches, count, rows_in
from indexer.store.schema import (
    CHAIN,
    PARTIAL,
    PROGRAM,
    READ_BY,
    READ_TWICE,
    UNPROVED,
    badges,
    blocks,
    card_signatures,
    cards,
    events,
    extra_transactions,
    fetches,
    headers,
    locators,
    meta,
    outbox_positions,
    pending,
    pending_cards,
    servings,
    sightings,
    spend_checks,
    state_lines,
    submissions,
    unproved_transactions,
)
from indexer.store.writer import Writer
from parsers.pointers.locator import host_of

OF_CHAIN: tuple[Table, ...] = (
    pending, pending_cards, blocks, headers, state_lines, submissions, extra_transactions, unproved_transactions,
    spend_checks, sightings, followers, peer_addresses, chain_counts,
)  # fmt: skip
"""The tables with rows of a chain; the rows of others hang from those of blocks and submissions."""

Forget = Callable[[Connection, str, Collection[str]], None]
"""A function that deletes a chain from the tables of a system, by its name and the ids that are on no other chain."""


class Forgotten(NamedTuple):
    """How many blocks, ids of registrations and pointers, and cards were removed."""

    blocks: int
    ids: int
    cards: int


def forget_chain(writer: Writer, chain: str, more: Sequence[Forget] = ()) -> Forgotten:
    """Remove a chain, all or nothing; `more` removes it from further tables. Raises StoreError."""
    with writer.transaction() as connection:
        ids = _ids(connection, chain)
        of_chain = events.c.chain == chain, events.c.card.is_not(None)
        digests = set(connection.execute(select(events.c.card).where(*of_chain).distinct()).scalars())
        named = select(sightings.c.locator).where(sightings.c.chain == chain).distinct()
        seen = set(connection.execute(named).scalars())
        removed = count(connection, blocks, blocks.c.chain == chain)
        for table in OF_CHAIN:
            connection.execute(delete(table).where(table.c.chain == chain))
        keys = [prefix + chain for prefix in (CHAIN, PROGRAM, PARTIAL, UNPROVED, READ_BY, READ_TWICE)]
        connection.execute(delete(meta).where(meta.c.key.in_(keys)))
        connection.execute(delete(outbox_positions).where(outbox_positions.c.name == f"state:{chain}"))
        gone = ids - _on_other_chains(connection, ids)
        hosts = _forget_badges(connection, gone)
        forget_tools(connection, gone)
        unnamed, fetched = _forget_locators(connection, seen)
        _forget_hosts(connection, hosts | {host_of(name) if "://" in name else name for name in unnamed})
        without_use = _forget_cards(connection, digests | fetched)
        for forget in more:
            forget(connection, chain, gone)
        change = {"chain": chain, "height": None, "reason": "chain-forgotten"}
        rows = [{**change, "id": id_, "op": "remove" if id_ in gone else "upsert"} for id_ in sorted(ids)]
        outbox.append(connection, rows)
    return Forgotten(removed, len(ids), without_use)


def _ids(connection: Connection, chain: str) -> set[str]:
    """The registrations and pointers of a chain, unconfirmed ones too."""
    ids = set[str]()
    for table in (events, pending):
        for column in (table.c.registration, table.c.anchor):
            named = select(column).where(table.c.chain == chain, column.is_not(None))
            ids.update(connection.execute(named.distinct()).scalars())
    return ids


def _on_other_chains(connection: Connection, ids: Collection[str]) -> set[str]:
    others = set[str]()
    for table in (events, pending):
        for column in (table.c.registration, table.c.anchor):
            others.update(row[column.name] for row in rows_in(connection, select(column).distinct(), column, ids))
    return others


def _forget_badges(connection: Connection, ids: Collection[str]) -> set[str]:
    """Delete the badges of these registrations; the hosts that they were of."""
    hosts = {row["host"] for row in rows_in(connection, select(badges.c.host), badges.c.registration, ids)}
    _delete(connection, badges.c.registration, ids)
    queue.forget(connection, BADGE_CHECK, ids)
    return hosts


def _forget_locators(connection: Connection, names: Iterable[str]) -> tuple[set[str], set[bytes]]:
    """Delete the locators, of those passed in, that no pointer names any more, with all that was fetched; returns them,
    and the SHA-256 of the bytes that they served."""
    unnamed = set(names)
    remaining = select(sightings.c.locator).distinct()
    unnamed -= {row["locator"] for row in rows_in(connection, remaining, sightings.c.locator, unnamed)}
    served = select(fetches.c.sha256)
    fetched = {row["sha256"] for row in rows_in(connection, served, fetches.c.locator, unnamed)}
    for table in (fetches, servings, locators):
        _delete(connection, table.c.locator, unnamed)
    return unnamed, fetched


def _forget_hosts(connection: Connection, hosts: Collection[str]) -> None:
    """Delete the observations at hosts, of those passed in, that no listing names any more."""
    used = {row["host"] for row in rows_in(connection, select(badges.c.host).distinct(), badges.c.host, hosts)}
    for host in set(hosts) - used:
        there = or_(locators.c.locator == host, locators.c.locator.startswith(f"https://{host}/", autoescape=True))
        if connection.execute(select(locators.c.locator).where(there).limit(1)).first() is not None:
            continue
        for topic in topics:
            topic.forget(connection, host)


def _forget_cards(connection: Connection, digests: Collection[bytes]) -> int:
    """Delete the cards, of those passed in, to which no row refers any more, with their signatures; returns their
    number."""
    unused: list[bytes] = []
    for batch in batches(digests):
        is_used: list[ColumnElement[bool]] = [
            exists().where(events.c.card == cards.c.sha256),
            exists().where(fetches.c.sha256 == cards.c.sha256),
            exists().where(pending.c.card == cards.c.sha256),
        ]
        some = delete(cards).where(cards.c.sha256.in_(batch), ~or_(*is_used)).returning(cards.c.sha256)
        unused += connection.execute(some).scalars()
    _delete(connection, card_signatures.c.card, unused)
    queue.forget(connection, KEYS_CHECK, [digest.hex() for digest in unused])
    return len(unused)


def _delete(connection: Connection, column: Any, values: Iterable[Any]) -> None:
    for batch in batches(values):
        connection.execute(delete(column.table).where(column.in_(batch)))
