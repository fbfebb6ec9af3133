"""Quotes are kept alike in every database: one row while they stay the same, a bounded history, none used too long."""

from __future__ import annotations

from decimal import Decimal

from indexer.store import Store
from indexer.store.rates import Quote, Quotes
from parsers.cards.rate_table import RateTable


def quote(feed: str, position: int, dollars: str, rank: int = 0, until: int | None = None) -> Quote:
    rates = {"BSV": Decimal(1), "USD": Decimal(dollars)}
    table = RateTable(
        base="BSV",
        rates=rates,
        source="https://a.example",
        quoted_at=position,
        until=position + 60 if until is None else until,
    )
    return Quote(feed=feed, rank=rank, since=position, table=table)


def quote_history(quotes: Quotes, feed: str) -> list[tuple[int, int, str]]:
    return [(item.since, item.table.quoted_at, str(item.table.rates["USD"])) for item in quotes.history(feed, 100)]


def test_a_quote_comes_back_as_it_was_kept(store: Store) -> None:
    quotes = Quotes(store.engine)
    stored = quote("a", 100, "52.00000000000000000000000000000000001")
    quotes.store([stored])
    (result,) = quotes.newest()
    assert (result.feed, result.rank, result.since) == ("a", 0, 100)
    for name in ("base", "rates", "source", "quoted_at", "until"):
        assert getattr(result.table, name) == getattr(stored.table, name)


def test_the_same_again_prolongs_and_another_is_a_new_row(store: Store) -> None:
    quotes = Quotes(store.engine)
    for position, dollars in [(1, "50"), (2, "50"), (3, "51"), (3, "52"), (4, "50")]:
        quotes.store([quote("a", position, dollars), quote("b", position, "9", rank=1)])
    assert quote_history(quotes, "a") == [(4, 4, "50"), (3, 3, "52"), (1, 2, "50")]
    assert quote_history(quotes, "b") == [(1, 4, "9")]
    assert quote_history(quotes, "c") == []


def test_the_newest_of_each_feed_stand_in_the_operators_order(store: Store) -> None:
    quotes = Quotes(store.engine)
    quotes.store([quote("z", 1, "1"), quote("a", 1, "2", rank=1), quote("m", 1, "3", rank=2)])
    quotes.store([quote("z", 2, "4", rank=1), quote("a", 2, "5", rank=0)])
    assert [(item.feed, str(item.table.rates["USD"])) for item in quotes.newest()] == [
        ("a", "5"),
        ("z", "4"),
        ("m", "3"),
    ]


def test_history_is_bounded_for_each_feed(store: Store) -> None:
    quotes = Quotes(store.engine)
    for index in range(1, 9):
        quotes.store([quote("a", index, str(index))], limit=3)
    quotes.store([quote("b", 1, "1")], limit=3)
    assert quote_history(quotes, "a") == [(8, 8, "8"), (7, 7, "7"), (6, 6, "6")]
    assert quote_history(quotes, "b") == [(1, 1, "1")]


def test_quotes_of_other_feeds_are_used_no_longer_and_kept(store: Store) -> None:
    quotes = Quotes(store.engine)
    quotes.store([quote("a", 100, "1"), quote("b", 100, "2", rank=1), quote("c", 10, "3", rank=2)])
    quotes.retire(["a"], 120)
    assert [(item.feed, item.table.until) for item in quotes.newest()] == [("a", 160), ("b", 120), ("c", 70)]
