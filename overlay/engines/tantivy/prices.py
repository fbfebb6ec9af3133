"""Sorting by price: every listing by its cheapest offer that meets the query, within its currency."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import NamedTuple

from overlay.engines.tantivy.facts import number
from overlay.engines.tantivy.pages import Address, Key, Keyed, Read
from overlay.engines.tantivy.queries import Part, Translator, every
from overlay.engines.tantivy.schema import FIRST
from overlay.query import Cheapest, Query
from overlay.search.prices import UNKNOWN, amount_key, compared, converted_keys, key_number, price_key
from overlay.search.records import Record

Find = Callable[[Record], Cheapest | None]
"""The cheapest offer of a record under the query."""


class Lowest(NamedTuple):
    """What is known of a listing without reading it: a number for its currency, the key of its lowest amount."""

    anchor: int
    amount: int
    address: Address


class ByPrice:
    """All hits by currency code, then amount, then id; listings without a price in question stand last, by id, and
    that in either direction."""

    def __init__(
        self, ask: Translator, query: Query, admitted: Part, total: int, read: Read, find: Find, *, reverse: bool
    ) -> None:
        self._ask, self._admitted, self._total, self._read, self._find = ask, admitted, total, read, find
        self._reverse = reverse
        self._lowest = _lowest(ask, query, admitted, total, read, find)
        self._names = _names(self._lowest, read, find)
        self._priced = sorted(self._lowest.values(), key=self._place, reverse=reverse)

    def _place(self, each: Lowest) -> tuple[str, int]:
        return self._names[each.anchor], each.amount

    def page(self, start: int, limit: int) -> list[Keyed]:
        """Hits number `start` to `start + limit`."""
        stop, priced = start + limit, len(self._priced)
        found = self._rows(start, stop)
        if stop > priced and priced < self._total:
            found += self._unpriced()[max(0, start - priced) : stop - priced]
        return found

    def after(self, key: Key, limit: int) -> list[Keyed]:
        """The `limit` hits that come strictly after a key."""
        later: list[Keyed] = []
        if key[0] == 0:
            start = self._before((key[1], key_number(key[2])))
            ties = sum(1 for each in self._priced[start:] if self._place(each) == self._place(self._priced[start]))
            rows = self._rows(start, start + ties + limit)
            later = [row for row in rows if (row[0] < key if self._reverse else row[0] > key)][:limit]
        if len(later) < limit and len(self._priced) < self._total:
            rest = self._unpriced()
            if key[0] == 1:
                rest = [row for row in rest if (row[0] < key if self._reverse else row[0] > key)]
            later += rest[: limit - len(later)]
        return later

    def _before(self, place: tuple[str, int]) -> int:
        """How many priced hits come before those with a currency and an amount's number."""
        if self._reverse:
            return bisect_left(self._priced, True, key=lambda each: self._place(each) <= place)
        return bisect_left(self._priced, True, key=lambda each: self._place(each) >= place)

    def _rows(self, start: int, stop: int) -> list[Keyed]:
        """The stretch of priced hits, read with the whole ties at its ends: numbers tie for amounts that are equal, or
        equal to 15 digits."""
        priced = self._priced
        low, high = min(start, len(priced)), min(stop, len(priced))
        while 0 < low < len(priced) and priced[low - 1][:2] == priced[low][:2]:
            low -= 1
        while 0 < high < len(priced) and priced[high][:2] == priced[high - 1][:2]:
            high += 1
        rows = self._keyed([each.address for each in priced[low:high]], priced=True)
        return rows[max(0, start - low) : max(0, stop - low)]

    def _unpriced(self) -> list[Keyed]:
        ask = self._ask
        addresses = [
            address for _, address in ask.searcher.search(self._admitted, max(1, self._total), count=False).hits
        ]
        places = ask.numbers("place", addresses)
        rest = [address for address, place in zip(addresses, places, strict=True) if place not in self._lowest]
        return self._keyed(rest, priced=False)

    def _keyed(self, addresses: list[Address], *, priced: bool) -> list[Keyed]:
        records = self._read(addresses)
        rows = [(price_key(self._find(each) if priced else None, each.id), each) for each in records]
        rows.sort(key=lambda row: row[0], reverse=self._reverse)
        return rows


def _lowest(ask: Translator, query: Query, admitted: Part, total: int, read: Read, find: Find) -> dict[int, Lowest]:
    """By place: the lowest amount among offers that meet the query, in the currency law 14 names. Listings with more
    offers than have columns are read, and so are those whose amounts have more digits than can be converted unread."""
    found: dict[int, Lowest] = {}
    unread: list[Address] = []
    for each in ask.each_currency(query):
        for place, anchor, amount, address in _priced(ask, each, query, admitted, total):
            if amount == UNKNOWN:
                unread.append(address)
                continue
            before = found.get(place)
            if before is None or (before.anchor == anchor and amount < before.amount):
                found[place] = Lowest(anchor, amount, address)
    long = every([admitted, ask.term("offer", f"{FIRST}")])
    addresses = [address for _, address in ask.searcher.search(long, max(1, total), count=False).hits] + unread
    for place, address, record in zip(ask.numbers("place", addresses), addresses, read(addresses), strict=True):
        cheapest = find(record)
        found.pop(place, None)
        if cheapest is not None:
            worth, currency = compared(cheapest)
            found[place] = Lowest(number(currency), amount_key(Decimal(worth)), address)
    return found


def _priced(
    ask: Translator, each: Query, query: Query, admitted: Part, total: int
) -> Iterator[tuple[int, int, int, Address]]:
    """Place, currency, amount and address of every offer with columns that meets a question about one currency, in the
    terms of the whole question."""
    rate = None if each.price_currency is None else query.rates.get(each.price_currency)
    for slot in ask.slots(each, anchored=True):
        if slot >= FIRST:
            return
        offers = every([admitted, ask.slot(slot, each, anchored=True)])
        hits = ask.searcher.search(offers, max(1, total), count=False, order_by_field=f"price{slot}").hits
        addresses, keys = [address for _, address in hits], [key for key, _ in hits]
        if rate is None or query.price_currency is None:
            anchors = ask.numbers(f"anchor{slot}", addresses)
        else:
            keys, anchors = converted_keys(keys, rate), [number(query.price_currency)] * len(keys)
        yield from zip(ask.numbers("place", addresses), anchors, keys, addresses, strict=True)


def _names(lowest: dict[int, Lowest], read: Read, find: Find) -> dict[int, str]:
    """The currency code behind each number, read from one listing each."""
    samples = {each.anchor: each.address for each in lowest.values()}
    cheapest = map(find, read(list(samples.values())))
    return {anchor: compared(each)[1] if each else "" for anchor, each in zip(samples, cheapest, strict=True)}
