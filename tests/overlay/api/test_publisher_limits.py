"""Costly routes: a few at a time in places of their own, a fair share for each client, and nothing else waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import ClientSession

from overlay.api import executors
from overlay.api.services import AppServices
from tests.overlay.calls import get, problem
from tests.overlay.conftest import Serve
from tests.overlay.fakes import changed, diagnose
from tests.waiting import PATIENCE

TXID = "ab" * 32


class Held:
    """Diagnoses wait until they may go on."""

    def __init__(self) -> None:
        self.may, self.under_way = threading.Event(), threading.Semaphore(0)

    def diagnose(self, what: str | bytes) -> dict[str, Any]:
        self.under_way.release()
        assert self.may.wait(PATIENCE)
        return diagnose(what)

    async def started(self) -> None:
        assert await asyncio.to_thread(self.under_way.acquire, timeout=PATIENCE)


@pytest.fixture
def held() -> Iterator[Held]:
    created = Held()
    yield created
    created.may.set()


@pytest.fixture
def attacked(services: AppServices, held: Held) -> AppServices:
    """Services whose diagnoses are held; a trusted proxy on this machine names the clients."""
    return changed(services, diagnose=held.diagnose, trusted_proxies=("127.0.0.0/8",))


async def status(client: ClientSession, address: str) -> tuple[int, bool]:
    """The status that a diagnosis from this address gets, and whether it learns when to come back."""
    headers = {"X-Forwarded-For": address}
    async with client.post("/v1/diagnose", json={"rawTx": "01000000"}, headers=headers) as response:
        return response.status, "Retry-After" in response.headers


def ask(client: ClientSession, address: str, count: int) -> list[asyncio.Task[tuple[int, bool]]]:
    return [asyncio.create_task(status(client, address)) for _ in range(count)]


async def first(tasks: list[asyncio.Task[tuple[int, bool]]], count: int) -> list[tuple[int, bool]]:
    """The first answers to come."""
    answers = asyncio.as_completed(tasks, timeout=PATIENCE)
    return [await next(answers) for _ in range(count)]


async def test_other_routes_answer_while_diagnoses_are_held(
    serve: Serve, attacked: AppServices, held: Held, services: AppServices
) -> None:
    client = await serve(attacked)
    tasks = [task for number in range(4) for task in ask(client, f"198.51.100.{number}", 4)]
    await held.started()
    id_ = (await get(client, "/v1/search?limit=1"))["items"][0]["id"]
    for path in (f"/v1/listings/{id_}", f"/v1/listings/{id_}/history", "/publish", "/v1/status"):
        async with asyncio.timeout(PATIENCE), client.get(path) as response:
            assert response.status == 200, path
    assert not held.under_way.acquire(blocking=False), "one diagnosis is under way, the others wait"
    held.may.set()
    assert await first(tasks, 16) == [(200, False)] * 16


async def test_diagnoses_that_wait_for_sources_do_not_hold_up_checks(
    serve: Serve, attacked: AppServices, held: Held
) -> None:
    client = await serve(attacked)
    waiting = [asyncio.create_task(get(client, f"/v1/diagnose/{TXID}")) for _ in range(4)]
    for _ in waiting:
        await held.started()
    async with asyncio.timeout(PATIENCE), client.post("/v1/check", data=b"{}") as response:
        assert response.status == 200
    held.may.set()
    assert [result["txid"] for result in await asyncio.gather(*waiting)] == [TXID] * 4


async def test_one_client_cannot_take_all_places(serve: Serve, attacked: AppServices, held: Held) -> None:
    client = await serve(attacked)
    greedy = ask(client, "198.51.100.1", 10)
    assert await first(greedy, 6) == [(429, True)] * 6
    other = ask(client, "198.51.100.2", 1)
    held.may.set()
    assert await first(other, 1) == [(200, False)]
    assert sorted(await asyncio.gather(*greedy)) == [(200, False)] * 4 + [(429, True)] * 6


async def test_a_full_queue_is_refused_with_the_time_to_come_back(
    serve: Serve, attacked: AppServices, held: Held
) -> None:
    client = await serve(attacked)
    tasks = [task for number in range(10) for task in ask(client, f"198.51.100.{number}", 2)]
    assert await first(tasks, 4) == [(503, True)] * 4
    held.may.set()
    assert sorted(await asyncio.gather(*tasks)) == [(200, False)] * 16 + [(503, True)] * 4


async def test_a_diagnosis_that_takes_too_long_is_given_up(
    serve: Serve, attacked: AppServices, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounded = executors.bounded_executors(attacked.process.counters.load, here=True, slow=False)
    bounded[executors.PUBLISHING].seconds = 0.2
    monkeypatch.setattr("overlay.app.http_app.bounded_executors", lambda *_, **__: bounded)
    client = await serve(attacked)
    async with client.post("/v1/diagnose", json={"rawTx": "01000000"}) as response:
        problem_body = await problem(response, 503)
    assert problem_body["detail"].startswith("this diagnosis or check could not be answered within 0.2 s")
    assert await status(client, "198.51.100.1") == (503, True), "the one given up keeps its place until it ends"
    held.may.set()
    bounded[executors.PUBLISHING].seconds = PATIENCE
    assert await status(client, "198.51.100.1") == (200, False)


@pytest.mark.parametrize("method", ["get", "post"])
async def test_every_costly_route_is_answered_in_its_places(
    method: str, serve: Serve, services: AppServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of them is left in a pool that others use."""
    taken: list[str] = []
    run = executors.BoundedExecutor.run

    async def noted(self: executors.BoundedExecutor, *args: Any) -> Any:
        taken.append(self._kind)
        return await run(self, *args)

    monkeypatch.setattr(executors.BoundedExecutor, "run", noted)
    client = await serve(services)
    id_ = (await get(client, "/v1/search?limit=1"))["items"][0]["id"]
    paths: dict[str, Any] = {
        f"/v1/diagnose/{TXID}": "get",
        f"/publish?tx={TXID}": "get",
        f"/v1/listings/{id_}/history": "get",
        f"/v1/listings/{id_}/proof": "get",
        "/v1/diagnose": {"json": {"rawTx": "00"}},
        "/v1/check": {"data": b"{}"},
        "/publish": {"data": {"what": "{}"}},
    }
    for path, how in paths.items():
        if (how == "get") is (method == "get"):
            taken.clear()
            async with client.request(method, path, **({} if how == "get" else how)) as response:
                assert response.status < 500
            assert taken, path
