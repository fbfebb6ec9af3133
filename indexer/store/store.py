"""The reading half of a database: one attribute per topic."""

from __future__ import annotations

import sqlite3
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from threading import Lock

from sqlalchemy import Engine, select

from indexer.store.badges import BadgeQueries
from indexer.store.blocks import BlockQueries, HeaderQueries
from indexer.store.card_signatures import SignatureQueries
from indexer.store.chain_counts import ChainCountQueries
from indexer.store.checks import CheckQueries
from indexer.store.clients import ClientQueries
from indexer.store.contents import ContentQueries
from indexer.store.fetches import FetchQueries
from indexer.store.followers import FollowerQueries
from indexer.store.hidden import HiddenQueries
from indexer.store.history import HistoryQueries
from indexer.store.listed_ids import ListedIds
from indexer.store.listed_pointers import ListedPointerQueries
from indexer.store.observed_tools import ToolQueries
from indexer.store.outbox import Lag, OutboxQueries
from indexer.store.pending import PendingQueries
from indexer.store.pointer_queries import PointerQueries
from indexer.store.proofs import ProofQueries
from indexer.store.queries import Queries
from indexer.store.registrations import RegistrationQueries
from indexer.store.schema import CHAIN, HASH_KEY, PARTIAL, READ_BY, READ_TWICE, UNPROVED, meta
from indexer.store.search_counts import SearchCountQueries
from indexer.store.second_readings import SecondReadingQueries
from indexer.store.spend_checks import SpendCheckQueries
from indexer.store.state_hashes import StateHashQueries
from indexer.store.submissions import Submissions
from indexer.store.topic_anchors import TopicAnchorQueries
from indexer.store.topic_outputs import TopicOutputs

_VERSION_BITS = 32  # of SQLite's data_version


class Store(Queries):
    """Reads of one database. Several threads may share it. `primary` is the database that is written to where `engine`
    is a replica, which may be behind; else the same."""

    def __init__(self, engine: Engine, primary: Engine | None = None) -> None:
        super().__init__(engine)
        self.engine, self.primary = engine, primary or engine
        self.blocks, self.headers = BlockQueries(engine), HeaderQueries(engine)
        self.registrations, self.history = RegistrationQueries(engine), HistoryQueries(engine)
        self.state_hashes, self.topic_anchors = StateHashQueries(engine), TopicAnchorQueries(engine)
        self.pending, self.pointers = PendingQueries(engine), PointerQueries(engine)
        self.proofs, self.content = ProofQueries(engine), ContentQueries(engine)
        self.fetches, self.badges = FetchQueries(engine), BadgeQueries(engine)
        self.signatures, self.checks = SignatureQueries(engine), CheckQueries(engine)
        self.tools, self.listed_ids = ToolQueries(engine), ListedIds(engine)
        self.clients, self.search_counts = ClientQueries(engine), SearchCountQueries(engine)
        self.listed_pointers, self.chain_counts = ListedPointerQueries(engine), ChainCountQueries(engine)
        self.spend_checks, self.outbox = SpendCheckQueries(engine), OutboxQueries(engine)
        self.detector = ChangeDetector(engine)
        self.hidden = HiddenQueries(engine, self.stamp, time.time)
        self.submissions, self.topic_outputs = Submissions(self.primary), TopicOutputs(engine, self.hidden)
        self.followers, self.second_readings = FollowerQueries(engine), SecondReadingQueries(engine)
        self._cache: dict[str, tuple[int, dict[str, str]]] = {}

    def close(self) -> None:
        """Close all connections."""
        self.detector.close()
        self.engine.dispose()
        self.primary.dispose()

    def on_primary(self) -> Store:
        """A store with the same queries of the database that is written to."""
        return Store(self.primary)

    def stamp(self) -> int:
        """A number that stays the same as long as nothing is written; waits for nothing, so an event loop can call
        it."""
        return self.detector.stamp()

    def lag(self) -> Lag:
        """How far a replica is behind its primary."""
        return self.outbox.lag(self.primary)

    def chains(self) -> dict[str, str]:
        """CAIP-2 ids by the configured names of the chains that this database holds."""
        return dict(self._meta(CHAIN))

    def is_partial(self, chain: str) -> bool:
        """Whether only selected transactions of a chain's blocks were read: some may be missing."""
        return chain in self._meta(PARTIAL)

    def is_unproved(self, chain: str) -> bool:
        """Whether headers of a chain were accepted without their proof of work."""
        return chain in self._meta(UNPROVED)

    def rules(self, chain: str) -> int:
        """The number of the rules by which a chain was read from its first block on, 1 where none is stored."""
        return int(self._meta(READ_BY).get(chain, 1))

    def read_twice(self, chain: str) -> int | None:
        """The height up to which all blocks of a chain were read twice, -1 for none; None for a chain that is read
        once."""
        height = self._meta(READ_TWICE).get(chain)
        return None if height is None else int(height)

    @property
    def hash_key(self) -> bytes:
        """The key of hashes that strangers must not be able to compute, 32 bytes, of this database alone."""
        return bytes.fromhex(self._meta(HASH_KEY)[""])

    def _meta(self, prefix: str) -> dict[str, str]:
        """The values of `meta` under keys with a prefix, by what follows it. They seldom change, and every listing
        needs some: they are read again only after a write."""
        stamp = self.stamp()  # before reading
        cached = self._cache.get(prefix)
        if cached is None or cached[0] != stamp:
            matches = self._rows(select(meta).where(meta.c.key.startswith(prefix)))
            cached = self._cache[prefix] = stamp, {row["key"].removeprefix(prefix): row["value"] for row in matches}
        return cached[1]


class ChangeDetector:
    """Detects without a query whether a database may have changed; several threads may share it. Serving processes
    check ten times a second, and queries would cost them more than a tenth of their answers.

    SQLite has a number that changes with every commit of another connection, read in 4 µs without waiting
    (https://www.sqlite.org/pragma.html#pragma_data_version). On PostgreSQL every stamp is a new one.
    """

    def __init__(self, engine: Engine) -> None:
        self._file = engine.url.database if engine.dialect.name == "sqlite" else None
        self.connection: sqlite3.Connection | None = None
        self._connections = 0  # opened so far: the number is one of a connection
        self._unknown, self._lock = count(1), Lock()

    def stamp(self) -> int:
        """A number that is the same as before if nothing was written since, and differs if something was, or may have
        been."""
        with self._lock:
            if self._file is None:
                return -next(self._unknown)
            try:
                if self.connection is None:
                    target = f"{Path(self._file).absolute().as_uri()}?mode=rw"
                    self.connection = sqlite3.connect(
                        target, uri=True, timeout=0, isolation_level=None, check_same_thread=False
                    )
                    self._connections += 1
                version: int = self.connection.execute("PRAGMA data_version").fetchone()[0]
            except sqlite3.Error:  # the reader that follows reports it
                self._close()
                return -next(self._unknown)
            return (self._connections << _VERSION_BITS) + version

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self.connection is not None:
            with suppress(sqlite3.Error):
                self.connection.close()
            self.connection = None
