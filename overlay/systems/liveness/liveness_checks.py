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
from overlay.systems.liveness.store import PROBE_CHECK, HealthQueries, ProbeOutcome, record_probe

PAGE = "docs/probes"
"""The page of this server that says what is visited, and how to opt out."""


class LivenessChecks:
    """Visits URLs, and stores whether they answer. `public_url` is this server's."""

    kind, priority = PROBE_CHECK, Priority.WATCH

    def __init__(self, fetcher: HttpFetcher, store: Store, writer: Writer, public_url: str) -> None:
        self._fetcher, self._writer, self._purpose = fetcher, writer, f"+{public_url}/{PAGE}"
        self._queries = HealthQueries(store.engine)

    async def check(self, url: str, now: int, admit: Admit = open_admit) -> tuple[int, FetchError | None]:
        """Visit a URL, and store whether it answers. Raises FetchError, StoreError."""
        method = await asyncio.to_thread(self._queries.method, url)
        if method is None:
            return await self._store(url, ProbeOutcome(None), now), None
        error: FetchError | None = None
        try:
            outcome = await probe(self._fetcher, url, method, self._purpose, admit)
        except FetchError as busy:
            if busy.refusal.code != "fetch-busy":
                raise
            error, code = busy, busy.refusal.code
            outcome = ProbeOutcome(None, code) if busy.refusal.detail == "429" else failed(code)
        return await self._store(url, outcome, now), error

    async def fail(self, url: str, reason: str, now: int) -> int:
        """Store that a visit failed. Raises StoreError."""
        return await self._store(url, failed(reason), now)

    async def _store(self, url: str, outcome: ProbeOutcome, now: int) -> int:
        return await asyncio.to_thread(record_probe, self._writer, url, outcome, now)


def host_checks(
    fetcher: HttpFetcher, _txt: TxtRecords, store: Store, writer: Writer, settings: Settings
) -> list[DueChecks]:
    """The visits, where the settings have them made."""
    return [LivenessChecks(fetcher, store, writer, settings.public_url)] if settings.is_probing else []
