"""The cost of requests: processor time beyond that of one request is charged to the client, wherever it was spent."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
from aiohttp import ClientSession
from hypothesis import example, given
from hypothesis import strategies as st

from indexer.setting_values import Quota
from overlay.api import executors, request_cost
from overlay.api.counters import SharedBuckets
from overlay.api.problems import ProblemError
from overlay.api.rate_limits import LEAST_INCLUDED, RateLimit
from overlay.api.request_cost import COST, RequestCost, measured, measured_call
from overlay.api.services import AppServices
from overlay.search.query import Hits, Query
from tests.overlay.api.test_rate_limits import remaining
from tests.overlay.conftest import Serve
from tests.overlay.fakes import FakeEngine, changed
from tests.waiting import PATIENCE, until

QUOTA = Quota(1_000, 100)  # a request includes 0.1 s of processor time
SHORT, LONG = "/v1/search?q=", "/v1/search?facets=type&q="  # the second is searched in a thread


class Processor(threading.local):
    """Processor time of each thread, in seconds, which passes when a test says so."""

    time = 0.0


@pytest.fixture
def processor(monkeypatch: pytest.MonkeyPatch) -> Processor:
    processor = Processor()
    monkeypatch.setattr(request_cost, "thread_time", lambda: processor.time)
    return processor


class WorkingEngine(FakeEngine):
    """An engine whose searches take as many seconds of processor time as their text says; `may` holds them up."""

    processor: Processor
    may: threading.Event

    def search(self, query: Query) -> Hits:
        seconds = re.search(r"[\d.]+", query.text)
        self.processor.time += float(seconds[0]) if seconds else 0.0
        self.may.wait(PATIENCE)
        return super().search(query)


@pytest.fixture
def working(services: AppServices, processor: Processor) -> Iterator[AppServices]:
    engine = services.engine
    assert isinstance(engine, FakeEngine)
    engine.__class__ = WorkingEngine
    assert isinstance(engine, WorkingEngine)
    engine.processor, engine.may = processor, threading.Event()
    engine.may.set()
    yield changed(services, limits={"read": QUOTA})
    engine.may.set()


async def left(client: ClientSession, path: str) -> int:
    """The requests that are left after one, by its headers."""
    async with client.get(path) as response:
        assert response.status == 200, await response.text()
        assert response.headers["RateLimit-Policy"] == '"read";q=1000;w=100'
        return remaining(response.headers)[0]


@pytest.mark.parametrize("path", [SHORT, LONG])
async def test_a_search_counts_as_many_requests_as_it_takes_the_time_of(
    serve: Serve, working: AppServices, path: str
) -> None:
    client = await serve(working)
    assert await left(client, f"{path}tower") == 999
    assert await left(client, f"{path}0.1") >= 998, "what one request includes"
    before = await left(client, f"{path}tower")
    assert before - await left(client, f"{path}20") in range(100, 201), "200 requests, less those that came back"


async def test_a_client_of_long_searches_waits_and_others_do_not(serve: Serve, working: AppServices) -> None:
    client = await serve(changed(working, trusted_proxies=("127.0.0.0/8",)))
    expensive, cheap = {"X-Forwarded-For": "192.0.2.1"}, {"X-Forwarded-For": "192.0.2.2"}
    async with client.get(f"{SHORT}150", headers=expensive) as response:
        assert response.status == 200
        assert remaining(response.headers) == (0, 150), "50 s more than there are"
    async with client.get(f"{SHORT}tower", headers=expensive) as response:
        assert response.status == 429
        assert int(response.headers["Retry-After"]) in range(10, 52)
        assert remaining(response.headers)[0] == 0
    async with client.get(f"{SHORT}tower", headers=cheap) as response:
        assert remaining(response.headers)[0] == 999


async def test_a_search_that_is_given_up_is_charged_when_it_ends(
    serve: Serve, working: AppServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "SECONDS", 0.2)
    engine = working.engine
    assert isinstance(engine, WorkingEngine)
    client = await serve(working)
    engine.may.clear()
    async with client.get(f"{LONG}20") as response:
        assert response.status == 503
        assert remaining(response.headers)[0] == 999
    monkeypatch.setattr(executors, "SECONDS", PATIENCE)
    engine.may.set()
    async with asyncio.timeout(PATIENCE):
        while await left(client, f"{SHORT}tower") > 900:  # noqa: ASYNC110 - the end of a search tells nobody
            await asyncio.sleep(0.01)


async def test_what_has_no_limit_costs_nothing(serve: Serve, services: AppServices, processor: Processor) -> None:
    client = await serve(services)
    async with client.get("/v1/search?facets=type") as response:
        assert response.status == 200
        assert "RateLimit" not in response.headers


@given(
    st.sampled_from([Quota(1, 1), Quota(8, 2), Quota(1, 64)]),
    st.lists(st.tuples(st.integers(0, 64), st.integers(0, 64), st.sampled_from([0, 1, 2, 24, 800])), max_size=60),
)
@example(Quota(8, 2), [(0, 4, 800), (0, 0, 0), (800, 0, 0)])
def test_time_is_charged_in_requests(quota: Quota, requests: list[tuple[int, int, int]]) -> None:
    """Against exact tokens, which may be less than none: two pieces of work, in sixteenths of a second."""
    now, tokens = Fraction(0), Fraction(quota.requests)
    limit, rate = RateLimit("read", quota, SharedBuckets(), clock=lambda: float(now)), Fraction(*quota[:2])
    for first, second, pause in requests:
        now += Fraction(pause, 16)
        tokens = min(Fraction(quota.requests), tokens + rate * Fraction(pause, 16))
        taken = limit.take("a")
        assert (taken.wait == 0) == (tokens >= 1)
        if taken.wait:
            assert taken.wait == -(-(1 - tokens) // rate)
            continue
        tokens -= 1
        cost = RequestCost(limit, "a")
        for piece in (first, second):
            cost.add(piece / 16)
        tokens -= max(Fraction(0), Fraction(first + second, 16) * rate - 1)
        assert remaining(cost.headers(taken.headers))[0] == max(0, int(tokens))


def test_a_limit_of_many_requests_charges_no_short_ones() -> None:
    limit = RateLimit("read", Quota(1_000_000, 10), SharedBuckets(), clock=lambda: 0.0)
    cost = RequestCost(limit, "a")
    cost.add(LEAST_INCLUDED)
    assert remaining(limit.headers("a"))[0] == 1_000_000
    cost.add(LEAST_INCLUDED)
    assert remaining(limit.headers("a"))[0] == 999_999


async def test_each_step_of_a_coroutine_is_measured_and_nothing_else(processor: Processor) -> None:
    limit = RateLimit("read", QUOTA, SharedBuckets())
    cost, steps = RequestCost(limit, "a"), list[Any]()

    async def elsewhere() -> None:
        processor.time += 100

    async def work() -> str:
        processor.time += 1
        await asyncio.gather(elsewhere(), elsewhere())
        processor.time += 2
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            processor.time += 4
            steps.append("cancelled")
        COST.set(cost)
        await asyncio.to_thread(measured_call, in_a_thread)
        raise ProblemError(418, "done")

    def in_a_thread() -> None:
        processor.time += 8

    task = asyncio.ensure_future(_run(measured(work(), cost)))
    await until(lambda: cost.seconds == 3)
    task.cancel()
    with pytest.raises(ProblemError, match="done"):
        await task
    assert steps == ["cancelled"]
    assert cost.seconds == 15


async def _run(work: Any) -> Any:
    return await work
