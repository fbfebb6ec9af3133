"""Clients with limits of their own: which token is whose, what is counted by its name, and what is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import ClientSession
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from indexer.setting_values import Quota
from indexer.store.clients import StoredClient
from overlay.api.client_tokens import HEADER, ClientTokens, digest, new_token
from overlay.api.problems import ProblemError
from overlay.api.services import AppServices
from tests.overlay.calls import problem
from tests.overlay.conftest import Serve
from tests.overlay.fakes import changed

TOKEN, OTHER, STRANGER = "a2b_" + "A" * 43, "a2b_" + "B" * 43, "a2b_" + "C" * 43


def stored(name: str, token: str, limits: str) -> StoredClient:
    return StoredClient(name, digest(token), limits, 1_700_000_000)


def tokens() -> ClientTokens:
    return ClientTokens([stored("acme", TOKEN, "read=3/1000 costly=off"), stored("b", OTHER, "ingest=5/60")])


def request(*headers: tuple[str, str]) -> Any:
    return SimpleNamespace(headers=CIMultiDict(headers))


def test_tokens_are_of_256_bits() -> None:
    tokens_of_twenty = {new_token() for _ in range(20)}
    assert len(tokens_of_twenty) == 20
    assert {(token[:4], len(token)) for token in tokens_of_twenty} == {("a2b_", 47)}


@pytest.mark.parametrize(
    ("headers", "name"),
    [
        ([("Authorization", f"Bearer {TOKEN}")], "acme"),
        ([("authorization", f"bearer  {OTHER} ")], "b"),
        ([("a2b-client", TOKEN)], "acme"),
        ([("A2B-Client", OTHER), ("Authorization", f"Bearer {TOKEN}")], "b"),
        ([("Authorization", "Bearer motebit:e30.AAAA"), ("A2B-Client", TOKEN)], "acme"),
        ([("Authorization", "Basic YTpi"), ("Authorization", f"Bearer {TOKEN}")], "acme"),
        ([("Authorization", "Bearer eyJhdHRlbnVhdGlvbnMi")], None),
        ([("Authorization", f"Basic {TOKEN}")], None),
        ([("Authorization", TOKEN)], None),
        ([], None),
    ],
)
def test_a_request_names_its_client_by_a_token(headers: list[tuple[str, str]], name: str | None) -> None:
    client = tokens().client(request(*headers))
    assert (client and client.name) == name
    tokens().check(request(*headers))


@pytest.mark.parametrize(
    "headers",
    [
        [("Authorization", f"Bearer {STRANGER}")],
        [("Authorization", "Bearer a2b_")],
        [("A2B-Client", STRANGER)],
        [("A2B-Client", "")],
        [("A2B-Client", "\udcff")],
        [("A2B-Client", TOKEN), ("Authorization", f"Bearer {STRANGER}")],
    ],
)
def test_a_token_of_no_client_is_refused(headers: list[tuple[str, str]]) -> None:
    with pytest.raises(ProblemError) as refused:
        tokens().check(request(*headers))
    assert refused.value.status == 401


@given(st.lists(st.tuples(st.sampled_from(["Authorization", HEADER]), st.text(max_size=60)), max_size=4))
def test_any_headers_are_of_some_client_or_of_none(headers: list[tuple[str, str]]) -> None:
    assert ClientTokens().client(request(*headers)) is None


async def serve_clients(serve: Serve, services: AppServices) -> ClientSession:
    """A server of two requests for a client, and one for a costly one."""
    limits = {"read": Quota(2, 1_000), "costly": Quota(1, 1_000), "ingest": None, "stream": None}
    return await serve(changed(services, tokens=tokens(), limits=limits))


async def status(client: ClientSession, path: str, **headers: str) -> tuple[int, str | None]:
    async with client.get(path, headers=headers) as response:
        return response.status, response.headers.get("RateLimit-Policy")


async def test_a_client_has_its_limits_wherever_it_comes_from(serve: Serve, services: AppServices) -> None:
    client = await serve_clients(serve, services)
    path, policy = "/v1/search?q=tower", '"read";q=3;w=1000'
    assert [await status(client, path, Authorization=f"Bearer {TOKEN}") for _ in range(2)] == [(200, policy)] * 2
    assert await status(client, path, **{HEADER: TOKEN}) == (200, policy)
    assert (await status(client, path))[0] == 200, "its requests do not count for its address"
    async with client.get(path, headers={HEADER: TOKEN}) as response:
        refused = await problem(response, 429)
    assert refused["detail"].startswith("too many requests from this client; try again in ")


async def test_kinds_that_it_has_no_limits_for_are_limited_by_its_name(serve: Serve, services: AppServices) -> None:
    client = await serve_clients(serve, services)
    for _ in range(2):
        assert (await status(client, "/v1/search", **{HEADER: OTHER})) == (200, '"read";q=2;w=1000')
    assert (await status(client, "/v1/search", **{HEADER: OTHER}))[0] == 429
    assert (await status(client, "/v1/search"))[0] == 200

    async def check(**headers: str) -> tuple[int, str | None]:
        async with client.post("/v1/check", data=b"{}", headers=headers) as response:
            return response.status, response.headers.get("RateLimit-Policy")

    assert [await check(**{HEADER: TOKEN}) for _ in range(3)] == [(200, None)] * 3, "off for this client"
    assert [(await check())[0] for _ in range(2)] == [200, 429]


async def test_a_limit_holds_where_others_have_none(serve: Serve, services: AppServices) -> None:
    client = await serve(changed(services, tokens=tokens(), limits={}))
    assert [(await status(client, "/v1/search", **{HEADER: TOKEN}))[0] for _ in range(4)] == [200, 200, 200, 429]
    assert await status(client, "/v1/search") == (200, None)


async def test_an_unknown_token_is_401_on_every_route_and_counts_for_its_address(
    serve: Serve, services: AppServices
) -> None:
    client = await serve_clients(serve, services)
    for path in ("/v1/status", "/healthz", "/static/style.css", "/nowhere"):
        async with client.get(path, headers={"Authorization": f"Bearer {STRANGER}"}) as response:
            refused = await problem(response, 401)
            assert response.headers["WWW-Authenticate"] == 'Bearer error="invalid_token"'
            assert response.headers["Cache-Control"] == "no-store"
    assert STRANGER not in str(refused)
    assert (await status(client, "/v1/search", **{HEADER: STRANGER}))[0] == 401
    assert (await status(client, "/v1/search"))[0] == 429
    assert (await status(client, "/v1/search", **{HEADER: TOKEN}))[0] == 200
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    async with client.post("/mcp", json=call, headers={"Authorization": f"Bearer {STRANGER}"}) as response:
        assert response.status == 401
    for other in ("Bearer motebit:x", "Bearer sk-123", "Basic YTJiX3g6eA=="):
        assert (await status(client, "/healthz", Authorization=other))[0] == 200


async def test_the_document_names_the_schemes_and_needs_none(client: ClientSession) -> None:
    async with client.get("/openapi.json") as response:
        document = await response.json()
    schemes = document["components"]["securitySchemes"]
    assert [scheme["type"] for scheme in schemes.values()] == ["http", "apiKey"]
    assert document["security"] == [{}, *({name: []} for name in schemes)]
    assert schemes["clientHeader"]["name"] == HEADER
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    assert all("401" in operation["responses"] for operation in operations)
