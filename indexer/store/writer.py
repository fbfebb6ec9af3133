"""The one writer of facts: a lock and its transactions, in which the topics write."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from indexer.store import badges, card_signatures, fetches, motebit_endpoints, motebit_hosts, outbox
from indexer.store.badges import BadgeCandidate, HostVerdict
from indexer.store.card_signatures import SignatureVerdict, SignedCard
from indexer.store.database import StoreError, StoreUnavailableError
from indexer.store.fetches import FetchOutcome
from indexer.store.motebit_endpoints import EndpointKey, HandshakeOutcome
from indexer.store.motebit_hosts import IdentityOutcome
from indexer.store.process_lock import writer_lock
from parsers.pointers.locator import host_of


class Writer:
    """The right to write facts into a database: held by one process at a time, released by `close`.

    `clock` gives Unix seconds: it says when pointers are seen. Raises StoreError when another process holds it, as
    every method does when the database refuses.
    """

    def __init__(self, engine: Engine, clock: Callable[[], float] = time.time) -> None:
        self.engine, self.clock = engine, clock
        self.untrimmed: Counter[str] = Counter()
        """Near misses written since the last trim, by chain."""
        self._turn = Lock()
        self.lock = writer_lock(engine)
        self.connection = self._connect()

    def _connect(self) -> Connection:
        """The connection that all facts are written through; on PostgreSQL it holds the lock as long as it lives."""
        if not self.lock.acquire():
            raise StoreError(f"another indexer is writing to {self._name}; stop it first")
        if self.lock.connection is None:
            return self.engine.connect()
        with self.lock.connection.begin():
            outbox.follow_timeline(self.lock.connection)
        return self.lock.connection

    @property
    def _name(self) -> str:
        return self.engine.url.render_as_string()

    def close(self) -> None:
        """Let another process write; a transaction under way ends first."""
        with self._turn:
            self.lock.release()
            self.connection.close()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """One transaction, and one at a time: the followers of several chains share this writer, and a reader of the
        outbox must not see a number before a smaller one. Raises StoreError when the database refuses."""
        with self._turn:
            try:
                if self.connection.closed or self.connection.invalidated:
                    self.lock.release()
                    self.connection.close()
                    self.connection = self._connect()
                with self.connection.begin():
                    yield self.connection
            except StoreUnavailableError as error:
                raise type(error)(f"cannot write to {self._name}: {error}") from error
            except DBAPIError as error:
                raise StoreError(f"cannot write to {self._name}: {error.orig}") from error

    # -- fetching and domain badges

    def record_fetch(self, locator: str, outcome: FetchOutcome) -> int:
        """Store how a fetch of a locator ended; return how many listings may be shown otherwise for it. Raises
        ValueError for a body that does not have its hash."""
        with self.transaction() as connection:
            if outcome.served and (host := host_of(locator) if "://" in locator else locator):
                motebit_hosts.enlist(connection, host, outcome.begun_ms)
            return outbox.announce(connection, fetches.record(connection, locator, outcome), "fetched")

    def update_candidates(
        self,
        candidates: Sequence[BadgeCandidate],
        registrations: Sequence[str],
        seq: int | None,
        now_ms: int,
        signed: Sequence[SignedCard] = (),
    ) -> None:
        """Make `candidates` the badge candidates among these `registrations`, and have the signatures of `signed`
        checked; new ones are due at `now_ms` (milliseconds since 1970). `seq` is the sequence number up to which the
        outbox was read for that."""
        with self.transaction() as connection:
            lost = badges.update_candidates(connection, candidates, registrations, now_ms)
            card_signatures.enlist(connection, signed, now_ms)
            outbox.announce(connection, lost, "domain-checked")
            if seq is not None:
                outbox.move_cursor(connection, seq, badges.CURSOR)

    def record_host(self, verdict: HostVerdict, now_ms: int) -> int:
        """Store what a host answered about the registrations that name it; return how many of them may be shown
        otherwise for it."""
        with self.transaction() as connection:
            if not verdict.failed & {"name", "hash"}:
                motebit_hosts.enlist(connection, verdict.host, now_ms)
            return outbox.announce(connection, badges.record(connection, verdict, now_ms), "domain-checked")

    def record_identity(self, host: str, outcome: IdentityOutcome, now_ms: int) -> int:
        """Store the Motebit identity that a host publishes; return how many listings may be shown otherwise for it."""
        with self.transaction() as connection:
            changed = motebit_hosts.record(connection, host, outcome, now_ms)
            motebit_endpoints.enlist_published(connection, host, now_ms)
            return outbox.announce(connection, changed, "motebit-checked")

    def record_handshake(self, key: EndpointKey, outcome: HandshakeOutcome, now_ms: int) -> int:
        """Store what a handshake with an MCP endpoint came to; return how many listings may be shown otherwise."""
        with self.transaction() as connection:
            changed = motebit_endpoints.record(connection, key, outcome, now_ms)
            return outbox.announce(connection, changed, "motebit-checked")

    def enlist_signatures(self, signed: Sequence[SignedCard], now_ms: int) -> None:
        """Have the signatures of these cards checked."""
        with self.transaction() as connection:
            card_signatures.enlist(connection, signed, now_ms)

    def record_signatures(self, verdicts: Sequence[SignatureVerdict], now_ms: int) -> int:
        """Store what a key set meant for cards; return how many listings may be shown otherwise for it."""
        with self.transaction() as connection:
            return outbox.announce(
                connection, card_signatures.record(connection, verdicts, now_ms), "signature-checked"
            )

    def fail_key_set(self, url: str, reason: str, now_ms: int) -> int:
        """Store why a key set could not be fetched; return how many listings may be shown otherwise for it."""
        with self.transaction() as connection:
            lost = card_signatures.record_failure(connection, url, reason, now_ms)
            return outbox.announce(connection, lost, "signature-checked")
