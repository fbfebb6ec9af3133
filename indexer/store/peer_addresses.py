"""Addresses of peers of a chain: learned from DNS and from other peers, with what came of connecting to them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, insert, select

from indexer.model import PeerRecord
from indexer.store.queries import Queries
from indexer.store.schema import BYTEWISE, columns_of, keys, rebuilt_table

peer_addresses = rebuilt_table("peer_addresses", *keys(chain=BYTEWISE), *columns_of(PeerRecord, {"address"}))


class PeerAddressQueries(Queries):
    """The stored addresses."""

    def peers(self, chain: str) -> list[PeerRecord]:
        """All addresses of a chain."""
        columns = [peer_addresses.c[name] for name in PeerRecord._fields]
        return [PeerRecord(**row) for row in self._rows(select(*columns).where(peer_addresses.c.chain == chain))]


def replace_peers(connection: Connection, chain: str, records: Sequence[PeerRecord]) -> None:
    """Replace the addresses of a chain."""
    connection.execute(delete(peer_addresses).where(peer_addresses.c.chain == chain))
    if records:
        connection.execute(insert(peer_addresses), [{"chain": chain, **record._asdict()} for record in records])
