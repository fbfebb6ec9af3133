"""The exchange rates that answers use: tables from the store, held in memory, the preferred one that is not too old.

Asking feeds is the business of the process that indexes (`indexer.rates`); here nothing is ever fetched.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from parsers.rates import Rates

if TYPE_CHECKING:
    from indexer.rates import Heard
    from indexer.store.rates import Quote

KEPT_SECONDS, MOST_KEPT = 600, 64
"""How long, and how many, tables are kept after newer ones came: who is leafing through an order by price goes on in
it."""

CONTRADICTED = "they contradict what was told before, or by other feeds, by more than half"
"""Why quotes are refused."""

_ATTRIBUTES = ("base", "source", "at", "until", "rates")


class Exchange:
    """What is known of rates. `read` gives the newest quote of every feed, the preferred first, and is called by
    `look`; all else answers from memory. `clock` tells seconds since 1970."""

    def __init__(self, read: Callable[[], Sequence[Quote]] = tuple, clock: Callable[[], float] = time.time) -> None:
        self._read, self._clock = read, clock
        self._tables: tuple[Rates, ...] = ()
        self._refused: tuple[Rates, ...] = ()
        self._crosses: dict[tuple[Rates, str], dict[str, Decimal]] = {}
        self._kept: OrderedDict[str, tuple[Rates, float]] = OrderedDict()

    def look(self) -> None:
        """Take what is stored now. Raises what the database raises."""
        quotes = self._read()
        tables = tuple(quote.table for quote in quotes)
        if [_members(each) for each in tables] != [_members(each) for each in self._tables]:
            self._keep()
            self._tables, self._crosses = tables, {}
            self._refused = tuple(quote.table for quote in quotes if quote.is_refused)

    def _keep(self) -> None:
        """Remember for a while what was used until now."""
        now = self._clock()
        for table in self._tables:
            self._kept[version(table)] = table, now + KEPT_SECONDS
            self._kept.move_to_end(version(table))
        while self._kept and (len(self._kept) > MOST_KEPT or next(iter(self._kept.values()))[1] <= now):
            self._kept.popitem(last=False)

    def of_version(self, wanted: str, currency: str) -> Rates | None:
        """The table that quotes a currency and has this version: one in use, or one of the last `KEPT_SECONDS` that is
        not too old yet; None when there is none."""
        now = self._clock()
        known = [*self.usable(), *(table for table, until in [self._kept.get(wanted, (None, 0.0))] if until > now)]
        quoting = (each for each in known if each is not None and now < each.until and currency in each.rates)
        return next((each for each in quoting if version(each) == wanted), None)

    def usable(self) -> tuple[Rates, ...]:
        """The tables that are not too old, the preferred first."""
        now = self._clock()
        return tuple(each for each in self._tables if now < each.until)

    def quoting(self, *currencies: str) -> Rates | None:
        """The preferred table of those that quote all of these currencies, None where there is none."""
        return _preferred(self.usable(), *currencies)

    def crosses(self, table: Rates, into: str) -> Mapping[str, Decimal]:
        """The rates of a table into a currency that it quotes; remembered, as many questions ask for the same."""
        known = self._crosses
        if (table, into) not in known:
            known[table, into] = table.crosses(into)
        return known[table, into]

    def quotes(self) -> Quotes | None:
        """The rates into any currency, as long as the tables in use are these; None without any."""
        return Quotes(self, tables) if (tables := self.usable()) else None

    def missing(self, currency: str) -> tuple[str, str]:
        """Why nothing can be converted into a currency that no usable table quotes: a code and a sentence."""
        believed = (each for each in self._tables if each not in self._refused)
        if not any(currency in each.rates for each in believed) and any(
            currency in each.rates for each in self._refused
        ):
            return "refused-quote", f"the quotes of {currency!a} that feeds tell now are refused: {CONTRADICTED}"
        if self.usable():
            return "no-quote", f"no feed of exchange rates quotes {currency!a}"
        if self._tables:
            age = min(self._age(each) for each in self._tables)
            return "stale-rates", f"the newest exchange rates are {age:,} s old, too old to be used"
        return "no-rates", "there are no exchange rates"

    def stands_in(self, table: Rates) -> bool:
        """Whether a table holds last good rates in place of some that are refused now."""
        return table in self._refused

    def stamp(self) -> tuple[object, ...]:
        """What tells the tables in use from any others."""
        return tuple((each.source, each.at, version(each)) for each in self.usable())

    def told(self, table: Rates) -> dict[str, Any]:
        """A table as answers that used it tell of it."""
        return {"source": table.source, "at": timestamp(table.at), "age": self._age(table), "base": table.base}

    def status(self, heard: Sequence[Heard] = ()) -> dict[str, Any] | None:
        """The table in use, and every feed, with what came of asking it where that is known; None without any."""
        if not self._tables and not heard:
            return None
        current = next(iter(self.usable()), None)
        found = self.told(current) if current else {"source": None, "at": None, "age": None, "base": None}
        if heard:
            return found | {"feeds": [_heard(each, self._clock()) for each in heard]}
        usable = self.usable()
        feeds = [each for each in self._tables if each not in self._refused]
        return found | {"feeds": [self.told(each) | {"usable": each in usable} for each in feeds]}

    def _age(self, table: Rates) -> int:
        return max(0, int(self._clock()) - table.at)


@dataclass(frozen=True, slots=True)
class Quotes:
    """The rates of the tables in use into a currency: those of the preferred one that quotes it."""

    exchange: Exchange
    tables: tuple[Rates, ...]

    def __call__(self, currency: str) -> Mapping[str, Decimal]:
        """Units of a currency for one of each other; empty where none quotes it."""
        table = _preferred(self.tables, currency)
        return self.exchange.crosses(table, currency) if table else {}


def _preferred(tables: Sequence[Rates], *currencies: str) -> Rates | None:
    """The first that quotes all of these currencies."""
    return next((each for each in tables if each.rates.keys() >= set(currencies)), None)


@lru_cache(maxsize=64)
def version(table: Rates) -> str:
    """What tells the rates of a table from any others: a table that says the same later has the same version."""
    told = f"{table.base} {sorted((each, str(rate)) for each, rate in table.rates.items())}"
    return blake2b(told.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def timestamp(seconds: int) -> str:
    """ISO 8601 in UTC, to the second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _members(table: Rates) -> tuple[object, ...]:
    return tuple(getattr(table, name) for name in _ATTRIBUTES)


def _heard(each: Heard, now: float) -> dict[str, Any]:
    found: dict[str, Any] = {
        "source": each.feed.source,
        "base": each.feed.base,
        "at": None if each.at is None else timestamp(each.at),
        "age": None if each.at is None else max(0, int(now) - each.at),
        "usable": each.until is not None and now < each.until,
    }
    if each.code:
        found |= {"code": each.code, "error": each.error}
    if each.left_out:
        found["leftOut"] = list(each.left_out[:64])
    return found
