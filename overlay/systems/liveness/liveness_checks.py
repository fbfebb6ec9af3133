"""The daily visits to the URLs of listings."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from indexer.fetcher.connections import Admit
from indexer.fetcher.dns import TxtRecords
from indexer.fetcher.fetch_loop import DueChecks
from indexer.fetcher.http_fetcher import HttpFetcher, open_admit
from indexer.fetcher.reasons import FetchError
from indexer.fetcher.schedule import Priority
from indexer.settings import Settings
from indexer.store import Store, Writer
from overlay.listings.repository import ListingRepository
from overlay.systems.liveness.probes import failed, probe
from overlay.systems.liveness.served_card import differences, paid_elsewhere
from overlay.systems.liveness.store import (
    PROBE_CHECK,
    HealthQueries,
    HealthState,
    ProbeMethod,
    ProbeOutcome,
    record_probe,
)
from parsers.pointers.locator import WELL_KNOWN, url_host

PAGE = "docs/probes"
"""The page of this server that says what is visited, and how to opt out."""


UNREACHED_HOSTS = 32
"""Hosts, one after the other, that cannot be reached before this server's own network is blamed: where four of ten are
gone, so many in a row are once in 10^12 visits."""

_NO_WAY = frozenset(("fetch-resolve", "fetch-resolve-slow", "fetch-connect", "fetch-connect-slow"))
"""Codes of hosts that cannot be reached, as of all hosts where the network of this server is down."""


_OF_AGENTS = frozenset((ProbeMethod.A2A, ProbeMethod.A2A_1, ProbeMethod.READ))
"""The methods of agents, whose hosts may serve their cards."""


class LivenessChecks:
    """Visits URLs, and stores whether they answer. `public_url` is this server's. Where its own network seems to be
    down, states stay as they are."""

    kind, priority = PROBE_CHECK, Priority.WATCH

    def __init__(self, fetcher: HttpFetcher, store: Store, writer: Writer, public_url: str) -> None:
        self._fetcher, self._writer, self._purpose = fetcher, writer, f"+{public_url}/{PAGE}"
        self._queries = HealthQueries(store.engine)
        self._unreached: set[str] = set()
        self._repository = ListingRepository(store)

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
        if error is not None or method not in _OF_AGENTS:
            return await self._store(url, outcome, now), error
        differs = await self._compare(url, outcome.payees, admit)
        return await asyncio.to_thread(record_probe, self._writer, url, outcome, now, differs), None

    async def _compare(self, url: str, payees: Sequence[str], admit: Admit) -> dict[str, tuple[str, ...]]:
        """In what the card that the host of a URL serves, and the addresses that its 402 names, differ from those of
        the registrations that it names; no registrations where it is not known what it serves."""
        named, served = await asyncio.to_thread(self._queries.named, url), b""
        for path in WELL_KNOWN if named else ():
            try:
                answer = await self._fetcher.get(f"https://{url_host(url)}{path}", same_host=True, admit=admit)
                served = answer.body or b""
                break
            except FetchError as error:
                if error.refusal.code != "fetch-missing":
                    return {}
        if not served and not payees:
            return dict.fromkeys(named, ())
        registrations = await asyncio.to_thread(self._repository.listings, named)
        return {
            id_: (
                *(await asyncio.to_thread(differences, registration, served)),
                *(await asyncio.to_thread(paid_elsewhere, registration, payees)),
            )
            for id_, registration in registrations.items()
        }

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
