"""Where everything stands: CONTRACT's Status, readiness, and what every search is told of chains and heights."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from indexer.networks import by_caip2
from indexer.progress import LATE, PARTIAL, Progress
from indexer.settings import Settings, masked
from indexer.statehash import starts_late, state_hash
from indexer.store import Store
from indexer.store.rates import Quotes
from overlay.engines import UnavailableError
from overlay.exchange import Exchange
from overlay.feed import Feed
from overlay.index import SearchIndex
from overlay.listed_pointers import ListedPointers
from overlay.services import in_configured_order

if TYPE_CHECKING:
    from indexer.chains import Chain
    from indexer.chains.several import Several
    from indexer.rates import RatesLoop

log = logging.getLogger(__name__)

HASH_PAUSE = 5.0
"""Pause after computing a state hash, as a multiple of the time it took: a large registry is not hashed all day."""

COUNTED = ("live", "burned", "pending", "rejected", "undecided")


class Standing:
    """What the process knows of itself. `progress` is kept up to date by followers, or by whoever polls the store;
    `came_to` is what fetches came to here."""

    def __init__(self, settings: Settings, store: Store, engine: SearchIndex | None, version: str) -> None:
        self._settings, self._store, self._engine, self._version = settings, store, engine, version
        self._sources = {name: " ".join(map(masked, urls)) for name, urls in settings.sources().items()}
        self._several: dict[str, Several] = {}
        self._hashes: dict[str, tuple[int, bytes, str | None]] = {}
        self._counts: dict[str, tuple[tuple[int | None, bytes], dict[str, int]]] = {}
        self._feed = Feed(store, engine) if engine else None
        self._pointers = ListedPointers(store)
        self._rates: RatesLoop | None = None
        self.exchange = Exchange(Quotes(store.engine).newest)
        self.came_to: Mapping[str, int] = {}
        self._was_ready = False
        self.progress: dict[str, Progress] = {}
        self._chains: dict[str, str] = {}
        self._heights: dict[str, int] = {}
        self.look()
        self._begin()

    def _begin(self) -> None:
        """What an index from before has read is searched at once."""
        with suppress(UnavailableError):  # then whoever carries it over says what it has read, once that is known
            if self._feed is not None and not self._feed.behind():
                self.publish(self.reached())

    def look(self) -> None:
        """Take from the store which chains it holds and where they end; those being followed tell it themselves."""
        for name, caip2 in in_configured_order(self._settings, self._store.chains()).items():
            known = self.progress.setdefault(name, Progress(name, caip2, "stored"))
            if known.state == "stored" and (newest := self._store.newest(name)) is not None:
                known.height, known.hash = newest.height, newest.hash
        # what is stored is not what is searched: who carries it over says so
        self.publish(self._heights if self._feed else self.reached())

    def follow(self, progress: Progress) -> None:
        """Take what a follower tells of its chain from now on; until it does, what is stored still holds."""
        stored = self.progress.get(progress.name)
        if stored is not None:
            progress.caip2, progress.height, progress.hash = stored.caip2, stored.height, stored.hash
        self.progress[progress.name] = progress

    def watch(self, chain: Chain) -> None:
        """Tell of each source of a chain that has several."""
        from indexer.chains.several import Several

        if isinstance(chain, Several):
            self._several[chain.name] = chain

    def hear(self, rates: RatesLoop) -> None:
        """Tell of each feed of exchange rates what came of asking it."""
        self._rates = rates

    def reached(self) -> dict[str, int]:
        """The height that each chain is indexed up to, by name."""
        return {name: each.height for name, each in self.progress.items() if each.height is not None}

    def refused(self) -> dict[str, int]:
        """How many blocks each chain that is followed here refused, by name."""
        return {name: each.refused for name, each in self.progress.items() if each.state != "stored"}

    def ingested(self) -> dict[str, Progress]:
        """What came of reading the chains that are followed here, by name."""
        return {name: each for name, each in self.progress.items() if each.state != "stored"}

    def publish(self, heights: Mapping[str, int]) -> None:
        """The index has everything up to these heights: searches say so from now on."""
        self._chains = in_configured_order(
            self._settings, {name: each.caip2 for name, each in self.progress.items() if each.caip2}
        )
        self._heights = {name: heights[name] for name in self._chains if name in heights}

    def chains(self) -> Mapping[str, str]:
        """CAIP-2 ids by configured name, in configured order."""
        return self._chains

    def heights(self) -> Mapping[str, int]:
        """The height that searches are answered for, by name."""
        return self._heights

    def ready(self) -> str | None:
        """None from the moment on at which everything was indexed once, unless the index was lost since; else what is
        missing. Raises UnavailableError where the index is in a database that is away."""
        if not self._was_ready:
            missing = self._missing()
            if missing is not None:
                return missing
            self._was_ready = True
        lost = self._engine is not None and self._engine.cursor() is None
        return "the index was lost, and is being made anew" if lost else None

    def _missing(self) -> str | None:
        if not self.progress:
            return "no chain is indexed yet"
        for each in self.progress.values():
            if each.state in ("starting", "catching-up"):
                reached = "no block is indexed yet" if each.height is None else f"block {each.height:,} is indexed"
                return f"{each.name} is {each.state}: {reached}" + (f" of {each.tip:,}" if each.tip else "")
            if each.state in ("unreachable", "stopped") and each.height is None:
                return f"{each.name} is {each.state}: {each.error.removeprefix(f'{each.name}: ')}"
        return self._unseen()

    def _unseen(self) -> str | None:
        """What is stored, but not yet said to be searchable, where anything is."""
        if self._feed is None:
            return None
        behind = self._feed.behind()
        if behind:
            return f"the index has not seen {behind:,} changes"
        late = [name for name, height in self.reached().items() if self._heights.get(name, -1) < height]
        return f"the index is about to answer for {', '.join(late)}" if late else None

    def status(self) -> dict[str, Any]:
        """CONTRACT's Status."""
        names = in_configured_order(self._settings, {name: each.caip2 for name, each in self.progress.items()})
        counts = [*(self._counted(self.progress[name]) for name in names), self._pointers.counts()]
        return {
            "version": self._version,
            "chains": [self._chain(self.progress[name]) for name in names],
            "listings": {word: sum(each.get(word, 0) for each in counts) for word in COUNTED},
            "pointers": self._store.fetch_counts(),
            "stateHash": {
                name: {"height": height, "hash": digest} for name, (height, _, digest) in self._hashes.items()
            },
            "rates": self._exchange_rates(),
            "index": self._index(),
            **({"replica": self._replica()} if self._store.home is not self._store.engine else {}),
        }

    def _replica(self) -> dict[str, Any]:
        """How far what is read from is behind."""
        lag = self._store.lag()
        return {"source": masked(self._settings.database_read), "lagSeconds": lag.seconds, "behind": lag.changes}

    def _exchange_rates(self) -> dict[str, Any] | None:
        self.exchange.look()
        return self.exchange.status(self._rates.heard if self._rates else ())

    def _chain(self, each: Progress) -> dict[str, Any]:
        row: dict[str, Any] = {
            "name": each.name,
            "chain": each.caip2,
            "network": _network(each.caip2),
            "state": each.state,
            "height": each.height,
            "hash": each.hash[::-1].hex() if each.hash else None,
            "tip": each.tip,
            "lag": None if each.tip is None else max(0, each.tip - (-1 if each.height is None else each.height)),
            "mempool": each.mempool,
            "reorgs": None if each.state == "stored" else each.reorgs,
            "source": self._sources.get(each.name),
        }
        if (several := self._several.get(each.name)) is not None:
            row |= {"sources": several.sources, "warnings": several.warnings}
        notes = [each.note]
        if self._store.is_partial(each.name):
            row |= {"complete": False, "caught": each.caught}
            notes = [each.note or PARTIAL]
        if starts_late(self._store, each.name):
            row["complete"] = False
            notes.append(LATE)
        told = {"error": each.error, "checked": each.checked, "note": "; ".join(filter(None, notes))}
        return row | {name: words for name, words in told.items() if words}

    def _counted(self, each: Progress) -> dict[str, int]:
        """Counted once per tip, but for what is unconfirmed."""
        tip = (each.height, each.hash)
        known = self._counts.get(each.name)
        if known is None or known[0] != tip:
            known = self._counts[each.name] = (tip, self._store.counts(each.name))
        return known[1] | {"pending": self._store.newcomers(each.name)}

    def _index(self) -> dict[str, Any] | None:
        if self._engine is None or self._feed is None:
            return None
        cursor = self._engine.cursor()
        told: dict[str, Any] = {
            "engine": self._engine.name, "seq": cursor.seq if cursor else 0, "behind": self._feed.behind(),
        }  # fmt: skip
        renewal = self._engine.progress()
        return told if renewal is None else {**told, "renewal": renewal._asdict()}

    async def keep_hashing(self) -> None:
        """Compute state hashes in the background, once per tip, but not on the way to it."""
        while True:
            for each in list(self.progress.values()):
                if each.state not in ("starting", "catching-up") and not self._is_hashed(each):
                    began = time.monotonic()
                    await asyncio.to_thread(self.hash, each)
                    await asyncio.sleep(HASH_PAUSE * (time.monotonic() - began))
            await asyncio.sleep(0.2)

    def hash(self, each: Progress) -> None:
        """Compute the state hash of a chain's tip, unless it is known or the chain moved on meanwhile."""
        height, tip = each.height, each.hash
        if height is None or self._is_hashed(each):
            return
        digest = state_hash(self._store, each.name, height)
        block = self._store.block(each.name, height)
        if block is not None and block.hash == tip:
            self._hashes[each.name] = (height, tip, digest)

    def _is_hashed(self, each: Progress) -> bool:
        """Whether there is nothing to hash, or it is known."""
        known = self._hashes.get(each.name)
        return each.height is None or (known is not None and known[:2] == (each.height, each.hash))


def _network(caip2: str) -> str | None:
    """What a network is called: mainnet and the like of Bitcoin's family, of others their reference by CAIP-2."""
    known = by_caip2(caip2)
    return known.name if known else caip2.partition(":")[2] or None
