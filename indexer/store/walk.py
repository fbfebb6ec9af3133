"""Walks through all facts in order, streamed: what a snapshot is made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, Generic, TypeVar

from sqlalchemy import Engine, Select, and_, func, or_, select

from indexer.facts import Event, Proof, Reading
from indexer.store import rows
from indexer.store.proofs import BESIDE
from indexer.store.tables import blocks, cards, changes, coinbases, events, parents, proofs, witness_paths
from parsers.witness_commitment import Coinbase

_T = TypeVar("_T")

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
    said, proved = _Beside(_events(engine, chain, upto)), _Beside(_proofs(engine, chain, upto))
    coinbases_of = _Beside(_coinbases(engine, chain, upto))
    for row in refs:
        at = row["height"]
        yield Reading(rows.block(row), said.take(at) or (), {}, proved.take(at) or {}, coinbases_of.take(at))


class _Beside(Generic[_T]):
    """What is stored of some blocks beside them, in order of height: taken while all blocks are walked through."""

    def __init__(self, pairs: Iterator[tuple[int, _T]]) -> None:
        self._pairs, self._next = pairs, next(pairs, None)

    def take(self, height: int) -> _T | None:
        """What is stored of the block at a height, None where that is nothing. Heights must ascend."""
        if self._next is None or self._next[0] != height:
            return None
        value, self._next = self._next[1], next(self._pairs, None)
        return value


def _events(engine: Engine, chain: str, upto: int) -> Iterator[tuple[int, tuple[Event, ...]]]:
    said = _stream(
        engine,
        select(events).where(events.c.chain == chain, events.c.place < rows.place(upto + 1)).order_by(events.c.place),
    )
    for height, of_block in groupby(said, key=lambda row: int(row["height"])):
        yield height, tuple(rows.event(row) for row in of_block)


def _proofs(engine: Engine, chain: str, upto: int) -> Iterator[tuple[int, dict[bytes, Proof]]]:
    kept = _stream(
        engine,
        select(proofs, witness_paths.c.bump.label("witness"))
        .outerjoin(witness_paths, BESIDE)
        .where(proofs.c.chain == chain, proofs.c.height <= upto)
        .order_by(proofs.c.height),
        BODIES_AT_ONCE,
    )
    for height, of_block in groupby(kept, key=lambda row: int(row["height"])):
        yield height, {row["txid"]: Proof(row["raw"], row["bump"], row["witness"]) for row in of_block}


def _coinbases(engine: Engine, chain: str, upto: int) -> Iterator[tuple[int, Coinbase]]:
    known = select(coinbases).where(coinbases.c.chain == chain, coinbases.c.height <= upto)
    for row in _stream(engine, known.order_by(coinbases.c.height), BODIES_AT_ONCE):
        yield row["height"], Coinbase(row["raw"], row["reserved"], row["bump"])


def bodies(engine: Engine, upto: Mapping[str, int]) -> Iterator[bytes]:
    """The card bodies that events of these chains up to these heights name, sorted by their SHA-256."""
    spoken = or_(*(and_(events.c.chain == chain, events.c.place < rows.place(at + 1)) for chain, at in upto.items()))
    named = select(events.c.card).where(events.c.card.is_not(None), spoken)
    wanted = select(cards.c.body).where(cards.c.sha256.in_(named)).order_by(cards.c.sha256)
    for row in _stream(engine, wanted, BODIES_AT_ONCE):
        yield row["body"]


def made_before(engine: Engine) -> Iterator[bytes]:
    """The raw transactions that made outputs whose values were looked up, sorted by txid in internal byte order."""
    for row in _stream(engine, select(parents.c.raw).order_by(parents.c.txid), BODIES_AT_ONCE):
        yield row["raw"]


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
