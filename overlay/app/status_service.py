"""The status of the process: the schema `Status`, readiness, and the chains and heights that searches answer for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from indexer import sqlite_integrity as integrity
from indexer.chains import kind
from indexer.errors import SourceError
from indexer.headers.networks import by_caip2
from indexer.model import LATE, PARTIAL
from indexer.settings import Settings
from indexer.state_hash import outdated, starts_late, state_hash, stored_state_hash, update_state_hash
from indexer.store import Store, Writer
from indexer.store.rates import Quotes
from indexer.store.state_hashes import StateHash
from indexer.sync.progress import SyncProgress
from overlay.api.height_history import HeightHistory, HeightSample
from overlay.app.index_lag import MOST_SECONDS, IndexLag
from overlay.app.integrity_loop import sqlite_file
from overlay.app.storage import in_configured_order
from overlay.engines import IN_FILES, CompilingError, UnavailableError
from overlay.jobs import JobStatus
from overlay.listings.pointer_counts import ListedPointers
from overlay.pricing.exchange_rates import ExchangeRates
from overlay.projection.unread_changes import pending_changes
from overlay.text.timestamps import timestamp

if TYPE_CHECKING:
    from indexer.chains import Chain
    from indexer.rates.rates_fetcher import RatesFetcher
    from overlay.projection.search_index import SearchIndex

HASH_PAUSE = 5.0
"""Pause after computing a state hash, as a multiple of the time that took: bounds the share of a processor it uses."""

HIDDEN = "the log of this server says why"
"""What the public reads instead of an error of a source or a job, which may name hosts, ports and folders."""

ERRORS = {"unreachable": f"the source does not answer; {HIDDEN}", "stopped": f"the source cannot be used; {HIDDEN}"}
"""What strangers read of a source that fails, by the state of its chain."""

COUNTED = ("live", "burned", "pending", "rejected", "undecided")


class StatusService:
    """The public facts about this process. `progress` is updated by followers, or from the store by `refresh`; `jobs`
    has the state of this process's jobs; `rates_fetcher` and `fetch_outcomes` are set where it fetches rates and
    cards."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        engine: SearchIndex | None,
        version: str,
        writer: Writer | None = None,
    ) -> None:
        self._settings, self._store, self._engine, self._version = settings, store, engine, version
        self._writer = writer
        self._sources = {name: _kinds(name, urls) for name, urls in settings.sources().items()}
        self._failover: dict[str, Chain] = {}
        self._hashed_tips: dict[str, tuple[int | None, bytes]] = {}
        self._hash_at = 0.0
        self._computed: dict[str, StateHash] = {}
        self._counts: dict[str, tuple[tuple[int | None, bytes], dict[str, int]]] = {}
        self._pointers = ListedPointers(store)
        self._file = sqlite_file(store)
        self.rates_fetcher: RatesFetcher | None = None
        self.exchange = ExchangeRates(Quotes(store.engine).newest, default_currency=settings.price_currency)
        self.fetch_outcomes: Mapping[str, int] = {}
        self.jobs: Callable[[], Sequence[JobStatus]] = tuple
        self.index_error = ""
        """Why changes cannot be written to the index now; "" where they can."""
        self._was_ready, self._lag = False, IndexLag()
        self.unread_count = 0
        """Stored changes that searches did not answer for when `ready` counted them last."""
        self.progress: dict[str, SyncProgress] = {}
        self.history = HeightHistory()
        self._chains: dict[str, str] = {}
        self._heights: dict[str, int] = {}
        self.refresh()
        with suppress(UnavailableError):  # then the index loop publishes the heights, once it has them
            if engine is not None and not self.unread_changes():
                self.publish(self.stored_heights())

    def refresh(self) -> None:
        """Read from the store which chains it holds, and the newest block of those that are not followed here."""
        for name, caip2 in in_configured_order(self._settings, self._store.chains()).items():
            progress = self.progress.setdefault(name, SyncProgress(name, caip2, "stored"))
            if progress.state == "stored" and (newest := self._store.blocks.newest(name)) is not None:
                progress.height, progress.hash = newest.height, newest.hash
        # where there is an index, its loop publishes new heights
        self.publish(self._heights if self._engine else self.stored_heights())

    def follow(self, progress: SyncProgress, chain: Chain | None = None) -> None:
        """Report a chain that is followed here by its follower's progress; the stored block holds until that moves."""
        stored = self.progress.get(progress.name)
        if stored is not None:
            progress.caip2, progress.height, progress.hash = stored.caip2, stored.height, stored.hash
        self.progress[progress.name] = progress
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
        return {name: progress for name, progress in self.progress.items() if progress.state != "stored"}

    def refused_blocks(self) -> dict[str, int]:
        """How many blocks of each chain that is followed here were refused, by name."""
        return {name: progress.refused for name, progress in self.ingested().items()}

    def damage(self) -> str:
        """What to do about a database that was found damaged, "" for any other."""
        return "" if self._file is None else integrity.guard_of(self._file).damage()

    def _integrity(self) -> dict[str, Any] | None:
        """The last check of a SQLite database for damage, None without one."""
        report = integrity.read(self._file) if self._file is not None else None
        return report and {"state": report.state, "checkedAt": timestamp(report.written_at), "detail": report.detail}

    # -- readiness

    def ready(self) -> str | None:
        """None once everything was indexed for the first time, unless the index is lost later, or is behind for
        `index_lag.MOST_SECONDS` without being rebuilt; else what is missing, in a sentence. Raises UnavailableError
        where the index is in a database that does not answer."""
        if self._engine is not None and self._engine.is_compiling:
            return str(CompilingError())
        if not self._was_ready and (missing := self._missing()) is not None:
            return missing
        if self._engine is None:
            self._was_ready = True
            return None
        count = self.unread_count = self.unread_changes()
        if not self._was_ready and (missing := self._index_lag(count)) is not None:
            return missing
        self._was_ready = True
        if self._engine.position() is None:
            return "the index was lost, and is being rebuilt"
        if self._engine.progress() is not None:
            return None  # it answers meanwhile, and may read no changes for hours
        seconds = self._lag.add(self._store.outbox.newest_seq(), count)
        if seconds > MOST_SECONDS:
            return f"the index has not seen {count:,} changes, the first of them for {seconds / 60:,.0f} minutes"
        return None

    def unread_changes(self) -> int:
        """How many stored changes searches do not answer for yet. Raises UnavailableError."""
        return pending_changes(self._store, self._engine) if self._engine is not None else 0

    def _missing(self) -> str | None:
        """What is not indexed yet of the chains, in a sentence."""
        if not self.progress:
            return "no chain is indexed yet"
        for progress in self.progress.values():
            if progress.is_catching_up:
                indexed = (
                    "no block is indexed yet" if progress.height is None else f"block {progress.height:,} is indexed"
                )
                of_tip = f" of {progress.tip:,}" if progress.tip else ""
                return f"{progress.name} is {progress.state}: {indexed}{of_tip}"
            if progress.state in ("unreachable", "stopped") and progress.height is None:
                return f"{progress.name} is {progress.state}: {ERRORS[progress.state]}"
        return None

    def _index_lag(self, count: int) -> str | None:
        """What is stored and not yet searchable, in a sentence; `count` are the changes that the index has not read."""
        if count:
            return f"the index has not seen {count:,} changes"
        late = [name for name, height in self.stored_heights().items() if self._heights.get(name, -1) < height]
        return f"the index is about to answer for {', '.join(late)}" if late else None

    # -- status

    def status(self) -> dict[str, Any]:
        """The schema `Status`. Reads the store: to be called in a thread."""
        names = in_configured_order(self._settings, {name: progress.caip2 for name, progress in self.progress.items()})
        counts = [*(self._counted(self.progress[name]) for name in names), self._pointers.counts()]
        self.exchange.refresh()
        status = {
            "version": self._version,
            "chains": [self._chain(self.progress[name]) for name in names],
            "listings": {word: sum(count.get(word, 0) for count in counts) for word in COUNTED},
            "pointers": self._store.fetches.counts(),
            "stateHash": {
                name: {"height": newest.height, "hash": newest.digest}
                for name in names
                if (newest := self._computed.get(name) or stored_state_hash(self._store, name)) is not None
            },
            "rates": self.exchange.status(self.rates_fetcher.statuses if self.rates_fetcher else ()),
            "index": self._index(),
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
            "state": progress.state,
            "height": progress.height,
            "hash": progress.hash[::-1].hex() if progress.hash else None,
            "tip": progress.tip,
            "lag": progress.lag,
            "mempool": progress.mempool,
            "reorgs": None if progress.state == "stored" else progress.reorgs,
            "source": self._sources.get(progress.name),
        }
        if (chain := self._failover.get(progress.name)) is not None:
            sources = [
                row | {"error": ERRORS.get(row["state"], HIDDEN)} if "error" in row else row for row in chain.sources
            ]
            members |= {"sources": sources, "warnings": chain.warnings}
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
        error = ERRORS.get(progress.state, HIDDEN) if progress.error else ""
        texts = {"error": error, "checked": progress.checked, "note": "; ".join(filter(None, notes))}
        return members | {name: text for name, text in texts.items() if text}

    def _counted(self, progress: SyncProgress) -> dict[str, int]:
        """The listings of a chain by status, counted once for a tip; unconfirmed ones are counted each time."""
        tip = (progress.height, progress.hash)
        cached = self._counts.get(progress.name)
        if cached is None or cached[0] != tip:
            cached = self._counts[progress.name] = (tip, self._store.registrations.counts(progress.name))
        return cached[1] | {"pending": self._store.pending.new_count(progress.name)}

    def _index(self) -> dict[str, Any] | None:
        if self._engine is None:
            return None
        position, rebuild = self._engine.position(), self._engine.progress()
        members: dict[str, Any] = {
            "engine": self._engine.name,
            "seq": position.seq if position else 0,
            "behind": self.unread_changes(),
            "meaning": self._engine.has_meaning,
        }
        if self._engine.is_compiling:
            members["compiling"] = True
        for name, text in (("damage", self._engine.damage()), ("error", self.index_error)):
            if text:
                members[name] = self._without_folder(text)
        return members if rebuild is None else {**members, "renewal": rebuild._asdict()}

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
            tip = (progress.height, progress.hash)
            if not progress.is_catching_up and self._hashed_tips.get(progress.name) != tip:
                started = time.monotonic()
                await asyncio.to_thread(self.update_state_hash, progress.name)
                self._hashed_tips[progress.name] = tip
                pause = HASH_PAUSE * (time.monotonic() - started)
                self._hash_at = time.monotonic() + pause
                return pause
        return None

    def update_state_hash(self, chain: str) -> None:
        """Store the state hash of a chain's newest block where this process indexes. One that only reads computes a
        hash itself as long as none is stored."""
        if self._writer is not None:
            update_state_hash(self._store, self._writer, chain)
        elif stored_state_hash(self._store, chain) is None:
            self.recompute_state_hash(chain)
        else:
            self._computed.pop(chain, None)

    def recompute_state_hash(self, chain: str) -> None:
        """Compute the state hash of a chain's newest block from all registrations, ignoring stored state hashes."""
        newest = self._store.blocks.newest(chain)
        if newest is not None:
            self._computed[chain] = StateHash(newest.height, state_hash(self._store, chain, newest.height))


def _kinds(name: str, urls: Sequence[str]) -> str:
    """The kinds of a chain's sources, each once; "" for a URL that can never be used, which ends the process."""
    try:
        return " ".join(dict.fromkeys(kind(name, url) for url in urls))
    except SourceError:
        return ""


def _public(job: JobStatus) -> dict[str, Any]:
    members = job.as_json()
    return members | {"error": HIDDEN} if "error" in members else members
