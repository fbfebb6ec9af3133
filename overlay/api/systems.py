"""The parts that systems add to the program, and the systems that the settings choose."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from indexer.failures import LeftOut
from indexer.setting_values import SettingsError
from overlay.installation import NAMES, SETTINGS, System, absence, installed, system

if TYPE_CHECKING:
    from aiohttp import web

    from indexer.fetcher.dns import TxtRecords
    from indexer.fetcher.fetch_loop import DueChecks
    from indexer.fetcher.http_fetcher import HttpFetcher
    from indexer.fetcher.on_demand import OnDemandFetcher
    from indexer.settings import Settings
    from indexer.store import Store, Writer
    from indexer.sync.follower import Follower
    from overlay.api.identity_key import IdentityKey
    from overlay.api.request_context import BeyondLimit
    from overlay.api.routes import Route
    from overlay.duplicates.duplicate_index import DuplicateIndex
    from overlay.jobs import PeriodicJob
    from overlay.listings.change_notifier import ChangeNotifier
    from overlay.pricing.exchange_rates import ExchangeRates
    from overlay.projection.search_index import SearchIndex

Services = MutableMapping["web.AppKey[Any]", Any]
"""The services that systems bring, each under its own key."""

Run = Callable[[], Awaitable[float | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of the program that a system may use. `writer` is None in a process that follows no chain, `index` and
    `duplicates` where nothing is served, `visits` where no requests are sent to hosts. `services` holds the services of
    systems loaded before; `chains` maps configured names to CAIP-2 ids; `when_searchable` runs work once the index can
    be searched; `left_out` remembers what failed."""

    settings: Settings
    store: Store
    notifier: ChangeNotifier
    exchange: ExchangeRates
    chains: Callable[[], Mapping[str, str]]
    writer: Writer | None = None
    followers: Sequence[Follower] = ()
    index: SearchIndex | None = None
    duplicates: DuplicateIndex | None = None
    identity: IdentityKey | None = None
    visits: OnDemandFetcher | None = None
    services: Services = field(default_factory=dict)
    when_searchable: Callable[[Run], Awaitable[float | None]] | None = None
    left_out: LeftOut = field(default_factory=LeftOut)


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemApi:
    """The parts of a server that a system adds: `routes` and the schemas that these name in the OpenAPI document;
    `bring` opens its services under their keys; `run` holds what runs as long as the application. A `guard` runs before
    each handler, and raises ProblemError; `beyond_limit` may answer a request beyond its limit, or name what pays for
    it; `describe` adds to the operation of a route, in the OpenAPI document, what these may answer."""

    routes: tuple[Route, ...] = ()
    schemas: Mapping[str, Any] = field(default_factory=dict)
    bring: Callable[[Parts], Services] | None = None
    run: Callable[[web.Application], AsyncIterator[None]] | None = None
    guard: Callable[[web.Request], Awaitable[None]] | None = None
    beyond_limit: BeyondLimit | None = None
    describe: Callable[[Route, dict[str, Any]], None] | None = None


def load_api(system: System) -> SystemApi:
    """The parts that a system adds to a server."""
    api: SystemApi = system.module(system.api).API
    return api


def periodic_jobs(system: System, parts: Parts) -> list[PeriodicJob]:
    """The periodic jobs of a system in a process."""
    names = [system.jobs] * (parts.index is not None) + [system.indexing] * (parts.writer is not None)
    return [job for name in names if name for job in system.module(name).jobs(parts)]


def host_checks(
    system: System, fetcher: HttpFetcher, txt: TxtRecords, store: Store, writer: Writer, settings: Settings
) -> list[DueChecks]:
    """The checks of hosts that the fetch loop runs for a system."""
    checks: list[DueChecks] = (
        system.module(system.visits).host_checks(fetcher, txt, store, writer, settings) if system.visits else []
    )
    return checks


def chosen(settings: Settings) -> tuple[System, ...]:
    """The systems that these settings serve: their services and jobs run, and they add to listings. Raises
    SettingsError for a system that is not installed, and for a setting of a system that is not served."""
    results = _named(settings.systems)
    for setting, name in SETTINGS.items():
        if getattr(settings, setting) and name not in {result.name for result in results}:
            raise SettingsError(f"{setting} is set, and {name} {absence(name)}")
    return results


def _named(text: str) -> tuple[System, ...]:
    """The systems that a text names: `all`, `off`, or names separated by spaces."""
    if text in ("all", "off"):
        return tuple(installed()) if text == "all" else ()
    words = text.split()
    for word in words:
        if word not in NAMES:
            raise SettingsError(f"systems holds {word[:60]!a}: write all, off, or some of {' '.join(NAMES)}")
        if system(word) is None:
            raise SettingsError(f"systems holds {word}, and {word} is not installed")
    return tuple(member for member in installed() if member.name in words)


def signing(systems: Iterable[System]) -> list[str]:
    """The names of the systems that sign."""
    return [member.name for member in systems if member.signs]
