"""Exchange rates as answers use them: which table, in which form, and what happens without one."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from indexer.rates.feed_urls import ALONE, rate_feeds
from indexer.rates.rates_fetcher import FeedStatus
from indexer.store.rates import Quote
from overlay.api.openapi import document
from overlay.api.parameters import pairs
from overlay.api.problems import BadRequestError
from overlay.api.search_answer import page, query_explained
from overlay.api.search_request import SearchRequest, from_pairs
from overlay.api.services import AppServices
from overlay.app.http_app import ROUTES
from overlay.app.metrics import exposition
from overlay.pricing.exchange_rates import MAX_RETIRED, RETIRED_SECONDS, ExchangeRates
from overlay.search.query import Cheapest, Hit, Hits, Query
from parsers.cards.rate_table import RateTable
from parsers.claims.amount_due import PaymentRefusedError
from tests.overlay.calls import get
from tests.overlay.conftest import Serve
from tests.overlay.fakes import FakeEngine, changed

NOW = 1_800_000_000


def table(source: str, base: str, age: int = 10, **rates: str) -> RateTable:
    answers = {base: Decimal(1), **{name: Decimal(rate) for name, rate in rates.items()}}
    return RateTable(base=base, rates=answers, source=source, quoted_at=NOW - age, until=NOW - age + 3600)


def exchange(*tables: RateTable, suffix: str = ALONE) -> ExchangeRates:
    quotes = [Quote(feed=f"{rank}{suffix}", rank=rank, since=0, table=item) for rank, item in enumerate(tables)]
    exchange_rates = ExchangeRates(lambda: quotes, lambda: NOW)
    exchange_rates.refresh()
    return exchange_rates


def test_other_rates_of_the_same_moment_are_distinguished_from_the_first() -> None:
    other = replace(FIRST, rates={**FIRST.rates, "EUR": Decimal(60)})
    assert other.quoted_at == FIRST.quoted_at
    assert exchange(other).stamp() != exchange(FIRST).stamp() == exchange(replace(FIRST)).stamp()


FIRST = table("https://a.example", "BSV", USD="50", EUR="40")
SECOND = table("https://b.example", "USD", BSV="0.02", JPY="150")


def ask(query: str, exchange_rates: ExchangeRates) -> SearchRequest:
    return from_pairs(pairs(query), {"bsv": "bsv:mainnet"}, exchange_rates)


def test_the_first_table_that_quotes_the_currency_and_is_not_too_old_is_used() -> None:
    both = exchange(FIRST, SECOND)
    assert ask("priceCurrency=usd&maxPrice=5", both).rates is FIRST
    assert ask("priceCurrency=jpy&maxPrice=5", both).rates is SECOND
    assert ask("priceCurrency=jpy&maxPrice=5", both).query.rates == {
        "USD": 150, "BSV": Decimal(7500),
    }  # fmt: skip
    stale = exchange(table("https://a.example", "BSV", 3600, USD="50"), SECOND)
    assert ask("priceCurrency=usd&maxPrice=5", stale).rates is not None
    assert ask("priceCurrency=usd&maxPrice=5", stale).query.rates == {"BSV": 50, "JPY": Decimal("0.00666666666667")}
    assert ask("maxPrice=5", both).query.price_currency == "USD"  # the default
    assert ask("sort=price", exchange(table("https://a.example", "BSV", EUR="40"))).rates is None
    assert ask("maxPrice=5&acceptedCurrency=eur", both).rates is FIRST


@pytest.mark.parametrize(
    ("tables", "code"),
    [
        ((), "no-rates"),
        ((table("https://a.example", "BSV", 3600, USD="50"),), "stale-rates"),
        ((FIRST, SECOND), "no-quote"),
    ],
)
def test_a_price_that_cannot_be_converted_is_reported_with_the_reason(tables: tuple[RateTable, ...], code: str) -> None:
    for query in ("priceCurrency=gbp&maxPrice=5", "priceCurrency=gbp&sort=-price", "acceptedCurrency=gbp&minPrice=1"):
        parsed = ask(query, exchange(*tables))
        assert parsed.unapplied == []
        assert [note.code for note in parsed.notes] == [code]
        assert "only offers priced in 'GBP' were compared by price" in parsed.notes[0].detail
        assert (parsed.rates, parsed.query.rates) == (None, {})
    assert ask("priceCurrency=gbp", exchange(*tables)).notes == ()


def beside(accepted_rates: RateTable, instead: RateTable) -> ExchangeRates:
    """Rates of a feed of which some are refused now, and what stands in for these."""

    def read() -> list[Quote]:
        """As from the database: each time other objects."""
        current, last = replace(accepted_rates), replace(instead)
        reasons = {"USD": "contradicted"}
        return [
            Quote(feed=f"a{ALONE}", rank=0, since=0, table=current),
            Quote(feed=f"a{ALONE}!refused", rank=1, since=0, table=last, reasons=reasons),
        ]

    exchange_rates = ExchangeRates(read, lambda: NOW)
    exchange_rates.refresh()
    exchange_rates.refresh()
    return exchange_rates


def test_the_last_good_quote_is_used_for_a_refused_one_and_the_answer_says_so() -> None:
    instead = table("https://a.example", "BSV", 600, USD="50", EUR="41")
    answer = beside(table("https://a.example", "BSV", EUR="41"), instead)
    parsed = ask("priceCurrency=usd&maxPrice=5", answer)
    assert parsed.rates is not None
    assert parsed.rates.quoted_at == instead.quoted_at
    assert parsed.query.rates["BSV"] == 50
    assert "EUR" in parsed.query.rates
    assert [note.code for note in parsed.notes] == ["quoted-only", "refused-quote"]
    assert "are refused" in parsed.notes[1].detail
    fresh = ask("priceCurrency=eur&maxPrice=5", answer).rates
    assert fresh is not None
    assert fresh.quoted_at > instead.quoted_at
    status = answer.status()
    assert status is not None
    assert len(status["feeds"]) == 1


def test_a_refused_quote_is_not_reported_as_missing() -> None:
    answer = beside(table("https://a.example", "BSV", EUR="41"), table("https://a.example", "BSV", 3600, USD="50"))
    parsed = ask("priceCurrency=usd&maxPrice=5", answer)
    assert ([note.code for note in parsed.notes], parsed.unapplied) == (["refused-quote"], [])
    assert answer.missing("GBP")[0] == "no-quote"


def test_where_prices_are_converted_the_answer_says_which_offers_were_not_compared() -> None:
    parsed = ask("priceCurrency=usd&maxPrice=5", exchange(FIRST))
    assert parsed.unapplied == []
    assert [note.code for note in parsed.notes] == ["quoted-only"]
    assert "https://a.example does not quote" in parsed.notes[0].detail


def test_converted_prices_are_shown_with_their_rate_and_per_day() -> None:
    exchange_rates = exchange(FIRST)
    parsed = ask("priceCurrency=usd&maxPrice=5&explain=1", exchange_rates)
    assert parsed.rates
    hits = (
        Hit("a", b'{"id":"a"}', 1.0, Cheapest("o", "0.1", "BSV", "P1W", ("5", "USD")), (1,)),
        Hit("b", b'{"id":"b"}', 1.0, Cheapest("o", "4", "USD", "none"), (1,)),
        Hit("c", b'{"id":"c"}', 1.0, None, (1,)),
    )
    body = json.loads(b"".join(page(parsed, Hits(hits, 3), None, {}, exchange_rates.table_json(parsed.rates))))
    assert [item["cheapest"] for item in body["items"]] == [
        {
            "offerId": "o", "amount": "0.1", "currency": "BSV", "interval": "P1W", "perDay": "0.0142857142857",
            "converted": {"amount": "5", "currency": "USD", "rate": "50", "perDay": "0.714285714285"},
        },
        {"offerId": "o", "amount": "4", "currency": "USD", "interval": "none", "perDay": None},
        None,
    ]  # fmt: skip
    assert body["rates"] == {"source": "https://a.example", "at": "2027-01-15T07:59:50Z", "age": 10, "base": "BSV"}
    assert "unappliedFilters" not in body
    assert query_explained(parsed)["query"]["price_currency"] == "USD"
    schemas = document(ROUTES, "0")["components"]
    check = Draft202012Validator({"$ref": "#/components/schemas/Page/properties/rates", "components": schemas})
    check.validate(body["rates"])
    check = Draft202012Validator({"$ref": "#/components/schemas/Cheapest", "components": schemas})
    check.validate(body["items"][0]["cheapest"])


def test_the_same_quotes_again_are_the_same_tables() -> None:
    quotes = [Quote(feed="a", rank=0, since=0, table=FIRST)]
    exchange_rates = ExchangeRates(lambda: quotes, lambda: NOW)
    exchange_rates.refresh()
    before = exchange_rates.crosses(FIRST, "USD")
    quotes[:] = [Quote(feed="a", rank=0, since=0, table=replace(FIRST))]
    exchange_rates.refresh()
    assert exchange_rates.usable() == (FIRST,)
    assert exchange_rates.crosses(FIRST, "USD") is before
    quotes[:] = [Quote(feed="a", rank=0, since=0, table=replace(FIRST, quoted_at=NOW))]
    exchange_rates.refresh()
    assert exchange_rates.usable()[0].quoted_at == NOW


async def test_answers_about_prices_change_their_tag_with_the_rates_and_others_do_not(
    serve: Serve, services: AppServices
) -> None:
    tags = []
    for answer in (exchange(FIRST), exchange(table("https://a.example", "BSV", 5, USD="51"))):
        client = await serve(changed(services, exchange=answer))
        for path in (
            "/v1/search?maxPrice=1&priceCurrency=usd",
            "/v1/search?q=tower",
            "/?q=x&maxPrice=1&priceCurrency=usd",
        ):
            async with client.get(path) as response:
                tags.append(response.headers["ETag"])
    assert tags[0] != tags[3]
    assert tags[1] == tags[4]
    assert tags[2] != tags[5]


class Taking(FakeEngine):
    """An engine whose listings name these currencies."""

    names: tuple[str, ...] = ()
    count = 0

    def search(self, query: Query) -> Hits:
        self.count += query.facets == ("acceptedCurrency",)
        hits, counts = super().search(query), tuple((name, 1) for name in self.names)
        return replace(hits, facets={"acceptedCurrency": counts}, facet_totals={"acceptedCurrency": len(counts)})


@pytest.mark.parametrize(("names", "codes"), [(("usd", "BSV"), None), ((), None), (("USD", "XYZ"), ["quoted-only"])])
async def test_that_unquoted_currencies_are_not_compared_is_noted_where_there_are_some(
    serve: Serve, services: AppServices, names: tuple[str, ...], codes: list[str] | None
) -> None:
    assert isinstance(services.engine, FakeEngine)
    services.engine.__class__ = Taking
    services.engine.names = names  # type: ignore[attr-defined]
    client = await serve(changed(services, exchange=exchange(FIRST)))
    for _ in range(2):
        notes = (await get(client, "/v1/search?maxPrice=1&priceCurrency=usd")).get("notes")
        assert (notes and [note["code"] for note in notes]) == codes
    assert services.engine.count == 1  # type: ignore[attr-defined]


async def test_a_search_tells_the_rates_it_used_and_a_page_shows_what_is_worth(
    serve: Serve, services: AppServices
) -> None:
    client = await serve(changed(services, exchange=exchange(FIRST)))
    answer = await get(client, "/v1/search?maxPrice=1&priceCurrency=usd")
    assert answer["rates"]["source"] == "https://a.example"
    assert [note["code"] for note in answer["notes"]] == ["quoted-only"]
    assert "rates" not in await get(client, "/v1/search?q=tower")
    async with client.get("/?maxPrice=1&priceCurrency=gbp", headers={"Accept": "text/html"}) as response:
        assert "No feed of exchange rates quotes" in await response.text()


def test_payments_need_a_feed_of_trust_or_two_hosts_that_agree() -> None:
    near, far = table("https://c.example", "BSV", USD="55"), table("https://d.example", "BSV", USD="90")
    one = exchange(FIRST, suffix="")
    with pytest.raises(PaymentRefusedError, match="two have to agree"):
        one.rate_to_pay("BSV", "USD")
    assert one.crosses(FIRST, "USD")["BSV"] == 50, "searches convert by it"
    assert exchange(FIRST).rate_to_pay("BSV", "USD") == 50
    assert exchange(far, FIRST, near, suffix="").rate_to_pay("BSV", "USD") == 50, "the first that another confirms"
    with pytest.raises(PaymentRefusedError, match="two have to agree"):
        exchange(far, FIRST, suffix="").rate_to_pay("USD", "BSV")
    with pytest.raises(PaymentRefusedError, match="two have to agree"):
        exchange(FIRST, replace(near, source=FIRST.source), suffix="").rate_to_pay("BSV", "USD")
    with pytest.raises(PaymentRefusedError, match="no feed of exchange rates quotes 'GBP'"):
        one.rate_to_pay("GBP", "BSV")


def feed_status(**more: Any) -> FeedStatus:
    (feed,) = rate_feeds("BSV=https://c.example/secret")
    return FeedStatus(feed=feed, **more)


def test_status_tells_the_table_in_use_and_every_feed() -> None:
    assert exchange().status() is None
    status_now = exchange(table("https://a.example", "BSV", 3600, USD="50"), SECOND).status()
    assert status_now is not None
    assert (status_now["source"], status_now["age"]) == ("https://b.example", 10)
    assert [(feed["source"], feed["age"], feed["usable"]) for feed in status_now["feeds"]] == [
        ("https://a.example", 3600, False),
        ("https://b.example", 10, True),
    ]
    reports = [
        feed_status(code="signature", error="sends no X-Signature"),
        feed_status(quoted_at=NOW - 5, until=NOW + 5, refused={"X": "median"}),
    ]
    state = exchange(FIRST).status(reports)
    two = exchange().status([*reports, feed_status(code="signature", error="")])
    assert two is not None
    names = [feed["source"] for feed in two["feeds"]]
    assert names == ["https://c.example", "https://c.example (2)", "https://c.example (3)"]
    never = exchange().status([feed_status(code="unreachable", error="...")])
    assert state is not None
    assert [(feed["usable"], feed.get("code"), feed.get("leftOut")) for feed in state["feeds"]] == [
        (False, "signature", None),
        (True, None, ["X"]),
    ]
    assert never is not None
    assert (never["source"], never["at"], never["age"]) == (None, None, None)
    schemas = document(ROUTES, "0")["components"]
    check = Draft202012Validator({"$ref": "#/components/schemas/RatesStatus", "components": schemas})
    for item in (status_now, state, never):
        check.validate(item)
        assert "secret" not in json.dumps(item)


def test_metrics_tell_the_age_of_rates(services: AppServices) -> None:
    def scraped(exchange_rates: ExchangeRates) -> str:
        status = {**services.process.status(), "rates": exchange_rates.status()}
        return exposition(replace(services.process, status=lambda: status), [], "")[0].decode()

    assert "a2b_rates" not in scraped(exchange())
    text = scraped(exchange(FIRST, table("https://b.example", "USD", 4000, BSV="0.02")))
    assert "a2b_rates_age_seconds 10.0" in text
    assert 'a2b_rates_feed_age_seconds{base="USD",feed="https://b.example"} 4000.0' in text
    assert 'a2b_rates_feed_usable{base="USD",feed="https://b.example"} 0.0' in text
    assert 'a2b_rates_feed_usable{base="BSV",feed="https://a.example"} 1.0' in text


def next_page(query: str, exchange_rates: ExchangeRates) -> str:
    """A question's cursor for its second page, as if one hit had been found."""
    parsed = ask(query, exchange_rates)
    hits = Hits((Hit("a", b'{"id":"a"}', 0.0, None, (0, 0, "USD", "50001", "a")),), 5)
    cursor: str = json.loads(b"".join(page(parsed, hits, None, {})))["nextCursor"]
    return f"{query}&cursor={cursor}"


def test_an_order_by_price_goes_on_in_the_rates_that_it_began_with() -> None:
    now = [float(NOW)]
    quotes = [Quote(feed="0", rank=0, since=0, table=FIRST)]
    exchange_rates = ExchangeRates(lambda: list(quotes), lambda: now[0])
    exchange_rates.refresh()
    second = next_page("priceCurrency=usd&sort=price&limit=1", exchange_rates)
    assert ask(second, exchange_rates).rates is FIRST
    later = replace(FIRST, quoted_at=NOW + 60, until=NOW + 3_660)
    quotes[0] = replace(quotes[0], table=later)
    exchange_rates.refresh()
    assert ask(second, exchange_rates).rates is later, "the same rates at another time are the same rates"
    changed = replace(later, rates={**FIRST.rates, "USD": Decimal(51)})
    quotes[0] = replace(quotes[0], table=changed)
    exchange_rates.refresh()
    parsed = ask(second, exchange_rates)
    assert (parsed.rates, parsed.query.rates["BSV"]) == (later, 50)
    assert ask("priceCurrency=usd&sort=price&limit=1", exchange_rates).query.rates["BSV"] == 51
    now[0] += RETIRED_SECONDS
    with pytest.raises(BadRequestError) as refused:
        ask(second, exchange_rates)
    assert [(fault.code, fault.parameter) for fault in refused.value.faults] == [("rates-changed", "cursor")]
    assert "search again without the cursor" in refused.value.detail


def test_rates_that_came_or_went_end_an_order_by_price_too() -> None:
    without, having = exchange(), exchange(FIRST)
    for began, goes_on in ((without, having), (having, without)):
        with pytest.raises(BadRequestError, match="the exchange rates have changed"):
            ask(next_page("priceCurrency=usd&sort=-price&limit=1", began), goes_on)
        with pytest.raises(BadRequestError, match="the exchange rates have changed"):
            ask(next_page("sort=-price&limit=1", began), goes_on)  # in the default currency


def test_without_rates_currencies_are_not_compared_and_the_answer_says_so() -> None:
    for query in ("sort=price", "maxPrice=5", "sort=-price_per_day"):
        parsed = ask(query, exchange())
        assert [note.code for note in parsed.notes] == ["currencies-not-compared"]
        assert (parsed.unapplied, parsed.query.price_currency) == ([], None)
        assert [note.code for note in ask(query, exchange(FIRST)).notes] == ["quoted-only"]
    assert ask("sort=name", exchange()).notes == ()


def test_what_is_kept_of_old_rates_is_bounded() -> None:
    rates = iter(range(1, 1_000))

    def read() -> list[Quote]:
        return [Quote(feed="0", rank=0, since=0, table=table("https://a.example", "BSV", USD=f"{next(rates)}"))]

    exchange_rates = ExchangeRates(read, lambda: NOW)
    for _ in range(2 * MAX_RETIRED):
        exchange_rates.refresh()
    assert len(exchange_rates.retired) == MAX_RETIRED
