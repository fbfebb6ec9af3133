"""Marks of a chain as a whole, in `meta`: which network it is, and how it is read."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, insert, select

from indexer.headers.networks import by_caip2, mined
from indexer.model import RULES
from indexer.store import block_writer, outbox
from indexer.store.database import HeldNetworkError, OtherChainError
from indexer.store.schema import CHAIN, PARTIAL, PROGRAM, UNPROVED, events, meta
from indexer.store.writer import Writer


def name_chain(
    writer: Writer,
    chain: str,
    caip2: str,
    contract: str = "",
    configured: Sequence[str] = (),
    *,
    replaces: bool = False,
) -> list[str]:
    """Store which network `chain` is. One name holds a network (law 10a), or the records of its `contract` (or
    program); but several may hold a regtest with Bitcoin blocks. Where there are several names, the first stored one in
    the order of `configured` holds it, else another stored one, else the first that comes.

    `replaces`: what was stored under this name before is no longer so. Returns the other names that are stored for the
    same records. Raises OtherChainError when the database holds another network by that name, HeldNetworkError when
    another name holds this one.
    """
    with writer.transaction() as connection:
        key = meta.c.key == CHAIN + chain
        if replaces:
            connection.execute(delete(meta).where(key, meta.c.value != caip2))
        is_stored = connection.execute(select(meta.c.value).where(key)).first() is not None
        _name_once(connection, CHAIN, chain, caip2)
        others = _others(connection, chain, caip2, contract)
        before = configured[: configured.index(chain)] if chain in configured else ()
        holders = [name for name in (*configured, *others) if name in others and (not is_stored or name in before)]
        if holders:
            raise HeldNetworkError(
                f"{chain}: the database holds {caip2}{contract and f', {contract},'} under the name {holders[0]!r}, "
                f"and it has one name: take {chain} out of A2B_CHAINS, or remove what is stored under the other name "
                f"(a2b forget {holders[0]})"
            )
        return others


def _others(connection: Connection, chain: str, caip2: str, contract: str) -> list[str]:
    """The other names that are stored for the records of `chain`."""
    network = by_caip2(caip2)
    if (network is not None and network.kind == "regtest") or not (mined(caip2) or contract):
        return []
    rows = select(meta.c.key).where(meta.c.key.startswith(CHAIN), meta.c.value == caip2).order_by(meta.c.key)
    names = [key.removeprefix(CHAIN) for key in connection.execute(rows).scalars()]
    return [name for name in names if name != chain and (mined(caip2) or _reads(connection, name, caip2, contract))]


def _reads(connection: Connection, chain: str, caip2: str, contract: str) -> bool:
    """Whether `chain` reads a contract or program of its network; by its records where that is not stored, as by
    version 0.2.0."""
    stored = connection.execute(select(meta.c.value).where(meta.c.key == PROGRAM + chain)).scalar()
    if stored is not None:
        return bool(stored == contract)
    prefix = f"{caip2}:{contract.removeprefix('contract ')}" if contract.startswith("contract ") else f"{caip2}:"
    recorded = events.c.registration.startswith(prefix, autoescape=True)
    recorded |= events.c.anchor.startswith(prefix, autoescape=True)
    return (
        connection.execute(select(events.c.place).where(events.c.chain == chain, recorded).limit(1)).first() is not None
    )


def name_contract(writer: Writer, chain: str, contract: str) -> None:
    """Store the contract or program that the records of `chain` are of; raises OtherChainError when it was another one
    before."""
    with writer.transaction() as connection:
        _name_once(connection, PROGRAM, chain, contract)


def _name_once(connection: Connection, prefix: str, chain: str, value: str) -> None:
    key = prefix + chain
    stored = connection.execute(select(meta.c.value).where(meta.c.key == key)).scalar()
    if stored is None:
        connection.execute(insert(meta).values(key=key, value=value))
    elif stored != value:
        raise OtherChainError(
            f"the database holds {stored} under the name {chain!r}, and the source is {value}: "
            "give the chain another name in A2B_CHAINS, use another database, or remove the stored chain "
            f"(a2b forget {chain})"
        )


def mark_partial(writer: Writer, chain: str) -> None:
    """Store permanently that only selected transactions of a chain's blocks are read: its state hash can never be
    computed."""
    with writer.transaction() as connection:
        _mark(connection, PARTIAL + chain)


def mark_current(writer: Writer, chain: str) -> None:
    """Store that a chain is as the rules of this program read it."""
    with writer.transaction() as connection:
        block_writer.set_rules(connection, chain, RULES)


def mark_unproved(writer: Writer, chain: str) -> None:
    """Store for good that headers of a chain are accepted without their proof of work; the first time, announce all
    listings of its pointers, as each gets a warning."""
    with writer.transaction() as connection:
        if _mark(connection, UNPROVED + chain):
            anchored = (events.c.chain == chain, events.c.anchor.is_not(None))
            ids = connection.execute(select(events.c.anchor).where(*anchored).distinct()).scalars()
            outbox.announce(connection, ids, "headers-unproved", chain)


def _mark(connection: Connection, key: str) -> bool:
    """Store a mark of a chain; False when it was stored already."""
    if connection.execute(select(meta.c.key).where(meta.c.key == key)).scalar() is not None:
        return False
    connection.execute(insert(meta).values(key=key, value="yes"))
    return True
