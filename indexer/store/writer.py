"""The one writer of facts. Each call is one transaction."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from threading import Lock

from sqlalchemy import Connection, Engine, delete, insert, select
from sqlalchemy.exc import DBAPIError

from indexer.model import RULES, BlockFacts, BlockRef, Event, EventKind
from indexer.store import (
    badges,
    block_writer,
    card_signatures,
    evidence,
    fetches,
    motebit_endpoints,
    motebit_hosts,
    outbox,
    pending,
    spend_checks,
    state_hashes,
    topic_anchors,
)
from indexer.store.badges import BadgeCandidate, HostVerdict
from indexer.store.blocks import BlockQueries, HeaderQueries, save_headers
from indexer.store.card_signatures import SignatureVerdict, SignedCard
from indexer.store.database import OtherChainError, StoreError, StoreUnavailableError
from indexer.store.evidence import BlockPayment, StoredRating
from indexer.store.fetches import FetchOutcome
from indexer.store.motebit_endpoints import EndpointKey, HandshakeOutcome
from indexer.store.motebit_hosts import IdentityOutcome
from indexer.store.process_lock import writer_lock
from indexer.store.queries import batches, insert_new
from indexer.store.registrations import RegistrationQueries
from indexer.store.schema import CHAIN, PARTIAL, UNPROVED, cards, events, meta, outputs, parents
from indexer.store.spend_checks import SpendCheckQueries
from parsers.bitcoin.tx import Outpoint, sha256d
from parsers.pointers.locator import host_of

NEAR_MISSES = 1_000_000
"""Near misses stored of a chain, the oldest dropped first (law 7)."""

TRIM_EVERY = 10_000
"""Near misses written between two trims."""


class Writer:
    """The right to write facts into a database: held by one process at a time, released by `close`.

    `clock` gives Unix seconds: it says when pointers are seen. Raises StoreError when another process holds it, as
    every method does when the database refuses.
    """

    def __init__(self, engine: Engine, clock: Callable[[], float] = time.time) -> None:
        self._engine, self.clock = engine, clock
        self._untrimmed: Counter[str] = Counter()
        self._turn = Lock()
        self.lock = writer_lock(engine)
        self.connection = self._connect()

    def _connect(self) -> Connection:
        """The connection that all facts are written through; on PostgreSQL it holds the lock as long as it lives."""
        if not self.lock.acquire():
            raise StoreError(f"another indexer is writing to {self._name}; stop it first")
        if self.lock.connection is None:
            return self._engine.connect()
        with self.lock.connection.begin():
            outbox.follow_timeline(self.lock.connection)
        return self.lock.connection

    @property
    def _name(self) -> str:
        return self._engine.url.render_as_string()

    def close(self) -> None:
        """Let another process write; a transaction under way ends first."""
        with self._turn:
            self.lock.release()
            self.connection.close()

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
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

    # -- chains

    def name_chain(self, chain: str, caip2: str) -> None:
        """Store which network `chain` is; raises OtherChainError when the database holds another one by that name."""
        self._name_once(f"{CHAIN}{chain}", chain, caip2)

    def name_program(self, chain: str, program: str) -> None:
        """Store to which program the accounts of `chain` belong; raises OtherChainError when it was another one
        before."""
        self._name_once(f"program:{chain}", chain, f"program {program}")

    def _name_once(self, key: str, chain: str, value: str) -> None:
        with self._writing() as connection:
            stored = connection.execute(select(meta.c.value).where(meta.c.key == key)).scalar()
            if stored is None:
                connection.execute(insert(meta).values(key=key, value=value))
            elif stored != value:
                raise OtherChainError(
                    f"the database holds {stored} under the name {chain!r}, and the source is {value}: "
                    "give the chain another name in A2B_CHAINS, or use another database"
                )

    def mark_partial(self, chain: str) -> None:
        """Store for good that only selected transactions of a chain's blocks are read, so that its state hash can never
        be known."""
        with self._writing() as connection:
            _mark(connection, PARTIAL + chain)

    def mark_current(self, chain: str) -> None:
        """Store that a chain is as the rules of this program read it."""
        with self._writing() as connection:
            block_writer.set_rules(connection, chain, RULES)

    def mark_unproved(self, chain: str) -> None:
        """Store for good that headers of a chain are accepted without their proof of work; the first time, announce all
        that it points at, as each of those gets a warning."""
        with self._writing() as connection:
            if _mark(connection, UNPROVED + chain):
                anchored = (events.c.chain == chain, events.c.anchor.is_not(None))
                ids = connection.execute(select(events.c.anchor).where(*anchored).distinct()).scalars()
                _announce(connection, ids, "headers-unproved", chain)

    # -- blocks

    def append(
        self, chain: str, block_facts: Sequence[BlockFacts], *, sparse: bool = False, rules: int = RULES
    ) -> None:
        """Append blocks to a chain, with all that they hold; all or nothing. They were read by `rules`.

        With `sparse`, heights may be left out, and `prev` is the hash of the block stored before. Raises ValueError
        when they do not continue the stored chain.
        """
        if not block_facts:
            return
        with self._writing() as connection:
            now_ms = int(self.clock() * 1000)
            block_writer.append(connection, chain, block_facts, now_ms, sparse=sparse, rules=rules)
        self._untrimmed[chain] += sum(
            1 for facts in block_facts for event in facts.events if event.kind is EventKind.REJECTED
        )
        if self._untrimmed[chain] >= TRIM_EVERY:
            self._untrimmed[chain] = 0
            self.trim(chain, NEAR_MISSES)

    def trim(self, chain: str, keep: int) -> None:
        """Drop the near misses of a chain but the newest `keep`."""
        with self._writing() as connection:
            block_writer.trim_near_misses(connection, chain, keep)

    def forget(self, chain: str, above: int) -> int:
        """Delete the blocks of a chain above a height with all that hangs from them; return how many blocks."""
        with self._writing() as connection:
            return block_writer.forget(connection, chain, above)

    def rebuild_anchors(self, chain: str) -> None:
        """Compute the anchors of the topic (BRC-136) again from the stored blocks and events of a chain."""
        with self._writing() as connection:
            topic_anchors.rebuild(connection, chain)

    def update_state_hash(self, chain: str) -> None:
        """Compute and store the state hash (law 18) after the newest stored block of a chain, from what changed."""
        with self._writing() as connection:
            state_hashes.update(connection, chain)

    def newest_block(self, chain: str) -> BlockRef | None:
        """The newest stored block of a chain."""
        return BlockQueries(self._engine).newest(chain)

    def newest_events(self, chain: str) -> Iterator[Event]:
        """The newest event about each account of a chain that is read in snapshots."""
        return RegistrationQueries(self._engine).newest_account_events(chain)

    def load_headers(self, chain: str) -> Iterator[tuple[int, bytes]]:
        """The stored headers of a chain, lowest first, as (height of the first, headers of 80 bytes joined)."""
        return HeaderQueries(self._engine).load(chain)

    def save_headers(self, chain: str, first: int, raw: bytes) -> None:
        """Replace the stored headers of a chain from height `first` on by these (80 bytes each, joined)."""
        with self._writing() as connection:
            save_headers(connection, chain, first, raw)

    # -- unconfirmed events

    def replace_pending(self, chain: str, following: Sequence[Event], bodies: Mapping[bytes, bytes]) -> int:
        """Make these the unconfirmed events of a chain, in spend order, and these the cards (by SHA-256) they name;
        return how many registrations change by it."""
        with self._writing() as connection:
            changes = pending.replace(connection, chain, following, bodies)
            outbox.append(connection, changes)
        return len(changes)

    def announce_submitted(self, chain: str, txids: Iterable[bytes]) -> int:
        """Have readers look again at the registrations of unconfirmed transactions that can be proved from now on;
        return how many they are."""
        with self._writing() as connection:
            return _announce(connection, pending.registrations(connection, chain, txids), "pending", chain)

    def clear_pending(self) -> None:
        """Delete the unconfirmed events of every chain: they are of an earlier run of the program."""
        with self._writing() as connection:
            for chain in pending.chains(connection):
                outbox.append(connection, pending.replace(connection, chain, (), {}))

    # -- transactions and cards beside blocks

    def load_extra_transactions(self, chain: str) -> Iterator[tuple[int, bytes, bytes]]:
        """Height, raw transaction and merkle path (BRC-74) of the transactions of a chain that checks of outpoints
        brought and its source had not delivered."""
        return SpendCheckQueries(self._engine).transactions(chain)

    def store_extra_transaction(self, chain: str, height: int, raw: bytes, bump: bytes) -> None:
        """Store such a transaction, in place of what was stored of it before."""
        row = {"chain": chain, "txid": sha256d(raw), "height": height, "raw": raw, "bump": bump}
        with self._writing() as connection:
            spend_checks.store_transaction(connection, row)

    def delete_extra_transaction(self, chain: str, txid: bytes) -> None:
        """Delete such a transaction (internal byte order)."""
        with self._writing() as connection:
            spend_checks.delete_transaction(connection, chain, txid)

    def load_unproved(self, chain: str) -> list[bytes]:
        """Txids (internal byte order) that a chain's source could not prove yet."""
        return SpendCheckQueries(self._engine).unproved(chain)

    def update_unproved(self, chain: str, added: Collection[bytes], removed: Collection[bytes]) -> None:
        """Add and remove such txids."""
        with self._writing() as connection:
            spend_checks.update_unproved(connection, chain, added, removed)

    def record_checks(self, chain: str, now: int, spent: Mapping[Outpoint, bool | None]) -> int:
        """Store what a source answered at a time (seconds since 1970) about outpoints: spent, unspent, or None for no
        answer; return how many registrations get a newer time of their check in the outbox."""
        if not spent:
            return 0
        with self._writing() as connection:
            return _announce(connection, spend_checks.record(connection, chain, now, spent), "owner-checked", chain)

    def store_output_values(self, values: Mapping[Outpoint, int]) -> None:
        """Store satoshis of outputs that had to be looked up."""
        rows = [
            {"txid": outpoint.txid, "vout": outpoint.vout, "satoshis": satoshis}
            for outpoint, satoshis in values.items()
        ]
        if rows:
            with self._writing() as connection:
                insert_new(connection, outputs, rows)

    def store_cards(self, bodies: Iterable[bytes]) -> None:
        """Store card bodies that no stored block brings."""
        rows = [{"sha256": sha256(body).digest(), "body": body} for body in bodies]
        if rows:
            with self._writing() as connection:
                insert_new(connection, cards, rows)

    def store_parents(self, raws: Mapping[bytes, bytes]) -> None:
        """Store raw transactions by txid (internal byte order) whose outputs' values may be needed."""
        if raws:
            with self._writing() as connection:
                insert_new(connection, parents, [{"txid": txid, "raw": raw} for txid, raw in raws.items()])

    def delete_other_parents(self, needed: Container[bytes]) -> None:
        """Delete the stored parents with other txids than these."""
        with self._writing() as connection:
            txids = connection.execute(select(parents.c.txid)).scalars().all()
            for batch in batches(txid for txid in txids if txid not in needed):
                connection.execute(delete(parents).where(parents.c.txid.in_(batch)))

    # -- fetching and domain badges

    def record_fetch(self, locator: str, outcome: FetchOutcome) -> int:
        """Store how a fetch of a locator ended; return how many listings may be shown otherwise for it. Raises
        ValueError for a body that does not have its hash."""
        with self._writing() as connection:
            if outcome.served and (host := host_of(locator) if "://" in locator else locator):
                motebit_hosts.enlist(connection, host, outcome.begun_ms)
            return _announce(connection, fetches.record(connection, locator, outcome), "fetched")

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
        with self._writing() as connection:
            lost = badges.update_candidates(connection, candidates, registrations, now_ms)
            card_signatures.enlist(connection, signed, now_ms)
            _announce(connection, lost, "domain-checked")
            if seq is not None:
                badges.move_cursor(connection, seq)

    def record_host(self, verdict: HostVerdict, now_ms: int) -> int:
        """Store what a host answered about the registrations that name it; return how many of them may be shown
        otherwise for it."""
        with self._writing() as connection:
            if not verdict.failed & {"name", "hash"}:
                motebit_hosts.enlist(connection, verdict.host, now_ms)
            return _announce(connection, badges.record(connection, verdict, now_ms), "domain-checked")

    def record_identity(self, host: str, outcome: IdentityOutcome, now_ms: int) -> int:
        """Store the Motebit identity that a host publishes; return how many listings may be shown otherwise for it."""
        with self._writing() as connection:
            changed = motebit_hosts.record(connection, host, outcome, now_ms)
            motebit_endpoints.enlist_published(connection, host, now_ms)
            return _announce(connection, changed, "motebit-checked")

    def record_handshake(self, key: EndpointKey, outcome: HandshakeOutcome, now_ms: int) -> int:
        """Store what a handshake with an MCP endpoint came to; return how many listings may be shown otherwise."""
        with self._writing() as connection:
            changed = motebit_endpoints.record(connection, key, outcome, now_ms)
            return _announce(connection, changed, "motebit-checked")

    def enlist_signatures(self, signed: Sequence[SignedCard], now_ms: int) -> None:
        """Have the signatures of these cards checked."""
        with self._writing() as connection:
            card_signatures.enlist(connection, signed, now_ms)

    def record_signatures(self, verdicts: Sequence[SignatureVerdict], now_ms: int) -> int:
        """Store what a key set meant for cards; return how many listings may be shown otherwise for it."""
        with self._writing() as connection:
            return _announce(connection, card_signatures.record(connection, verdicts, now_ms), "signature-checked")

    def fail_key_set(self, url: str, reason: str, now_ms: int) -> int:
        """Store why a key set could not be fetched; return how many listings may be shown otherwise for it."""
        with self._writing() as connection:
            lost = card_signatures.record_failure(connection, url, reason, now_ms)
            return _announce(connection, lost, "signature-checked")

    # -- ratings

    def record_rating(self, listing: str, submitted: int, rating: StoredRating, rated_at: int) -> bool:
        """Store the rating of a listing of what was `submitted` until then, and have those that it paid rated again
        where it comes to, or goes below, the score `rated_at`; whether readers see another rating."""
        with self._writing() as connection:
            was_rated, is_changed = evidence.record_rating(connection, listing, submitted, rating, rated_at)
            if was_rated != (rating.base_score is not None and rating.base_score >= rated_at):
                evidence.touch_counterparties(connection, listing)
            return bool(_announce(connection, [listing] if is_changed else [], "rated"))

    def rate_again(self, listings: Iterable[str], seq: int) -> None:
        """Have those of these listings rated again that have evidence; the outbox was read up to `seq`."""
        with self._writing() as connection:
            evidence.touch_rated(connection, listings)
            badges.move_cursor(connection, seq, evidence.CURSOR)

    def prove_payments(self, chain: str, blocks: Iterable[BlockPayment]) -> None:
        """Store which blocks with payments are in a chain now; the listings that are paid in them are rated again."""
        with self._writing() as connection:
            for block in blocks:
                evidence.prove_payments(connection, chain, block)


def _mark(connection: Connection, key: str) -> bool:
    """Store a mark of a chain; False when it was stored already."""
    if connection.execute(select(meta.c.key).where(meta.c.key == key)).scalar() is not None:
        return False
    connection.execute(insert(meta).values(key=key, value="yes"))
    return True


def _announce(connection: Connection, ids: Iterable[str], reason: str, chain: str = "") -> int:
    """Have readers look at these ids again; return how many they are."""
    change = {"chain": chain, "op": "upsert", "height": None, "reason": reason}
    rows = [{**change, "id": id_} for id_ in ids]
    outbox.append(connection, rows)
    return len(rows)
