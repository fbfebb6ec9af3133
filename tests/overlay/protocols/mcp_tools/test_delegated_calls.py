"""Capability tokens in MCP messages, and DelegateOS's own messages, over services in this process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from sqlalchemy import Engine

from indexer.store import connect
from overlay.api.services import AppServices
from overlay.systems.delegateos.delegated_access import DelegatedAccess
from overlay.systems.delegateos.store import DelegationRecords
from parsers.claims.delegateos.capability_token import read_dct, revocation_ids
from parsers.claims.delegateos.signed_objects import principal_of
from parsers.claims.rfc3339 import instant
from tests.overlay.conftest import Serve, serve, services
from tests.overlay.fakes import API_SYSTEMS, changed, granting
from tests.overlay.protocols.vectors import recorded
from tests.token_kit import (
    AGENT,
    HELPER,
    ISSUER,
    NOW,
    STRANGER,
    attestation,
    capability,
    contract,
    issued,
    narrowed,
    revocation,
    stripped,
)

__all__ = ["serve", "services"]

HEADERS = {"Accept": "application/json, text/event-stream"}
TOOLS = ["search", "get", "history", "diagnose", "verify", "quote"]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = connect(f"sqlite:///{tmp_path}/tokens.db")
    yield engine
    engine.dispose()


@pytest.fixture
async def client(serve: Serve, services: AppServices, engine: Engine) -> ClientSession:
    access = DelegatedAccess([principal_of(ISSUER)], DelegationRecords(engine, lambda _: NOW // 10**9), lambda: NOW)
    return await serve(changed(services, systems=(*API_SYSTEMS, "mcp"), brought=granting(access)))


async def post(client: ClientSession, message: Any, path: str = "/mcp", **headers: str) -> Any:
    async with client.post(path, json=message, headers=HEADERS | headers) as response:
        assert response.status == 200, await response.text()
        return await response.json()


def call(name: str = "search", token: str | None = None, id_: Any = 1, **arguments: Any) -> dict[str, Any]:
    params: dict[str, Any] = {"name": name, "arguments": arguments}
    if token is not None:
        params["_delegateos"] = {"dct": token, "format": "delegateos-sjt-v1", "delegationId": "del_x"}
    return {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}


async def denied(client: ClientSession, message: Any, **headers: str) -> str:
    """The type of a denial, "" for an answer."""
    answer = await post(client, message, **headers)
    assert answer["id"] == message["id"]
    if "result" in answer:
        assert not answer["result"].get("isError"), answer
        return ""
    assert (answer["error"]["code"], answer["error"]["message"]) == (-32001, "DCT verification failed")
    return str(answer["error"]["data"]["type"])


async def test_a_call_needs_no_token_and_one_that_grants_it_is_answered(client: ClientSession) -> None:
    token = issued(capability(resource="tool:search"))
    for message in (call(), call(token=token), call(token=None) | {"id": "text"}):
        assert await denied(client, message) == ""
    assert await denied(client, call(), Authorization=f"Bearer {token}") == ""
    assert await denied(client, call(token=token), Authorization=f"Bearer {token}") == ""


async def test_a_refusal_says_what_was_requested_and_granted(client: ClientSession) -> None:
    granted = capability(namespace="docs", action="read", resource="/project/*")
    answer = await post(client, call(token=issued(granted)))
    assert answer["error"]["data"] == {
        "type": "capability_not_granted",
        "detail": "registry:search is not granted for tool:search",
        "requested": {"namespace": "registry", "action": "search", "resource": "tool:search"},
        "granted": [granted],
    }


@pytest.mark.parametrize(
    ("meta", "type_"),
    [
        ({"dct": "x"}, "malformed_token"),
        ({"dct": 5}, "malformed_token"),
        ("text", "malformed_token"),
        ({"dct": issued(), "format": "biscuit"}, "malformed_token"),
        ({"dct": issued(), "contractId": "ct_2"}, "capability_not_granted"),
        ({"dct": issued(seed=STRANGER)}, "invalid_signature"),
        ({"dct": issued(expiresAt="2026-11-23T08:00:00Z")}, "expired"),
        ({"dct": "A" * 20_000}, "malformed_token"),
    ],
)
async def test_bad_tokens_are_refused(client: ClientSession, meta: Any, type_: str) -> None:
    message = call()
    message["params"]["_delegateos"] = meta
    assert await denied(client, message) == type_


async def test_two_tokens_are_refused_and_a_bad_header_too(client: ClientSession) -> None:
    token = issued()
    assert await denied(client, call(token=token), Authorization=f"Bearer {narrowed(token)}") == "malformed_token"
    assert await denied(client, call(), Authorization=f"Bearer {token[:-9]}") == "malformed_token"


async def test_the_token_of_another_system_changes_nothing(client: ClientSession) -> None:
    key = {"Authorization": "Bearer sk-0123456789"}
    assert await denied(client, call(), **key) == ""
    assert await denied(client, call(token=issued()), **key) == ""


SEARCH_ONLY = issued(capability(resource="tool:search"))
HEAD, TAIL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{', b"}}"
GET = b'"name":"get","arguments":{"id":"x"}'
META = b'"_delegateos":{"dct":"%s"}' % SEARCH_ONLY.encode()
UNREADABLE = {
    "infinite": b'"x":1e500,', "not a number": b'"x":NaN,', "digits": b'"x":' + b"7" * 200 + b",",
    "surrogate": b'"x":"\\ud800",', "depth": b'"x":' + b"[" * 200 + b"]" * 200 + b",", "control": b'"x":"\n",',
    "key twice": b'"x":1,"x":2,', "name twice": b'"name":"search",', "utf-8": b'"x":"\xff",',
    "token twice": b'"_delegateos":null,' + META + b",",
    "escaped key twice": b'"n\\u0061me":"search",', "comment": b"/* x */",
}  # fmt: skip


async def raw(client: ClientSession, document: bytes, path: str = "/mcp", **headers: str) -> tuple[int, Any]:
    """The status of the answer to bytes, and its JSON-RPC error."""
    headers = {**HEADERS, "Content-Type": "application/json", **headers}
    async with client.post(path, data=document, headers=headers) as response:
        return response.status, (await response.json()).get("error")


@pytest.mark.parametrize("odd", UNREADABLE.values(), ids=UNREADABLE)
async def test_a_message_that_readers_read_differently_is_refused(client: ClientSession, odd: bytes) -> None:
    """A token in the header or in the message is not passed by, as nothing is read by another parser."""
    for document, headers in (
        (HEAD + odd + GET + TAIL, {"Authorization": f"Bearer {SEARCH_ONLY}"}),
        (HEAD + odd + META + b"," + GET + TAIL, {}),
        (HEAD + META + b"," + odd + GET + TAIL, {}),
        (HEAD + odd + GET + TAIL, {}),
    ):
        status, error = await raw(client, document, **headers)
        assert (status, error["code"]) == (400, -32700), error
        assert error["message"].startswith("the body cannot be read: ")
        beside = b'{"id":"1","method":"tools/call","dct":"%s","params":{' % SEARCH_ONLY.encode()
        assert (await raw(client, beside + document.removeprefix(HEAD), "/mcp/message"))[0] == 400
    for encoding in ("utf-16", "utf-32-le", "utf-8-sig"):
        assert (await raw(client, (HEAD + GET + TAIL).decode().encode(encoding)))[0] == 400


@pytest.mark.parametrize("name", ["_delegat\\u0065os", "\\u005fdelegateos"])
async def test_a_token_is_looked_at_in_whatever_spelling(client: ClientSession, name: str) -> None:
    for token, type_ in ((SEARCH_ONLY, "capability_not_granted"), (issued(seed=STRANGER), "invalid_signature")):
        document = HEAD + f'"{name}":{{"d\\u0063t":"{token}"}},'.encode() + GET + TAIL
        status, error = await raw(client, document)
        assert (status, error["data"]["type"]) == (200, type_)


async def test_the_tools_see_the_very_values_that_were_read(client: ClientSession) -> None:
    number = b"12345678901234567890123456789"
    for id_, shown in ((b'"\\u00e9\\/"', "é/"), (number, int(number)), (b"1.5e3", 1500.0), (b"-0", 0)):
        document = HEAD.replace(b'"id":1', b'"id":' + id_) + b'"name":"search","arguments":{"limit":1}' + TAIL
        headers = {**HEADERS, "Content-Type": "application/json", "Authorization": f"Bearer {SEARCH_ONLY}"}
        async with client.post("/mcp", data=document, headers=headers) as response:
            if response.status == 200:  # the package takes no fractions as an id, and says so
                assert (await response.json(loads=json.loads))["id"] == shown


@pytest.mark.parametrize(
    "members",
    [
        {"params": ["x"], "dct": SEARCH_ONLY},
        {"params": "x", "dct": SEARCH_ONLY},
        {"params": {"_delegateos": "x"}, "dct": SEARCH_ONLY},
        {"params": {"_delegateos": {"dct": issued()}}, "dct": SEARCH_ONLY},
    ],
)
async def test_a_token_beside_a_message_is_not_passed_by(client: ClientSession, members: dict[str, Any]) -> None:
    document = json.dumps({"id": "1", "method": "tools/call", **members}).encode()
    assert (await raw(client, document, "/mcp/message"))[0] == 400


async def test_ids_that_are_no_unicode_are_refused(client: ClientSession) -> None:
    document = json.dumps(call("get", id="x#\ud800")).encode()
    assert b"ud800" in document
    assert (await raw(client, document, Authorization=f"Bearer {issued()}"))[1]["code"] == -32700


async def test_a_method_may_be_written_with_an_escaped_slash(client: ClientSession) -> None:
    document = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "delegateos/revoke", "params": {"revocation": {}}})
    headers = {**HEADERS, "Content-Type": "application/json"}
    async with client.post("/mcp", data=document.replace("/", "\\/"), headers=headers) as response:
        assert (await response.json())["error"]["data"]["type"] == "malformed"


async def test_calls_are_charged_to_every_block_and_lists_are_not(client: ClientSession) -> None:
    token = issued(budget=3)
    leaf = narrowed(token, maxBudgetMicrocents=2)
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    for _ in range(3):
        assert await denied(client, listing, Authorization=f"Bearer {leaf}") == ""
    assert [await denied(client, call(token=leaf)) for _ in range(3)] == ["", "", "budget_exceeded"]
    assert [await denied(client, call(token=stripped(leaf))) for _ in range(2)] == ["", "budget_exceeded"]


async def test_what_no_tool_is_or_takes_is_for_the_tools_to_refuse(client: ClientSession) -> None:
    for message in (call("nothing"), call() | {"params": {"name": ["search"]}}, call() | {"method": ["x"]}):
        async with client.post("/mcp", json=message, headers={**HEADERS, "Authorization": f"Bearer {issued()}"}) as one:
            assert (await one.json())["error"]["code"] in (-32602, -32601, -32600)


async def names(client: ClientSession, token: str, path: str = "/mcp") -> list[str]:
    message = {"jsonrpc": "2.0", "id": "1", "method": "tools/list", "params": {}}
    answer = await post(client, message, path, Authorization=f"Bearer {token}")
    return [tool["name"] for tool in answer["result"]["tools"]]


async def test_the_list_of_tools_is_what_the_token_grants(client: ClientSession) -> None:
    two = issued(capability(resource="tool:search"), capability(resource="tool:quote"))
    for path in ("/mcp", "/mcp/message"):
        assert await names(client, issued(), path) == TOOLS
        assert await names(client, two, path) == ["search", "quote"]
        assert await names(client, narrowed(two, allowedCapabilities=[]), path) == []
        assert await names(client, issued(capability("submit")), path) == []
        assert await names(client, issued(capability(resource="ab" * 32 + "_0")), path) == [
            "get", "history", "verify", "quote"
        ]  # fmt: skip


async def test_a_token_for_one_listing_opens_that_one(client: ClientSession) -> None:
    searched = await post(client, call(limit=2))
    ours, other = (item["id"] for item in searched["result"]["structuredContent"]["items"])
    token = issued(capability(resource=ours))
    assert await denied(client, call("get", token, id=ours)) == ""
    assert await denied(client, call("get", token, id=other)) == "capability_not_granted"
    assert await denied(client, call("search", token)) == "capability_not_granted"
    for name in ("search", "diagnose"):
        assert await denied(client, call(name, token, id=ours, what=ours)) == "capability_not_granted"


async def test_recorded_requests_of_its_client_are_answered(
    serve: Serve, services: AppServices, engine: Engine, shared: Path
) -> None:
    """At the time of the recording, its issuer being trusted; and today, when its token has expired."""
    requests = recorded(shared, "delegateos")
    token = json.loads(requests[3].body)["params"]["_delegateos"]["dct"]
    issuer = read_dct(token)["authority"]["issuer"]
    clock = {"now": instant("2026-11-23T08:40:00Z") or 0}
    records = DelegationRecords(engine, lambda _: clock["now"] // 10**9)
    access = DelegatedAccess([issuer], records, lambda: clock["now"])
    client = await serve(changed(services, systems=(*API_SYSTEMS, "mcp", "bsv_overlay"), brought=granting(access)))
    answers: list[tuple[int, Any]] = []
    for request in (*requests, requests[3]):
        if len(answers) == len(requests):
            clock["now"] = instant("2026-11-25T00:00:00Z") or 0
        async with client.request(
            request.method, request.target, headers=request.headers, data=request.body.encode()
        ) as response:
            answers.append((response.status, await response.json() if response.status == 200 else None))
    assert [status for status, _ in answers] == [200, 200, 202, 200, 200, 200, 200]
    verdict, started, _, called, health, listed, late = (answer for _, answer in answers)
    assert (verdict["verified"], verdict["scope"]["remainingBudgetMicrocents"]) == (True, 1000)
    assert started["result"]["protocolVersion"] == "2025-06-18"
    assert called["result"]["structuredContent"]["total"] == 0
    assert access.records.spent(revocation_ids(read_dct(token))[0]) == 1
    assert (health["status"], health["version"]) == ("ok", "0.1.0")
    assert (listed["id"], [tool["name"] for tool in listed["result"]["tools"]]) == ("1", TOOLS)
    assert late["error"]["data"]["type"] == "expired"


async def test_its_client_calls_tools_with_the_token_in_the_header_or_beside_the_method(client: ClientSession) -> None:
    message = {"id": "7", "method": "tools/call", "params": {"name": "search", "arguments": {"limit": 1}}}
    token, forged = issued(), issued(seed=STRANGER)
    for path_token, headers, type_ in (
        ({}, {}, None),
        ({}, {"Authorization": f"Bearer {token}"}, None),
        ({"dct": token}, {}, None),
        ({"dct": forged}, {}, "invalid_signature"),
        ({}, {"Authorization": f"Bearer {forged}"}, "invalid_signature"),
    ):
        answer = await post(client, message | path_token, "/mcp/message", **headers)
        assert answer["id"] == "7"
        if type_ is None:
            assert len(answer["result"]["structuredContent"]["items"]) == 1
        else:
            assert (answer["error"]["code"], answer["error"]["data"]["type"]) == (-32001, type_)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"7", b"{}", b'{"id": "1"}', b'{"method": "x"}', b'{"id": "1", "method": 5}']
)
async def test_what_is_no_message_of_its_client_is_refused(client: ClientSession, body: bytes) -> None:
    async with client.post("/mcp/message", data=body, headers={"Content-Type": "application/json"}) as response:
        assert response.status == 400
        assert (await response.json())["error"]["code"] == -32600


# -- delegations

LEAF = narrowed(issued())


def delegate(token: str = LEAF, **members: Any) -> dict[str, Any]:
    params = {
        "contract": contract(), "dct": token, "dctFormat": "delegateos-sjt-v1", "delegationId": "del_0000000000a2",
        "parentDelegationId": "del_0000000000a1", **members,
    }  # fmt: skip
    return {"jsonrpc": "2.0", "id": 1, "method": "delegateos/delegate", "params": params}


async def reason(client: ClientSession, message: Any) -> str:
    """Why a delegation is rejected, "" where it is accepted."""
    result = (await post(client, message))["result"]
    assert result["accepted"] is ("reason" not in result)
    assert result.get("details") if "reason" in result else result["delegationId"]
    return str(result.get("reason", ""))


async def test_a_delegation_is_accepted_and_can_be_repeated(client: ClientSession) -> None:
    for _ in range(2):
        assert await reason(client, delegate()) == ""
    root = delegate(issued(), delegationId="del_0000000000a1", parentDelegationId="del_000000000000")
    assert await reason(client, root) == ""
    answer = await post(client, {**delegate(), "id": "1"}, "/mcp/message")
    assert (answer["result"]["delegationId"], answer["result"]["status"]) == ("del_0000000000a2", "active")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (delegate(issued(seed=STRANGER)), "invalid_signature"),
        (delegate(parentDelegationId="del_000000000000"), "broken_chain"),
        (delegate(delegationId="del_1"), "broken_chain"),
        (delegate(narrowed(issued(parentDelegationId="del_9"))), "broken_chain"),
        (delegate(narrowed(issued(chainDepth=1))), "broken_chain"),
        (delegate(contract=contract() | {"id": "ct_9"}), "bad-signature"),
        (delegate(narrowed(issued(), contractId="ct_2")), "contract_mismatch"),
        (delegate(contract=contract(requiredCapabilities=["web:search"])), "capability_mismatch"),
        (delegate(contract=contract(requiredCapabilities=["registry:submit"])), "capability_mismatch"),
        (delegate(contract=contract(deadline="2026-11-23T08:00:00Z")), "expired"),
        (delegate(contract=contract(maxChainDepth=0)), "chain_depth_exceeded"),
        (delegate(contract=None), "malformed"),
        (delegate(contract={"x": "y" * 20_000}), "too-large"),
        (delegate(dctFormat="biscuit"), "malformed_token"),
        (delegate(dct=None), "malformed_token"),
        (delegate(narrowed(issued(), delegationId="del_\0"), delegationId="del_\0"), "malformed"),
        (delegate(narrowed(issued(delegationId="del_\0")), parentDelegationId="del_\0"), "malformed"),
    ],
)
async def test_delegations_are_rejected_with_the_reason(client: ClientSession, message: Any, expected: str) -> None:
    assert await reason(client, message) == expected


def complete(seed: bytes = HELPER, output: Any = None, **members: Any) -> dict[str, Any]:
    output = {"ids": ["a"]} if output is None else output
    params = {
        "delegationId": "del_0000000000a2",
        "attestation": attestation(seed, "del_0000000000a2", output, **members),
    }
    return {"jsonrpc": "2.0", "id": 1, "method": "delegateos/complete", "params": params}


async def test_an_attestation_of_the_delegatee_completes_it_once(client: ClientSession) -> None:
    assert (await post(client, complete()))["error"]["data"]["type"] == "unknown_delegation"
    assert await reason(client, delegate()) == ""
    assert (await post(client, complete(AGENT)))["error"]["data"]["type"] == "unknown_delegation"
    assert (await post(client, complete(output={})))["error"]["data"]["type"] == "output-refused"
    for _ in range(2):
        assert (await post(client, complete()))["result"] == {"delegationId": "del_0000000000a2", "status": "completed"}
    assert (await post(client, complete(output={"ids": []})))["error"]["data"]["type"] == "already_ended"
    assert (await post(client, delegate()))["result"]["status"] == "completed"


async def test_ids_and_principals_that_are_none_are_refused(client: ClientSession) -> None:
    for members in ({"delegationId": "del_1"}, {"delegationId": None}):
        message = complete() | {"params": {**complete()["params"], **members}}
        assert (await post(client, message))["error"]["data"]["type"] == "malformed"
    assert (await post(client, complete(principal="\0")))["error"]["data"]["type"] == "malformed"


async def test_a_completion_may_be_a_notification(client: ClientSession) -> None:
    assert await reason(client, delegate()) == ""
    message = complete(output={"ids": []})
    del message["id"]
    forged = complete(STRANGER)
    del forged["id"]
    for content, status in ((message, 202), (forged, 400)):
        for path in ("/mcp", "/mcp/message"):
            async with client.post(path, json=content, headers=HEADERS) as response:
                assert response.status == status
    assert (await post(client, complete()))["error"]["data"]["type"] == "already_ended"


async def test_a_revoked_delegation_is_neither_accepted_nor_completed(client: ClientSession) -> None:
    assert await reason(client, delegate()) == ""
    for seed in (STRANGER, AGENT):
        assert await denied(client, call(token=LEAF)) == ""
        entry = revocation(seed, LEAF, 1)
        message = {"jsonrpc": "2.0", "id": 1, "method": "delegateos/revoke", "params": {"revocation": entry}}
        assert (await post(client, message))["result"]["revocationId"] == entry["revocationId"]
    assert await denied(client, call(token=LEAF)) == "revoked"
    assert await reason(client, delegate()) == "revoked"
    assert (await post(client, complete()))["error"]["data"]["type"] == "revoked"
    forged = entry | {"scope": "chain"}
    message = {"jsonrpc": "2.0", "id": 1, "method": "delegateos/revoke", "params": {"revocation": forged}}
    assert (await post(client, message))["error"]["data"]["type"] == "bad-signature"
