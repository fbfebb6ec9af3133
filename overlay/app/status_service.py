"""The status of the process: the schema `Status`, readiness, and the chains and heights that searches answer for."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from indexer import sqlite_integrity as integrity
from indexer.chains import kind
from indexer.errors import SourceError
from indexer.failures import LeftOut
from indexer.headers.networks import by_caip2
from indexer.model import LATE, PARTIAL
from indexer.settings import Settings
from indexer.state_hash import (
    computed_state_hash,
    hashed_block,
    outdated,
    starts_late,
    stored_state_hash,
    update_state_hash,
)
from indexer.store import DATABASE_ERRORS, Store, Writer
from indexer.store.chain_counts import store_counts
from indexer.store.followers import FollowerReport
from indexer.store.rates import Quotes
from indexer.store.state_hashes import StateHash
from indexer.sync.progress import SyncProgress
from overlay.api.height_history import HeightHistory, HeightSample
from overlay.app.index_lag import MOST_SECONDS, GrowthRate, IndexLag
from overlay.app.integrity_loop import sqlite_file
from overlay.app.storage import in_configured_order
from overlay.engines import IN_FILES, CompilingError, OutdatedIndexError, Progress, UnavailableError
from overlay.jobs import JobStatus
from overlay.listings.pointer_counts import ListedPointers
from overlay.pricing.exchange_rates import ExchangeRates
from overlay.projection.unread_changes import pending_changes
from overlay.text.timestamps import timestamp

if TYPE_CHECKING:
    from indexer.chains import Chain
    from indexer.rates.rates_fetcher import RatesFetcher
    from overlay.projection.search_index import SearchIndex

log = logging.getLogger(__name__)

HASH_PAUSE = 5.0
"""Pause after computing a state hash, as a multiple of the time that took: bounds the share of a processor it uses."""

HANGING_SECONDS = 20.0
"""How long a job may wait for the database before that counts as away."""

LATE_SECONDS = 30.0
"""How long changes may be stored and not searchable before that is reported."""

LOOK_SECONDS = 5.0
"""Pause between two looks at how far the index is behind."""

SIGNS, CHANGES = "followers", "stored-changes"
"""The jobs by which a process notices that the database is away: it writes a sign of life, or reads the writes of
others."""

HIDDEN = "the log of this server says why"
"""The text that the public reads instead of an error of a source or a job, which may name hosts, ports and folders."""

ERRORS = {"unreachable": f"the source does not answer; {HIDDEN}", "stopped": f"the source cannot be used; {HIDDEN}"}
"""The texts that strangers read of a source that fails, by the state of its chain."""

SHORTEST_WAIT, LONGEST_WAIT = 5, 3_600
"""The bounds of `Retry-After` while the index is filled or rebuilt, in seconds."""

HELD_SECONDS, UNMEASURED = 30.0, 20_000
"""How far a chain that is caught up with may be ahead of the index: what that reads in so many seconds, or as many
changes as long as its pace was not measured."""

ENDED = ("silent", "unreachable", "stopped")
"""The states in which a chain is not followed."""

FAULTS = {"database": f"the database cannot be used; {HIDDEN}", "program": f"following failed; {HIDDEN}"}
"""The texts that strangers read of another failure, by its kind."""


COUNTED = ("live", "burned", "pending", "rejected", "undecided")


class StatusService:
    """The public facts about this process. `progress` is updated by followers, or from the store by `refresh`; `jobs`
    has the state of this process's jobs; `rates_fetcher` and `fetch_outcomes` are set where it fetches rates and
    cards. An operator at this machine `shows_errors` as they are."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        engine: SearchIndex | None,
        version: str,
        writer: Writer | None = None,
        *,
        shows_errors: bool = False,
    ) -> None:
        self._shows_errors = shows_errors
        self._settings, self._store, self._engine, self._version = settings, store, engine, version
        self._writer = writer
        self._sources = {name: _kinds(name, urls) for name, urls in settings.sources().items()}
        self._failover: dict[str, Chain] = {}
        self._hashed_tips: dict[str, tuple[int | None, bytes, int | None, str]] = {}
        self._hash_at = 0.0
        self._computed: dict[str, StateHash] = {}
        self._counts: dict[str, tuple[tuple[int | None, bytes], dict[str, int]]] = {}
        self._pointers = ListedPointers(store)
        self._file = sqlite_file(store)
        self.rates_fetcher: RatesFetcher | None = None
        self.exchange = ExchangeRates(Quotes(store.engine).newest, default_currency=settings.price_currency)
        self.fetch_outcomes: Mapping[str, int] = {}
        self.jobs: Callable[[], Sequence[JobStatus]] = tuple
        self.left_out = LeftOut()
        self.index_error = ""
        """Why changes cannot be written to the index now; "" where they can."""
        self._was_ready, self._lag = False, IndexLag()
        self._read_pace, self._rebuild_pace = GrowthRate(), GrowthRate()
        self._rebuild: Progress | None = None
        self._looking, self._is_unread, self._is_search_away = threading.Lock(), False, False
        self.unread_count, self._unread_seconds = 0, 0.0
        """Stored changes that searches did not answer for when `look` counted them last, and the age of the oldest."""
        self._last: dict[str, Any] | None = None
        self._last_index: dict[str, Any] = {"seq": 0, "behind": 0, "meaning": False}
        self.progress: dict[str, SyncProgress] = {}
        self.history = HeightHistory()
        self._followed: set[str] = set()
        self._chains: dict[str, str] = {}
        self._heights: dict[str, int] = {}
        self.refresh()
        with suppress(UnavailableError):  # then the index loop publishes the heights, once it has them
            if engine is not None:
                self.look()
                if not self.unread_count:
                    self.publish(self.stored_heights())

    def refresh(self) -> None:
        """Read the stored chains, and, of chains that are not followed here, the newest block and the report of their
        follower."""
        reports = self._store.followers.reports()
        for name, caip2 in in_configured_order(self._settings, self._store.chains()).items():
            if name not in self._followed:
                self.progress[name] = self._stored_progress(name, caip2, reports.get(name))
        # where there is an index, its loop publishes new heights
        self.publish(self._heights if self._engine else self.stored_heights())

    def _stored_progress(self, name: str, caip2: str, report: FollowerReport | None) -> SyncProgress:
        """A chain that is followed elsewhere, or by nobody. Only the first sign of life that is seen is compared with
        the clock of this machine: that of the follower may show another time."""
        progress, before = SyncProgress(name, caip2, "stored"), self.progress.get(name)
        if report is not None:
            progress.take(report)
            if before is None or before.seen_at is None:
                progress.signed -= max(0.0, time.time() - report.seen_at)
            elif before.seen_at == report.seen_at:
                progress.signed = before.signed
        newest = self._store.blocks.newest(name)
        progress.height, progress.hash = (newest.height, newest.hash) if newest else (None, b"")
        if report is not None and progress.tip is not None and newest and newest.height > (report.height or 0):
            progress.tip = max(progress.tip, newest.height)  # blocks were stored since the report
        return progress

    def follow(self, progress: SyncProgress, chain: Chain | None = None) -> None:
        """Report a chain that is followed here by its follower's progress; the stored block holds until that moves."""
        stored = self.progress.get(progress.name)
        if stored is not None:
            progress.caip2, progress.height, progress.hash = stored.caip2, stored.height, stored.hash
            progress.last_block_at = stored.last_block_at
        self.progress[progress.name] = progress
        self._followed.add(progress.name)
        if chain is not None and chain.sources:
            self._failover[chain.name] = chain

    async def sample_heights(self) -> None:
        """Add the heights and lags of now to the history."""
        now = int(time.time())
        for progress in list(self.progress.values()):
            self.history.add(progress.name, HeightSample(now, progress.height, progress.lag))

    def publish(self, heights: Mapping[str, int]) -> None:
        """Searches answer for these heights, by chain name, from now on."""
        self._chains = in_configured_order(
            self._settings, {name: progress.caip2 for name, progress in self.progress.items() if progress.caip2}
        )
        self._heights = {name: heights[name] for name in self._chains if name in heights}

    def chains(self) -> Mapping[str, str]:
        """CAIP-2 ids by chain name, in configured order."""
        return self._chains

    def heights(self) -> Mapping[str, int]:
        """The height that searches answer for, by chain name."""
        return self._heights

    def stored_heights(self) -> dict[str, int]:
        """The height up to which each chain is stored, by name."""
        return {name: progress.height for name, progress in self.progress.items() if progress.height is not None}

    def is_catching_up(self) -> bool:
        """Whether a chain is about to be read, or is being read up to its tip."""
        return any(progress.is_catching_up for progress in self.progress.values())

    def is_behind(self) -> bool:
        """Whether a chain catches up, or searches do not answer for its newest stored block yet."""
        is_reading = any(progress.state == "catching-up" for progress in self.progress.values())
        return is_reading or (self._engine is not None and self._heights != self.stored_heights())

    def ingested(self) -> dict[str, SyncProgress]:
        """The progress of the chains that are followed here, by name."""
        return {name: progress for name, progress in self.progress.items() if name in self._followed}

    def refused_blocks(self) -> dict[str, int]:
        """How many blocks of each chain that is followed here were refused, by name."""
        return {name: progress.refused for name, progress in self.ingested().items()}

    def damage(self) -> str:
        """Advice about a database that a check has reported as damaged, "" for any other."""
        return "" if self._file is None else integrity.guard_of(self._file).damage()

    def _integrity(self) -> dict[str, Any] | None:
        """The last check of a SQLite database for damage, None without one."""
        report = integrity.read(self._file) if self._file is not None else None
        return report and {"state": report.state, "checkedAt": timestamp(report.written_at), "detail": report.detail}

    # -- readiness

    def ready(self) -> str | None:
        """None while this server answers searches, once everything was indexed for the first time; else the missing
        part, in a sentence: the index of a store that is not empty, or more than `index_lag.MOST_SECONDS` of changes,
        unless it is being rebuilt. A database that does not answer does not count as missing. Raises UnavailableError
        where the index does not answer."""
        if self._engine is not None and self._engine.is_compiling:
            return str(CompilingError())
        if self._engine is not None and self._engine.is_refusing:
            return str(OutdatedIndexError())
        if not self._was_ready and (missing := self._missing()) is not None:
            return missing
        if self._engine is not None and (missing := self._unsearchable(self._engine)) is not None:
            return missing
        self._was_ready = True
        return None

    def _unsearchable(self, engine: SearchIndex) -> str | None:
        """The reason why searches are not answered, in a sentence; None where they are."""
        if not self._looking.locked():  # else one thread waits for the database already
            try:
                self.look()
            except DATABASE_ERRORS as error:
                log.warning("readiness is answered by the last look at the database: %s", error)
        position = engine.position()
        if not self._was_ready and (missing := self._index_lag(self.unread_count)) is not None:
            return missing
        if position is None and self.unread_count:
            return "the index was lost, and is being rebuilt"
        if position is None or engine.progress() is not None:
            return None  # it answers while it is rebuilt, and may read no changes for hours
        changes = f"the index has not seen {self.unread_count:,} changes"
        if self.unread_count and not position.seq and self._is_index_behind():
            return f"{changes}, which are all"
        if self._unread_seconds > MOST_SECONDS:
            return f"{changes}, the first of them for {self._unread_seconds / 60:,.0f} minutes"
        return None

    def look(self) -> None:
        """Count the stored changes that are not searchable yet. Raises StoreError, UnavailableError."""
        with self._looking:
            try:
                self.unread_count = self.unread_changes()
                newest_seq = self._store.outbox.newest_seq()
                self._unread_seconds = self._lag.add(newest_seq, self.unread_count)
                self._read_pace.add(newest_seq - self.unread_count)
                self._rebuild = self._engine.progress() if self._engine is not None else None
                if self._rebuild is not None:
                    self._rebuild_pace.add(self._rebuild.done)
            except DATABASE_ERRORS:
                self._is_unread = True
                raise
            except UnavailableError:
                self._is_search_away = True
                raise
            self._is_unread = self._is_search_away = False
            if self._engine is not None:
                newest = {"seq": _seq(self._engine), "behind": self.unread_count}
                self._last_index = self._last_index | newest

    def seconds_until_searchable(self) -> int:
        """When a client may try again, in seconds: by the pace of a rebuild, or at which changes are read. From memory,
        as of the last look."""
        remaining, pace = self.unread_count, self._read_pace.a_second()
        if self._rebuild is not None:
            remaining, pace = self._rebuild.of - self._rebuild.done, self._rebuild_pace.a_second()
        return min(LONGEST_WAIT, max(SHORTEST_WAIT, round(remaining / pace))) if pace else SHORTEST_WAIT

    def is_index_overtaken(self) -> bool:
        """Whether a chain that is caught up with should wait for the index, which reads changes meanwhile. From
        memory."""
        if self._engine is None or self.index_error or self._rebuild is not None:
            return False
        pace = self._read_pace.a_second()
        return self.unread_count > (HELD_SECONDS * pace if pace else UNMEASURED)

    async def look_again(self) -> None:
        """Look at the database in a thread: `degraded` is answered from memory."""
        await asyncio.to_thread(self.look)

    def degraded(self) -> list[str]:
        """The parts that do not work now, by the words of the schema `Status`. From memory: while the database is away,
        too."""
        is_away = self._is_unread or any(map(_fails, self.jobs()))
        failing = [progress for progress in self.progress.values() if self._state(progress) in ENDED or progress.error]
        words = {
            "database": is_away or any(progress.fault == "database" for progress in failing),
            "search": self._is_search_away or (self._engine is not None and self._engine.is_compiling),
            "index-behind": self._engine is not None and self._is_index_behind(),
            "failed": len(self.left_out) > 0,
        }
        disagreeing = [progress.name for progress in self.progress.values() if self._disagreement(progress)]
        return [
            *(word for word, holds in words.items() if holds),
            *(f"follower:{progress.name}" for progress in failing),
            *(f"sources-disagree:{name}" for name in disagreeing),
        ]

    def _is_index_behind(self) -> bool:
        return bool(self.index_error) or self._unread_seconds > LATE_SECONDS

    def unread_changes(self) -> int:
        """How many stored changes searches do not answer for yet. Raises UnavailableError."""
        return pending_changes(self._store, self._engine) if self._engine is not None else 0

    def _missing(self) -> str | None:
        """The part of the chains that is not indexed yet, in a sentence."""
        if not self.progress:
            return "no chain is indexed yet"
        for progress in self.ingested().values():
            if progress.is_catching_up:
                indexed = (
                    "no block is indexed yet" if progress.height is None else f"block {progress.height:,} is indexed"
                )
                of_tip = f" of {progress.tip:,}" if progress.tip else ""
                return f"{progress.name} is {progress.state}: {indexed}{of_tip}"
            if progress.state in ("unreachable", "stopped") and progress.height is None:
                return f"{progress.name} is {progress.state}: {self._error(progress)}"
        return None

    def _index_lag(self, count: int) -> str | None:
        """The stored changes and blocks that are not searchable yet, in a sentence; `count` is the number of changes
        that the index has not read."""
        if count:
            return f"the index has not seen {count:,} changes"
        late = [name for name, height in self.stored_heights().items() if self._heights.get(name, -1) < height]
        return f"the index is about to answer for {', '.join(late)}" if late else None

    # -- status

    def status(self) -> dict[str, Any]:
        """The schema `Status`. Reads the store: to be called in a thread. While the database does not answer, all that
        it holds is as it was when it last did. Raises StoreError where it never has."""
        try:
            self._last, self._is_unread = self._stored_status(), False
        except DATABASE_ERRORS as error:
            if self._last is None:
                raise
            self._is_unread = True
            log.warning("the status is answered without the database: %s", error)
        rows = [row | self._follower_members(self.progress[row["name"]]) for row in self._last["chains"]]
        return self._last | {"chains": rows, "degraded": self.degraded(), "failed": self.left_out.as_json()}

    def _stored_status(self) -> dict[str, Any]:
        names = in_configured_order(self._settings, {name: progress.caip2 for name, progress in self.progress.items()})
        counts = [*(self._counted(self.progress[name]) for name in names), self._pointers.counts()]
        self.exchange.refresh()
        status = {
            "version": self._version,
            "chains": [self._chain(self.progress[name]) for name in names],
            "listings": {word: sum(count.get(word, 0) for count in counts) for word in COUNTED},
            "pointers": self._store.fetches.counts(),
            "stateHash": {
                name: _state_digest(newest)
                for name in names
                if (newest := self._computed.get(name) or stored_state_hash(self._store, name)) is not None
            },
            "rates": self.exchange.status(self.rates_fetcher.statuses if self.rates_fetcher else ()),
            "index": None if self._engine is None else self._index(self._engine),
            "jobs": [_public(job) for job in self.jobs()],
        }
        if (checked := self._integrity()) is not None:
            status["integrity"] = checked
        return status | ({"replica": self._replica()} if self._store.primary is not self._store.engine else {})

    def _replica(self) -> dict[str, Any]:
        lag = self._store.lag()
        return {"source": "postgresql", "lagSeconds": lag.seconds, "behind": lag.changes}

    def _chain(self, progress: SyncProgress) -> dict[str, Any]:
        network = by_caip2(progress.caip2)
        members: dict[str, Any] = {
            "name": progress.name,
            "chain": progress.caip2,
            "network": network.name if network else progress.caip2.partition(":")[2] or None,
            "source": self._sources.get(progress.name),
        }
        if (chain := self._failover.get(progress.name)) is not None:
            sources = [
                row | {"error": ERRORS.get(row["state"], HIDDEN)} if "error" in row else row for row in chain.sources
            ]
            members |= {"sources": sources, "warnings": chain.warnings}
        twice = self._store.read_twice(progress.name)
        if twice is not None:
            members["readTwice"] = twice if twice >= 0 else None
        notes = [progress.note]
        is_partial = self._store.is_partial(progress.name)
        if is_partial or progress.caught:
            members["caught"] = progress.caught
        if is_partial:
            members["complete"] = False
            notes = [progress.note or PARTIAL]
        if starts_late(self._store, progress.name):
            members["complete"] = False
            notes.append(LATE)
        if note := outdated(self._store, progress.name):
            members["complete"] = False
            notes.insert(0, note)
        texts = {"checked": progress.checked, "note": "; ".join(filter(None, notes))}
        return members | {name: text for name, text in texts.items() if text}

    def _follower_members(self, progress: SyncProgress) -> dict[str, Any]:
        """The members about a chain that its follower reports, from memory."""
        members: dict[str, Any] = {
            "state": self._state(progress),
            "height": progress.height,
            "hash": progress.hash[::-1].hex() if progress.hash else None,
            "tip": progress.tip,
            "lag": progress.lag,
            "mempool": progress.mempool,
            "reorgs": None if progress.state == "stored" else progress.reorgs,
            "followerSeenAt": timestamp(progress.seen_at),
            "lastBlockAt": timestamp(progress.last_block_at),
        }
        if progress.peers is not None and not progress.is_silent():
            members["peers"] = {"connected": progress.peers, "networks": progress.peer_networks}
        texts = {"error": self._error(progress), "sourcesDisagree": self._disagreement(progress)}
        return members | {name: text for name, text in texts.items() if text}

    def _state(self, progress: SyncProgress) -> str:
        return "silent" if progress.is_silent() else progress.state

    def _disagreement(self, progress: SyncProgress) -> str:
        """How the sources of a chain disagree; "" also where its follower says nothing any more."""
        return "" if progress.is_silent() else progress.disagreement

    def _error(self, progress: SyncProgress) -> str:
        """Why a chain is not followed, for all to read; "" where it is."""
        if progress.error:
            public = FAULTS.get(progress.fault) or ERRORS.get(progress.state, HIDDEN)
            return progress.error if self._shows_errors else public
        if not progress.is_silent():
            return ""
        if progress.name in self._followed:  # by this process, which cannot write that
            return FAULTS["database"]
        since = timestamp(progress.seen_at)
        return f"the process that follows this chain has given no sign of life since {since}"

    def _counted(self, progress: SyncProgress) -> dict[str, int]:
        """The listings of a chain by status, counted once for a tip; unconfirmed ones are counted each time."""
        tip = (progress.height, progress.hash)
        cached = self._counts.get(progress.name)
        if cached is None or cached[0] != tip:
            stored = self._store.chain_counts.get(progress.name)
            cached = self._counts[progress.name] = (tip, stored or self._store.registrations.counts(progress.name))
        return cached[1] | {"pending": self._store.pending.new_count(progress.name)}

    def _index(self, engine: SearchIndex) -> dict[str, Any]:
        """The member `index` of the schema `Status`. While the index does not answer, it is as it was when it last did,
        with an error."""
        try:
            self._last_index, self._is_search_away = self._answered_index(engine), False
        except UnavailableError as error:
            self._is_search_away = True
            log.warning("the status is answered without the index: %s", error)
            return {"engine": engine.name} | self._last_index | {"error": HIDDEN}
        return self._last_index

    def _answered_index(self, engine: SearchIndex) -> dict[str, Any]:
        rebuild = engine.progress()
        members: dict[str, Any] = {
            "engine": engine.name,
            "seq": _seq(engine),
            "behind": self.unread_changes(),
            "meaning": engine.has_meaning,
        }
        if engine.is_compiling or engine.is_interpreted:
            members["compiling"] = True
        if engine.is_outdated:
            members["outdated"] = True
        for name, text in (("damage", engine.damage()), ("error", self.index_error)):
            if text:
                members[name] = self._without_folder(text)
        return members if rebuild is None else {**members, "rebuilding": rebuild._asdict()}

    def _without_folder(self, text: str) -> str:
        """A message about the index without its folder; HIDDEN for an index elsewhere, as it names the host."""
        scheme, _, path = self._settings.search.partition(":")
        if scheme not in IN_FILES:
            return HIDDEN
        folder = Path(path)
        return text.replace(f"{folder}/", "").replace(f" {folder}", "").replace(f"{folder}", "…")

    # -- state hashes

    async def hash_tips(self) -> float | None:
        """Bring the state hash of a chain up to date in a thread, once per tip, but not while it catches up. Returns
        the seconds until the next, None where there was none."""
        if (wait := self._hash_at - time.monotonic()) > 0:  # woken before
            return wait
        for progress in list(self.progress.values()):
            tip = (progress.height, progress.hash, progress.read_twice, self._writer.run if self._writer else "")
            if not progress.is_catching_up and self._hashed_tips.get(progress.name) != tip:
                started = time.monotonic()
                with self.left_out.leaving_out("state hash", progress.name):  # until there is another tip
                    await asyncio.to_thread(self.update_state_hash, progress.name)
                self._hashed_tips[progress.name] = tip
                pause = HASH_PAUSE * (time.monotonic() - started)
                self._hash_at = time.monotonic() + pause
                return pause
        return None

    def update_state_hash(self, chain: str) -> None:
        """Store the newest state hash of a chain where this process indexes. One that only reads computes a
        hash itself as long as none is stored."""
        if self._writer is not None:
            update_state_hash(self._store, self._writer, chain)
            self._save_counts(self._writer, chain)
        elif stored_state_hash(self._store, chain) is None:
            self.recompute_state_hash(chain)
        else:
            self._computed.pop(chain, None)

    def _save_counts(self, writer: Writer, chain: str) -> None:
        """Store what the status of other processes counts, or else each of them would."""
        if self._store.chain_counts.get(chain) is None:
            mark = self._store.chain_counts.mark(chain)
            store_counts(writer, chain, mark, self._store.registrations.counts(chain))
        self._pointers.save(writer)

    def recompute_state_hash(self, chain: str) -> None:
        """Compute the newest state hash of a chain from all registrations, ignoring stored state hashes."""
        hashed = hashed_block(self._store, chain)
        if hashed is not None:
            self._computed[chain] = computed_state_hash(self._store, chain, hashed.height)


def _seq(engine: SearchIndex) -> int:
    """The newest change that the index has read; 0 for an index that needs a rebuild."""
    position = engine.position()
    return position.seq if position else 0


def _state_digest(state: StateHash) -> dict[str, Any]:
    """The schema `StateDigest`."""
    pointers = {"count": state.pointers.total, "hash": state.pointers.digest} if state.pointers else None
    return {"height": state.height, "hash": state.digest, "pointers": pointers}


def _kinds(name: str, urls: Sequence[str]) -> str:
    """The kinds of a chain's sources, each once; "" for a URL that can never be used, which ends the process."""
    try:
        return " ".join(dict.fromkeys(kind(name, url) for url in urls))
    except SourceError:
        return ""


def _fails(job: JobStatus) -> bool:
    """Whether a job shows that the database is away: its last run failed, or one waits for it."""
    is_waiting = job.ran_at is not None and job.next_at is None and time.time() - job.ran_at > HANGING_SECONDS
    return job.name in (SIGNS, CHANGES) and (bool(job.error) or is_waiting)


def _public(job: JobStatus) -> dict[str, Any]:
    members = job.as_json()
    return members | {"error": HIDDEN} if "error" in members else members
