"""Cards, and the outputs of transactions that were looked up: stored under their hash, and never rolled back."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from typing import Any

from sqlalchemy import BindParameter, Select, Table, bindparam, delete, func, select, union_all

from indexer.spill import pieces
from indexer.store.queries import Queries, batches, insert_new
from indexer.store.schema import cards, outputs, parents, pending_cards
from indexer.store.writer import Writer
from parsers.bitcoin.tx import Outpoint


class ContentQueries(Queries):
    """Contents that are stored under a hash and never rolled back."""

    def cards(self, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        """Card bytes by SHA-256, those of unconfirmed cards too; unknown ones are left out."""
        matches = (row for batch in batches(set(digests)) for row in self._rows(_card_bodies(), digests=batch))
        return {row["sha256"]: row["body"] for row in matches}

    def card_portions(self, digests: Iterable[bytes]) -> Iterator[dict[bytes, bytes]]:
        """Card bytes by SHA-256, in portions of about `spill.BYTES_AT_ONCE` bytes."""
        sizes = self.card_sizes(digests)
        return (self.cards(some) for some in pieces(sizes, sizes.__getitem__))

    def card_sizes(self, digests: Iterable[bytes]) -> dict[bytes, int]:
        """The bytes of cards by SHA-256, those of unconfirmed cards too; unknown ones are left out."""
        matches = (row for batch in batches(set(digests)) for row in self._rows(_card_sizes(), digests=batch))
        return {row["sha256"]: row["size"] for row in matches}

    def output_values(self, outpoints: Iterable[Outpoint]) -> dict[Outpoint, int]:
        """The satoshis of the outputs, of those passed in, that were looked up before."""
        requested = set(outpoints)
        matches = self._rows_in(select(outputs), outputs.c.txid, {outpoint.txid for outpoint in requested})
        values = {Outpoint(row["txid"], row["vout"]): row["satoshis"] for row in matches}
        return {outpoint: values[outpoint] for outpoint in values.keys() & requested}

    def parents(self, txids: Iterable[bytes]) -> dict[bytes, bytes]:
        """Raw transactions that output values were looked up in, by txid (internal byte order)."""
        return {row["txid"]: row["raw"] for row in self._rows_in(select(parents), parents.c.txid, set(txids))}

    def parent_sizes(self, txids: Iterable[bytes]) -> dict[bytes, int]:
        """The raw bytes of these transactions by txid."""
        statement = select(parents.c.txid, func.length(parents.c.raw).label("size"))
        return {row["txid"]: row["size"] for row in self._rows_in(statement, parents.c.txid, set(txids))}


@cache
def _card_bodies() -> Select[Any]:
    """Card bytes by the bound SHA-256 `digests`, those of unconfirmed cards too; one may come twice."""
    return _of_cards(lambda table: table.c.body)


@cache
def _card_sizes() -> Select[Any]:
    """The bytes of the same cards, which the database has without reading them."""
    return _of_cards(lambda table: func.length(table.c.body).label("size"))


def _of_cards(column: Callable[[Table], Any]) -> Select[Any]:
    digests: BindParameter[Any] = bindparam("digests", expanding=True)
    of_tables = (
        select(table.c.sha256, column(table)).where(table.c.sha256.in_(digests)) for table in (cards, pending_cards)
    )
    return select(union_all(*of_tables).subquery())


def store_output_values(writer: Writer, values: Mapping[Outpoint, int]) -> None:
    """Store satoshis of outputs that had to be looked up."""
    rows = [
        {"txid": outpoint.txid, "vout": outpoint.vout, "satoshis": satoshis} for outpoint, satoshis in values.items()
    ]
    if rows:
        with writer.transaction() as connection:
            insert_new(connection, outputs, rows)


def store_cards(writer: Writer, bodies: Iterable[bytes]) -> None:
    """Store card bodies that no stored block brings."""
    rows = [{"sha256": sha256(body).digest(), "body": body} for body in bodies]
    if rows:
        with writer.transaction() as connection:
            insert_new(connection, cards, rows)


def store_parents(writer: Writer, raws: Mapping[bytes, bytes]) -> None:
    """Store raw transactions by txid (internal byte order); their output values may be needed."""
    if raws:
        with writer.transaction() as connection:
            insert_new(connection, parents, [{"txid": txid, "raw": raw} for txid, raw in raws.items()])


def delete_other_parents(writer: Writer, needed: Container[bytes]) -> None:
    """Delete the stored parents with other txids than these."""
    with writer.transaction() as connection:
        txids = connection.execute(select(parents.c.txid)).scalars().all()
        for batch in batches(txid for txid in txids if txid not in needed):
            connection.execute(delete(parents).where(parents.c.txid.in_(batch)))
