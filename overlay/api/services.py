"""The interface of the HTTP API to the program: the listings, and all of it together as `AppServices`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import web

from indexer.setting_values import CHANGE_BLOCKS, Quota
from overlay.api.access_log import AccessLog
from overlay.api.client_tokens import ClientTokens
from overlay.api.counters import Counters
from overlay.api.height_history import HeightHistory
from overlay.api.site_links import SiteLinks
from overlay.jobs import JobStatus
from overlay.listings.change_notifier import ChangeNotifier
from overlay.listings.logos import LogoImages
from overlay.pricing.exchange_rates import ExchangeRates
from overlay.projection.search_index import SearchIndex
from parsers.bitcoin.tx import Outpoint

if TYPE_CHECKING:
    from indexer.store.host_topics import Recheck
    from indexer.store.requests import Requests
    from indexer.sync.progress import SyncProgress
    from overlay.api.identity_key import IdentityKey
    from overlay.api.search_statistics import SearchStatistics
    from overlay.listings.repository import ListingRepository


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessInfo:
    """The state of a process for metrics and health checks.

    `status` returns the schema `Status`; it reads the store and is called in a thread. `ready` is None while searches
    are answered, else a sentence that names what is missing; `unread` gives the stored changes that searches do not
    answer for, as they were counted last, `wait` after how many seconds they may be answered, and `degraded` what does
    not work, all from memory; `damage` gives the
    remedy for a damaged database, "" for an intact one, and is called for every request. `version` is the program's.
    `requests` are the transactions that publishers request. `refused` counts the refused blocks, by chain, `ingested`
    the blocks read of each, `fetched` the fetches by outcome, and `failed` what is left out, by the work that failed;
    `jobs` has the state of periodic work, `backup` the time of the last backup (seconds since 1970, 0 before the first;
    it reads the store), `history` the last day's heights. `searches` gives
    what was searched for in so many days, None where that is not counted (it reads the store), `named_clients` the
    clients with limits of their own. `access_log` says which requests are logged, and how.
    """

    status: Callable[[], dict[str, Any]]
    ready: Callable[[], str | None]
    version: str
    requests: Requests
    unread: Callable[[], int] = int
    wait: Callable[[], int] = lambda: 5
    degraded: Callable[[], list[str]] = list
    damage: Callable[[], str] = str
    refused: Callable[[], Mapping[str, int]] = dict
    ingested: Callable[[], Mapping[str, SyncProgress]] = dict
    fetched: Callable[[], Mapping[str, int]] = dict
    failed: Callable[[], Mapping[str, int]] = dict
    jobs: Callable[[], Sequence[JobStatus]] = tuple
    backup: Callable[[], int] = int
    history: HeightHistory = field(default_factory=HeightHistory)
    counters: Counters = field(default_factory=Counters)
    searches: Callable[[int], dict[str, Any]] | None = None
    named_clients: Callable[[], Iterable[str]] = tuple
    access_log: AccessLog = field(default_factory=AccessLog)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublisherServices:
    """The services for publishers.

    `diagnose` returns the schema `Diagnosis` for a txid or outpoint as text or for raw transaction bytes (raising
    ParseError for other bytes); it reads the store and is called in a thread. `on_request` is called after a publisher
    has requested a transaction. `recheck` schedules a new fetch of every locator and host of a listing's plain id; its
    second argument is the time in milliseconds since 1970. `check_owner` queries the source of a chain for an outpoint:
    True if unspent, False if spent, None without an answer; it is None where no chain finds moves by queries. `fetch`
    returns what a URL serves, at most 1 MiB, and raises FetchError; None where no requests are sent to hosts.
    """

    diagnose: Callable[[str | bytes], dict[str, Any]]
    on_request: Callable[[], None] = lambda: None
    recheck: Callable[[str, int], Sequence[Recheck]] = lambda *_: ()
    check_owner: Callable[[str, Outpoint], Awaitable[bool | None]] | None = None
    fetch: Callable[[str], Awaitable[bytes]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSettings:
    """The settings of a server: the rate limits by kind of route, the networks that X-Forwarded-For is trusted from,
    the base of absolute URLs ("" for that of the request; see `overlay.api.base_url`), for how many blocks a change of
    price is a warning, the names of the systems served, whether metrics are served elsewhere, the title and links of
    the site, and whether what is hidden is published."""

    limits: Mapping[str, Quota | None] = field(default_factory=dict)
    trusted_proxies: tuple[str, ...] = ()
    public_url: str = ""
    change_blocks: int = CHANGE_BLOCKS
    systems: tuple[str, ...] = ()
    metrics_elsewhere: bool = False
    links: SiteLinks = field(default_factory=SiteLinks)
    publishes_hidden: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AppServices:
    """Everything that the application uses, built once by the command that starts it.

    `chains` maps configured names to CAIP-2 ids, in configured order, and `heights` names to the height indexed; both
    are called for every search and must answer from memory. `notifier` wakes the tasks that wait for changes; without
    notifications the store is polled. `exchange` holds the exchange rates, `logos` the thumbnails, `tokens` the clients
    with limits of their own, `statistics` counts searches where the operator wants them counted, `identity` this
    server's own keys (None where several machines share a database and no key is configured), and `brought` the
    services of systems, each under its own key.
    """

    process: ProcessInfo
    engine: SearchIndex
    store: ListingRepository
    chains: Callable[[], Mapping[str, str]]
    heights: Callable[[], Mapping[str, int]]
    publishing: PublisherServices
    site: SiteSettings = field(default_factory=SiteSettings)
    notifier: ChangeNotifier = field(default_factory=ChangeNotifier)
    exchange: ExchangeRates = field(default_factory=ExchangeRates)
    logos: LogoImages = field(default_factory=LogoImages)
    tokens: ClientTokens = field(default_factory=ClientTokens)
    statistics: SearchStatistics | None = None
    identity: IdentityKey | None = None
    brought: Mapping[web.AppKey[Any], Any] = field(default_factory=dict)
