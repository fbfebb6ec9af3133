"""Long searches: they delay nobody, their number is bounded, and a request without an answer gets the reason."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from aiohttp import ClientSession

from overlay.api import executors
from overlay.api.executors import is_long
from overlay.api.services import AppServices
from overlay.search.query import FACETS, Hits, Query
from overlay.search.term_dictionary import TermDictionary
from tests.overlay.calls import get, problem
from tests.overlay.conftest import Serve
from tests.overlay.fakes import FakeEngine, changed
from tests.waiting import PATIENCE

LONG = "/v1/search?sort=name"


class Held(FakeEngine):
    """Long searches wait until they may go on."""

    may = threading.Event()
    under_way = threading.Semaphore(0)

    def search(self, query: Query) -> Any:
        if is_long(query):
            self.under_way.release()
            assert self.may.wait(PATIENCE)
        if query.text == "mistake":
            raise RuntimeError("a mistake of ours")
        return super().search(query)


@pytest.fixture
def held(services: AppServices) -> Iterator[AppServices]:
    services.engine.__class__ = Held
    Held.may, Held.under_way = threading.Event(), threading.Semaphore(0)
    yield services
    Held.may.set()


async def started(count: int) -> None:
    """Wait until so many more long searches are under way."""
    for _ in range(count):
        assert await asyncio.to_thread(Held.under_way.acquire, timeout=PATIENCE)


@pytest.mark.parametrize(
    "more",
    [
        {"facets": FACETS}, {"facets": ("tag",)}, {"after": (1, "a")}, {"sort": "price"}, {"sort": "name"},
        {"descending": False}, {"as_of": 5}, {"offset": 9_000}, {"text": "word " * 100},
        {"skills": tuple(map(str, range(64)))},
    ],
)  # fmt: skip
def test_what_was_measured_to_take_long_is_known_beforehand(more: dict[str, Any]) -> None:
    assert is_long(Query(**more))


@pytest.mark.parametrize(
    "more",
    [
        {}, {"text": "misspelt serch words"}, {"sort": "updated"}, {"max_price": Decimal(5), "price_currency": "USD"},
        {"offset": 100, "limit": 100}, {"currencies": ("USD",)}, {"skills": ("a", "b"), "tags": ("c",)},
    ],
)  # fmt: skip
def test_usual_searches_go_without_a_thread(more: dict[str, Any]) -> None:
    assert not is_long(Query(**more))


async def test_a_long_search_does_not_hold_up_others(serve: Serve, held: AppServices) -> None:
    client = await serve(held)
    long = [asyncio.create_task(get(client, LONG)) for _ in range(4)]
    await started(executors.LONG_AT_ONCE)
    assert (await get(client, "/v1/search?q=tower"))["total"] == 2
    assert not Held.under_way.acquire(blocking=False), "the others wait for a place"
    Held.may.set()
    assert all(page["total"] > 30 for page in await asyncio.gather(*long))


async def test_a_search_that_takes_too_long_is_given_up_and_keeps_its_place_until_it_ends(
    serve: Serve, held: AppServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "SECONDS", 0.2)
    client = await serve(held)
    for _ in range(executors.LONG_AT_ONCE):
        async with client.get(LONG) as response:
            problem_body = await problem(response, 503)
            assert problem_body["detail"].startswith("this search could not be answered within 0.2 s")
            assert response.headers["Retry-After"] == "5"
    await started(executors.LONG_AT_ONCE)
    async with client.get("/?sort=name", headers={"Accept": "text/html"}) as response:
        assert response.status == 503
    assert not Held.under_way.acquire(blocking=False), "there was no place for it"
    Held.may.set()
    monkeypatch.setattr(executors, "SECONDS", PATIENCE)
    assert (await get(client, LONG))["total"] > 30


@pytest.mark.parametrize(("bound", "status"), [("A_CLIENT", 429), ("MOST_WAITING", 503)])
async def test_too_many_at_once_are_refused_at_once(
    serve: Serve, held: AppServices, monkeypatch: pytest.MonkeyPatch, bound: str, status: int
) -> None:
    monkeypatch.setattr(executors, bound, 3)
    client = await serve(held)

    async def ask() -> tuple[int, str | None]:
        async with client.get(LONG) as response:
            return response.status, response.headers.get("Retry-After")

    answers = asyncio.as_completed([ask() for _ in range(7)], timeout=PATIENCE)
    for _ in range(4):
        answer, later = await next(answers)
        assert answer == status
        assert later
    Held.may.set()
    assert [await item for item in answers] == [(200, None)] * 3


async def test_a_mistake_in_a_long_search_is_a_mistake_and_frees_its_place(
    serve: Serve, held: AppServices, caplog: pytest.LogCaptureFixture
) -> None:
    Held.may.set()
    client = await serve(held)
    for _ in range(2 * executors.LONG_AT_ONCE):
        async with client.get(f"{LONG}&q=mistake") as response:
            await problem(response, 500)
    assert (await get(client, LONG))["total"] > 30


async def test_a_slow_engine_is_always_searched_in_threads(
    client: ClientSession, serve: Serve, services: AppServices
) -> None:
    names: list[str] = []

    class Slow(FakeEngine):
        slow = True

        def search(self, query: Query) -> Any:
            names.append(threading.current_thread().name)
            return super().search(query)

    services.engine.__class__ = Slow
    slow = await serve(changed(services))
    assert (await get(slow, "/v1/search?q=tower"))["total"] == 2
    assert names
    assert names[0].startswith("search")


@pytest.mark.parametrize(
    ("query", "aside"),
    [
        ("type=tool&owner=none", False),
        ("q=qqzzvv", True),
        ("type=tool&tag=none", True),  # compared with others by its spelling
        ("type=tool&owner=none&explain=true", True),
    ],
)
async def test_help_with_a_few_filters_needs_no_thread(
    query: str, aside: bool, serve: Serve, services: AppServices
) -> None:
    names: list[str] = []

    class Empty(FakeEngine):
        def search(self, _: Query) -> Any:
            return Hits((), 0)

        def terms(self) -> TermDictionary:
            names.append(threading.current_thread().name)
            return super().terms()

    services.engine.__class__ = Empty
    client = await serve(changed(services))
    assert (await get(client, f"/v1/search?{query}"))["total"] == 0
    assert names
    assert all((name != "MainThread") is aside for name in names)
