"""The exchange rates that answers use: rate tables read from the store and cached in memory.

The indexing process fetches them from feeds (`indexer.rates.rates_fetcher`); this module sends no requests.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from indexer.rates.feed_urls import ALONE
from indexer.rates.outliers import REFUSALS, agrees
from overlay.text.timestamps import timestamp
from parsers.cards.rate_table import RateTable
from parsers.claims.amount_due import PaymentRefusedError

if TYPE_CHECKING:
    from indexer.rates.rates_fetcher import FeedStatus
    from indexer.store.rates import Quote

RETIRED_SECONDS, MAX_RETIRED = 600, 64
"""How long (seconds) and how many tables stay in memory after newer ones have replaced them: the next page of a result
sorted by price uses the rates of the first one."""

MAX_NAMED = 64
"""Refused currencies that status names of a feed."""

_ATTRIBUTES = ("base", "source", "quoted_at", "until", "rates")


class ExchangeRates:
    """A cache of rate tables. `read` returns the newest quote of every feed, the preferred feed first; only `refresh`
    calls it. `clock` returns seconds since 1970. Prices are compared in `default_currency` where a search names none,
    as far as that is quoted."""

    def __init__(
        self,
        read: Callable[[], Sequence[Quote]] = tuple,
        clock: Callable[[], float] = time.time,
        default_currency: str = "USD",
    ) -> None:
        self._read, self._clock, self._default_currency = read, clock, default_currency
        self._tables: tuple[RateTable, ...] = ()
        self._feeds: dict[RateTable, str] = {}
        self._alone: frozenset[RateTable] = frozenset()
        self._refused: dict[RateTable, Mapping[str, str]] = {}
        self._crosses: dict[tuple[RateTable, str], dict[str, Decimal]] = {}
        self._stamp: tuple[tuple[RateTable, ...], tuple[object, ...]] = (), ()
        self.retired: OrderedDict[str, tuple[RateTable, float]] = OrderedDict()

    def refresh(self) -> None:
        """Read the stored tables. Raises the errors of the database."""
        quotes = self._read()
        tables = tuple(quote.table for quote in quotes)
        refused = {quote.table: quote.reasons for quote in quotes if quote.is_refused}
        is_same = [_members(table) for table in tables] == [_members(table) for table in self._tables]
        if not is_same or [*refused.values()] != [*self._refused.values()]:
            self._retire()
            self._tables, self._crosses, self._refused = tables, {}, refused
            self._feeds = {quote.table: quote.feed_name for quote in quotes}
            self._alone = frozenset(quote.table for quote in quotes if quote.feed_name.endswith(ALONE))

    def _retire(self) -> None:
        """Keep the tables used until now for RETIRED_SECONDS."""
        now = self._clock()
        for table in self._tables:
            self.retired[table_version(table)] = table, now + RETIRED_SECONDS
            self.retired.move_to_end(table_version(table))
        while self.retired and (len(self.retired) > MAX_RETIRED or next(iter(self.retired.values()))[1] <= now):
            self.retired.popitem(last=False)

    def of_version(self, version: str, currency: str) -> RateTable | None:
        """The table that quotes a currency and has this version: one in use, or one retired in the last
        `RETIRED_SECONDS` that has not expired; None without one."""
        now = self._clock()
        tables = [*self.usable(), *(table for table, until in [self.retired.get(version, (None, 0.0))] if until > now)]
        quoting = (table for table in tables if table is not None and now < table.until and currency in table.rates)
        return next((table for table in quoting if table_version(table) == version), None)

    def usable(self) -> tuple[RateTable, ...]:
        """The tables that are not too old, the preferred first."""
        now = self._clock()
        return tuple(table for table in self._tables if now < table.until)

    def quoting(self, *currencies: str) -> RateTable | None:
        """The preferred table that quotes all of these currencies, None without one."""
        return _preferred(self.usable(), *currencies)

    def default_currency(self) -> str | None:
        """The currency in which prices are compared where a search names none; None where no usable table quotes it."""
        return self._default_currency if self.quoting(self._default_currency) else None

    def crosses(self, table: RateTable, into: str) -> Mapping[str, Decimal]:
        """The rates of a table into a currency that it quotes; cached, as many queries need the same ones."""
        crosses = self._crosses
        if (table, into) not in crosses:
            crosses[table, into] = table.crosses(into)
        return crosses[table, into]

    def quotes(self) -> ConversionRates | None:
        """The rates of the tables in use now into any currency; None without a usable table."""
        return ConversionRates(self, tables) if (tables := self.usable()) else None

    def missing(self, currency: str) -> tuple[str, str]:
        """Why no amount can be converted into a currency that no usable table quotes: a code and a sentence."""
        if why := self._why_refused(self._refused, currency):
            return "refused-quote", f"the current quotes of {currency!a} are refused: {why}"
        if self.usable():
            return "no-quote", f"no feed of exchange rates quotes {currency!a}"
        if self._tables:
            age = min(self._age(table) for table in self._tables)
            return "stale-rates", f"the newest exchange rates are {age:,} s old, too old to be used"
        return "no-rates", "there are no exchange rates"

    def rate_to_pay(self, currency: str, into: str) -> Decimal:
        """Units of `into` for one of `currency`, by the table for payments (`paying`). Raises PaymentRefusedError with
        the reason where no rate counts."""
        if currency == into:
            return Decimal(1)
        table = self.paying(currency, into)
        rate = None if table is None else table.rate(currency, into)
        if rate is not None:
            return rate
        no_rate = f"there is no usable exchange rate from {currency!a} to {into!a}"
        if self.quoting(into, currency):
            detail = f"{no_rate} for payments: of public feeds that are not signed, two have to agree"
        else:
            unquoted = next((name for name in (into, currency) if self.quoting(name) is None), currency)
            detail = f"{no_rate}: {self.missing(unquoted)[1]}"
        raise PaymentRefusedError("CurrencyUnsupported", "no-rate", detail)

    def paying(self, *currencies: str) -> RateTable | None:
        """The preferred table by which payments between these two currencies are counted: that of a feed which pays
        alone, or one with which that of another host agrees; None without one."""
        tables = [table for table in self.usable() if table.rates.keys() >= set(currencies)]
        currency, into = currencies

        def confirms(other: RateTable, table: RateTable) -> bool:
            rates = other.rate(currency, into), table.rate(currency, into)
            return other.source != table.source and None not in rates and agrees(*filter(None, rates))

        return next(
            (table for table in tables if table in self._alone or any(confirms(other, table) for other in tables)), None
        )

    def last_good_note(self, table: RateTable, *currencies: str) -> str:
        """The reason why a table holds the last good rates of these currencies: the current ones of its feed are
        refused. "" for another table."""
        reasons = self._refused.get(table, {})
        names = [currency for currency in currencies if currency in reasons]
        if not names:
            return ""
        why, quoted = self._why_refused([table], *names), " and ".join(map(ascii, names))
        return (
            f"the current quotes of {quoted} from {table.source} are refused: {why}; the last good one is used, of "
            f"{timestamp(table.quoted_at)}"
        )

    def _why_refused(self, tables: Iterable[RateTable], *currencies: str) -> str:
        """The reasons for which current quotes of one of these currencies are refused, "" where none is."""
        refusals = [self._refused[table] for table in tables]
        codes = {reasons[currency] for reasons in refusals for currency in currencies if currency in reasons}
        return "; ".join(REFUSALS[code] for code in sorted(codes) if code in REFUSALS)

    def stamp(self) -> tuple[object, ...]:
        """A value that changes whenever the tables in use do."""
        tables, stamp = self._stamp
        if tables != (usable := self.usable()):
            stamp = tuple((table.source, table.quoted_at, table_version(table)) for table in usable)
            self._stamp = usable, stamp
        return stamp

    def table_json(self, table: RateTable) -> dict[str, Any]:
        """A table as JSON, for answers that used it: source, time, age in seconds and base currency."""
        return {"source": table.source, "at": timestamp(table.quoted_at), "age": self._age(table), "base": table.base}

    def status(self, feed_statuses: Sequence[FeedStatus] = ()) -> dict[str, Any] | None:
        """The table in use and the state of every feed, as JSON; None without tables and feeds. `feed_statuses` are
        the results of the last fetches, in the process that fetches."""
        if not self._tables and not feed_statuses:
            return None
        current = next(iter(self.usable()), None)
        members = self.table_json(current) if current else {"source": None, "at": None, "age": None, "base": None}
        if feed_statuses:
            feeds_now = [_feed_json(feed_status, self._clock()) for feed_status in feed_statuses]
            return members | {"feeds": _told_apart(feeds_now)}
        usable = self.usable()
        feeds: dict[str, dict[str, Any]] = {}
        for table in self._tables:  # a feed's accepted rates come before those that replace its refused ones
            feed = feeds.setdefault(self._feeds[table], self.table_json(table) | {"usable": table in usable})
            feed |= refused_json(self._refused.get(table, {}))
        return members | {"feeds": _told_apart([*feeds.values()])}

    def _age(self, table: RateTable) -> int:
        return max(0, int(self._clock()) - table.quoted_at)


@dataclass(frozen=True, slots=True)
class ConversionRates:
    """The rates of some tables into a currency, taken from the preferred table that quotes it."""

    exchange: ExchangeRates
    tables: tuple[RateTable, ...]

    def __call__(self, currency: str) -> Mapping[str, Decimal]:
        """Units of a currency for one of each other; empty where none quotes it."""
        table = _preferred(self.tables, currency)
        return self.exchange.crosses(table, currency) if table else {}


def _preferred(tables: Sequence[RateTable], *currencies: str) -> RateTable | None:
    """The first table that quotes all of these currencies."""
    return next((table for table in tables if table.rates.keys() >= set(currencies)), None)


@lru_cache(maxsize=64)
def table_version(table: RateTable) -> str:
    """A digest of a table's base and rates (8 bytes of BLAKE2b, hex): equal rates at another time give the same one."""
    content = f"{table.base} {sorted((currency, str(rate)) for currency, rate in table.rates.items())}"
    return blake2b(content.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _members(table: RateTable) -> tuple[object, ...]:
    return tuple(getattr(table, name) for name in _ATTRIBUTES)


def _told_apart(feeds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Feeds of one base at one host, of which only the host is shown, with a number from the second on."""
    counts = Counter[tuple[str, str]]()
    for feed in feeds:
        source_and_base = feed["source"], feed["base"]
        counts[source_and_base] += 1
        if (number := counts[source_and_base]) > 1:
            feed["source"] += f" ({number})"
    return feeds


def _feed_json(status: FeedStatus, now: float) -> dict[str, Any]:
    """The result of the last fetch of a feed."""
    members: dict[str, Any] = {
        "source": status.feed.source,
        "base": status.feed.base,
        "at": None if status.quoted_at is None else timestamp(status.quoted_at),
        "age": None if status.quoted_at is None else max(0, int(now) - status.quoted_at),
        "usable": status.until is not None and now < status.until,
    }
    if status.code:
        members |= {"code": status.code, "error": status.error}
    return members | refused_json(status.refused)


def refused_json(reasons: Mapping[str, str]) -> dict[str, Any]:
    """The members of a feed whose current quotes of some currencies are refused: at most 64 names."""
    if not reasons:
        return {}
    by_code: dict[str, list[str]] = {}
    for currency in sorted(reasons)[:MAX_NAMED]:
        by_code.setdefault(reasons[currency], []).append(currency)
    refused = [
        {"code": code, "detail": REFUSALS.get(code, ""), "currencies": names} for code, names in sorted(by_code.items())
    ]
    return {"leftOut": sorted(reasons)[:MAX_NAMED], "refused": refused}
