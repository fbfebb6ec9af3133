"""Counts of searches: words of fewer than five clients a day are never stored or shown, and counts of processes and
servers add up."""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestClient, TestServer
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, select

from indexer.store import Store, StoreError, connect
from indexer.store.clients import StoredClient
from indexer.store.schema import metadata
from indexer.store.search_counts import DayCounts, MissedWord, add_counts, delete_counts, missed_words
from overlay.api import identity_key
from overlay.api.client_tokens import ClientTokens, digest
from overlay.api.counters import Counters
from overlay.api.search_request import from_pairs
from overlay.api.search_statistics import CountedSearch, Outcome, SearchStatistics, counted, public_words
from overlay.api.services import AppServices
from overlay.api.shared_tables import DAY_SECONDS, FEWEST_CLIENTS, KEPT_DAYS
from overlay.app.metrics import PATHS, create_metrics_app
from overlay.app.search_report import forget_searches, search_report
from overlay.search.query import Hit, Hits
from tests.databases import Cluster, store, writer
from tests.overlay.conftest import Serve
from tests.overlay.fakes import CAIP2, CHAIN, changed
from tests.overlay.test_cli import Run, alone, index, run
from tests.running import SAMPLE
from tests.serving import built, new_app, serving

__all__ = ["alone", "run", "store", "writer"]

TODAY = int(time.time()) // DAY_SECONDS
WORDS = st.sampled_from(["jira", "zebra", "invoice"])
SEARCHES = st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 7), WORDS)
"""How many days after the last search, in which process, by which client, for which word."""


class Clock:
    def __init__(self) -> None:
        self.now = float(TODAY * DAY_SECONDS)

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A database without chains."""
    with closing(Store(connect(f"sqlite:///{tmp_path_factory.mktemp('statistics')}/a2b.db"))) as opened:
        yield opened


class Counting:
    """The statistics of a server of so many processes, which store in a database without counts."""

    def __init__(self, database: Store, processes: int = 1) -> None:
        delete_counts(database.primary, TODAY + 1_000)
        self.counters, self.clock = Counters(processes), Clock()
        self.statistics = SearchStatistics(self.counters, partial(add_counts, database.primary), self.clock)

    def search(self, word: str, client: str) -> None:
        self.statistics.searched(CountedSearch(Outcome.NOTHING, (word,)), client)


def stored(engine: Engine) -> str:
    """Every row of every table."""
    with engine.connect() as connection:
        return repr([tuple(row) for table in metadata.sorted_tables for row in connection.execute(select(table))])


@given(st.lists(SEARCHES, max_size=60))
async def test_a_word_is_stored_for_the_days_on_which_five_clients_searched_for_it(
    database: Store, searches: list[tuple[int, int, int, str]]
) -> None:
    clients: dict[tuple[int, str], set[int]] = defaultdict(set)
    expected: Counter[tuple[int, str]] = Counter()
    counting = Counting(database, processes=3)
    for days, process, client, word in searches:
        counting.clock.now += days * DAY_SECONDS
        counting.counters.take(process)
        counting.search(word, f"10.0.0.{client}")
        day_and_word = int(counting.clock.now) // DAY_SECONDS, word
        was_public = len(clients[day_and_word]) >= FEWEST_CLIENTS
        clients[day_and_word].add(client)
        if len(clients[day_and_word]) >= FEWEST_CLIENTS:
            expected[day_and_word] += 1 if was_public else FEWEST_CLIENTS
    await counting.statistics.store()
    with database.primary.connect() as connection:
        rows = connection.execute(select(missed_words)).mappings()
        assert {(row["day"], row["word"]): row["searches"] for row in rows} == expected
    assert sum(row.searches for row in database.search_counts.days(0)) == len(searches)
    assert "10.0.0." not in stored(database.primary)


@given(st.text(max_size=80))
def test_no_word_of_any_text_is_long_an_address_or_a_number(text: str) -> None:
    for word in public_words(text):
        assert len(word) <= 24
        assert "@" not in word
        assert any(map(str.isalpha, word))
        assert not any(map(str.isspace, word))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("find me a Jira server", ["find", "jira", "server"]),
        ("mail to ann.smith@example.org please", ["mail"]),
        ("call 0171 1234567 42", ["call"]),
        ("connect https://host.example/path?token=abc", ["connect"]),
        ("key sk-abcdefghij1234567890abcdefghij rotate", []),
        ("deploy KwDiBf89QgGbjEhKnhXJuH7LrciVrZi3qYjgd9M7rFU73sVHnoWn", []),
        ("hash 5d41402abc4b2a76b9719d911017c592", ["hash"]),
        ("the of", ["the", "of"]),
    ],
)
def test_words_that_may_be_counted(text: str, words: list[str]) -> None:
    assert public_words(text) == words


def test_a_question_in_a_script_without_spaces_is_no_word() -> None:
    question = "我想把会议录音转成文字"
    assert question not in public_words(question)
    assert max(map(len, public_words(question))) <= 4


def test_the_first_pages_of_searches_are_counted() -> None:
    def outcome(hits: Hits, *pairs: tuple[str, str]) -> Any:
        return counted(from_pairs(pairs, {CHAIN: CAIP2}), hits)

    near = Hit("a_0", b"{}", 1.0, None, (), by_meaning=True)
    far = near._replace(by_meaning=False)
    text = ("q", "pour the tea")
    assert outcome(Hits((), 0), text) == CountedSearch(Outcome.NOTHING, ("pour", "tea"))
    assert outcome(Hits((near,), 1), text) == CountedSearch(Outcome.BY_MEANING, ("pour", "tea"))
    assert outcome(Hits((near, far), 2), text) == CountedSearch(Outcome.BY_WORDS)
    assert outcome(Hits((), 0), ("tag", "tea")) == CountedSearch(Outcome.NOTHING)
    assert outcome(Hits((), 0)) is None
    assert outcome(Hits((), 50), text, ("offset", "20")) is None


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # Python 3.12 warns where other tests left threads
def test_processes_know_the_clients_of_each_other() -> None:
    counters = Counters(2)
    for client in range(3):
        counters.askers.ask("jira", str(client))
    child = os.fork()
    if child == 0:
        counters.take(1)
        counters.named.add("acme")
        os._exit(counters.askers.ask("jira", "0")[1] * 16 + counters.askers.ask("jira", "8")[1])
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3 * 16 + 4
    counters.named.add("acme")
    assert counters.askers.ask("jira", "9") == (4, 5)
    assert (counters.named.count("acme"), counters.named.count("b")) == (2, 0)


async def test_the_clients_of_a_day_are_forgotten_at_its_end(database: Store) -> None:
    counting = Counting(database)
    for _ in range(3):
        for client in range(FEWEST_CLIENTS - 1):
            counting.search("jira", f"10.0.0.{client}")
        assert counting.counters.askers.ask("jira", "10.0.0.0") == (4, 4)
        counting.clock.now += DAY_SECONDS
    await counting.statistics.store()
    assert counting.counters.askers.ask("jira", "10.0.0.0") == (0, 1), "the key is a new one, and nothing is left"
    assert "jira" not in stored(database.primary)


async def test_a_site_of_ipv6_is_one_client(database: Store) -> None:
    counting = Counting(database)
    for network in range(20):
        counting.search("jira", f"2001:db8:1:{network:x}::/64")
    await counting.statistics.store()
    assert database.search_counts.words(0, 9) == []


async def test_what_cannot_be_stored_is_stored_later(database: Store) -> None:
    statistics = Counting(database).statistics
    statistics.opened()
    with database.primary.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE search_days RENAME TO elsewhere")
    with pytest.raises(StoreError, match="search_days"):
        await statistics.store()
    with database.primary.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE elsewhere RENAME TO search_days")
    statistics.opened()
    for _ in range(2):
        await statistics.store()
    assert database.search_counts.days(0) == [DayCounts(TODAY, opened=2)]


def test_the_counts_of_servers_add_up_and_old_ones_are_deleted(store: Store) -> None:
    for day in (TODAY, TODAY - KEPT_DAYS + 1, TODAY - KEPT_DAYS):
        for _ in range(2):
            add_counts(store.primary, [DayCounts(day, 5, 2, 1, 3)], [MissedWord(day, "a", 5), MissedWord(day, "b", 1)])
    report = search_report(store.search_counts)
    assert [(row["searches"], row["nothing"], row["byMeaning"], row["opened"]) for row in report["days"]] == [
        (10, 4, 2, 6), (10, 4, 2, 6),
    ]  # fmt: skip
    assert report["words"] == [{"word": "a", "searches": 20}, {"word": "b", "searches": 4}]
    assert len(store.search_counts.days(0)) == 3
    for _ in range(2):
        forget_searches(store)
    assert len(store.search_counts.days(0)) == 2


# -- served


def from_address(number: int) -> dict[str, str]:
    return {"X-Forwarded-For": f"203.0.{number}.7"}


async def search(client: ClientSession, text: str, number: int, path: str = "/v1/search?q=") -> None:
    async with client.get(f"{path}{quote(text)}", headers=from_address(number)) as response:
        assert response.status == 200


async def test_what_four_clients_search_for_is_nowhere(serve: Serve, services: AppServices, database: Store) -> None:
    counting = Counting(database)
    app_services = changed(
        services, statistics=counting.statistics, trusted_proxies=("127.0.0.0/8",), counters=counting.counters,
        searches=partial(search_report, database.search_counts),
    )  # fmt: skip
    client = await serve(app_services)
    async with TestClient(TestServer(create_metrics_app(app_services.process, PATHS))) as operator:

        async def shown() -> str:
            await counting.statistics.store()
            pages = [await (await operator.get(path)).text() for path in ("/stats", "/metrics")]
            return "".join([stored(database.primary), *pages])

        for path in ("/v1/search?q=", "/?q=", "/v1/search?q="):
            for number in range(4):
                await search(client, "unheardof", number, path)
        assert "unheardof" not in await shown()
        await search(client, "unheardof", 4)
        await search(client, "tower", 4)
        page = await shown()
        assert page.count("unheardof") == 2, "a row, and its line of the page"
        assert 'a2b_searches_total{outcome="nothing"} 13.0' in page
        assert 'a2b_searches_total{outcome="words"} 1.0' in page
        listings = await (await client.get("/v1/search?limit=1")).json()
        for path in ("/v1/listings/", "/listings/"):
            async with client.get(f"{path}{quote(listings['items'][0]['id'], safe='')}") as response:
                assert response.status == 200
        assert "a2b_listings_opened_total 2.0" in await shown()
        assert database.search_counts.days(0) == [DayCounts(TODAY, 14, 13, 0, 2)]
    async with client.get("/stats") as response:
        assert response.status == 404


async def test_without_the_setting_nothing_is_counted(services: AppServices) -> None:
    async with TestClient(TestServer(create_metrics_app(services.process, PATHS))) as operator:
        assert (await operator.get("/stats")).status == 404
        assert "a2b_searches" not in await (await operator.get("/metrics")).text()


async def test_requests_are_counted_by_the_name_of_a_client(serve: Serve, services: AppServices) -> None:
    tokens = ClientTokens([StoredClient("acme", digest("a2b_x"), "read=9/9", 1)])
    client = await serve(changed(services, tokens=tokens, named_clients=tokens.names))
    for headers in ({"A2B-Client": "a2b_x"}, {"Authorization": "Bearer a2b_x"}, {}, {"A2B-Client": "a2b_y"}):
        async with client.get("/v1/search", headers=headers):
            pass
    async with client.get("/metrics") as response:
        lines = [line for line in (await response.text()).splitlines() if line.startswith("a2b_client_requests_total")]
    assert lines == ['a2b_client_requests_total{client="acme"} 2.0']


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_two_servers_store_what_they_count_when_they_stop(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    cluster: Cluster = request.getfixturevalue("postgresql")
    flags = {"database": f"sqlite:///{tmp_path}/a2b.db" if kind == "sqlite" else cluster.new(), "statistics": "on"}
    flags |= {"identity_key": str(tmp_path / "identity.json")}
    identity_key.read_or_create(tmp_path / "identity.json")
    first = built(tmp_path, SAMPLE, **flags)
    async with serving(first) as one:
        second = new_app(tmp_path / "second", follow=False, **flags)
        async with serving(second) as two:
            for client in (one, two, two):
                async with client.get("/v1/search?q=tower") as response:
                    assert response.status == 200
        assert first.store.search_counts.days(0)[0].searches == 2
    with closing(Store(connect(flags["database"]))) as after:
        assert after.search_counts.days(0)[0].searches == 3


def test_the_command_shows_days_and_words(run: Run, tmp_path: Path) -> None:
    data = index(tmp_path / "data")
    assert (
        run("stats", "--data", data).out == "nothing is counted in these days: servers count with A2B_STATISTICS=on\n"
    )
    with closing(Store(connect(f"sqlite:///{data}/a2b.db"))) as database:
        days = [DayCounts(TODAY, 5, 2, 1, 3), DayCounts(TODAY - 8, 1)]
        add_counts(database.primary, days, [MissedWord(TODAY, "jira", 5)])
    report = run("stats", "--json", "--data", data).json
    assert [row["searches"] for row in report["days"]] == [5]
    assert [row["searches"] for row in run("stats", "--days", "9", "--json", "--data", data).json["days"]] == [5, 1]
    out = run("stats", "--data", data).out
    assert out.splitlines()[1].split()[1:] == ["5", "2", "1", "3"]
    assert out.splitlines()[-1].split() == ["5", "jira"]
    assert [run("stats", "--days", days, "--data", data).code for days in ("0", "91")] == [2, 2]
