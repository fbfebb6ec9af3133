"""The composition root: everything that `up`, `index` and `serve` consist of is built and connected here."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from aiohttp import web

from indexer.failures import LeftOut
from indexer.settings import Settings, SettingsError
from indexer.store import Migration, Writer
from indexer.store.backup import last_backup
from indexer.store.logos import Logos
from indexer.store.pending import clear_pending
from indexer.store.process_lock import servers_lock
from indexer.store.requests import Rechecks, Requests
from indexer.store.search_counts import add_counts
from indexer.sync import sign_of_life
from indexer.sync.follower import Follower
from overlay.api.access_log import AccessLog
from overlay.api.client_tokens import ClientTokens
from overlay.api.counters import Counters
from overlay.api.height_history import SAMPLE_SECONDS
from overlay.api.search_statistics import SearchStatistics
from overlay.api.services import AppServices, ProcessInfo, PublisherServices, SiteSettings
from overlay.api.site_links import SiteLinks
from overlay.api.systems import Parts, chosen, load_api, periodic_jobs
from overlay.app import version
from overlay.app.background import IndexerJobs, IndexLoop
from overlay.app.chain_loops import ChainLoops, Loop, transaction_source
from overlay.app.diagnosis import diagnose
from overlay.app.fetching import build_card_fetcher, build_on_demand
from overlay.app.integrity_loop import integrity_jobs
from overlay.app.packaged_chain import check_chains
from overlay.app.scheduler import Scheduler
from overlay.app.search_report import search_jobs, search_report
from overlay.app.search_start import SearchStart
from overlay.app.status_service import CHANGES, LOOK_SECONDS, SIGNS, StatusService
from overlay.app.storage import (
    index_folder,
    open_duplicates,
    open_identity,
    open_index,
    open_store,
)
from overlay.app.store_watcher import CLIENTS_SECONDS, LOGOS_SECONDS, POLL_SECONDS, RATES_SECONDS, StoreWatcher
from overlay.jobs import PeriodicJob, Role
from overlay.listings.change_notifier import ChangeNotifier
from overlay.listings.logos import LogoImages
from overlay.listings.repository import ListingRepository
from overlay.projection.copied_index import check_copy
from overlay.projection.projector import IndexProjector

if TYPE_CHECKING:
    from indexer.chains import Chain
    from indexer.store import Store
    from overlay.duplicates.duplicate_index import DuplicateIndex
    from overlay.projection.search_index import SearchIndex

HASH_SECONDS = 1.0
"""Pause between two checks for blocks without a state hash."""


@dataclass(kw_only=True)
class AppContext:
    """The parts of a long-running command. `writer` and `chains` are missing where no chain is followed, `engine` and
    `duplicates` where nothing is served. Counters are shared with other workers of the command."""

    settings: Settings
    store: Store
    writer: Writer | None = None
    chains: tuple[Chain, ...] = ()
    engine: SearchIndex | None = None
    duplicates: DuplicateIndex | None = None
    counters: Counters = field(default_factory=Counters)

    def __post_init__(self) -> None:
        self.notifier, self.left_out = ChangeNotifier(), LeftOut()
        self.status = StatusService(self.settings, self.store, self.engine, version(), self.writer)
        self.status.left_out = self.left_out
        self.logos = LogoImages(Logos(self.store.primary))
        has_statistics = self.settings.statistics and self.engine is not None
        self.statistics = (
            SearchStatistics(self.counters, partial(add_counts, self.store.primary)) if has_statistics else None
        )
        self.tokens = ClientTokens(self.store.clients.all() if self.engine is not None else ())
        self.watcher = StoreWatcher(self.store, self.status, self.notifier, self.logos, self.tokens)
        self.followers = [self._follower(chain) for chain in self.chains]
        self.chain_loops = ChainLoops(self.followers, ends_process=self.engine is None)
        self.scheduler = Scheduler(servers_lock(self.store.primary), self.counters, self.notifier)
        self.status.jobs = self.scheduler.statuses
        self.identity = open_identity(self.settings) if self.engine is not None else None
        self.visits = build_on_demand(self.settings) if self.engine is not None else None
        self.systems = chosen(self.settings)
        self.system_names = tuple(member.name for member in self.systems)
        self.search_start: SearchStart | None = None
        if self.engine is not None:
            projector = IndexProjector(self.store, self.engine, self.duplicates, self.system_names, self.left_out)
            self.search_start = SearchStart(self.settings, projector, self.engine)
        self.parts = Parts(
            settings=self.settings, store=self.store, notifier=self.notifier, exchange=self.status.exchange,
            chains=self.status.chains, writer=self.writer, followers=self.followers, index=self.engine,
            duplicates=self.duplicates, identity=self.identity, visits=self.visits,
            when_searchable=self.search_start.before if self.search_start is not None else None,
            left_out=self.left_out,
        )  # fmt: skip
        for member in self.systems if self.engine is not None else ():
            if (bring := load_api(member).bring) is not None:
                self.parts.services.update(bring(self.parts))
        self.scheduler.add(self._jobs())

    def _follower(self, chain: Chain) -> Follower:
        if self.writer is None:
            raise ValueError("a context without a writer follows nothing")
        configured = [other.name for other in self.chains]
        follower = Follower(chain, self.store, self.writer, self.notifier.notify, self.left_out, configured)
        self.status.follow(follower.progress, chain)
        follower.hold_by(self.status.is_index_overtaken)
        return follower

    def loops(self) -> list[Loop]:
        """The loops of this command: each runs until it is cancelled, and is started again after an error of the
        database."""
        loops = [*self.chain_loops.loops(), self.scheduler.run]
        if self.search_start is not None:
            index = IndexLoop(self.settings, self.search_start.projector, self.status, self.notifier)
            loops.append(partial(self.search_start.before, index.run))
        return loops

    def _jobs(self) -> list[PeriodicJob]:
        """The periodic jobs of this command."""
        jobs: list[PeriodicJob] = []
        if self.writer is not None:
            sign = sign_of_life.SignOfLife(self.writer, [follower.progress for follower in self.followers])
            jobs.append(
                PeriodicJob(
                    name=SIGNS, run=sign.run, every=sign_of_life.LOOK_SECONDS, role=Role.INDEXER, close=sign.close
                )
            )
            background = IndexerJobs(
                self.settings, self.store, self.writer, self.followers, self.notifier, self.status, self.scheduler,
                self.left_out,
            )  # fmt: skip
            jobs += background.jobs()
        role = Role.SERVER if self.writer is None else Role.INDEXER
        if self.writer is not None or self.engine is not None:
            jobs.append(
                PeriodicJob(
                    name="state-hashes", run=self.status.hash_tips, every=HASH_SECONDS, role=role, on_change=True
                )
            )
            jobs += integrity_jobs(self.store, self.writer, self.status.is_catching_up)
        if self.engine is not None:
            sample = self.status.sample_heights
            jobs += [
                PeriodicJob(name="index-lag", run=self.status.look_again, every=LOOK_SECONDS, role=Role.SERVER),
                PeriodicJob(name="heights", run=sample, every=SAMPLE_SECONDS, role=Role.SERVER),
                PeriodicJob(name="stored-rates", run=self.watcher.rates, every=RATES_SECONDS, role=Role.SERVER),
                PeriodicJob(name="stored-logos", run=self.watcher.logos, every=LOGOS_SECONDS, role=Role.SERVER),
                PeriodicJob(name="stored-clients", run=self.watcher.clients, every=CLIENTS_SECONDS, role=Role.SERVER),
            ]
            jobs += search_jobs(self.statistics, self.store)
            if not self.chains:
                jobs.append(PeriodicJob(name=CHANGES, run=self.watcher.changes, every=POLL_SECONDS, role=Role.SERVER))
        return jobs + [job for member in self.systems for job in periodic_jobs(member, self.parts)]

    def process_info(self) -> ProcessInfo:
        """The sources of metrics and health checks."""
        return ProcessInfo(
            status=self.status.status, ready=self.status.ready, unread=lambda: self.status.unread_count,
            wait=self.status.seconds_until_searchable, degraded=self.status.degraded,
            damage=self.status.damage, version=version(), requests=Requests(self.store.primary),
            refused=self.status.refused_blocks, ingested=self.status.ingested,
            fetched=lambda: self.status.fetch_outcomes, failed=self.left_out.counts, jobs=self.scheduler.statuses,
            counters=self.counters, backup=self._last_backup,
            history=self.status.history, access_log=AccessLog.of(self.settings.log),
            searches=partial(search_report, self.store.search_counts) if self.statistics is not None else None,
            named_clients=self.tokens.names,
        )  # fmt: skip

    def _last_backup(self) -> int:
        last = last_backup(self.store.engine)
        return 0 if last is None else last.time

    def services(self) -> AppServices:
        """The services of the HTTP application; to be called in the event loop that it runs in."""
        from indexer.diagnosis.source_lookup import SourceLookup

        if self.engine is None:
            raise ValueError("a context without an index cannot serve")
        settings = self.settings
        sources = [transaction_source(follower) for follower in self.followers]
        ask = SourceLookup(sources, asyncio.get_running_loop())
        has_owners = any(follower.outpoint_monitor for follower in self.followers)
        cards = build_card_fetcher(settings)
        publishing = PublisherServices(
            diagnose=partial(diagnose, settings, self.store, ask=ask), recheck=Rechecks(self.store.primary).request,
            on_request=partial(self.scheduler.wake, "requests"),
            check_owner=self.chain_loops.is_unspent if has_owners else None,
            fetch=cards.get if cards is not None else None,
        )  # fmt: skip
        site = SiteSettings(
            limits=settings.limits, trusted_proxies=settings.trusted_proxies, public_url=settings.public_url,
            change_blocks=settings.change_blocks, systems=self.system_names,
            metrics_elsewhere=settings.metrics is not None, links=site_links(settings),
            publishes_hidden=settings.hide_publish,
        )  # fmt: skip
        return AppServices(
            process=self.process_info(), engine=self.engine, store=ListingRepository(self.store, self.system_names),
            chains=self.status.chains, heights=self.status.heights, publishing=publishing, site=site,
            notifier=self.notifier, exchange=self.status.exchange, logos=self.logos, tokens=self.tokens,
            statistics=self.statistics,
            identity=self.identity, brought=self.parts.services,
        )  # fmt: skip

    def web_app(self) -> web.Application:
        """The HTTP application with every route."""
        from overlay.app.http_app import create_app

        return create_app(self.services())

    def close(self) -> None:
        """Close files and connections."""
        for part in (self.engine, self.duplicates, self.writer, self.store):
            if part is not None:
                part.close()


def site_links(settings: Settings) -> SiteLinks:
    """The title and links of the site."""
    return SiteLinks(**{name: getattr(settings, name) for name in SiteLinks._fields})


def build(
    settings: Settings, *, follow: bool, serve: bool, counters: Counters | None = None, is_copied: bool = True
) -> AppContext:
    """The parts of `up` (follow and serve), `index` (follow) or `serve`. What follows migrates a database of an earlier
    version, after a copy if `is_copied`. Raises SettingsError, StoreError, EngineError, OSError."""
    migration = Migration.REFUSED if not follow else Migration.WITH_COPY if is_copied else Migration.WITHOUT_COPY
    with ExitStack() as opened:
        store = open_store(settings, create=True, replica=not follow, migration=migration)
        opened.callback(store.close)
        check_chains(settings, store)
        writer = None
        if follow:
            writer = Writer(store.engine)
            opened.callback(writer.close)
            clear_pending(writer)
        engine = open_index(settings, create=True) if serve else None
        if engine is not None:
            opened.callback(engine.close)
            check_copy(index_folder(settings), store, engine)
        context = AppContext(
            settings=settings, store=store, writer=writer, chains=_chains(settings, writer) if writer else (),
            engine=engine, duplicates=open_duplicates(settings) if serve else None, counters=counters or Counters(),
        )  # fmt: skip
        opened.pop_all()
    return context


def _chains(settings: Settings, writer: Writer) -> tuple[Chain, ...]:
    """The configured chains, not connected yet. Raises SettingsError for a URL that can never be used."""
    from indexer.chains.failover import join
    from indexer.errors import SourceError
    from indexer.store.source_store import SourceStore

    store = SourceStore(writer)
    try:
        return tuple(join(name, urls, store) for name, urls in settings.sources().items())
    except SourceError as error:
        raise SettingsError(str(error)) from None
