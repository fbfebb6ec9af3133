"""The data that sources store in the database besides blocks (`indexer.chains.source.ChainStore`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from indexer.model import PeerRecord
from indexer.store import spend_checks
from indexer.store.blocks import BlockQueries, HeaderQueries, save_headers
from indexer.store.peer_addresses import PeerAddressQueries, replace_peers
from indexer.store.registrations import RegistrationQueries
from indexer.store.spend_checks import SpendCheckQueries
from indexer.store.writer import Writer
from parsers.bitcoin.tx import sha256d


class SourceStore:
    """Reads, and writes of the one writer. Every method raises StoreError when the database refuses."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self.newest_block = BlockQueries(writer.engine).newest
        self.newest_events = RegistrationQueries(writer.engine).newest_account_events
        self.load_headers = HeaderQueries(writer.engine).load
        self.load_peers = PeerAddressQueries(writer.engine).peers
        checks = SpendCheckQueries(writer.engine)
        self.load_extra_transactions, self.load_unproved = checks.transactions, checks.unproved

    def save_headers(self, chain: str, first: int, raw: bytes) -> None:
        """Replace the stored headers of a chain from height `first` on by these (80 bytes each, joined)."""
        with self._writer.transaction() as connection:
            save_headers(connection, chain, first, raw)

    def save_peers(self, chain: str, records: Sequence[PeerRecord]) -> None:
        """Replace the addresses of peers of a chain."""
        with self._writer.transaction() as connection:
            replace_peers(connection, chain, records)

    def store_extra_transaction(self, chain: str, height: int, raw: bytes, bump: bytes) -> None:
        """Store a transaction of this kind, in place of an earlier version."""
        row = {"chain": chain, "txid": sha256d(raw), "height": height, "raw": raw, "bump": bump}
        with self._writer.transaction() as connection:
            spend_checks.store_transaction(connection, row)

    def delete_extra_transaction(self, chain: str, txid: bytes) -> None:
        """Delete a transaction of this kind (internal byte order)."""
        with self._writer.transaction() as connection:
            spend_checks.delete_transaction(connection, chain, txid)

    def update_unproved(self, chain: str, added: Collection[bytes], removed: Collection[bytes]) -> None:
        """Add and remove these txids."""
        with self._writer.transaction() as connection:
            spend_checks.update_unproved(connection, chain, added, removed)
