"""A publisher says that a transaction was broadcast: to a process that follows, and to one that only serves."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from indexer.store import Store
from indexer.store.requests import Requests, TooManyRequestsError
from overlay.api.services import AppServices
from overlay.app.diagnosis import diagnose
from overlay.app.storage import open_store
from tests.chainkit import ChainKit, agent
from tests.fakes import MemoryChain
from tests.indexer.store.test_requests import last_of
from tests.overlay.calls import problem
from tests.overlay.conftest import Serve
from tests.overlay.fakes import FakeRequests, changed
from tests.serving import new_app, running, settings
from tests.waiting import until

TXID = "AB" * 32


def steps(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {step["step"]: step for step in result["steps"]}


async def test_a_request_is_accepted_with_202_and_its_state(client: ClientSession) -> None:
    async with client.post("/v1/ingest", json={"txid": TXID}) as response:
        assert response.status == 202
        assert response.content_type == "application/json"
        assert response.headers["Location"] == f"/v1/diagnose/{TXID.lower()}"
        body = await response.json()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", body["askedAt"])
    assert body == {
        "txid": TXID.lower(), "state": "waiting", "askedAt": body["askedAt"], "tries": 0,
        "nextTryAt": body["askedAt"], "detail": "about to be looked for",
    }  # fmt: skip
    async with client.post("/v1/ingest", json={"txid": TXID.lower()}) as response:
        assert (response.status, await response.json()) == (202, body)


@pytest.mark.parametrize(
    ("sent", "pointer", "code"),
    [
        (b"{}", "/txid", "missing"),
        (b'{"txid": "ab"}', "/txid", "not-hex"),
        (b'{"txid": 5}', "/txid", "wrong-type"),
        (b'{"txid": "' + "é".encode() * 64 + b'"}', "/txid", "not-hex"),
        (b'{"txid": "' + b"ab" * 32 + b'", "force": true}', "/force", "unknown-member"),
        (b"txid=ab", None, "not-json"),
        (b'{"txid": "' + b"ab" * 32 + b'", "txid": "' + b"cd" * 32 + b'"}', None, "not-json"),
        (b'{"txid": "' + b"ab" * 32 + b'", "force": NaN}', None, "not-json"),
        (b"[]", None, "not-an-object"),
    ],
)
async def test_a_body_that_is_no_request_is_refused_by_name(
    client: ClientSession, sent: bytes, pointer: str | None, code: str
) -> None:
    async with client.post("/v1/ingest", data=sent) as response:
        problem_body = await problem(response, 400)
    assert [(error.get("pointer"), error["code"]) for error in problem_body["errors"]] == [(pointer or "", code)]


async def test_a_body_that_is_too_large_is_refused_unread(client: ClientSession) -> None:
    async with client.post("/v1/ingest", data=b"[" * 5_000) as response:
        await problem(response, 413)


async def test_one_too_many_is_refused_with_429_and_when_to_come_back(serve: Serve, services: AppServices) -> None:
    class Full(FakeRequests):
        def add(self, *_: Any) -> Any:
            raise TooManyRequestsError("20 transactions that you requested are still being looked for")

    client = await serve(changed(services, requests=Full()))
    async with client.post("/v1/ingest", json={"txid": TXID}) as response:
        assert int(response.headers["Retry-After"]) > 0
        problem_body = await problem(response, 429)
    assert "20 transactions that you requested" in problem_body["detail"]


async def test_the_client_is_the_address_that_asks(serve: Serve, services: AppServices) -> None:
    client = await serve(services)
    await client.post("/v1/ingest", json={"txid": TXID})
    assert isinstance(services.process.requests, FakeRequests)
    assert [item.client for item in services.process.requests.requests.values()] == ["127.0.0.1"]


async def test_a_requested_transaction_is_found_in_the_mempool_and_then_in_a_block(tmp_path: Path) -> None:
    kit = ChainKit()
    kit.mine()
    chain = MemoryChain(*kit.blocks, name="live")
    listed = kit.inscribe(agent("Router"))
    mined = kit.mine(listed)
    txid, raw = last_of(mined)
    name = txid[::-1].hex()
    async with running(setup := new_app(tmp_path, chain)) as (runner, _):
        await until(lambda: runner.status.ready() is None)
        requests = Requests(setup.store.engine)

        def state() -> str:
            answer = requests.get(txid)
            return answer.state.value if answer else ""

        async with ClientSession() as client:
            await client.post(f"{runner.url}/v1/ingest", json={"txid": name})
            await until(lambda: (answer := requests.get(txid)) and answer.tries)
            waiting = steps(diagnose(setup.settings, setup.store, name))["requested"]
            assert re.fullmatch(r"at \S+, looked for \d times?: not known to live; next at \S+", waiting["detail"])
            chain.unconfirmed[txid] = raw
            await until(lambda: state() == "found")
            assert steps(diagnose(setup.settings, setup.store, name))["requested"]["ok"] is True
            await until(lambda: setup.store.pending.of_transaction(txid))
            del chain.unconfirmed[txid]
            chain.arrive(mined)
            await until(lambda: state() == "indexed")
            assert "in block" in steps(diagnose(setup.settings, setup.store, name))["requested"]["detail"]


async def test_a_source_that_cannot_list_its_mempool_shows_the_requested_transaction(tmp_path: Path) -> None:
    kit = ChainKit()
    kit.mine()
    chain = MemoryChain(*kit.blocks, name="live")
    mined = kit.mine(kit.inscribe(agent("Router")))
    txid, raw = last_of(mined)

    async def unknown() -> None:
        return None

    chain.mempool = unknown  # type: ignore[method-assign, assignment]
    chain.unconfirmed[txid] = raw
    async with running(setup := new_app(tmp_path, chain)) as (runner, _):
        await until(lambda: runner.status.ready() is None)
        assert setup.store.pending.of_transaction(txid) == []
        Requests(setup.store.engine).add(txid, "192.0.2.1", int(time.time()))
        await until(lambda: setup.store.pending.of_transaction(txid))
        chain.arrive(mined)
        await until(lambda: setup.store.history.of_transaction(txid))
        await until(lambda: not setup.store.pending.of_transaction(txid))


async def test_a_process_that_only_serves_leaves_requests_to_the_one_that_follows(tmp_path: Path) -> None:
    kit = ChainKit()
    kit.mine()
    chain = MemoryChain(*kit.blocks, name="live")
    txid, raw = last_of(kit.mine(kit.inscribe(agent("Router"))))
    chain.unconfirmed[txid] = raw
    follows, serves = new_app(tmp_path, chain, serve=False), new_app(tmp_path, follow=False)
    queries = {"txid": txid[::-1].hex()}
    async with running(follows), running(serves) as (runner, _), ClientSession() as client:
        await until(lambda: runner.url)
        async with client.post(f"{runner.url}/v1/ingest", json=queries) as answer:
            assert answer.status == 202
        requests = Requests(serves.store.engine)
        await until(lambda: (body := requests.get(txid)) and body.state.value == "found")


def test_giving_up_is_reported_with_advice(tmp_path: Path) -> None:
    options = settings(tmp_path)
    store: Store = open_store(options, create=True)
    requests = Requests(store.engine)
    query = requests.add(bytes.fromhex(TXID), "192.0.2.1", 1_800_000_000)
    requests.update(
        replace(query, state=type(query.state)("given-up"), next_at=0, tries=13, detail="not known to live")
    )
    step = diagnose(options, store, TXID)["steps"][0]
    assert (step["step"], step["ok"], step["code"]) == ("requested", False, "given-up")
    assert step["detail"] == (
        "at 2027-01-15T08:00:00Z, looked for 13 times and given up: not known to live; ask again once it is broadcast"
    )
    store.engine.dispose()
