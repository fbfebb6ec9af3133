"""Exchange rates: every feed is asked on schedule; what is stale or contradicts the others is refused, the rest kept.

Nothing here happens while somebody waits for an answer: readers take what is stored (`indexer.store.rates`), of the
preferred feed that has a quote which is not too old. A publisher's `priceFeedUrl` is never asked.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal

from apscheduler.schedulers.asyncio import AsyncIOScheduler

from indexer.outliers import believed, left_out
from indexer.rate_feed import FeedClient, RatesRefusedError, Told
from indexer.rate_urls import RateFeed
from indexer.store import StoreUnavailableError
from indexer.store.rates import REFUSED, Quote, Quotes
from parsers.rates import Rates

FUTURE_SECONDS = 300
"""Clocks differ; what says to be of later than this is not believed."""

PAST_QUOTES = 500
"""How many quotes of a feed are looked back through at the start, for those that may still be used."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What came of asking a feed last: `code` is "" or one of `RatesRefusedError`, `error` the same in words. `at` is
    of the newest quote that was believed, which may be used until `until` (seconds since 1970, None for none);
    `left_out` names the currencies of the last answer that were not believed."""

    feed: RateFeed
    at: int | None = None
    until: int | None = None
    code: str = ""
    error: str = ""
    left_out: tuple[str, ...] = ()


class RatesLoop:
    """Asks the feeds every `every` seconds; a quote may be used until `max_age` seconds after the time it is of.

    `changed` is called after a round. `heard` tells how each feed does.
    """

    def __init__(
        self, feeds: Sequence[RateFeed], quotes: Quotes, *, every: int, max_age: int,
        client: FeedClient | None = None, clock: Callable[[], float] = time.time,
        changed: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self._feeds, self._quotes, self._every, self._max_age = tuple(feeds), quotes, every, max_age
        self._given, self._clock, self._changed = client, clock, changed
        self._newest: dict[str, int] = {}
        self._past: dict[str, dict[str, tuple[Decimal, int]]] = {feed.name: {} for feed in feeds}
        self._away = False
        self.heard = [Heard(feed=feed) for feed in feeds]

    async def run(self) -> None:
        """Ask until cancelled. Raises StoreError when what was kept before cannot be read."""
        await asyncio.to_thread(self._begin)
        client = self._given or FeedClient()
        # it says a line before and after every round; a job that raises is an error, and is told
        logging.getLogger("apscheduler").setLevel(logging.WARNING)
        scheduler = AsyncIOScheduler(timezone=UTC)
        scheduler.add_job(
            self._scheduled, "interval", (client,), seconds=self._every, next_run_time=datetime.now(UTC), coalesce=True,
            max_instances=1, misfire_grace_time=None,
        )  # fmt: skip
        scheduler.start()
        try:
            await asyncio.Event().wait()
        finally:
            scheduler.shutdown(wait=False)
            await client.close()

    def _begin(self) -> None:
        """What was believed before a restart still speaks; quotes of feeds that are configured no more do not count."""
        names = [feed.name for feed in self._feeds]
        self._quotes.retire([*names, *(name + REFUSED for name in names)], int(self._clock()))
        for feed in self._feeds:
            for quote in reversed(self._quotes.history(feed.name, PAST_QUOTES)):
                self._remember(quote)

    async def _scheduled(self, client: FeedClient) -> None:
        """A round that may find the database away: the next one asks again."""
        try:
            await self.round(client)
        except StoreUnavailableError as error:
            if not self._away:  # told once, and again when it was there meanwhile
                log.warning("the exchange rates wait for the database: %s", error)
            self._away = True
        else:
            self._away = False

    async def round(self, client: FeedClient) -> None:
        """Ask every feed once, at the same time, judge what they say together, and keep what is believed. Raises
        StoreError when it cannot be kept."""
        answers = await asyncio.gather(*(self._ask(client, feed) for feed in self._feeds))
        now = int(self._clock())
        tables = [answer if isinstance(answer, Rates) else None for answer in answers]
        kept = []
        refused = []
        for number, rates in enumerate(believed(tables, [self._told_before(feed, now) for feed in self._feeds])):
            heard, quote = self._judged(number, answers[number], rates)
            self._say(self.heard[number], heard)
            self.heard[number] = heard
            if quote is not None:
                kept.append(quote)
            if (table := tables[number]) is not None and heard.left_out:
                refused.append(self._instead(number, table, rates, heard.left_out))
        await asyncio.to_thread(self._quotes.keep, [*kept, *refused])
        for quote in kept:
            self._remember(quote)
        self._changed()

    def _instead(self, number: int, told: Rates, rates: Mapping[str, Decimal], left_out: Sequence[str]) -> Quote:
        """What stands in for the currencies whose rates are refused now: their last good rates beside the believed
        ones, used after every feed, until the first of them is too old. Without any good ones: the refused rates, never
        to be used, so that the refusal is known where prices are converted."""
        feed, past = self._feeds[number], self._past[self._feeds[number].name]
        good = {currency: past[currency] for currency in left_out if currency in past}
        until = min((until for _, until in good.values()), default=0)
        last = {currency: rate for currency, (rate, _) in good.items()} or {each: told.rates[each] for each in left_out}
        at = until - self._max_age if good else told.at
        table = replace(told, rates={feed.base: Decimal(1), **rates, **last}, at=at, until=until)
        return Quote(feed=feed.name + REFUSED, rank=len(self._feeds) + number, since=at, table=table)

    def _remember(self, quote: Quote) -> None:
        """Each currency by itself: one that was left out since still speaks for as long as its quote may be used."""
        table = quote.table
        self._newest[quote.feed] = table.at
        self._past[quote.feed] |= {currency: (rate, table.until) for currency, rate in table.rates.items()}

    def _told_before(self, feed: RateFeed, now: int) -> Rates:
        past = {currency: told for currency, told in self._past[feed.name].items() if now < told[1]}
        self._past[feed.name] = past
        rates = {currency: rate for currency, (rate, _) in past.items()}
        return Rates(base=feed.base, rates=rates, source=feed.source, at=now, until=now)

    async def _ask(self, client: FeedClient, feed: RateFeed) -> Rates | RatesRefusedError:
        asked = int(self._clock())
        try:
            told = await client.ask(feed)
            return self._table(feed, told, asked)
        except RatesRefusedError as error:
            return error

    def _table(self, feed: RateFeed, told: Told, asked: int) -> Rates:
        """A table that says no time is of when it was asked for. Raises RatesRefusedError for one out of time."""
        at, now = asked if told.at is None else told.at, int(self._clock())
        newest = self._newest.get(feed.name, 0)
        if at > now + FUTURE_SECONDS:
            raise RatesRefusedError("future", f"says to be of {at - now:,} s from now")
        if at + self._max_age <= now:
            raise RatesRefusedError("stale", f"is {now - at:,} s old, more than the {self._max_age:,} s allowed")
        if told.at is not None and at < newest:
            raise RatesRefusedError("older", f"is {newest - at:,} s older than what it told before")
        return Rates(base=feed.base, rates=told.rates, source=feed.source, at=at, until=at + self._max_age)

    def _judged(
        self, number: int, answer: Rates | RatesRefusedError, rates: dict[str, Decimal]
    ) -> tuple[Heard, Quote | None]:
        """How the feed does now, and the quote to keep, if any."""
        feed = self._feeds[number]
        past = self._newest.get(feed.name)
        known = Heard(feed=feed, at=past, until=None if past is None else past + self._max_age)
        if isinstance(answer, RatesRefusedError):
            return replace(known, code=answer.code, error=str(answer)), None
        outliers = tuple(left_out(answer.rates, rates))
        if not rates.keys() - {feed.base}:
            error = f"contradicts what it or the others told, by more than half, in all {len(outliers)} currencies"
            return replace(known, code="outlier", error=error, left_out=outliers), None
        table = replace(answer, rates=rates)
        quote = Quote(feed=feed.name, rank=number, since=answer.at, table=table)
        return Heard(feed=feed, at=answer.at, until=answer.until, left_out=outliers), quote

    def _say(self, before: Heard, now: Heard) -> None:
        """One line when a feed begins or ceases to be believed, not one a round."""
        source = f"rates of {now.feed.source} for {now.feed.base}"
        if now.code and now.code != before.code:
            log.warning("%s are not used: the feed %s", source, now.error)
        elif before.code and not now.code:
            log.info("%s are used again", source)
        if now.left_out and now.left_out != before.left_out and not now.code:
            log.warning(
                "%s: %d left out as outliers: %s", source, len(now.left_out), ascii(", ".join(now.left_out[:10]))
            )
