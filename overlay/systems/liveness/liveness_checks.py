"""The daily visits to the URLs of listings."""

from __future__ import annotations

import asyncio

from indexer.fetcher.connections import Admit
from indexer.fetcher.dns import TxtRecords
from indexer.fetcher.fetch_loop import DueChecks
from indexer.fetcher.http_fetcher import HttpFetcher, open_admit
from indexer.fetcher.reasons import FetchError
from indexer.fetcher.schedule import Priority
from indexer.settings import Settings
from indexer.store import Store, Writer
from overlay.systems.liveness.probes import failed, probe
from overlay.systems.liveness.store import PROBE_CHECK, HealthQueries, HealthState, ProbeOutcome, record_probe
from parsers.pointers.locator import url_host

PAGE = "docs/probes"
"""The page of this server that says what is visited, and how to opt out."""


UNREACHED_HOSTS = 32
"""Hosts, one after the other, that cannot be reached before this server's own network is blamed: where four of ten are
gone, so many in a row are once in 10^12 visits."""

_NO_WAY = frozenset(("fetch-resolve", "fetch-resolve-slow", "fetch-connect", "fetch-connect-slow"))
"""Codes of hosts that cannot be reached, as of all hosts where the network of this server is down."""


class LivenessChecks:
    """Visits URLs, and stores whether they answer. `public_url` is this server's. Where its own network seems to be
    down, states stay as they are."""

    kind, priority = PROBE_CHECK, Priority.WATCH

    def __init__(self, fetcher: HttpFetcher, store: Store, writer: Writer, public_url: str) -> None:
        self._fetcher, self._writer, self._purpose = fetcher, writer, f"+{public_url}/{PAGE}"
        self._queries = HealthQueries(store.engine)
        self._unreached: set[str] = set()

    async def check(self, url: str, now: int, admit: Admit = open_admit) -> tuple[int, FetchError | None]:
        """Visit a URL, and store whether it answers. Raises FetchError, StoreError."""
        method = await asyncio.to_thread(self._queries.method, url)
        if method is None:
            return await self._store(url, ProbeOutcome(None), now), None
        error: FetchError | None = None
        try:
            outcome = await probe(self._fetcher, url, method, self._purpose, admit)
            self._unreached.clear()
        except FetchError as busy:
            if busy.refusal.code != "fetch-busy":
                raise
            error, code = busy, busy.refusal.code
            outcome = ProbeOutcome(None, code) if busy.refusal.detail == "429" else failed(code)
        return await self._store(url, outcome, now), error

    async def fail(self, url: str, reason: str, now: int) -> int:
        """Store that a visit failed. Raises StoreError."""
        outcome = failed(reason)
        if reason in _NO_WAY and len(self._unreached) == UNREACHED_HOSTS:
            outcome = ProbeOutcome(None, reason)
        elif reason in _NO_WAY:
            self._unreached.add(url_host(url))
        elif outcome.state is HealthState.FAILS:
            self._unreached.clear()
        return await self._store(url, outcome, now)

    async def _store(self, url: str, outcome: ProbeOutcome, now: int) -> int:
        return await asyncio.to_thread(record_probe, self._writer, url, outcome, now)


def host_checks(
    fetcher: HttpFetcher, _txt: TxtRecords, store: Store, writer: Writer, settings: Settings
) -> list[DueChecks]:
    """The visits, where the settings have them made."""
    return [LivenessChecks(fetcher, store, writer, settings.public_url)] if settings.is_probing else []
