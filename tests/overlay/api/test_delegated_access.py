"""Capability tokens at the API: a presented token is checked and charged, public routes stay public."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import pytest
from aiohttp import ClientSession
from multidict import CIMultiDict
from sqlalchemy import Connection, Engine
from yarl import URL

from indexer.store import unchecked
from overlay.api.routes import ROUTES, Route
from overlay.api.services import AppServices
from overlay.app.http_app import load_systems
from overlay.installation import NAMES
from overlay.systems.delegateos.delegated_access import ACTIONS, DelegatedAccess, TokenDeniedError
from overlay.systems.delegateos.store import DelegationRecords
from parsers.claims.delegateos.capability_token import read_dct, serialize_dct
from parsers.claims.delegateos.holder_proof import HolderProof
from parsers.claims.delegateos.signed_objects import principal_of, sign_object
from tests.overlay.calls import problem
from tests.overlay.conftest import Serve
from tests.overlay.fakes import changed, granting
from tests.token_kit import (
    AGENT,
    HELPER,
    ISSUER,
    NOW,
    STRANGER,
    capability,
    issued,
    narrowed,
    proof,
    revocation,
    stripped,
)

INGEST, TXID = "/v1/ingest", b'{"txid": "' + b"ab" * 32 + b'"}'
SUBMIT = issued(capability("submit"))
New = Callable[[], DelegatedAccess]


def database_clock(_: Connection) -> int:
    """Seconds since 1970."""
    return NOW // 10**9


@pytest.fixture
def access(database_url: str) -> Iterator[New]:
    """Makes what checks tokens, as each process and each start has its own."""
    engines: list[Engine] = []

    def another() -> DelegatedAccess:
        engines.append(unchecked(database_url))
        return DelegatedAccess([principal_of(ISSUER)], DelegationRecords(engines[-1], database_clock), lambda: NOW)

    yield another
    for engine in engines:
        engine.dispose()


@pytest.fixture
async def client(serve: Serve, services: AppServices, access: New) -> ClientSession:
    return await serve(changed(services, brought=granting(access())))


async def refused(client: ClientSession, token: str, path: str = "/v1/search", **options: Any) -> tuple[int, str]:
    """The status and code of a denial; 0 where the request is answered."""
    method, headers = options.pop("method", "GET"), {"Authorization": f"Bearer {token}", **options.pop("headers", {})}
    async with client.request(method, path, headers=headers, **options) as response:
        if response.status < 400:
            return 0, ""
        body = await problem(response, response.status)
        assert response.headers.get("WWW-Authenticate", "Bearer").startswith("Bearer")
        return response.status, body["errors"][0]["code"]


async def submitted(client: ClientSession, token: str, header: str, body: bytes = TXID) -> tuple[int, str]:
    return await refused(
        client, token, INGEST, method="POST", data=body, headers={"X-DCT-Proof": header} if header else {}
    )


async def test_routes_stay_public_and_another_scheme_is_a_proxys(client: ClientSession) -> None:
    for headers in ({}, {"Authorization": "Basic eDp5"}):
        async with client.get("/v1/search", headers=headers) as response:
            assert response.status == 200
    async with client.post(INGEST, data=TXID) as response:
        assert response.status == 202


@pytest.mark.parametrize("token", ["", "sk-0123456789", "eyJhbGciOiJFZERTQSJ9.e30.c2ln", "motebit:x"])
async def test_the_tokens_of_other_systems_change_nothing(serve: Serve, services: AppServices, token: str) -> None:
    """Many clients send the same header to every server."""
    client = await serve(services)
    for path in ("/v1/search", "/v1/search/enhanced", "/v1/suggest?q=a"):
        assert await refused(client, token, path) == (0, "")
    assert await submitted(client, token, "") == (0, "")


async def test_another_token_with_a_holder_proof_is_refused(client: ClientSession) -> None:
    assert await submitted(client, "garbage", proof(AGENT, "POST", INGEST, TXID)) == (401, "malformed_token")


async def test_a_token_opens_what_it_grants(client: ClientSession) -> None:
    token = issued(capability(resource="tool:search"))
    assert await refused(client, token) == (0, "")
    assert await refused(client, token, "/v1/suggest?q=a") == (403, "capability_not_granted")
    assert await refused(client, issued(capability("submit")), "/v1/search") == (403, "capability_not_granted")
    assert await refused(client, issued(capability(namespace="docs"))) == (403, "capability_not_granted")


async def test_an_origin_is_a_resource(client: ClientSession) -> None:
    async with client.get("/v1/search?limit=2") as response:
        ours, other = (item["id"] for item in (await response.json())["items"])
    token = issued(capability(resource=ours))
    assert await refused(client, token, f"/v1/listings/{ours.upper()}") == (0, "")
    assert await refused(client, token, f"/v1/listings/{ours}/history") == (0, "")
    assert await refused(client, token, f"/v1/listings/{other}") == (403, "capability_not_granted")
    assert await refused(client, token, f"/v1/listings/{other}?id={ours}") == (403, "capability_not_granted")


def forged() -> str:
    """A root whose issuer is trusted, signed by another key that the signature names."""
    token = read_dct(issued())
    signature = {"signer": principal_of(STRANGER), "covers": "authority"}
    signature["signature"] = sign_object(STRANGER, {"authority": token["authority"]})
    return serialize_dct({**token, "signatures": [signature]})["token"]


def by_nobody() -> str:
    """A token of a trusted issuer, attenuated by a text that no database of PostgreSQL takes."""
    token = read_dct(narrowed(issued()))
    token["attenuations"][0]["attenuator"] = "\0"
    return serialize_dct(token)["token"]


@pytest.mark.parametrize(
    ("token", "status", "code"),
    [
        (issued()[:-9], 401, "malformed_token"),
        (issued() + "A" * 14_000, 401, "malformed_token"),
        (forged(), 401, "invalid_signature"),
        (by_nobody(), 401, "invalid_signature"),
        (issued(seed=STRANGER), 401, "invalid_signature"),
        (issued(expiresAt="2026-11-23T08:59:59Z"), 401, "expired"),
        (issued(budget=0), 403, "budget_exceeded"),
        (issued(budget=-5), 403, "budget_exceeded"),
        (narrowed(issued(), allowedCapabilities=[]), 403, "capability_not_granted"),
    ],
    ids=[
        "cut",
        "long",
        "forged root",
        "forged block",
        "unknown issuer",
        "expired",
        "no budget",
        "negative",
        "nothing granted",
    ],
)
async def test_bad_tokens_are_refused(client: ClientSession, token: str, status: int, code: str) -> None:
    assert await refused(client, token) == (status, code)


async def test_requests_are_charged_to_every_block(client: ClientSession) -> None:
    token = issued(budget=4)
    leaf = narrowed(token, maxBudgetMicrocents=2)
    assert [await refused(client, leaf) for _ in range(3)] == [(0, ""), (0, ""), (403, "budget_exceeded")]
    assert stripped(leaf) == token
    assert [await refused(client, token) for _ in range(3)] == [(0, ""), (0, ""), (403, "budget_exceeded")]


async def test_clients_at_once_spend_no_unit_more(serve: Serve, services: AppServices, access: New) -> None:
    """Two processes on one database."""
    clients = [await serve(changed(services, brought=granting(access()))) for _ in range(2)]
    token = issued(budget=9)
    results = await asyncio.gather(*(refused(clients[number % 2], token) for number in range(24)))
    assert results.count((0, "")) == 9
    assert results.count((403, "budget_exceeded")) == 15


async def test_a_submission_needs_the_proof_of_the_last_delegatee(client: ClientSession) -> None:
    assert await submitted(client, SUBMIT, "") == (401, "proof_required")
    assert await submitted(client, SUBMIT, proof(AGENT, "POST", INGEST, TXID)) == (0, "")
    assert await submitted(client, SUBMIT, proof(STRANGER, "POST", INGEST, TXID)) == (401, "invalid_proof")
    leaf = narrowed(SUBMIT)
    assert await submitted(client, leaf, proof(HELPER, "POST", INGEST, TXID)) == (0, "")
    assert await submitted(client, leaf, proof(AGENT, "POST", INGEST, TXID)) == (401, "invalid_proof")
    assert await submitted(client, stripped(leaf), proof(HELPER, "POST", INGEST, TXID)) == (401, "invalid_proof")


async def test_a_rating_needs_the_proof_too(client: ClientSession) -> None:
    path, rate = "/v1/evidence", issued(capability("rate", "tool:evidence"))
    assert await refused(client, SUBMIT, path, method="POST", data=b"{}") == (403, "capability_not_granted")
    assert await refused(client, rate, path, method="POST", data=b"{}") == (401, "proof_required")
    headers = {"Authorization": f"Bearer {rate}", "X-DCT-Proof": proof(AGENT, "POST", path, b"{}")}
    async with client.post(path, data=b"{}", headers=headers) as response:
        assert "no receipts" in (await problem(response, 404))["detail"]


@pytest.mark.parametrize(
    "header",
    [
        proof(AGENT, "PUT", INGEST, TXID),
        proof(AGENT, "POST", "/v1/ingest?x=1", TXID),
        proof(AGENT, "POST", INGEST, TXID + b" "),
        proof(AGENT, "POST", INGEST, TXID, time="2026-11-23T08:54:59Z"),
        proof(AGENT, "POST", INGEST, TXID, time="2026-11-23T09:05:01Z"),
        proof(AGENT, "POST", INGEST, TXID, time="yesterday"),
        proof(AGENT, "POST", INGEST, TXID, nonce="short"),
        proof(AGENT, "POST", INGEST, TXID, nonce="n" * 129),
        proof(AGENT, "POST", INGEST, TXID)[:-4],
        proof(AGENT, "POST", INGEST, TXID).partition(".")[0],
        ".",
        "é",
    ],
    ids=["method", "path", "body", "old", "future", "no time", "short nonce", "long nonce", "cut", "unsigned", "empty",
         "text"],
)  # fmt: skip
async def test_a_proof_is_for_one_request_of_this_moment(client: ClientSession, header: str) -> None:
    assert await submitted(client, SUBMIT, header) == (401, "invalid_proof")


async def test_the_body_is_the_signed_one_also_where_there_is_none(client: ClientSession) -> None:
    header = proof(AGENT, "POST", INGEST, b"")
    assert await submitted(client, SUBMIT, header) == (401, "invalid_proof")
    path = "/v1/listings/" + "ab" * 32 + "_0/recheck"
    for body, expected in ((b"x", (401, "invalid_proof")), (b"", (404, ""))):
        headers = {"X-DCT-Proof": proof(AGENT, "POST", path, body), "Authorization": f"Bearer {SUBMIT}"}
        async with client.post(path, headers=headers) as response:
            assert response.status == expected[0]


async def test_a_proof_is_used_once_in_every_process(serve: Serve, services: AppServices, access: New) -> None:
    header = proof(AGENT, "POST", INGEST, TXID)
    clients = [await serve(changed(services, brought=granting(access()))) for _ in range(2)]
    results = await asyncio.gather(*(submitted(clients[number % 2], SUBMIT, header) for number in range(6)))
    assert sorted(results) == [(0, ""), *[(401, "replayed")] * 5]


@pytest.mark.parametrize("ahead", [700, 7_000])
def test_a_server_with_a_clock_ahead_lets_no_proof_be_used_twice(access: New, ahead: int) -> None:
    server, fast = access(), access()
    fast.now = lambda: NOW + ahead * 10**9
    token = narrowed(issued())
    proofs = [HolderProof(sha256(b"").hexdigest(), f"nonce {number}", NOW // 10**9 + 300) for number in range(4)]
    for used in proofs:
        server.charge(server.verify(token), used)
    for number in range(4):
        new = HolderProof(sha256(b"").hexdigest(), f"new {number}", NOW // 10**9 + ahead + 300)
        fast.charge(server.verify(token), new)
    for used in proofs:
        with pytest.raises(TokenDeniedError, match="was used before"):
            server.charge(server.verify(token), used)


async def test_searches_need_no_proof(client: ClientSession) -> None:
    assert await refused(client, narrowed(issued())) == (0, "")


REVOCATIONS = "/v1/delegations/revocations"


async def test_a_revocation_counts_after_a_restart(serve: Serve, services: AppServices, access: New) -> None:
    token = narrowed(issued())
    before = await serve(changed(services, brought=granting(access())))
    assert await refused(before, token) == (0, "")
    entry = revocation(AGENT, token, 1)
    async with before.post(REVOCATIONS, json={"revocation": entry}) as response:
        assert response.status == 200
        assert (await response.json())["revocationId"] == entry["revocationId"]
    after = await serve(changed(services, brought=granting(access())))
    for client in (before, after):
        assert await refused(client, token) == (401, "revoked")
        assert await refused(client, stripped(token)) == (0, "")
        async with client.get(REVOCATIONS) as response:
            listed = await response.json()
        assert listed == {"revocations": [entry], "next": 1}
    async with after.get(f"{REVOCATIONS}?after=1&limit=5") as response:
        assert await response.json() == {"revocations": [], "next": 1}


@pytest.mark.parametrize(
    ("seed", "block", "scope", "counts"),
    [
        (STRANGER, 0, "chain", False),
        (HELPER, 1, "chain", False),
        (AGENT, 0, "chain", False),
        (ISSUER, 1, "block", False),
        (ISSUER, 1, "chain", True),
        (ISSUER, 0, "block", True),
    ],
)
async def test_only_a_signer_revokes(client: ClientSession, seed: bytes, block: int, scope: str, counts: bool) -> None:
    token = narrowed(issued())
    entry = revocation(seed, token, block, scope)
    async with client.post(REVOCATIONS, json={"revocation": entry, "dct": token}) as response:
        assert response.status == (200 if counts else 401)
        assert counts or (await problem(response, response.status))["errors"][0]["code"] == "not_revocable"
    async with client.post(REVOCATIONS, json=entry) as response:
        assert response.status == 200
    assert await refused(client, token) == ((401, "revoked") if counts else (0, ""))


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "malformed"),
        ([], "malformed"),
        ({"revocation": {}}, "malformed"),
        (revocation(ISSUER, issued()) | {"scope": "chain"}, "bad-signature"),
        (revocation(ISSUER, issued()) | {"revocationId": "x"}, "bad-encoding"),
        ({"revocation": revocation(ISSUER, issued()), "dct": 5}, "wrong-type"),
        ({"revocation": revocation(ISSUER, issued()), "more": 1}, "unknown-member"),
    ],
)
async def test_bad_revocations_are_named(client: ClientSession, body: Any, code: str) -> None:
    async with client.post(REVOCATIONS, json=body) as response:
        assert response.status == 400
        assert (await problem(response, response.status))["errors"][0]["code"] == code


async def test_a_server_without_issuers_refuses_tokens(serve: Serve, services: AppServices) -> None:
    client = await serve(services)
    assert await refused(client, issued()) == (401, "invalid_signature")


async def routed(serve: Serve, services: AppServices, access: New) -> tuple[ClientSession, list[Route]]:
    """An overlay with every protocol, and its routes that take tokens."""
    names = tuple(name for name in NAMES if name != "relay")
    client = await serve(changed(services, systems=names, brought=granting(access())))
    every = [*ROUTES, *(route for one in load_systems(names) for route in one.routes)]
    return client, [route for route in every if route.action is not None]


async def test_a_token_for_one_listing_opens_what_acts_on_it_and_nothing_else(
    serve: Serve, services: AppServices, access: New
) -> None:
    """On every route, whatever else the request names: a path of another listing, `?id=` once or twice, a body."""
    client, routes = await routed(serve, services, access)
    async with client.get("/v1/search?limit=2") as response:
        ours, other = (item["id"] for item in (await response.json())["items"])
    token = issued(*(capability(action, ours) for action in ACTIONS), budget=1e9)
    body = json.dumps({"id": ours, "listing": ours, "txid": ours[:64]}).encode()
    assert len(routes) > 15
    for route in routes:
        path = route.path.replace("{id}", other).replace("{what}", ours).replace("{sha256}", "ab" * 32)
        targets = [path, f"{path}?id={ours}", f"{path}?ID={ours}", f"{path}?id={other}&id={ours}"]
        if "{id}" not in route.path and route.path != "/v1/quote":
            targets += [f"{path}?i%64={ours}", f"{path}?id={ours}&id={ours}"]
        for target in targets:
            sent = body if route.method == "POST" else b""
            headers = {
                "Authorization": f"Bearer {token}", "X-DCT-Proof": proof(AGENT, route.method, target, sent),
            }  # fmt: skip
            url = URL(target, encoded=True)
            async with client.request(route.method, url, headers=headers, data=sent or None) as response:
                is_ours = route.path == "/v1/quote" and target == f"{path}?id={ours}"
                assert (response.status == 403) is not is_ours, (route.method, target)
    mine = [
        route.path.replace("{id}", ours).replace("{txid}", "ab" * 32)
        for route in routes
        if "{id}" in route.path and route.method == "GET"
    ]
    for path in [*mine, f"/v1/quote?id={ours}", f"/v1/quote?i%64={ours}"]:
        async with client.get(URL(path, encoded=True), headers={"Authorization": f"Bearer {token}"}) as response:
            assert response.status != 403, path


async def test_two_tokens_in_a_request_are_refused(client: ClientSession) -> None:
    good, bad = f"Bearer {issued()}", f"Bearer {issued(seed=STRANGER)}"
    for values, status in (((good, good), 200), ((good, bad), 401), ((bad, good), 401), (("Bearer sk-1", bad), 401)):
        headers = CIMultiDict([("Authorization", value) for value in values])
        async with client.get("/v1/search", headers=headers) as response:
            assert response.status == status, values
