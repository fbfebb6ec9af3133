"""Walks through all facts in order, streamed: what a snapshot is made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from sqlalchemy import Engine, Select, and_, func, or_, select

from indexer.facts import Event, Proof, Reading
from indexer.store import rows
from indexer.store.tables import blocks, cards, changes, events, proofs

AT_ONCE = 1_000
"""Rows held in memory at a time; card bodies, of up to 1 MiB, are fetched fewer at a time."""
BODIES_AT_ONCE = 16


def _stream(engine: Engine, statement: Select[Any], at_once: int = AT_ONCE) -> Iterator[Any]:
    with engine.connect().execution_options(yield_per=at_once) as connection:
        yield from connection.execute(statement).mappings()


def readings(engine: Engine, chain: str, upto: int) -> Iterator[Reading]:
    """The stored blocks of a chain up to a height, in order, each with its events and proofs; without card bodies."""
    refs = _stream(
        engine, select(blocks).where(blocks.c.chain == chain, blocks.c.height <= upto).order_by(blocks.c.height)
    )
    said, proved = _events(engine, chain, upto), _proofs(engine, chain, upto)
    height, waiting = next(said, (-1, ()))
    proved_height, kept = next(proved, _NONE)
    for row in refs:
        events_of, proofs_of = waiting if row["height"] == height else (), {}
        if row["height"] == proved_height:
            proofs_of = kept
            proved_height, kept = next(proved, _NONE)
        if row["height"] == height:
            height, waiting = next(said, (-1, ()))
        yield Reading(rows.block(row), events_of, {}, proofs_of)


def _events(engine: Engine, chain: str, upto: int) -> Iterator[tuple[int, tuple[Event, ...]]]:
    said = _stream(
        engine,
        select(events).where(events.c.chain == chain, events.c.place < rows.place(upto + 1)).order_by(events.c.place),
    )
    for height, of_block in groupby(said, key=lambda row: int(row["height"])):
        yield height, tuple(rows.event(row) for row in of_block)


_NONE: tuple[int, dict[bytes, Proof]] = (-1, {})


def _proofs(engine: Engine, chain: str, upto: int) -> Iterator[tuple[int, dict[bytes, Proof]]]:
    kept = _stream(
        engine,
        select(proofs).where(proofs.c.chain == chain, proofs.c.height <= upto).order_by(proofs.c.height),
        BODIES_AT_ONCE,
    )
    for height, of_block in groupby(kept, key=lambda row: int(row["height"])):
        yield height, {row["txid"]: Proof(row["raw"], row["bump"]) for row in of_block}


def bodies(engine: Engine, upto: Mapping[str, int]) -> Iterator[bytes]:
    """The card bodies that events of these chains up to these heights name, sorted by their SHA-256."""
    spoken = or_(*(and_(events.c.chain == chain, events.c.place < rows.place(at + 1)) for chain, at in upto.items()))
    named = select(events.c.card).where(events.c.card.is_not(None), spoken)
    wanted = select(cards.c.body).where(cards.c.sha256.in_(named)).order_by(cards.c.sha256)
    for row in _stream(engine, wanted, BODIES_AT_ONCE):
        yield row["body"]


def has_reverted(engine: Engine, since: int, upto: Mapping[str, int]) -> bool:
    """Whether blocks up to these heights were forgotten after sequence number `since`."""
    undone = or_(*(and_(changes.c.chain == chain, changes.c.height < at) for chain, at in upto.items()))
    with engine.connect() as connection:
        found = connection.execute(
            select(changes.c.seq).where(changes.c.seq > since, changes.c.op == "revert", undone).limit(1)
        )
        return found.first() is not None


def registrations(engine: Engine) -> int:
    """How many registrations were ever in a block that is stored."""
    said = select(events.c.chain, events.c.registration).where(events.c.registration.is_not(None)).distinct().subquery()
    with engine.connect() as connection:
        return int(connection.execute(select(func.count()).select_from(said)).scalar_one())
