"""The loops beside following a chain: what sends requests to hosts, other overlays and rate feeds, and what keeps the
search index up to date with the store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from threading import Event
from typing import TYPE_CHECKING

from indexer.chains.concurrency import gather
from indexer.settings import Settings
from indexer.store.rates import Quotes
from indexer.store.requests import Requests
from indexer.sync.follower import Follower
from indexer.sync.request_loop import RequestLoop, TransactionSource
from overlay.app.chain_loops import Loop, transaction_source
from overlay.app.fetching import build_fetch_loop, sends_requests
from overlay.app.memory import release_memory
from overlay.app.status_service import StatusService
from overlay.app.storage import index_write_errors
from overlay.app.store_watcher import StoreWatcher
from overlay.engines import BusyError
from overlay.listings.change_notifier import ChangeNotifier
from overlay.projection.projector import IndexProjector

if TYPE_CHECKING:
    from indexer.store import Store, Writer
    from overlay.systems.webhooks.delivery_loop import DeliveryLoop


class BackgroundLoops:
    """Each loop runs until it is cancelled, and can be started again. They raise what the database raises."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        writer: Writer | None,
        followers: Sequence[Follower],
        notifier: ChangeNotifier,
        status: StatusService,
        watcher: StoreWatcher,
    ) -> None:
        self._settings, self._store, self._writer, self._followers = settings, store, writer, followers
        self._notifier, self._status, self._watcher = notifier, status, watcher
        self.requested = asyncio.Event()
        """Set when a publisher has requested a transaction."""

    def loops(self) -> list[Loop]:
        """Those that the settings call for: none in a process that writes nothing."""
        settings = self._settings
        if self._writer is None:
            return []
        loops: list[Loop] = []
        if self._followers:
            loops.append(self._fetch_requested)
            if sends_requests(settings):
                loops.append(partial(self._fetch_cards, self._writer))
            if settings.gasp_peers:
                loops.append(self._pull_peers)
            if settings.submit_broadcast:
                loops.append(self._send_submissions)
        loops.append(partial(self._rate_listings, self._writer))
        if settings.rates:
            loops.append(self._fetch_rates)
        return loops

    def sources(self) -> list[TransactionSource]:
        """The followed chains as sources of transactions."""
        return [transaction_source(follower) for follower in self._followers]

    async def _fetch_requested(self) -> None:
        """Fetch the transactions that publishers requested, here or in another process."""
        await RequestLoop(Requests(self._store.engine), self.sources(), self.requested).run()

    async def _fetch_cards(self, writer: Writer) -> None:
        """Fetch the cards that pointers name, and what hosts declare about agents."""
        loop = await asyncio.to_thread(build_fetch_loop, self._settings, self._store, writer, self._notifier.notify)
        self._status.fetch_outcomes = loop.came_to
        with self._notifier.listen() as changed:
            await loop.run(changed)

    async def _rate_listings(self, writer: Writer) -> None:
        """Rate listings by their evidence."""
        from overlay.systems.rating.rating_loop import RatingLoop

        await RatingLoop(self._store, writer, self._notifier.notify).run()

    async def _pull_peers(self) -> None:
        """Pull the outputs that other overlays admit."""
        from indexer.admission.admission import Admissions
        from overlay.systems.bsv_overlay.gasp.peer import GaspPeer
        from overlay.systems.bsv_overlay.gasp.puller import GaspPuller

        admissions, is_ready = Admissions(self._store), lambda: any(map(_follows_bsv, self._followers))
        pullers = [GaspPuller(GaspPeer(url), admissions, is_ready) for url in self._settings.gasp_peers]
        await gather(puller.run() for puller in pullers)

    async def _send_submissions(self) -> None:
        """Send submitted transactions to the sources of BSV chains."""
        from indexer.sync.submission_sender import SubmissionSender

        senders = [
            SubmissionSender(follower.chain, self._store.submissions, partial(_follows_bsv, follower))
            for follower in self._followers
        ]
        await gather(sender.run() for sender in senders)

    async def _fetch_rates(self) -> None:
        """Fetch exchange rates from the configured feeds."""
        from indexer.rates.loop import RatesLoop

        settings, quotes, changed = self._settings, Quotes(self._store.engine), self._watcher.rates_changed
        every, max_age = settings.rates_every, settings.rates_max_age
        loop = RatesLoop(settings.rates, quotes, every=every, max_age=max_age, changed=changed)
        self._status.rates_loop = loop
        await loop.run()


async def match_subscriptions(deliveries: DeliveryLoop, notifier: ChangeNotifier) -> None:
    """Queue what webhooks are to deliver."""
    with notifier.listen() as changed:
        await deliveries.match(changed)


def _follows_bsv(follower: Follower) -> bool:
    """Whether a follower is at the tip of a BSV chain."""
    return follower.progress.state == "following" and follower.progress.caip2.startswith("bsv:")


BULK = 2_000
"""Changes projected without a pause, after which freed memory is returned to the system."""

BUSY_SECONDS = 1.0
"""Pause between attempts to become the process that writes the index."""


class CancelledWorkError(Exception):
    """Work in a thread ended early because the process ends."""


class IndexLoop:
    """The loop that projects changes into the index, and publishes the heights up to which searches answer."""

    def __init__(
        self, settings: Settings, projector: IndexProjector, status: StatusService, notifier: ChangeNotifier
    ) -> None:
        self._settings, self._projector, self._status, self._notifier = settings, projector, status, notifier
        self._is_ending = Event()

    async def run(self) -> None:
        """Project until cancelled. Raises EngineError, StoreUnavailableError."""
        await asyncio.to_thread(self._projector.cleanup)
        try:
            with self._notifier.listen() as changed:
                await self._project(changed)
        except asyncio.CancelledError:
            self._is_ending.set()  # a step may still run in its thread
            raise

    async def _project(self, changed: asyncio.Event) -> None:
        projected = 0
        while True:
            changed.clear()
            heights = self._status.stored_heights()
            try:
                with index_write_errors(self._settings):
                    count = await asyncio.to_thread(self._projector.step, self._check_ending)
            except BusyError:
                # another process on the same data writes the index; searches here see its commits
                await asyncio.sleep(BUSY_SECONDS)
                continue
            projected += count
            if not count:
                self._status.publish(heights)
                if projected >= BULK:
                    await asyncio.to_thread(release_memory)
                projected = 0
                await changed.wait()

    def _check_ending(self, _done: int) -> None:
        if self._is_ending.is_set():
            raise CancelledWorkError
