"""Pages that are kept: a repeated question gets the bytes it got before, as long as nothing changed, and nothing else
of an answer is different."""

from __future__ import annotations

import gzip
from collections import OrderedDict
from decimal import Decimal

import pytest
from aiohttp import ClientSession
from hypothesis import given
from hypothesis import strategies as st

from indexer.setting_values import Quota
from indexer.store.rates import Quote
from overlay.api import kept_pages
from overlay.api.kept_pages import KeptPage, KeptPages, PageStamp, Question
from overlay.api.services import AppServices
from overlay.engines import IndexPosition
from overlay.pricing.exchange_rates import ExchangeRates
from parsers.cards.rate_table import RateTable
from tests.overlay.calls import engine_of, get, problem, raw
from tests.overlay.conftest import Serve
from tests.overlay.fakes import changed

GZIP = {"Accept-Encoding": "gzip"}
ALL = "/v1/search?limit=100"


async def test_a_repeated_question_is_not_searched_again(client: ClientSession, services: AppServices) -> None:
    first, again = [await fetched(client, ALL) for _ in range(2)]
    assert again == first
    assert len(engine_of(services).requests) == 1
    assert (await fetched(client, f"{ALL}&q="))[1] == first[1]
    assert len(engine_of(services).requests) == 2, "another text of the query string"


async def fetched(client: ClientSession, path: str, **headers: str) -> tuple[dict[str, str], bytes]:
    """The headers of an answer, without those of the request and of the moment; its body."""
    async with client.get(raw(path), headers=headers) as response:
        assert response.status == 200
        by_name = {name.lower(): value for name, value in response.headers.items()}
        del by_name["date"], by_name["x-request-id"]
        return by_name, await response.read()


async def test_kept_pages_are_compressed_or_not_as_the_client_accepts(
    client: ClientSession, services: AppServices
) -> None:
    for _ in range(2):
        plain, compressed = await fetched(client, ALL), await fetched(client, ALL, **GZIP)
        assert gzip.decompress(compressed[1]) == plain[1]
        assert compressed[0]["etag"] == plain[0]["etag"]
        assert ("content-encoding" in plain[0], compressed[0]["content-encoding"]) == (False, "gzip")
        assert int(compressed[0]["content-length"]) == len(compressed[1]) < len(plain[1])
    assert len(engine_of(services).requests) == 2
    short = [await fetched(client, "/v1/search?q=zzzz&status=burned", **GZIP) for _ in range(2)]
    assert short[0] == short[1]
    assert "Content-Encoding" not in short[0][0]


async def test_a_kept_page_has_its_entity_tag_and_an_answer_to_head(client: ClientSession) -> None:
    for _ in range(2):
        headers, body = await fetched(client, ALL)
        for tag in (headers["etag"], headers["etag"].removeprefix("W/"), f'"other", {headers["etag"]}', "*"):
            async with client.get(ALL, headers={"If-None-Match": tag}) as response:
                assert (response.status, await response.read()) == (304, b"")
                assert response.headers["ETag"] == headers["etag"]
        async with client.get(ALL, headers={"If-None-Match": '"other"'}) as response:
            assert (response.status, await response.read()) == (200, body)
        async with client.head(ALL) as response:
            assert (response.status, response.headers["Content-Length"]) == (200, str(len(body)))
            assert (await response.read(), response.headers["ETag"]) == (b"", headers["etag"])


async def test_kept_pages_are_counted_and_limited_like_others(serve: Serve, services: AppServices) -> None:
    client = await serve(changed(services, limits={"read": Quota(3, 60)}))
    left = []
    for _ in range(3):
        async with client.get(ALL, headers={"X-Request-Id": f"r{len(left)}"}) as response:
            assert (response.status, response.headers["X-Request-Id"]) == (200, f"r{len(left)}")
            left.append(response.headers["RateLimit"].split(";")[1])
    assert left == ["r=2", "r=1", "r=0"]
    async with client.get(ALL) as response:
        await problem(response, 429)
    assert len(engine_of(services).requests) == 1
    [latency] = [one for one in services.process.counters.latencies() if one.status == 200]
    assert sum(latency.counts) == 3


async def test_a_change_of_the_index_of_heights_chains_or_rates_makes_new_pages(
    serve: Serve, services: AppServices
) -> None:
    heights, chains = {"bsv-regtest": 125}, {"bsv-regtest": "bsv:regtest"}
    quotes: list[Quote] = []
    exchange = ExchangeRates(lambda: quotes, lambda: 1.0)
    client = await serve(
        changed(services, heights=lambda: dict(heights), chains=lambda: dict(chains), exchange=exchange)
    )
    engine, expected = engine_of(services), 0

    async def is_searched_once_more() -> None:
        nonlocal expected
        expected += 1
        pages = [await get(client, ALL) for _ in range(2)]
        assert pages[0] == pages[1]
        assert len(engine.requests) == expected
        assert pages[0]["index"] == {"seq": engine.read_to and engine.read_to.seq, "heights": heights}

    await is_searched_once_more()
    engine.read_to = IndexPosition("epoch-1", 8)
    await is_searched_once_more()
    engine.read_to = IndexPosition("epoch-2", 8)
    await is_searched_once_more()
    engine.version = "fake-2"  # rebuilt, up to the same change
    await is_searched_once_more()
    heights["bsv-regtest"] += 1
    await is_searched_once_more()
    chains["other"] = "eip155:1"
    await is_searched_once_more()
    table = RateTable(base="USD", rates={"USD": Decimal(1)}, source="a.example", quoted_at=0, until=100)
    quotes.append(Quote(feed="a", rank=0, since=0, table=table))
    exchange.refresh()
    await is_searched_once_more()


@pytest.mark.parametrize("more", ["explain=true", "maxPrice=5&priceCurrency=usd", "CURSOR"])
async def test_what_explains_converts_or_goes_on_is_searched_each_time(
    client: ClientSession, services: AppServices, more: str
) -> None:
    if more == "CURSOR":
        more = f"cursor={(await get(client, '/v1/search?limit=3'))['nextCursor']}"
    before = len(engine_of(services).requests)
    pages = [await get(client, f"/v1/search?limit=3&{more}") for _ in range(3)]
    assert pages[0] == pages[1] == pages[2]
    assert len(engine_of(services).requests) == before + 3


async def test_problems_are_not_kept(client: ClientSession, services: AppServices) -> None:
    engine_of(services).read_to = None
    for _ in range(2):
        async with client.get("/v1/search?q=zzzz") as response:
            await problem(response, 503)
        async with client.get("/v1/search?limit=x") as response:
            await problem(response, 400)
    engine_of(services).read_to = IndexPosition("epoch-1", 7)
    assert (await get(client, "/v1/search?q=zzzz"))["total"] == 0


# -- as many as there is room for


def stamp(number: int) -> PageStamp:
    return PageStamp("v", IndexPosition("e", number), {"c": "d"}, {"c": number}, ())


class SlowPages:
    """Stored pages by the plain rules: a list, the page that was sent last at its end, each with the bytes that it
    takes."""

    def __init__(self, most: int, largest: int) -> None:
        self.most, self.largest = most, largest
        self.number, self.pages = -1, OrderedDict[int, KeptPage]()

    def get(self, key: int, number: int) -> KeptPage | None:
        if number != self.number:
            self.number, self.pages = number, OrderedDict()
        if key in self.pages:
            self.pages[key] = self.pages.pop(key)
        return self.pages.get(key)

    def keep(self, key: int, number: int, page: KeptPage) -> None:
        if number == self.number and key not in self.pages and self.bytes_of(key, page) <= self.largest:
            self.pages[key] = page
            while sum(self.bytes_of(*one) for one in self.pages.items()) > self.most:
                self.pages.popitem(last=False)

    def bytes_of(self, key: int, page: KeptPage) -> int:
        return len(str(key)) + len(page.body[0]) + 40 + 1_000


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 1), st.integers(0, 6_000)), max_size=80))
def test_kept_pages_are_those_sent_last_within_the_bytes(calls: list[tuple[int, int, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_pages, "MOST_BYTES", 20_000)
        patch.setattr(kept_pages, "_LARGEST", 5_000)
        pages, slow = KeptPages(), SlowPages(20_000, 5_000)
        for key, number, size in calls:
            question, page_stamp = Question(str(key), gzip=False), stamp(number)
            assert pages.get(question, page_stamp) is slow.get(key, number)
            page = KeptPage((bytes(size),), {})
            pages.keep(question, page_stamp, page)
            slow.keep(key, number, page)
            assert pages.size == sum(slow.bytes_of(*one) for one in slow.pages.items()) <= 20_000


def test_a_view_of_a_mapped_file_counts_as_a_view() -> None:
    pages = KeptPages()
    body = memoryview(bytes(1 << 20))
    for number in range(1_000):
        question = Question(f"q={number:04}", gzip=False)
        pages.get(question, stamp(1))
        pages.keep(question, stamp(1), KeptPage((body,) * 20, {}))
    assert pages.size == 1_000 * (6 + 20 * 240 + 1_000)
    assert pages.get(Question("q=0000", gzip=False), stamp(1)) is not None


def test_a_page_that_was_made_while_the_index_changed_is_not_kept() -> None:
    pages, question = KeptPages(), Question("q=a", gzip=False)
    assert pages.get(question, stamp(1)) is None
    assert pages.get(question, stamp(2)) is None  # another request, meanwhile
    pages.keep(question, stamp(1), KeptPage((b"old",), {}))
    assert pages.get(question, stamp(2)) is None
