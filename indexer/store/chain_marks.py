"""What is stored of a chain as a whole, in `meta`: which network it is, and how it is read."""

from __future__ import annotations

from sqlalchemy import Connection, insert, select

from indexer.model import RULES
from indexer.store import block_writer, outbox
from indexer.store.database import OtherChainError
from indexer.store.schema import CHAIN, PARTIAL, PROGRAM, UNPROVED, events, meta
from indexer.store.writer import Writer


def name_chain(writer: Writer, chain: str, caip2: str) -> None:
    """Store which network `chain` is; raises OtherChainError when the database holds another one by that name."""
    _name_once(writer, f"{CHAIN}{chain}", chain, caip2)


def name_program(writer: Writer, chain: str, program: str) -> None:
    """Store to which program the accounts of `chain` belong; raises OtherChainError when it was another one
    before."""
    _name_once(writer, f"{PROGRAM}{chain}", chain, f"program {program}")


def _name_once(writer: Writer, key: str, chain: str, value: str) -> None:
    with writer.transaction() as connection:
        stored = connection.execute(select(meta.c.value).where(meta.c.key == key)).scalar()
        if stored is None:
            connection.execute(insert(meta).values(key=key, value=value))
        elif stored != value:
            raise OtherChainError(
                f"the database holds {stored} under the name {chain!r}, and the source is {value}: "
                "give the chain another name in A2B_CHAINS, or use another database"
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
    that it points at, as each of those gets a warning."""
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
