"""Feeds of exchange rates: what is believed of them, what is refused and why, and what is kept."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from indexer.model import LATEST_TIME
from indexer.rates.feed_client import FeedClient, FeedTable, RatesRefusedError, check_signature, read
from indexer.rates.feed_urls import RateFeed
from indexer.rates.outliers import APART, FeedOpinion, agrees, judge
from indexer.rates.rates_fetcher import RatesFetcher
from indexer.store import StoreUnavailableError, connect
from indexer.store.rates import MAX_HISTORY, FeedState, Quote, Quotes
from parsers.cards.rate_table import RateTable
from tests.clocks import Clock
from tests.rate_server import RateServer

NOW = 1_800_000_000
PATIENCE = 30.0


class Bench:
    """A loop over feeds of a server; `accepted_rates` are the rates of the preferred feed that may be used now."""

    def __init__(self, quotes: Quotes, client: FeedClient) -> None:
        self.quotes, self.client, self.clock = quotes, client, Clock(NOW)
        self.loop: RatesFetcher | None = None

    def over(self, *feeds: RateFeed) -> None:
        """Begin anew, as after a restart."""
        self.loop = RatesFetcher(feeds, self.quotes, max_age=3600, client=self.client, clock=self.clock)
        self.loop.begin()

    async def round(self, after: int = 60) -> list[str]:
        """Ask all feeds, some time after the last round; what became of each."""
        assert self.loop is not None
        self.clock.now += after
        await self.loop.round()
        return [status.code for status in self.loop.statuses]

    def refused(self, number: int = 0) -> dict[str, str]:
        """The currencies that do not count of a feed's last answer, and why, as the store has it, too."""
        assert self.loop is not None
        status = self.loop.statuses[number]
        assert self.quotes.states()[status.feed.name].refused == status.refused
        return dict(status.refused)

    def usable(self) -> dict[str, Decimal]:
        usable = [item.table for item in self.quotes.newest() if self.clock.now < item.table.until]
        return dict(usable[0].rates) if usable else {}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = connect(f"sqlite:///{tmp_path}/rates.db")
    yield engine
    engine.dispose()


@pytest.fixture
def quotes(engine: Engine) -> Quotes:
    return Quotes(engine)


@pytest.fixture
async def server() -> AsyncIterator[RateServer]:
    async with RateServer() as started:
        yield started


@pytest.fixture
async def bench(quotes: Quotes) -> AsyncIterator[Bench]:
    client = FeedClient(PATIENCE)
    yield Bench(quotes, client)
    await client.close()


def d(**rates: Any) -> dict[str, Decimal]:
    return {name: Decimal(str(rate)) for name, rate in rates.items()}


async def test_a_feed_is_fetched_and_its_table_stored(bench: Bench, server: RateServer) -> None:
    server.send("/a", b'{"rates": {"USD": 52.10000000000000000001, "btc": "5.2e-4", "XXX": 0, "YYY": "n/a"}}')
    bench.over(server.feed("bsv", "/a"))
    assert await bench.round() == [""]
    assert bench.usable() == d(BSV=1, USD="52.10000000000000000001", BTC="0.00052")
    (quote,) = bench.quotes.newest()
    assert (quote.table.quoted_at, quote.table.until) == (NOW + 60, NOW + 60 + 3600)
    assert quote.table.source == f"http://127.0.0.1:{server.port}"
    assert server.headers[0]["Accept-Encoding"] == "identity"


async def test_what_does_not_change_is_one_row_of_history_and_what_does_is_another(
    bench: Bench, server: RateServer
) -> None:
    feed = server.feed("BSV", "/a")
    bench.over(feed)
    for dollars in (50, 50, 50, 51, 50):
        server.tell("/a", {"USD": dollars})
        assert await bench.round() == [""]
    answers = [
        (item.since - NOW, item.table.quoted_at - NOW, item.table.rates["USD"])
        for item in bench.quotes.history(feed.name, 9)
    ]
    assert answers == [(300, 300, 50), (240, 240, 51), (60, 180, 50)]


async def test_a_signed_feed_is_believed_by_its_pinned_key_only(bench: Bench, server: RateServer) -> None:
    bench.over(server.feed("BSV", "/a", server.public), server.feed("BSV", "/b", "00" * 32))
    for path in ("/a", "/b"):
        server.tell(path, {"USD": 50}, sign=True)
    assert await bench.round() == ["", "signature"]
    server.tell("/a", {"USD": 51})
    assert await bench.round() == ["signature", "signature"]
    body = b'{"rates": {"USD": 52}}'
    server.send("/a", body + b" ", X_Signature=server.key.sign(body).hex())
    assert (await bench.round())[0] == "signature"
    server.send("/a", body, X_Signature="zz")
    assert (await bench.round())[0] == "signature"
    server.send("/a", body, X_Signature=server.key.sign(body).hex().upper())
    assert (await bench.round())[0] == ""
    assert bench.usable()["USD"] == 52


async def test_stale_and_future_tables_and_replays_are_refused(bench: Bench, server: RateServer) -> None:
    bench.over(server.feed("BSV", "/a"))
    for timestamp, code in [
        (NOW + 60 - 3600, "stale"), (NOW + 120 + 301, "future"), (NOW + 100, ""), (NOW + 99, "older"), (NOW + 100, ""),
    ]:  # fmt: skip
        server.tell("/a", {"USD": 50}, timestamp=timestamp)
        assert await bench.round() == [code]
    assert bench.quotes.newest()[0].table.quoted_at == NOW + 100
    bench.over(server.feed("BSV", "/a"))  # remembered over a restart
    server.tell("/a", {"USD": 50}, timestamp=NOW + 99)
    assert await bench.round() == ["older"]


async def test_a_quote_that_is_not_renewed_becomes_too_old(bench: Bench, server: RateServer) -> None:
    server.tell("/a", {"USD": 50})
    bench.over(server.feed("BSV", "/a"))
    await bench.round()
    server.send("/a", b"", status=503)
    assert await bench.round(3599) == ["status"]
    assert bench.usable()
    assert await bench.round(1) == ["status"]
    assert bench.usable() == {}
    assert len(bench.quotes.newest()) == 1


async def test_a_leap_is_an_outlier_until_the_past_is_too_old_to_object(bench: Bench, server: RateServer) -> None:
    bench.over(server.feed("BSV", "/a"))
    server.tell("/a", {"USD": 50, "EUR": 40})
    await bench.round()
    server.tell("/a", {"USD": 75.1, "EUR": 41})
    for _ in range(3):  # also after a restart, and again and again
        assert await bench.round() == [""]
        assert bench.usable() == d(BSV=1, EUR=41)
        assert bench.refused() == {"USD": "leap"}
        bench.over(server.feed("BSV", "/a"))
    server.tell("/a", {"USD": 76, "EUR": 62})
    assert await bench.round() == ["outlier"]
    assert bench.usable() == d(BSV=1, USD=50, EUR=41), "the last good ones"
    assert await bench.round(3600) == [""]
    assert bench.usable() == d(BSV=1, USD=76, EUR=62)


async def test_a_refused_leap_of_one_currency_leaves_its_last_good_quote(bench: Bench, server: RateServer) -> None:
    feed = server.feed("BSV", "/a")
    bench.over(feed)
    server.tell("/a", {"USD": 50, "EUR": 40})
    assert await bench.round() == [""]
    now = bench.clock.now
    server.tell("/a", {"USD": 500, "EUR": 41})
    assert await bench.round() == [""]
    assert bench.loop is not None
    assert bench.refused() == {"USD": "leap"}
    accepted, instead = bench.quotes.newest()
    assert (accepted.table.rates, accepted.is_refused, accepted.table.quoted_at) == (d(BSV=1, EUR=41), False, now + 60)
    assert (instead.table.rates, instead.is_refused) == (d(BSV=1, EUR=41, USD=50), True)
    assert (instead.table.quoted_at, instead.table.until) == (now, now + 3600), "it becomes no younger"
    bench.over(feed)  # as after a restart
    assert await bench.round() == [""]
    assert bench.quotes.newest()[1].table.rates["USD"] == 50
    server.tell("/a", {"USD": 51, "EUR": 41})
    assert await bench.round() == [""]
    (accepted,) = bench.quotes.newest()
    assert accepted.table.rates == d(BSV=1, EUR=41, USD=51)


async def test_what_no_two_feeds_agree_on_is_known_to_be_refused(bench: Bench, server: RateServer) -> None:
    bench.over(*(server.feed("BSV", path) for path in ("/a", "/b", "/c")))
    for path, dollars in (("/a", 50), ("/b", 500), ("/c", 5000)):
        server.tell(path, {"USD": dollars, "EUR": 40})
    await bench.round()
    newest = bench.quotes.newest()
    assert [quote.is_refused for quote in newest] == [False] * 3 + [True] * 3
    assert all("USD" not in quote.table.rates for quote in newest[:3])
    assert all(quote.table.until <= bench.clock.now for quote in newest[3:]), "never to be used"


async def test_a_feed_that_others_contradict_is_refused_and_the_next_one_used(bench: Bench, server: RateServer) -> None:
    bench.over(server.feed("BSV", "/a"), server.feed("USD", "/b"), server.feed("BSV", "/c"))
    server.tell("/a", {"USD": 5000})
    server.tell("/b", {"BSV": 0.02})
    server.tell("/c", {"USD": 51})
    assert await bench.round() == ["outlier", "", ""]
    assert bench.usable() == d(USD=1, BSV="0.02")
    server.tell("/a", {"USD": 49})
    assert await bench.round() == ["", "", ""]
    assert bench.usable() == d(BSV=1, USD=49)


async def test_a_leap_that_the_others_make_too_is_believed_at_once(bench: Bench, server: RateServer) -> None:
    bench.over(server.feed("BSV", "/a"), server.feed("BSV", "/b"))
    for dollars in (50, 90):
        server.tell("/a", {"USD": dollars})
        server.tell("/b", {"USD": dollars + 1})
        assert await bench.round() == ["", ""]
    assert bench.usable()["USD"] == 90


async def test_of_two_that_contradict_each_other_neither_is_used(bench: Bench, server: RateServer) -> None:
    bench.over(server.feed("BSV", "/a"), server.feed("BSV", "/b"))
    server.tell("/a", {"USD": 50})
    server.tell("/b", {"USD": 500})
    for _ in range(2):
        assert await bench.round() == ["outlier", "outlier"]
        assert bench.usable() == {}
        assert (bench.refused(0), bench.refused(1)) == ({"USD": "contradicted"}, {"USD": "contradicted"})
    server.tell("/b", {"USD": 51})
    assert await bench.round() == ["", ""]
    assert bench.usable()["USD"] == 50


async def test_a_feed_that_climbs_by_small_steps_is_stopped_by_the_one_that_contradicts_it(
    bench: Bench, server: RateServer
) -> None:
    bench.over(server.feed("BSV", "/liar"), server.feed("BSV", "/honest"))
    server.tell("/honest", {"USD": 50})
    for step in range(60):
        server.tell("/liar", {"USD": str(50 * Decimal("1.4") ** step)})
        await bench.round()
        assert bench.usable()["USD"] <= 70
    await bench.round(3600)
    assert bench.usable() == {}, "the last rates on which both agreed are too old"
    server.tell("/liar", {"USD": 52})
    assert await bench.round() == ["", ""]
    assert bench.usable()["USD"] == 52


async def test_alone_a_feed_climbs_to_twice_the_median_of_six_hours_and_no_further(
    bench: Bench, server: RateServer
) -> None:
    bench.over(server.feed("BSV", "/a"))
    server.tell("/a", {"USD": 50})
    await bench.round()
    for step in range(1, 60):
        server.tell("/a", {"USD": str(min(50 * Decimal("1.4") ** step, 200))})
        await bench.round()
        assert bench.usable()["USD"] <= 100
        if step % 10 == 0:
            bench.over(server.feed("BSV", "/a"))  # the six hours are remembered over a restart
    assert bench.refused() == {"USD": "leap"}
    for _ in range(5 * 4):
        assert await bench.round(900) == ["outlier"]
    assert bench.refused() == {"USD": "median"}
    assert bench.usable() == {}
    for _ in range(2 * 4):
        await bench.round(900)
    assert bench.usable()["USD"] == 200, "after six hours nothing is left to compare with"


async def test_a_feed_that_was_silent_comes_back_as_a_newcomer_and_has_to_agree_first(
    bench: Bench, server: RateServer
) -> None:
    feeds = server.feed("BSV", "/a"), server.feed("BSV", "/b")
    bench.over(*feeds)
    server.tell("/a", {"USD": 52})
    server.tell("/b", {"USD": 52.13})
    assert await bench.round() == ["", ""]
    server.send("/a", b"", status=503)
    assert await bench.round(1800) == ["status", ""]
    assert await bench.round(1801) == ["status", ""]
    bench.over(*feeds)  # a restart makes no newcomer of one that has a vote, and the other way round
    server.tell("/a", {"USD": 260})
    for _ in range(3):
        assert await bench.round() == ["outlier", ""]
        assert bench.usable()["USD"] == Decimal("52.13")
        assert bench.refused() == {"USD": "newcomer"}
        bench.over(*feeds)
    server.tell("/a", {"USD": 53})
    assert await bench.round() == ["", ""]
    assert bench.usable()["USD"] == 53
    server.tell("/a", {"USD": 260})
    assert await bench.round() == ["outlier", "outlier"], "one that has a vote contradicts again"


async def test_a_feed_that_was_silent_alone_is_compared_with_what_others_quoted(
    bench: Bench, server: RateServer
) -> None:
    server.tell("/b", {"USD": 52.13})
    bench.over(server.feed("BSV", "/b"))
    await bench.round()
    server.tell("/a", {"USD": 260})
    bench.over(server.feed("BSV", "/a"))  # another feed in its place
    assert await bench.round(2 * 3600) == ["outlier"]
    assert bench.refused() == {"USD": "median"}


async def test_a_third_feed_breaks_a_tie(bench: Bench, server: RateServer) -> None:
    for path, dollars in (("/a", 50), ("/b", 50), ("/c", 51)):
        server.tell(path, {"USD": dollars})
    bench.over(server.feed("BSV", "/a"), server.feed("BSV", "/b"))
    await bench.round()
    server.tell("/a", {"USD": 70})
    await bench.round()
    server.tell("/a", {"USD": 90})
    assert await bench.round() == ["outlier", "outlier"]
    bench.over(*(server.feed("BSV", path) for path in ("/a", "/b", "/c")))
    assert await bench.round() == ["outlier", "", ""]
    assert bench.usable()["USD"] == 50


async def test_when_the_preferred_feed_fails_the_next_is_used_and_then_the_first_again(
    bench: Bench, server: RateServer
) -> None:
    bench.over(server.feed("BSV", "/a"), server.feed("BSV", "/b"))
    server.tell("/b", {"USD": 51})
    assert await bench.round() == ["status", ""]
    assert bench.usable()["USD"] == 51
    server.tell("/a", {"USD": 50})
    assert await bench.round() == ["", ""]
    assert bench.usable()["USD"] == 50
    server.send("/a", b"[]")
    assert await bench.round() == ["malformed", ""]
    assert bench.usable()["USD"] == 50, "a quote that is not too old is used"
    assert await bench.round(3600) == ["malformed", ""]
    assert bench.usable()["USD"] == 51


async def test_a_feed_that_is_configured_no_more_is_not_used_any_longer(bench: Bench, server: RateServer) -> None:
    server.tell("/a", {"USD": 50})
    bench.over(server.feed("BSV", "/a"))
    await bench.round()
    assert bench.usable()
    bench.over(server.feed("BSV", "/b"))
    assert bench.usable() == {}
    assert len(bench.quotes.history(server.feed("BSV", "/a").name, 9)) == 1


async def test_slow_huge_and_absent_feeds_hold_nothing_up(quotes: Quotes, server: RateServer) -> None:
    bench = Bench(quotes, FeedClient(1.0))
    server.tell("/good", {"USD": 50})
    server.hang("/silent")
    server.hang("/dripping", b'{"rates"')
    server.flood("/huge")
    server.send("/moved", b"", status=302, Location=f"http://127.0.0.1:{server.port}/good")
    server.send("/coded", b"\x1f\x8b", Content_Encoding="gzip")
    paths = ["/silent", "/dripping", "/huge", "/moved", "/coded", "/absent"]
    gone = RateFeed("BSV", "http://127.0.0.1:1/x", "")
    bench.over(*(server.feed("BSV", path) for path in paths), gone, server.feed("BSV", "/good"))
    codes = await bench.round()
    await bench.client.close()
    assert codes == ["unreachable", "unreachable", codes[2], "status", "status", "status", "unreachable", codes[7]]
    assert codes[2] in ("too-large", "unreachable")  # whichever bound is met first
    if codes[7] == "":  # a busy machine may not answer within a second
        assert bench.usable() == d(BSV=1, USD=50)
    assert server.requests.get("/good", 0) <= 1, "no redirect was followed"


async def test_an_answer_too_large_is_read_no_further(bench: Bench, server: RateServer) -> None:
    server.flood("/huge")
    bench.over(server.feed("BSV", "/huge"))
    assert await bench.round() == ["too-large"]


async def test_secrets_of_a_feed_are_in_no_log_line(
    bench: Bench, server: RateServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    server.tell("/SECRET", {"USD": 50})
    bench.over(server.feed("BSV", "/SECRET?key=SECRET"), server.feed("BSV", "/SECRET/none"))
    await bench.round()
    server.tell("/SECRET", {"USD": 500})
    await bench.round()
    assert "are not used" in caplog.text
    assert "SECRET" not in caplog.text


async def test_a_run_loads_what_was_accepted_before_and_tells_what_it_stored(
    quotes: Quotes, server: RateServer
) -> None:
    server.tell("/a", {"USD": 50})
    changes: list[int] = []
    fetcher = RatesFetcher([server.feed("BSV", "/a")], quotes, max_age=3600, changed=lambda: changes.append(1))
    await fetcher.run()
    await fetcher.run()
    await fetcher.close()
    assert (server.requests["/a"], len(changes)) == (2, 2)
    assert quotes.newest()[0].table.rates["USD"] == 50


class Absent(Quotes):
    """Quotes of a database that is away as long as `gone` says so."""

    gone = True

    def store(
        self,
        current: Sequence[Quote],
        states: Mapping[str, FeedState] | None = None,
        outranked: Sequence[str] = (),
        limit: int = MAX_HISTORY,
    ) -> None:
        if self.gone:
            raise StoreUnavailableError("the server closed the connection")
        super().store(current, states, outranked, limit)


async def test_a_round_that_cannot_be_stored_raises_and_the_next_one_goes_on(
    engine: Engine, quotes: Quotes, server: RateServer
) -> None:
    server.tell("/a", {"USD": 50})
    absent = Absent(engine)
    fetcher = RatesFetcher([server.feed("BSV", "/a")], absent, max_age=3600)
    for _ in range(2):
        with pytest.raises(StoreUnavailableError, match="the server closed the connection"):
            await fetcher.run()
    absent.gone = False
    await fetcher.run()
    await fetcher.close()
    assert quotes.newest()[0].table.rates["USD"] == 50


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "malformed"), (b"{", "malformed"), (b"[1]", "malformed"), (b'{"rates": [1]}', "malformed"),
        (b'{"rates": {}}', "empty"), (b'{"rates": {"USD": 0}}', "empty"), (b'{"rates": {"USD": -1}}', "empty"),
        (b'{"rates": {"USD": NaN}}', "malformed"), (b'{"rates": {"USD": null}}', "empty"),
        (b'{"rates": {"USD": true}}', "empty"), (b'{"rates": {"USD": "1e31"}}', "empty"),
        (b'{"rates": {"USD": 1e-31}}', "empty"), (b'{"rates": {"BSV": 1}}', "empty"),
        (b'{"rates": {"BSV": 2, "USD": 1}}', "base"), (b'{"base": "USD", "rates": {"USD": 1}}', "base"),
        (b'{"rates": {"USD": 1, "USD": 2}}', "malformed"), (b'{"rates": {"USD": 1, "usd": 2}}', "empty"),
        (b'{"rates": {"U": ' + b"[" * 100 + b"]" * 100 + b"}}", "malformed"),
        (json.dumps({"rates": {f"T{n}": 1 for n in range(2001)}}).encode(), "too-large"),
    ],
)  # fmt: skip
def test_what_is_no_table_is_refused(body: bytes, code: str) -> None:
    with pytest.raises(RatesRefusedError) as caught:
        read(body, "BSV")
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("more", "position"),
    [
        ({}, None), ({"timestamp": 1_700_000_000}, 1_700_000_000), ({"timestamp": 1_700_000_000_500}, 1_700_000_000),
        ({"timestamp": "2023-11-14T22:13:20Z"}, 1_700_000_000), ({"date": "2023-11-14"}, 1_699_920_000),
        ({"at": "2023-11-14T23:13:20+01:00"}, 1_700_000_000), ({"time": "yesterday"}, None), ({"timestamp": -5}, None),
        ({"timestamp": 10**20}, None), ({"timestamp": 10**15 - 1}, None), ({"timestamp": True}, None),
        ({"timestamp": LATEST_TIME * 1000}, LATEST_TIME), ({"timestamp": (LATEST_TIME + 1) * 1000}, None),
        ({"at": "9999-12-31T23:59:59-01:00"}, None), ({"time": 1_700_000_000.25}, 1_700_000_000),
        ({"timestamp": "x", "date": "2023-11-14"}, 1_699_920_000), ({"base": "bsv"}, None),
    ],
)  # fmt: skip
def test_a_table_may_say_of_what_time_it_is(more: dict[str, Any], position: int | None) -> None:
    assert read(json.dumps({"rates": {"USD": 1}, **more}).encode(), "BSV") == FeedTable(d(USD=1, BSV=1), position)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
)
bodies = st.builds(
    lambda rates, more: json.dumps({**more, "rates": rates}).encode(),
    st.dictionaries(st.sampled_from(["USD", "usd ", "BSV", "", "E" * 65]) | st.text(max_size=3), json_values)
    | json_values,
    st.dictionaries(st.sampled_from(["timestamp", "at", "time", "date", "base"]), json_values),
)


@given(st.binary(max_size=64) | bodies)
def test_any_bytes_are_a_table_or_refused(body: bytes) -> None:
    try:
        parsed = read(body, "BSV")
    except RatesRefusedError:
        return
    assert parsed.rates["BSV"] == 1
    assert len(parsed.rates) > 1
    assert all(Decimal("1e-30") <= rate <= Decimal("1e30") for rate in parsed.rates.values())
    assert parsed.quoted_at is None or parsed.quoted_at > 0


@given(st.text(max_size=200) | st.binary(min_size=64, max_size=64).map(bytes.hex), st.binary(max_size=8))
def test_no_signature_but_the_right_one_is_taken(signature: str, body: bytes) -> None:
    with pytest.raises(RatesRefusedError):
        check_signature(body, signature, "ab" * 32)


rates = st.integers(1, 1000).map(Decimal)


def table(rate: Decimal | None) -> RateTable:
    return RateTable(
        base="BSV", rates={} if rate is None else {"BSV": Decimal(1), "USD": rate}, source="", quoted_at=0, until=1
    )


few = st.sampled_from([Decimal(10), Decimal(14), Decimal(20), Decimal(28), Decimal(500)])


@given(st.lists(st.tuples(st.none() | few, st.none() | few, st.booleans()), min_size=1, max_size=5), st.none() | few)
def test_a_majority_of_the_feeds_that_have_a_vote_decides_and_a_tie_nothing(
    feeds: list[tuple[Decimal | None, Decimal | None, bool]], median: Decimal | None
) -> None:
    votes = [frozenset(("BSV", "USD") if votes else ()) for _, _, votes in feeds]
    opinions = [
        FeedOpinion(None if now is None else table(now), table(past), voting)
        for (now, past, _), voting in zip(feeds, votes, strict=True)
    ]
    results = judge(opinions, lambda *pair: median if pair == ("BSV", "USD") else None)
    quoted = [(now if now is not None else past, votes) for now, past, votes in feeds]
    settled = [rate for rate, votes in quoted if rate is not None and votes]
    for (now, past, has_vote), result in zip(feeds, results, strict=True):
        if now is None:
            assert result.accepted == {}
            continue
        voters = [
            rate
            for rate, votes in quoted
            if rate is not None and (votes or not settled or any(agrees(rate, other) for other in settled))
        ]
        is_voter = has_vote or not settled or any(agrees(now, other) for other in settled)
        lead = sum(1 if agrees(now, rate) else -1 for rate in voters) - (past is not None and not agrees(now, past))
        is_near = median is None or Decimal("0.5") <= now / median <= 2
        assert ("USD" in result.accepted) == (is_voter and lead > 0 and is_near)
        assert ("USD" in result.refused) != ("USD" in result.accepted)
        assert ("USD" in result.voting) == is_voter


@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_feed_that_climbs_by_small_steps_is_outvoted_by_two_that_agree(position: int) -> None:
    before = [table(Decimal(50))] * 3
    for step in range(1, 20):
        answers = [
            table(Decimal(50) * Decimal("1.45") ** step if index == position else Decimal(50)) for index in range(3)
        ]
        opinions = [FeedOpinion(*pair) for pair in zip(answers, before, strict=True)]
        result = [judgement.accepted for judgement in judge(opinions, lambda *_: None)]
        assert [index for index, item in enumerate(result) if "USD" in item] == [
            index for index in range(3) if index != position or step == 1
        ]
        before = [now if "USD" in item else was for now, item, was in zip(answers, result, before, strict=True)]


class Script(FeedClient):
    """Feeds that answer as a list says, by their paths: a rate, or None for silence."""

    def __init__(self) -> None:
        self.rates: dict[str, Decimal | None] = {}

    async def ask(self, feed: RateFeed) -> FeedTable:
        rate = self.rates[feed.url]
        if rate is None:
            raise RatesRefusedError("status", "answers with status 503")
        return FeedTable({"BSV": Decimal(1), "USD": rate}, None)


MARKET = st.integers(95, 105).map(lambda percent: Decimal(percent) / 100)
LIE = st.none() | st.sampled_from([Decimal(factor) for factor in ("0.2", "0.6", "0.7", "1", "1.4", "1.5", "1.9", "5")])


@settings(max_examples=12, deadline=None)
@given(
    moves=st.lists(st.tuples(MARKET, LIE, st.booleans()), min_size=24, max_size=96),
    is_preferred=st.booleans(),
    is_alone=st.booleans(),
)
def test_over_a_day_no_liar_moves_a_rate_that_counts_beyond_the_honest_feed_and_the_median(
    moves: list[tuple[Decimal, Decimal | None, bool]], is_preferred: bool, is_alone: bool
) -> None:
    """A liar multiplies its last rate by anything, is silent at will, and the program restarts: what counts is within
    half of a rate that the honest feed had in the last hour, and alone within twice the median of what counted."""

    async def day(folder: str) -> None:
        client, clock = Script(), Clock(NOW)
        quotes = Quotes(connect(f"sqlite:///{folder}/rates.db"))
        honest, liar = RateFeed("BSV", "honest", ""), RateFeed("BSV", "liar", "")
        feeds = [liar] if is_alone else [liar, honest] if is_preferred else [honest, liar]
        market, lie = Decimal(50), Decimal(50)
        client.rates = {"honest": market, "liar": lie}
        counted: list[tuple[float, Decimal]] = []
        honest_rates: list[tuple[float, Decimal]] = []
        fetcher = None
        for drift, factor, restarts in [(Decimal(1), Decimal(1), True), *moves]:
            market, lie = market * drift, lie * (factor or 1)
            client.rates = {
                "honest": market,
                "liar": None if factor is None else min(max(lie, rates_least), rates_most),
            }
            if restarts or fetcher is None:
                fetcher = RatesFetcher(feeds, quotes, max_age=3600, client=client, clock=clock)
                fetcher.begin()
            honest_rates.append((clock.now, market))
            await fetcher.round()
            usable = [quote.table for quote in quotes.newest() if clock.now < quote.table.until]
            rate = usable[0].rates["USD"] if usable and "USD" in usable[0].rates else None
            if rate is not None and is_alone:
                past = sorted(rate for time, rate in counted if time > clock.now - 6 * 3600)
                assert not past or past[0] / 2 <= rate <= past[-1] * 2, rate
            elif rate is not None:
                hour = [rate for time, rate in honest_rates if time > clock.now - 3600]
                assert min(hour) / APART <= rate <= max(hour) * APART
            if rate is not None:
                counted.append((clock.now, rate))
            clock.now += 900

    rates_least, rates_most = Decimal("1e-20"), Decimal("1e20")
    with TemporaryDirectory() as folder:
        asyncio.run(day(folder))


@given(rates, rates)
def test_agreeing_is_mutual_and_within_a_factor(one: Decimal, other: Decimal) -> None:
    assert agrees(one, other) == agrees(other, one) == (one / other <= APART and other / one <= APART)
