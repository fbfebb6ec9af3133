"""Systems on the same index: foreign protocols, payments, the relay, ratings. Each is a folder of `overlay/systems/`
that can be taken out, and is loaded by its name, and only then."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from indexer.setting_values import SettingsError

if TYPE_CHECKING:
    from aiohttp import web

    from indexer.fetcher.on_demand import OnDemandFetcher
    from indexer.settings import Settings
    from indexer.store import Store, Writer
    from indexer.sync.follower import Follower
    from overlay.api.identity_key import IdentityKey
    from overlay.api.request_context import RequestContext
    from overlay.api.routes import Route
    from overlay.duplicates.duplicate_index import DuplicateIndex
    from overlay.jobs import PeriodicJob
    from overlay.listings.change_notifier import ChangeNotifier
    from overlay.pricing.exchange_rates import ExchangeRates
    from overlay.projection.search_index import SearchIndex

log = logging.getLogger(__name__)

ALWAYS = ("payments", "rating", "delegateos")
"""The systems that are served unless the setting `systems` leaves them out."""

PROTOCOLS = (
    "a2a", "ard", "bsv_overlay", "feeds", "mcp", "mcp_registry", "motebit", "mrp", "relay", "webhooks", "x402",
)  # fmt: skip
"""The others, which the setting `doors` names."""

NAMES = (*ALWAYS, *PROTOCOLS)
"""Every system, in the order in which they are opened."""

SETTINGS = {
    "prices": "payments", "delegation_roots": "delegateos", "gasp_peers": "bsv_overlay",
    "arc_callback_token": "bsv_overlay", "relay": "relay", "relay_address": "relay",
}  # fmt: skip
"""The settings that only one system reads."""

Services = MutableMapping["web.AppKey[Any]", Any]
"""The services that systems bring, each under its own key."""

Run = Callable[[], Awaitable[float | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a system may use of the program. `writer` is None in a process that follows no chain, `index` and
    `duplicates` where nothing is served, `visits` where no requests are sent to hosts. `services` holds what was
    brought before; `chains` maps configured names to CAIP-2 ids; `when_searchable` runs work once the index
    can be searched."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemApi:
    """What a system adds to a server: `routes` and the schemas that these name in the OpenAPI document; `bring` opens
    its services under their keys; `run` holds what runs as long as the application. A `guard` is asked before each
    handler, and raises ProblemError; `beyond_limit` may answer a request beyond its limit; `describe` adds to the
    operation of a route, in the OpenAPI document, what these may answer."""

    routes: tuple[Route, ...] = ()
    schemas: Mapping[str, Any] = field(default_factory=dict)
    bring: Callable[[Parts], Services] | None = None
    run: Callable[[web.Application], AsyncIterator[None]] | None = None
    guard: Callable[[web.Request], Awaitable[None]] | None = None
    beyond_limit: BeyondLimit | None = None
    describe: Callable[[Route, dict[str, Any]], None] | None = None


BeyondLimit = Callable[
    ["RequestContext", "web.Request", Callable[[], Awaitable["web.StreamResponse"]]],
    Awaitable["web.Response | None"],
]
"""Answers a request beyond its limit, by this handler, or with None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A system, with the names of its modules, which are imported when they are needed: `api` has a constant `API`,
    each of `commands` a function `add`, and both `jobs`, run by a server, and `indexing`, run by the process that
    writes facts, a function `jobs` that gives periodic jobs. `signs`: it signs with this server's identity key."""

    name: str
    api: str
    jobs: str = ""
    indexing: str = ""
    commands: tuple[str, ...] = ()
    signs: bool = False

    def load_api(self) -> SystemApi:
        """What it adds to a server."""
        api: SystemApi = self._module(self.api).API
        return api

    def periodic_jobs(self, parts: Parts) -> list[PeriodicJob]:
        """What it does again and again in a process."""
        names = [self.jobs] * (parts.index is not None) + [self.indexing] * (parts.writer is not None)
        return [job for name in names if name for job in self._module(name).jobs(parts)]

    def add_commands(self, commands: Any) -> None:
        """Add its commands to the command line."""
        for name in self.commands:
            self._module(name).add(commands)

    def _module(self, name: str) -> Any:
        return import_module(f"overlay.systems.{self.name}.{name}")


@cache
def system(name: str) -> System | None:
    """The system of a name; None where it is not installed."""
    module = f"overlay.systems.{name}"
    try:
        result: System = import_module(module).SYSTEM
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        return None
    return result


def installed() -> list[System]:
    """Every system that is installed."""
    return [one for one in map(system, NAMES) if one is not None]


def chosen(settings: Settings) -> tuple[System, ...]:
    """The systems that these settings serve. Raises SettingsError for one that is not installed, and for both `systems`
    and `doors`."""
    if not settings.doors:
        return _named("systems", settings.systems, NAMES)
    if settings.systems != "all":
        raise SettingsError("doors is the former name of systems: set one of them")
    protocols = _named("doors", settings.doors, PROTOCOLS)
    return (*filter(None, map(system, ALWAYS)), *protocols)


def active(settings: Settings) -> tuple[System, ...]:
    """The systems whose services and jobs run: those that are served, and with `doors`, which closes routes only, those
    that a setting is for, too. Raises SettingsError for a setting of a system that is not among them."""
    names = {one.name for one in chosen(settings)}
    wanted = {name: setting for setting, name in SETTINGS.items() if getattr(settings, setting)}
    if settings.doors:
        names |= wanted.keys()
    results = tuple(one for one in installed() if one.name in names)
    for name in wanted.keys() - {one.name for one in results}:
        raise SettingsError(f"{wanted[name]} is set, and {name} is not installed")
    return results


def warn_of_doors(settings: Settings) -> None:
    """Note that a former name is used."""
    if settings.doors:
        log.warning("A2B_DOORS is the former name of A2B_SYSTEMS: name all systems that are served there")


def _named(setting: str, text: str, names: Sequence[str]) -> tuple[System, ...]:
    """The systems that a text names: `all`, `off`, or names separated by spaces."""
    if text in ("all", "off"):
        return tuple(one for one in installed() if one.name in names) if text == "all" else ()
    words = text.split()
    for word in words:
        if word not in names:
            raise SettingsError(f"{setting} holds {word[:60]!a}: write all, off, or some of {' '.join(names)}")
        if system(word) is None:
            raise SettingsError(f"{setting} holds {word}, and {word} is not installed")
    return tuple(one for one in installed() if one.name in words)


def signing(systems: Iterable[System]) -> list[str]:
    """The names of those that sign."""
    return [one.name for one in systems if one.signs]
