"""The job that fetches exchange rates: stale or contradicted rates are refused, the others are stored.

Readers never wait for a feed: they use the stored quotes (`indexer.store.rates`) of the preferred feed that has one
which is not too old. A publisher's `priceFeedUrl` is never fetched.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from indexer.failures import is_of_machine
from indexer.rates.feed_client import FeedClient, FeedTable, RatesRefusedError
from indexer.rates.feed_urls import RateFeed
from indexer.rates.outliers import REFUSALS, FeedJudgement, FeedOpinion, judge
from indexer.store.rates import REFUSED, FeedState, Quote, Quotes
from parsers.cards.rate_table import RateTable

FUTURE_SECONDS = 300
"""Clocks differ by at most this: a quote with a later time is refused."""

PAST_QUOTES = 500
"""Quotes of a feed that are read at the start, to find those that may still be used."""

SAMPLE_SECONDS, SAMPLES = 900, 24
"""The median of six hours is that of the rates in use in each of 24 quarters of an hour."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedStatus:
    """The result of the last fetch of a feed: `code` is "" or one of `RatesRefusedError`, `error` its sentence.
    `quoted_at` and `until` (seconds since 1970, None without a quote) are the time of the newest accepted quote and its
    end of use; `refused` has the currencies of the last answer that were refused, with codes of `outliers.REFUSALS`."""

    feed: RateFeed
    quoted_at: int | None = None
    until: int | None = None
    code: str = ""
    error: str = ""
    refused: Mapping[str, str] = field(default_factory=dict)


class RatesFetcher:
    """Fetches the feeds; a quote may be used until `max_age` seconds after its time.

    `changed` is called after a round; `statuses` holds the status of each feed, in their order.
    """

    def __init__(
        self, feeds: Sequence[RateFeed], quotes: Quotes, *, max_age: int,
        client: FeedClient | None = None, clock: Callable[[], float] = time.time,
        changed: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self._feeds, self._quotes, self._max_age = tuple(feeds), quotes, max_age
        self._client, self._clock, self._changed = client or FeedClient(), clock, changed
        self._is_begun = False
        self._newest: dict[str, int] = {}
        self._past: dict[str, dict[str, tuple[Decimal, int]]] = {feed.name: {} for feed in feeds}
        self._states = {feed.name: FeedState() for feed in feeds}
        self._samples: dict[int, Sequence[RateTable]] = {}
        self._medians: dict[tuple[str, str], Decimal | None] = {}
        self.statuses = [FeedStatus(feed=feed) for feed in feeds]

    async def run(self) -> None:
        """A round; the first one loads the accepted quotes of the last run. Raises StoreError."""
        if not self._is_begun:
            await asyncio.to_thread(self.begin)
            self._is_begun = True
        await self.round()

    async def close(self) -> None:
        """Close the connections to feeds."""
        await self._client.close()

    def begin(self) -> None:
        """Load the quotes that were accepted before a restart; retire the quotes of feeds that are no longer
        configured."""
        names = [feed.name for feed in self._feeds]
        self._quotes.retire([*names, *(name + REFUSED for name in names)], int(self._clock()))
        stored = self._quotes.states()
        for feed in self._feeds:
            self._states[feed.name] = stored.get(feed.name, FeedState())
            for quote in reversed(self._quotes.history(feed.name, PAST_QUOTES)):
                self._remember(quote)
        now = int(self._clock())
        for number in range(now // SAMPLE_SECONDS - SAMPLES + 1, now // SAMPLE_SECONDS + 1):
            start = number * SAMPLE_SECONDS
            self._add_sample(number, self._quotes.in_use(start, start + SAMPLE_SECONDS - 1))

    async def round(self) -> None:
        """Fetch every feed once, concurrently, judge the answers together, and store the accepted quotes. Raises
        StoreError when they cannot be stored."""
        answers = await asyncio.gather(*(self._fetch(feed) for feed in self._feeds))
        now = int(self._clock())
        judgements = await asyncio.to_thread(self._judge, answers, now)
        accepted = []
        refused = []
        for number, (answer, judgement) in enumerate(zip(answers, judgements, strict=True)):
            status, quote = self._judged(number, answer, judgement)
            self._log_change(self.statuses[number], status)
            self.statuses[number] = status
            if quote is not None:
                accepted.append(quote)
            if isinstance(answer, RateTable):
                feed = self._feeds[number].name
                self._states[feed] = FeedState(answered_at=now, voting=judgement.voting, refused=judgement.refused)
                if judgement.refused:
                    refused.append(self._stand_in(number, answer, judgement))
        outranked = [status.feed.name for status in self.statuses if status.code == "outlier"]
        await asyncio.to_thread(self._quotes.store, [*accepted, *refused], self._states, outranked)
        for quote in accepted:
            self._remember(quote)
        if (sample := now // SAMPLE_SECONDS) not in self._samples:
            self._add_sample(sample, [self._past_rates(feed, now) for feed in self._feeds])
        self._changed()

    def _judge(self, answers: Sequence[RateTable | RatesRefusedError], now: int) -> list[FeedJudgement]:
        """The judgement on each answer. A feed that was silent longer than a quote is used has no vote any more."""
        opinions = []
        for feed, answer in zip(self._feeds, answers, strict=True):
            state = self._states[feed.name]
            voting = state.voting if now - state.answered_at <= self._max_age else frozenset[str]()
            table = answer if isinstance(answer, RateTable) else None
            opinions.append(FeedOpinion(table, self._past_rates(feed, now), voting))
        return judge(opinions, self._median)

    def _add_sample(self, number: int, tables: Sequence[RateTable]) -> None:
        """Add the tables in use, the preferred first, as a sample of the median; samples that are too old go."""
        if any(table.rates for table in tables):
            self._samples[number] = tables
        self._samples = {past: used for past, used in self._samples.items() if past > number - SAMPLES}
        self._medians = {}

    def _median(self, currency: str, into: str) -> Decimal | None:
        """The median of the rates of two currencies in the samples, None without any."""
        if (currency, into) not in self._medians:
            rates = (
                next(filter(None, (table.rate(currency, into) for table in tables)), None)
                for tables in self._samples.values()
            )
            values = sorted(filter(None, rates))
            self._medians[currency, into] = values[len(values) // 2] if values else None
        return self._medians[currency, into]

    def _stand_in(self, number: int, received: RateTable, judgement: FeedJudgement) -> Quote:
        """A quote instead of refused rates: the last accepted rates of these currencies beside the accepted ones, used
        after every feed until the oldest expires. Without any: the refused rates, already expired, so that users of
        converted prices see the refusal."""
        feed, past = self._feeds[number], self._past[self._feeds[number].name]
        good = {currency: past[currency] for currency in judgement.refused if currency in past}
        until = min((until for _, until in good.values()), default=0)
        last = {currency: rate for currency, (rate, _) in good.items()} or {
            currency: received.rates[currency] for currency in judgement.refused
        }
        since = until - self._max_age if good else received.quoted_at
        table = replace(
            received, rates={feed.base: Decimal(1), **judgement.accepted, **last}, quoted_at=since, until=until
        )
        return Quote(feed=feed.name + REFUSED, rank=len(self._feeds) + number, since=since, table=table)

    def _remember(self, quote: Quote) -> None:
        """Store each currency separately: one that is refused later counts until its own quote expires."""
        table = quote.table
        self._newest[quote.feed] = table.quoted_at
        self._past[quote.feed] |= {currency: (rate, table.until) for currency, rate in table.rates.items()}

    def _past_rates(self, feed: RateFeed, now: int) -> RateTable:
        past = {currency: rate_until for currency, rate_until in self._past[feed.name].items() if now < rate_until[1]}
        self._past[feed.name] = past
        rates = {currency: rate for currency, (rate, _) in past.items()}
        return RateTable(base=feed.base, rates=rates, source=feed.source, quoted_at=now, until=now)

    async def _fetch(self, feed: RateFeed) -> RateTable | RatesRefusedError:
        requested_at = int(self._clock())
        try:
            received = await self._client.ask(feed)
            return self._table(feed, received, requested_at)
        except RatesRefusedError as error:
            return error
        except Exception as error:  # whatever one feed provokes, the others count
            if is_of_machine(error):
                raise
            log.error("rates of %s failed: %s", feed.source, error, exc_info=error)
            return RatesRefusedError("malformed", f"answers with what cannot be read ({type(error).__name__})")

    def _table(self, feed: RateFeed, received: FeedTable, requested_at: int) -> RateTable:
        """The table with its time, which is that of the request where it states none. Raises RatesRefusedError for a
        time that is out of range."""
        since, now = requested_at if received.quoted_at is None else received.quoted_at, int(self._clock())
        newest = self._newest.get(feed.name, 0)
        if since > now + FUTURE_SECONDS:
            raise RatesRefusedError("future", f"has a time {since - now:,} s from now")
        if since + self._max_age <= now:
            raise RatesRefusedError("stale", f"is {now - since:,} s old, more than the {self._max_age:,} s allowed")
        if received.quoted_at is not None and since < newest:
            raise RatesRefusedError("older", f"is {newest - since:,} s older than the table before it")
        return RateTable(
            base=feed.base, rates=received.rates, source=feed.source, quoted_at=since, until=since + self._max_age
        )

    def _judged(
        self, number: int, answer: RateTable | RatesRefusedError, judgement: FeedJudgement
    ) -> tuple[FeedStatus, Quote | None]:
        """The feed's new status, and the quote to store, if any."""
        feed = self._feeds[number]
        past = self._newest.get(feed.name)
        previous = FeedStatus(feed=feed, quoted_at=past, until=None if past is None else past + self._max_age)
        if isinstance(answer, RatesRefusedError):
            return replace(previous, code=answer.code, error=str(answer)), None
        if not judgement.accepted.keys() - {feed.base}:
            sentences = [REFUSALS[code] for code in sorted(set(judgement.refused.values()))]
            error = f"has rates of {len(judgement.refused)} currencies that do not count: {'; '.join(sentences)}"
            return replace(previous, code="outlier", error=error, refused=judgement.refused), None
        table = replace(answer, rates=judgement.accepted)
        quote = Quote(feed=feed.name, rank=number, since=answer.quoted_at, table=table)
        return FeedStatus(feed=feed, quoted_at=answer.quoted_at, until=answer.until, refused=judgement.refused), quote

    def _log_change(self, before: FeedStatus, now: FeedStatus) -> None:
        """Log when a feed begins or ceases to be used, not every round."""
        source = f"rates of {now.feed.source} for {now.feed.base}"
        if now.code and now.code != before.code:
            log.warning("%s are not used: the feed %s", source, now.error)
        elif before.code and not now.code:
            log.info("%s are used again", source)
        names = sorted(now.refused)
        if names and names != sorted(before.refused) and not now.code:
            log.warning("%s: %d left out as outliers: %s", source, len(names), ascii(", ".join(names[:10])))
