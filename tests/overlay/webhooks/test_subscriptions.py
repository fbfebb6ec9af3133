"""Subscriptions over HTTP, in a program that runs: the challenge, the secret, limits, and an end-to-end delivery."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiohttp import ClientSession
from jsonschema import Draft202012Validator

from overlay.answers.schemas import SCHEMAS
from overlay.api.services import AppServices
from overlay.systems.webhooks.store import PER_CLIENT
from overlay.systems.webhooks.webhook_api import API
from tests.chainkit import ChainKit, agent
from tests.fakes import MemoryChain
from tests.overlay.calls import problem
from tests.overlay.conftest import Serve
from tests.overlay.fakes import API_SYSTEMS, changed
from tests.overlay.webhooks.webhook_registry import KEY, Target, target, verify
from tests.serving import new_app, serving
from tests.waiting import until

__all__ = ["target"]

PATH = "/v1/subscriptions"
HOOK = "https://hook.example/in?key=1"


class WebhookServer(NamedTuple):
    """A running program, its data folder, its chain, and a client."""

    client: ClientSession
    folder: Path
    kit: ChainKit
    chain: MemoryChain

    async def post(self, search: Any, url: str = HOOK) -> Any:
        """The response to a request for a subscription."""
        return await self.client.post(PATH, json={"url": url, "key": KEY, "search": search})

    async def subscribe(self, search: Any, url: str = HOOK) -> dict[str, Any]:
        async with await self.post(search, url) as response:
            assert response.status == 201, await response.text()
            created: dict[str, Any] = await response.json()
            validate(created, "CreatedSubscription")
            assert response.headers["Location"] == f"{PATH}/{created['id']}"
            return created

    async def log(self, created: dict[str, Any]) -> dict[str, Any]:
        async with self.client.get(f"{PATH}/{created['id']}", headers=bearer(created)) as response:
            assert response.status == 200
            body: dict[str, Any] = await response.json()
            validate(body, "Subscription")
            return body

    async def delete(self, created: dict[str, Any]) -> int:
        async with self.client.delete(f"{PATH}/{created['id']}", headers=bearer(created)) as response:
            return response.status


def validate(value: Any, name: str) -> None:
    components = {"schemas": SCHEMAS | dict(API.schemas)}
    Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": components}).validate(value)


def bearer(created: dict[str, Any]) -> dict[str, str]:
    return {"Authorization": f"Bearer {created['secret']}"}


@pytest.fixture
async def server(tmp_path: Path, target: Target) -> AsyncIterator[WebhookServer]:
    kit = ChainKit()
    chain = MemoryChain(*kit.blocks, name="live")
    flags = {**target.flags, "public_url": "https://registry.example", "limits": "off"}
    async with serving(new_app(tmp_path, chain, **flags)) as client:
        yield WebhookServer(client, tmp_path / "data", kit, chain)


async def test_a_saved_search_takes_lists_and_other_names_of_filters(server: WebhookServer, target: Target) -> None:
    skill = agent("Lantern", tags=["b"])["skills"][0]["id"]
    await server.subscribe({"type": "a2b-agent", "tag": "a,B", "skill": skill.upper()})
    server.chain.arrive(server.kit.mine(server.kit.inscribe(agent("Lantern", tags=["b"]))))
    await until(lambda: target.messages)
    assert [message.changes for message in target.messages] == [[("match", "Lantern")]]


async def test_a_saved_search_is_delivered_by_a_running_program(server: WebhookServer, target: Target) -> None:
    created = await server.subscribe({"q": "lantern", "type": "agent", "tag": ["a", "b"]})
    assert created["search"] == "q=lantern&type=agent&tag=a&tag=b"
    assert (created["state"], created["url"], created["sequence"]) == ("active", HOOK, 0)
    async with server.client.get(PATH) as response:
        assert await response.json() == {"publicKey": created["publicKey"]}
    key = b64decode(created["publicKey"].removeprefix("whpk_"))
    [challenge] = target.challenges
    verify(challenge, key)
    server.chain.arrive(server.kit.mine(server.kit.inscribe(agent("Lantern", tags=["b"]))))
    await until(lambda: target.messages)
    [message] = target.messages
    verify(message, key)
    assert message.id.startswith(f"{created['id']}-1-")
    assert message.changes == [("match", "Lantern")]
    [change] = message.body["changes"]
    assert change["url"].startswith("https://registry.example/v1/listings/")
    async with server.client.get(change["url"].removeprefix("https://registry.example")) as response:
        item = await response.json()
    assert {name: item[name] for name in change["listing"]} == change["listing"], "found by who looks then"
    log = await server.log(created)
    while log["deliveries"][0]["state"] == "waiting":  # the target has it; the program may be about to store that
        log = await server.log(created)
    [entry] = log["deliveries"]
    assert (entry["sequence"], entry["state"], entry["outcome"], entry["changes"]) == (1, "delivered", "200", 1)


async def test_the_secret_is_shown_once_and_stored_as_a_hash(server: WebhookServer) -> None:
    created = await server.subscribe({"q": "lantern"})
    stored = b"".join(file.read_bytes() for file in server.folder.glob("a2b.db*"))
    assert created["id"].encode() in stored
    assert created["secret"].encode() not in stored
    assert "secret" not in await server.log(created)
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {created['secret']}"}):
        for method in ("GET", "DELETE"):
            async with server.client.request(method, f"{PATH}/{created['id']}", headers=headers) as response:
                await problem(response, 403)
    assert await server.delete(created) == 204
    assert await server.delete(created) == 404
    async with server.client.get(f"{PATH}/nothing", headers=bearer(created)) as response:
        await problem(response, 404)


@pytest.mark.parametrize(
    ("reply", "status", "ok"),
    [
        ("{answer}", 200, True),
        (" {answer}\n", 201, True),
        ('{"challenge": "{answer}"}', 200, True),
        ("{challenge}", 200, False),
        ('{"type": "subscription.challenge", "challenge": "{challenge}"}', 200, False),
        ('{"challenge": 5}', 200, False),
        ("[" * 4_000, 200, False),
        ("ok", 200, False),
        ("{answer}", 403, False),
        ("x" * 5_000, 200, False),
    ],
)
async def test_a_target_has_to_answer_the_challenge_by_the_key_and_not_by_an_echo(
    server: WebhookServer, target: Target, reply: str, status: int, ok: bool
) -> None:
    target.reply, target.status = reply, status
    async with await server.post({"q": "lantern"}) as response:
        if ok:
            assert response.status == 201
            return
        problem_body = await problem(response, 400)
    assert problem_body["errors"][0]["pointer"] == "/url"
    assert problem_body["errors"][0]["code"] in ("challenge-failed", "fetch-size")


@pytest.mark.parametrize("key", ["", "short", "x" * 257, "a key with spaces in it", "schlüssel" * 4])
async def test_a_key_that_can_be_guessed_or_mistaken_is_refused(
    server: WebhookServer, target: Target, key: str
) -> None:
    async with await server.client.post(PATH, json={"url": HOOK, "key": key, "search": {"q": "lantern"}}) as response:
        problem_body = await problem(response, 400)
    assert [(fault["pointer"], fault["code"]) for fault in problem_body["errors"]] == [("/key", "not-a-key")]
    assert target.challenges == []


async def test_the_key_is_neither_stored_nor_sent(server: WebhookServer, target: Target) -> None:
    await server.subscribe({"q": "lantern"})
    [challenge] = target.challenges
    assert KEY.encode() not in challenge.raw
    assert KEY.encode() not in b"".join(file.read_bytes() for file in server.folder.glob("a2b.db*"))


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://hook.example/", "fetch-scheme"),
        ("https://127.0.0.1/", "fetch-address"),
        ("https://169.254.169.254/latest", "fetch-address"),
        ("https://[::1]/", "fetch-address"),
        ("https://hook.example:8443/", "fetch-port"),
        ("https://me:pw@hook.example/", "fetch-credentials"),
        ("file:///etc/passwd", "fetch-scheme"),
        ("nonsense", "fetch-url"),
        ("https://hook.example/<b>", "fetch-url"),
        ("https://hook.example/\x1b[31m", "fetch-url"),
        ("https://hook.example/" + "x" * 1_024, "too-long"),
    ],
)
async def test_targets_are_reached_by_the_safe_fetcher_only(
    server: WebhookServer, target: Target, url: str, code: str
) -> None:
    async with await server.post({"q": "lantern"}, url) as response:
        problem_body = await problem(response, 400)
    assert problem_body["errors"][0] == {"pointer": "/url", "code": code, "detail": problem_body["errors"][0]["detail"]}
    assert target.challenges == []


@pytest.mark.parametrize(
    ("search", "pointer", "code"),
    [
        ({}, "/search", "too-wide"),
        ({"type": "agent"}, "/search", "too-wide"),
        ({"q": "-paid"}, "/search", "too-wide"),
        ({"q": "…"}, "/search/q", "no-words"),
        ({"q": "a", "sort": "price"}, "/search/sort", "unknown-parameter"),
        ({"q": "a", "offset": 3}, "/search/offset", "unknown-parameter"),
        ({"q": "a", "maxPrice": "dear"}, "/search/maxPrice", "not-an-amount"),
        ({"q": "a", "chain": "moon"}, "/search/chain", "unknown-chain"),
        ({"q": {"nested": 1}}, "/search/q", "wrong-type"),
        ({"q": "x" * 4_097}, "/search/q", "too-long"),
        ({"tag": ["x" * 90 for _ in range(2)] + [f"{n}{'y' * 80}" for n in range(40)]}, "/search", "too-long"),
        ("q=a", "/search", "wrong-type"),
    ],
)
async def test_a_search_that_is_none_is_refused_by_name(
    server: WebhookServer, target: Target, search: Any, pointer: str, code: str
) -> None:
    async with await server.post(search) as response:
        problem_body = await problem(response, 400)
    assert [(fault.get("pointer"), fault["code"]) for fault in problem_body["errors"]] == [(pointer, code)]
    assert target.challenges == []


async def test_a_client_has_at_most_five_subscriptions(server: WebhookServer, target: Target) -> None:
    created = [await server.subscribe({"q": f"lantern {number}"}) for number in range(PER_CLIENT)]
    async with await server.post({"q": "one more"}) as response:
        assert "delete one" in (await problem(response, 429))["detail"]
        assert response.headers["Retry-After"]
    assert len(target.challenges) == PER_CLIENT, "the sixth target was not asked"
    assert await server.delete(created[0]) == 204
    target.reply = "no"
    async with await server.post({"q": "one more"}) as response:
        await problem(response, 400)
    async with await server.post({"q": "one more"}) as response:
        assert "the next visit is in" in (await problem(response, 429))["detail"], "six challenges of a domain at once"


async def test_bodies_that_are_none_are_refused(server: WebhookServer) -> None:
    for body, pointer in (
        (b"", ""),
        (b"{", ""),
        (b'{"url": "https://a.example", "search": {}}', "/key"),
        (b'{"x": 1}', "/url"),
    ):
        async with server.client.post(PATH, data=body) as response:
            problem_body = await problem(response, 400)
            assert problem_body["errors"][0]["pointer"] == pointer


async def test_without_a_key_or_a_chain_of_its_own_a_server_says_that_it_delivers_nothing(
    services: AppServices, serve: Serve
) -> None:
    client = await serve(changed(services, systems=(*API_SYSTEMS, "webhooks")))
    for method, path in (("POST", PATH), ("GET", PATH), ("GET", f"{PATH}/x"), ("DELETE", f"{PATH}/x")):
        async with client.request(method, path, data=json.dumps({"url": "", "key": KEY, "search": {}})) as response:
            assert "identity key" in (await problem(response, 404))["detail"]
    async with client.options(f"{PATH}/x", headers={"Access-Control-Request-Method": "DELETE"}) as response:
        assert "DELETE" in response.headers["Access-Control-Allow-Methods"]
