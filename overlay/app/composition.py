"""The composition root: everything that `up`, `index` and `serve` consist of is built and connected here."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from aiohttp import web

from indexer.chains.concurrency import gather
from indexer.settings import Settings, SettingsError
from indexer.store import Writer
from indexer.store.logos import Logos
from indexer.store.rates import Quotes
from indexer.store.requests import Rechecks, Requests
from indexer.sync.follower import Follower
from indexer.sync.request_loop import RequestLoop, TransactionSource
from overlay.api.counters import Counters
from overlay.api.services import AppServices, ProcessInfo
from overlay.app.chain_loops import ChainLoops, Loop, transaction_source
from overlay.app.diagnosis import diagnose
from overlay.app.fetching import build_fetch_loop, build_webhooks
from overlay.app.index_loop import IndexLoop
from overlay.app.own_payments import OwnPayments
from overlay.app.status_service import StatusService
from overlay.app.storage import index_write_errors, open_duplicates, open_identity, open_index, open_store
from overlay.app.store_watcher import StoreWatcher
from overlay.app.version import version
from overlay.listings.change_notifier import ChangeNotifier
from overlay.listings.logos import LogoImages
from overlay.listings.repository import ListingRepository
from overlay.projection.projector import IndexProjector

if TYPE_CHECKING:
    from indexer.chains import Chain
    from indexer.store import Store
    from overlay.duplicates.duplicate_index import DuplicateIndex
    from overlay.projection.search_index import SearchIndex
    from overlay.webhooks import Webhooks
    from overlay.webhooks.delivery_loop import DeliveryLoop


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
        self.notifier = ChangeNotifier()
        self.requested = asyncio.Event()
        self.status = StatusService(self.settings, self.store, self.engine, version(), self.writer)
        self.logos = LogoImages(Logos(self.store.primary))
        self.watcher = StoreWatcher(self.store, self.status, self.notifier, self.logos)
        self.followers = [self._follower(chain) for chain in self.chains]
        self.chain_loops = ChainLoops(self.followers, ends_process=self.engine is None)
        self.identity = open_identity(self.settings) if self.engine is not None else None
        self.payments: OwnPayments | None = None
        if self.engine is not None:
            self.payments = OwnPayments(self.settings, self.store, self.status.exchange)
        self.webhooks: Webhooks | None = None
        self.deliveries: DeliveryLoop | None = None
        if self.engine is not None and self.identity is not None:
            self.webhooks, self.deliveries = build_webhooks(
                self.settings, self.store, self.identity, self.engine, self.duplicates, self.status
            )

    def _follower(self, chain: Chain) -> Follower:
        follower = Follower(chain, self.store, self._writer(), self.notifier.notify)
        self.status.follow(follower.progress, chain)
        return follower

    def _writer(self) -> Writer:
        if self.writer is None:
            raise ValueError("a context without a writer follows nothing")
        return self.writer

    def loops(self) -> list[Loop]:
        """The loops of this command: each runs until it is cancelled, and is started again after the database was
        unavailable."""
        loops = self.chain_loops.loops()
        if self.chains:
            loops.append(self._fetch_requested)
            if self.settings.fetch_resolve or not self.settings.sample:  # a demonstration sends no requests to hosts
                loops.append(self._fetch_cards)
            if self.settings.gasp_peers:
                loops.append(self._pull_peers)
            if self.settings.submit_broadcast:
                loops.append(self._send_submissions)
        if self.writer is not None and self.settings.rates:
            loops.append(self._fetch_rates)
        if self.writer is not None or self.engine is not None:
            loops.append(self.status.hash_tips)
        if self.engine is not None:
            projector = IndexProjector(self.store, self.engine, self.duplicates)
            index = IndexLoop(self.settings, projector, self.status, self.notifier)
            if self.deliveries is not None:
                loops += [self._match_subscriptions, self.deliveries.run]
            if self.payments is not None and self.payments.gate is not None:
                loops.append(self.payments.maintain)
            loops += [index.run, self.watcher.rates, self.watcher.logos]
            if not self.chains:
                loops.append(self.watcher.changes)
        return loops

    async def _fetch_requested(self) -> None:
        """Fetch the transactions that publishers requested, here or in another process."""
        await RequestLoop(Requests(self.store.engine), self._sources(), self.requested).run()

    def _sources(self) -> list[TransactionSource]:
        return [transaction_source(follower) for follower in self.followers]

    async def _fetch_cards(self) -> None:
        """Fetch the cards that pointers name, and what hosts declare about agents."""
        loop = await asyncio.to_thread(
            build_fetch_loop, self.settings, self.store, self._writer(), self.notifier.notify
        )
        self.status.fetch_outcomes = loop.came_to
        with self.notifier.listen() as changed:
            await loop.run(changed)

    async def _pull_peers(self) -> None:
        """Pull the outputs that other overlays admit."""
        from indexer.admission.admission import Admissions
        from indexer.gasp.peer import GaspPeer
        from indexer.gasp.puller import GaspPuller

        admissions, is_ready = Admissions(self.store), lambda: any(map(_follows_bsv, self.followers))
        pullers = [GaspPuller(GaspPeer(url), admissions, is_ready) for url in self.settings.gasp_peers]
        await gather(puller.run() for puller in pullers)

    async def _send_submissions(self) -> None:
        """Send submitted transactions to the sources of BSV chains."""
        from indexer.sync.submission_sender import SubmissionSender

        senders = [
            SubmissionSender(follower.chain, self.store.submissions, partial(_follows_bsv, follower))
            for follower in self.followers
        ]
        await gather(sender.run() for sender in senders)

    async def _match_subscriptions(self) -> None:
        """Queue what webhooks are to deliver."""
        if self.deliveries is not None:
            with self.notifier.listen() as changed:
                await self.deliveries.match(changed)

    async def _fetch_rates(self) -> None:
        """Fetch exchange rates from the configured feeds."""
        from indexer.rates.loop import RatesLoop

        settings, quotes, changed = self.settings, Quotes(self.store.engine), self.watcher.rates_changed
        every, max_age = settings.rates_every, settings.rates_max_age
        loop = RatesLoop(settings.rates, quotes, every=every, max_age=max_age, changed=changed)
        self.status.rates_loop = loop
        await loop.run()

    def initialize_index(self) -> None:
        """Let an index of an empty database answer. Raises EngineError, StoreUnavailableError."""
        if self.engine is not None:
            with index_write_errors(self.settings):
                IndexProjector(self.store, self.engine, self.duplicates).initialize()

    def process_info(self) -> ProcessInfo:
        """What metrics and health checks are answered from."""
        return ProcessInfo(
            status=self.status.status, ready=self.status.ready, version=version(),
            requests=Requests(self.store.primary), refused=self.status.refused_blocks, ingested=self.status.ingested,
            fetched=lambda: self.status.fetch_outcomes, counters=self.counters,
            log_requests="requests" in self.settings.log,
        )  # fmt: skip

    def services(self) -> AppServices:
        """What the HTTP application is given; to be called in the event loop that it runs in."""
        from indexer.admission.admission import Admissions
        from indexer.diagnosis.source_lookup import SourceLookup
        from overlay import protocols as doors

        if self.engine is None or self.payments is None:
            raise ValueError("a context without an index cannot serve")
        settings, info = self.settings, self.process_info()
        ask = SourceLookup(self._sources(), asyncio.get_running_loop())
        has_owners = any(follower.outpoint_monitor for follower in self.followers)
        return AppServices(
            **{name: getattr(info, name) for name in ProcessInfo.__dataclass_fields__},
            engine=self.engine, store=ListingRepository(self.store),
            diagnose=partial(diagnose, settings, self.store, ask=ask),
            chains=self.status.chains, heights=self.status.heights, recheck=Rechecks(self.store.primary).request,
            on_request=self.requested.set, notifier=self.notifier, exchange=self.status.exchange, logos=self.logos,
            limits=settings.limits, change_blocks=settings.change_blocks, trusted_proxies=settings.trusted_proxies,
            check_owner=self.chain_loops.is_unspent if has_owners else None, public_url=settings.public_url,
            identity=self.identity, doors=doors.chosen(settings.doors), admissions=Admissions(self.store),
            arc_callback_token=settings.arc_callback_token,
            payment_nodes=self.payments.nodes, prices=self.payments.prices, gate=self.payments.gate,
            webhooks=self.webhooks,
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


def build(settings: Settings, *, follow: bool, serve: bool, counters: Counters | None = None) -> AppContext:
    """The parts of `up` (follow and serve), `index` (follow) or `serve`. Raises SettingsError, StoreError, EngineError,
    OSError."""
    with ExitStack() as opened:
        store = open_store(settings, create=True, replica=not follow)
        opened.callback(store.close)
        writer = None
        if follow:
            writer = Writer(store.engine)
            opened.callback(writer.close)
            writer.clear_pending()
        engine = open_index(settings, create=True) if serve else None
        if engine is not None:
            opened.callback(engine.close)
        context = AppContext(
            settings=settings, store=store, writer=writer, chains=_chains(settings, writer) if writer else (),
            engine=engine, duplicates=open_duplicates(settings) if serve else None, counters=counters or Counters(),
        )  # fmt: skip
        opened.pop_all()
    return context


def _follows_bsv(follower: Follower) -> bool:
    """Whether a follower is at the tip of a BSV chain."""
    return follower.progress.state == "following" and follower.progress.caip2.startswith("bsv:")


def _chains(settings: Settings, writer: Writer) -> tuple[Chain, ...]:
    """The configured chains, not connected yet. Raises SettingsError for a URL that can never be used."""
    from indexer.chains.failover import join
    from indexer.errors import SourceError

    try:
        return tuple(join(name, urls, writer) for name, urls in settings.sources().items())
    except SourceError as error:
        raise SettingsError(str(error)) from None
