"""The one writer of facts: append blocks, forget blocks, keep looked-up values. Each call is one transaction."""

from __future__ import annotations

import fcntl
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import IO, Any

from sqlalchemy import Connection, Engine, Table, delete, func, insert, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

from indexer.facts import BlockRef, Event, EventKind, Reading
from indexer.spill import AT_ONCE, Spill, SpilledPairs, pieces
from indexer.store import accounts, anchors, badges, fetched, found, headers, lines, pending, proofs, tables
from indexer.store.badges import Enlisted, Verdict
from indexer.store.database import WRITER, StoreError, StoreUnavailableError
from indexer.store.fetched import Outcome
from indexer.store.rows import event_row
from indexer.store.tables import blocks, cards, changes, events, meta, outputs
from parsers.tx import Outpoint, sha256d

NEAR_MISSES = 1_000_000
"""Near misses kept for a chain, the oldest dropped first (law 7)."""

TRIM_EVERY = 10_000
"""Near misses written between two trims."""


class Writer:
    """The right to write facts into a database: held by one process at a time, released by `close`.

    `clock` gives Unix seconds: it says when pointers are seen. Raises StoreError when another process holds it.
    """

    def __init__(self, engine: Engine, clock: Callable[[], float] = time.time) -> None:
        self._engine, self._clock = engine, clock
        self._untrimmed: Counter[str] = Counter()
        self._turn = Lock()
        self._lock_file: IO[str] | None = None
        if engine.dialect.name == "sqlite":
            self._lock_file = self._lock_sqlite(Path(f"{engine.url.database}.lock"))
        self._connection = self._connect()

    def _connect(self) -> Connection:
        """The connection that all facts are written through; on PostgreSQL it holds the lock as long as it lives."""
        connection = self._engine.connect()
        if self._engine.dialect.name == "postgresql":
            taken = connection.execute(select(func.pg_try_advisory_lock(WRITER))).scalar_one()
            connection.commit()
            if not taken:
                connection.close()
                raise StoreError(f"another indexer is writing to {self._name}; stop it first")
            with connection.begin():
                lines.follow(connection)
        return connection

    def _lock_sqlite(self, path: Path) -> IO[str]:
        try:
            file = path.open("w")
        except OSError as error:
            raise StoreError(f"cannot write beside {self._engine.url.database}: {error.strerror}") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise StoreError(f"another indexer is writing to {self._engine.url.database}; stop it first") from None
        return file

    @property
    def _name(self) -> str:
        return self._engine.url.render_as_string()

    def close(self) -> None:
        """Let another process write; a transaction that is being written ends first."""
        with self._turn:
            if not (self._connection.closed or self._connection.invalidated):
                self._let_go()
                # back in the pool it would keep PostgreSQL's lock
                self._connection.detach()
            self._connection.close()
        if self._lock_file:
            self._lock_file.close()

    def _let_go(self) -> None:
        """Give PostgreSQL's lock back now: a busy server notices the end of a connection later."""
        if self._engine.dialect.name == "postgresql":
            # a connection that broke holds no lock any more
            with suppress(DBAPIError, StoreError):
                self._connection.execute(select(func.pg_advisory_unlock(WRITER)))
                self._connection.commit()

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """One transaction, and one at a time: the followers of several chains share this writer, and a reader of the
        outbox must not see a number before a smaller one. Raises StoreError when the database refuses."""
        with self._turn:
            try:
                if self._connection.invalidated:
                    broken, self._connection = self._connection, self._connect()
                    broken.close()
                with self._connection.begin():
                    yield self._connection
            except StoreUnavailableError as error:
                raise StoreUnavailableError(f"cannot write to {self._name}: {error}") from error
            except DBAPIError as error:
                raise StoreError(f"cannot write to {self._name}: {error.orig}") from error

    def name_chain(self, chain: str, caip2: str) -> None:
        """Remember which network `chain` is; raises StoreError when the database holds another one by that name."""
        self._name_once(f"chain:{chain}", chain, caip2)

    def name_program(self, chain: str, program: str) -> None:
        """Remember of which program the accounts of `chain` are; raises StoreError when it was another one before."""
        self._name_once(f"program:{chain}", chain, f"program {program}")

    def _name_once(self, key: str, chain: str, told: str) -> None:
        with self._writing() as connection:
            known = connection.execute(select(meta.c.value).where(meta.c.key == key)).scalar()
            if known is None:
                connection.execute(insert(meta).values(key=key, value=told))
            elif known != told:
                raise StoreError(
                    f"the database holds {known} under the name {chain!r}, and the source is {told}: "
                    "give the chain another name in A2B_CHAINS, or use another database"
                )

    def append(self, chain: str, readings: Sequence[Reading], *, sparse: bool = False) -> None:
        """Add blocks on top of what is known, with all they say, and note what changed; all or nothing.

        With `sparse`, heights may be left out, and `prev` is the hash of the block stored before.

        Raises ValueError when they do not continue the stored chain, StoreError when the database refuses.
        """
        if not readings:
            return
        with self._writing() as connection:
            _check_linked(connection, chain, readings, sparse=sparse)
            self._add(connection, blocks, [_block_row(reading.ref) for reading in readings])
            made = [{"txid": txid, "raw": raw} for reading in readings for txid, raw in reading.parents.items()]
            if made:
                connection.execute(self._insert_new(tables.parents), made)
            now = int(self._clock() * 1000)
            for portion in _portions(readings):
                self._insert(connection, chain, portion, now)
            self._add(connection, tables.coinbases, list(proofs.coinbases_of(readings)))
            _note(connection, pending.mined(connection, chain, readings))
        self._trim_some(chain, readings)

    def _insert(self, connection: Connection, chain: str, readings: Sequence[Reading], now: int) -> None:
        replaced = anchors.see(connection, chain, readings, now)
        bodies = {digest: body for reading in readings for digest, body in reading.cards.items()}
        if bodies:
            rows = [{"sha256": digest, "body": body} for digest, body in bodies.items()]
            connection.execute(self._insert_new(cards), rows)
        said = [event_row(reading.ref, event) for reading in readings for event in reading.events]
        self._add(connection, events, said)
        self._add(connection, tables.proofs, [row for reading in readings for row in proofs.of(reading)])
        witnessed = [row for reading in readings for row in proofs.witness_paths_of(reading)]
        self._add(connection, tables.witness_paths, witnessed)
        _note(connection, [change for reading in readings for change in _changes(reading)])
        _note(connection, replaced)

    def _add(self, connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
        """Insert rows that name every column, in a third of the time that SQLAlchemy takes to look at each value."""
        compiled = insert(table).compile(dialect=self._engine.dialect)
        order = compiled.positiontup
        given: list[Any] = [tuple(map(row.__getitem__, order)) for row in rows] if order else rows
        if given:
            connection.exec_driver_sql(str(compiled), given)

    def _insert_new(self, table: Table) -> Any:
        dialect = postgresql if self._engine.dialect.name == "postgresql" else sqlite
        return dialect.insert(table).on_conflict_do_nothing()

    def forget(self, chain: str, above: int) -> int:
        """Delete the blocks above a height and all they said; note each touched registration; return how many blocks.

        Raises StoreError when the database refuses.
        """
        with self._writing() as connection:
            gone = (events.c.chain == chain, events.c.height > above, events.c.registration.is_not(None))
            touched = connection.execute(select(events.c.registration).where(*gone).distinct()).scalars().all()
            pointed, named = anchors.lose(connection, chain, above)
            deleted = delete(blocks).where(blocks.c.chain == chain, blocks.c.height > above)
            count = connection.execute(deleted).rowcount
            pending.forgotten(connection, chain, touched)
            anchors.rest(connection, named)
            reverted = {"chain": chain, "op": "revert", "height": above, "reason": "reorg"}
            _note(connection, [{**reverted, "id": id_} for id_ in sorted(pointed.union(touched))])
        return count

    def replace_pending(self, chain: str, said: Sequence[Event], bodies: Mapping[bytes, bytes]) -> int:
        """Let these be the unconfirmed events of a chain, in spend order, and these the cards (by SHA-256) they name;
        note each registration of which something else is said than before, and return how many those are.

        Raises StoreError when the database refuses.
        """
        with self._writing() as connection:
            news = pending.replace(connection, chain, said, bodies)
            _note(connection, news)
        return len(news)

    def clear_pending(self) -> None:
        """Forget all that was unconfirmed, of every chain: nobody has seen it since this program started."""
        with self._writing() as connection:
            for chain in pending.chains(connection):
                _note(connection, pending.replace(connection, chain, (), {}))

    def load_headers(self, chain: str) -> Iterator[tuple[int, bytes]]:
        """Pieces of the headers kept of a chain, lowest first: the height of the first one, and 80 bytes each."""
        return headers.load(self._engine, chain)

    def save_headers(self, chain: str, first: int, raw: bytes) -> None:
        """Replace what is kept of a chain from height `first` on by these headers of 80 bytes, joined."""
        with self._writing() as connection:
            headers.save(connection, chain, first, raw)

    def load_found(self, chain: str) -> Iterator[tuple[int, bytes, bytes]]:
        """Height, raw transaction and merkle path (BRC-74) of what was found of a chain beside what was delivered."""
        return found.load(self._engine, chain)

    def keep_found(self, chain: str, height: int, raw: bytes, bump: bytes) -> None:
        """Keep a transaction that was found, in place of what was kept of it before."""
        row = {"chain": chain, "txid": sha256d(raw), "height": height, "raw": raw, "bump": bump}
        with self._writing() as connection:
            found.keep(connection, row)

    def drop_found(self, chain: str, txid: bytes) -> None:
        """Keep a transaction (internal byte order) that was found no longer."""
        with self._writing() as connection:
            found.drop(connection, chain, txid)

    def newest_block(self, chain: str) -> BlockRef | None:
        """The newest block stored of a chain."""
        return accounts.newest_block(self._engine, chain)

    def newest_events(self, chain: str) -> Iterator[Event]:
        """The newest event about each account of a chain of snapshots."""
        return accounts.newest_events(self._engine, chain)

    def note_checked(self, chain: str, when: int, spent: Mapping[Outpoint, bool | None]) -> int:
        """Remember what was said of outpoints at that time (seconds since 1970): spent, unspent, or None for nothing.

        Registrations whose time has not been told for a while are noted as changed; how many those are.
        """
        if not spent:
            return 0
        with self._writing() as connection:
            stale = found.note(connection, chain, when, spent)
            told = {"chain": chain, "op": "upsert", "height": None, "reason": "owner-checked"}
            _note(connection, [{**told, "id": id_} for id_ in stale])
        return len(stale)

    def note_fetched(self, locator: str, outcome: Outcome) -> int:
        """Write down how a fetch of a locator ended, and note the listings that may be shown otherwise for it; how many
        those are.

        Raises ValueError for a body that does not have its hash, StoreError when the database refuses.
        """
        told = {"chain": "", "op": "upsert", "height": None, "reason": "fetched"}
        with self._writing() as connection:
            ids = fetched.note(connection, locator, outcome)
            _note(connection, [{**told, "id": id_} for id_ in ids])
        return len(ids)

    def ask_again(self, locator: str, now_ms: int) -> bool:
        """Have a locator fetched at once (`now_ms` in milliseconds since 1970); False when no pointer names it."""
        with self._writing() as connection:
            return fetched.ask_again(connection, locator, now_ms)

    def enlist(self, found: Sequence[Enlisted], looked_at: Sequence[str], seq: int | None, now_ms: int) -> None:
        """Let the registrations in `looked_at` be enlisted for badges as `found` says, due at `now_ms` (milliseconds
        since 1970), and note those that lose a badge by it; `seq` is how far the outbox was read with that."""
        with self._writing() as connection:
            _note_checked(connection, badges.enlist(connection, found, looked_at, now_ms))
            if seq is not None:
                badges.move_cursor(connection, seq)

    def note_host(self, verdict: Verdict, now_ms: int) -> int:
        """Write down what a host said of the registrations that name it, and note those that may be shown otherwise
        for it; how many those are."""
        with self._writing() as connection:
            ids = badges.note(connection, verdict, now_ms)
            _note_checked(connection, ids)
        return len(ids)

    def mark_partial(self, chain: str) -> None:
        """Remember that blocks of a chain are read from excerpts, so that its state hash can never be known."""
        with self._writing() as connection:
            found.mark(connection, found.PARTIAL, chain)

    def mark_unproved(self, chain: str) -> None:
        """Remember that headers of a chain are taken without their proof of work; the first time, note all that it
        points at: a warning belongs to each of them from now on."""
        with self._writing() as connection:
            if found.mark(connection, found.UNPROVED, chain):
                pointed = (events.c.chain == chain, events.c.anchor.is_not(None))
                ids = connection.execute(select(events.c.anchor).where(*pointed).distinct()).scalars()
                change = {"chain": chain, "op": "upsert", "height": None, "reason": "headers-unproved"}
                _note(connection, [{**change, "id": id_} for id_ in ids])

    def keep_values(self, values: Mapping[Outpoint, int]) -> None:
        """Remember satoshis of outputs that had to be looked up."""
        if values:
            rows = [{"txid": at.txid, "vout": at.vout, "satoshis": amount} for at, amount in values.items()]
            with self._writing() as connection:
                connection.execute(self._insert_new(outputs), rows)

    def keep_cards(self, bodies: Iterable[bytes]) -> None:
        """Remember card bodies of revisions that are in no stored block."""
        rows = [{"sha256": sha256(body).digest(), "body": body} for body in bodies]
        if rows:
            with self._writing() as connection:
                connection.execute(self._insert_new(cards), rows)

    def _trim_some(self, chain: str, readings: Iterable[Reading]) -> None:
        self._untrimmed[chain] += sum(
            1 for reading in readings for event in reading.events if event.kind is EventKind.REJECTED
        )
        if self._untrimmed[chain] >= TRIM_EVERY:
            self._untrimmed[chain] = 0
            self.trim(chain, NEAR_MISSES)

    def trim(self, chain: str, keep: int) -> None:
        """Drop the oldest near misses of a chain, but the newest `keep`."""
        loose = (events.c.chain == chain, events.c.kind == EventKind.REJECTED.value, events.c.registration.is_(None))
        with self._writing() as connection:
            oldest = select(events.c.place).where(*loose).order_by(events.c.place.desc()).offset(keep).limit(1)
            last = connection.execute(oldest).scalar()
            while last is not None:
                # as many at a time as are held in memory: one block may bring millions
                some = select(events.c.place).where(*loose, events.c.place <= last).order_by(events.c.place)
                places = connection.execute(some.limit(AT_ONCE)).scalars().all()
                if not places:
                    break
                gone = delete(events).where(*loose, events.c.place <= places[-1]).returning(events.c.txid)
                proofs.drop_silent(connection, chain, set(connection.execute(gone).scalars()))


def _block_row(ref: BlockRef) -> dict[str, Any]:
    return {
        "chain": ref.chain, "height": ref.height, "hash": ref.hash,
        "prev": ref.prev, "time": ref.time, "header": ref.header,
    }  # fmt: skip


def _check_linked(connection: Connection, chain: str, readings: Sequence[Reading], *, sparse: bool) -> None:
    top = (
        select(blocks.c.height, blocks.c.hash).where(blocks.c.chain == chain).order_by(blocks.c.height.desc()).limit(1)
    )
    row = connection.execute(top).first()
    newest: tuple[int, bytes] | None = (row[0], row[1]) if row else None
    for reading in readings:
        ref = reading.ref
        if ref.chain != chain or (newest and not _follows(ref, *newest, sparse=sparse)):
            raise ValueError(f"block {ref.height:,} of {ref.chain} does not continue the stored chain {chain}")
        newest = (ref.height, ref.hash)


def _follows(ref: BlockRef, height: int, hash_: bytes, *, sparse: bool) -> bool:
    return ref.prev == hash_ and (ref.height > height if sparse else ref.height == height + 1)


def _note(connection: Connection, news: list[dict[str, Any]]) -> None:
    """Write into the outbox, numbered on from its last line: sequences of PostgreSQL skip what is rolled back."""
    if news:
        last = connection.execute(select(func.max(changes.c.seq))).scalar() or 0
        connection.execute(insert(changes), [{**change, "seq": last + n} for n, change in enumerate(news, 1)])


def _note_checked(connection: Connection, ids: Iterable[str]) -> None:
    """Note registrations of which another thing is shown about their domains."""
    told = {"chain": "", "op": "upsert", "height": None, "reason": "domain-checked"}
    _note(connection, [{**told, "id": id_} for id_ in ids])


def _portions(readings: Sequence[Reading]) -> Iterator[Sequence[Reading]]:
    """What these blocks say, in order: together while all of it is in memory, else as much at a time as may be held."""
    if not any(isinstance(each, Spill | SpilledPairs) for of in readings for each in (of.events, of.cards, of.proofs)):
        yield readings
        return
    for reading in readings:
        for bodies in pieces(reading.cards.items(), lambda pair: len(pair[1])):
            yield [Reading(reading.ref, (), dict(bodies))]
        for said in pieces(reading.events):
            yield [Reading(reading.ref, tuple(said), {})]
        for proved in pieces(reading.proofs.items(), lambda pair: len(pair[1].raw) + len(pair[1].bump)):
            yield [Reading(reading.ref, (), {}, dict(proved))]


def _changes(reading: Reading) -> list[dict[str, Any]]:
    """One note per registration or pointer that the block touched: the last thing said is the reason. Of a large block
    that is cut into portions, each notes its own."""
    last = {id_: event for event in reading.events if (id_ := _about(event))}
    return [
        {
            "chain": reading.ref.chain, "id": id_, "height": reading.ref.height, "reason": event.kind.value,
            "op": "remove" if event.kind is EventKind.BURNED else "upsert",
        }
        for id_, event in last.items()
    ]  # fmt: skip


def _about(event: Event) -> str | None:
    """The id that readers must look at again for an event, None where it is about none."""
    if event.state is not None:
        return event.state.id
    return event.pointer.id if event.pointer is not None else None
