"""Queue and send deliveries, in one process at a time. Deliveries of one webhook are sent in sequence, deliveries of
different webhooks concurrently: a slow target delays only its own."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import closing
from functools import lru_cache, partial
from urllib.parse import urlsplit

from indexer.fetcher.budgets import registrable
from indexer.fetcher.reasons import FetchError
from indexer.retries import Backoff
from indexer.store import DATABASE_ERRORS
from overlay.jobs import PeriodicJob, Role
from overlay.systems.webhooks.matcher import WebhookMatcher
from overlay.systems.webhooks.store import IN_ALL, StoredWebhooks
from overlay.systems.webhooks.targets import Targets

log = logging.getLogger(__name__)

BACKOFF = Backoff(10.0, 6 * 3_600.0, factor=3.0)
"""The pauses between two tries, give or take a fifth."""

GIVE_UP_SECONDS = 3 * 86_400
"""The seconds without a success after which a webhook ends."""

WORKERS, PER_DOMAIN = 32, 2
"""Deliveries under way: in all, and to hosts of one registrable domain."""

POLL_SECONDS = 1.0
TRIM_SECONDS = 3_600.0


Run = Callable[[], Awaitable[float | None]]


@lru_cache(IN_ALL)
def _domain(url: str) -> str:
    """The registrable domain of a target. What is due is looked through each second, and may be of one domain."""
    return registrable(urlsplit(url).hostname or "")


class DeliveryLoop:
    """`clock` gives Unix seconds, `jitter` a factor of a pause."""

    def __init__(
        self,
        webhooks: StoredWebhooks,
        matcher: WebhookMatcher,
        targets: Targets,
        *,
        clock: Callable[[], float] = time.time,
        jitter: Callable[[], float] = lambda: random.uniform(0.8, 1.2),  # noqa: S311 - nothing to guess
    ) -> None:
        self._webhooks, self._matcher, self._targets = webhooks, matcher, targets
        self._clock, self._jitter = clock, jitter
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._domains = Counter[str]()

    def jobs(self, when_searchable: Callable[[Run], Awaitable[float | None]]) -> list[PeriodicJob]:
        """The jobs that queue deliveries, once searches are answered, send them, and delete old webhooks."""
        role = Role.SINGLE_SERVER
        match = partial(when_searchable, self.match)
        return [
            PeriodicJob(name="webhook-matches", run=match, every=POLL_SECONDS, role=role, on_change=True),
            PeriodicJob(name="webhook-deliveries", run=self.run, every=POLL_SECONDS, role=role, close=self.close),
            PeriodicJob(name="old-webhooks", run=self.trim, every=TRIM_SECONDS, role=role),
        ]

    async def match(self) -> float | None:
        """Queue deliveries for a batch of changes; 0 where there may be more. Raises DATABASE_ERRORS."""
        return 0.0 if await asyncio.to_thread(self._matcher.step) else None

    async def run(self) -> float | None:
        """Start the due deliveries; the next run is sooner while deliveries are under way. Raises DATABASE_ERRORS."""
        self._collect()
        await self.start()
        return POLL_SECONDS / 10 if self._sending else None

    async def close(self) -> None:
        """Cancel the deliveries under way."""
        sending, self._sending = list(self._sending.values()), {}
        for task in sending:
            task.cancel()
        await asyncio.gather(*sending, return_exceptions=True)

    async def trim(self) -> None:
        """Delete old webhooks."""
        await asyncio.to_thread(self._webhooks.trim, int(self._clock()))

    async def start(self) -> None:
        """Start the due deliveries, up to the limits."""
        if len(self._sending) >= WORKERS:
            return
        for id_, domain in await asyncio.to_thread(self._startable, set(self._sending), self._domains.copy()):
            self._domains[domain] += 1
            self._sending[id_] = asyncio.create_task(self._send(id_, domain))

    def _startable(self, sending: set[str], domains: Counter[str]) -> list[tuple[str, str]]:
        """The webhooks, with the domains of their targets, to which deliveries may start beside those under way: the
        first due ones, a few for each domain, as one domain must not hide the others."""
        chosen: list[tuple[str, str]] = []
        with closing(self._webhooks.due(int(self._clock()))) as due:
            for id_, url in due:
                domain = _domain(url)
                if id_ not in sending and domains[domain] < PER_DOMAIN:
                    domains[domain] += 1
                    chosen.append((id_, domain))
                    if len(sending) + len(chosen) == WORKERS:
                        break
        return chosen

    async def settle(self) -> None:
        """Wait for all deliveries under way."""
        await asyncio.gather(*self._sending.values(), return_exceptions=True)
        self._collect()

    def _collect(self) -> None:
        """Remove finished deliveries, and raise the error of one: only the database raises any."""
        finished = [(id_, task) for id_, task in self._sending.items() if task.done()]
        for id_, _ in finished:
            del self._sending[id_]
        for _, task in finished:
            task.result()

    async def _send(self, id_: str, domain: str) -> None:
        try:
            await self._deliver(id_)
        finally:
            self._domains -= Counter({domain: 1})

    async def _deliver(self, id_: str) -> None:
        """Send the oldest waiting delivery of a webhook, and store the outcome."""
        webhooks, began = self._webhooks, int(self._clock())
        webhook = await asyncio.to_thread(webhooks.get, id_)
        if webhook is None:
            return  # it was deleted meanwhile
        delivery = await asyncio.to_thread(webhooks.oldest_waiting, id_)
        if delivery is None or delivery.body is None:
            await asyncio.to_thread(webhooks.skip, id_, began)
            return
        status, wait = 0, None
        try:
            answer = await self._targets.post(webhook.url, delivery.message_id, delivery.body)
            status, wait, outcome = answer.status, answer.retry_after, str(answer.status)
        except FetchError as error:
            outcome = error.refusal.code
        except DATABASE_ERRORS:
            raise
        except Exception as fault:
            log.exception("delivery %s of subscription %s failed", delivery.sequence, id_)
            outcome = f"fetch-fault: {type(fault).__name__}"
        now = int(self._clock())
        if 200 <= status < 300:
            await asyncio.to_thread(webhooks.succeed, delivery, outcome, now)
            return
        failing_since = began if webhook.failing_since is None else webhook.failing_since
        pause = BACKOFF.pause(delivery.tries + 1) * self._jitter()
        next_at = now + max(int(pause), int(wait or 0), 1)
        await asyncio.to_thread(webhooks.fail, delivery, outcome, now, next_at, failing_since)
        if status == 410 or now - failing_since >= GIVE_UP_SECONDS:
            reason = "target-gone" if status == 410 else "three-days-of-failures"
            await asyncio.to_thread(webhooks.end, id_, reason, now)
            log.info("subscription %s has ended: %s", id_, reason)
