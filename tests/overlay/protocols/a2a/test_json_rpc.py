"""A2A's wire: the overlay's card, JSON-RPC in both versions, and its errors."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from overlay.api.identity_key import IdentityKey
from overlay.api.problems import ProblemError
from overlay.api.services import AppServices
from overlay.systems.a2a.a2a_api import METHODS
from overlay.systems.a2a.own_card import own_card
from overlay.systems.a2a.search_messages import read_message, read_task
from parsers.claims.card_signature import signatures, verify
from parsers.claims.json_web_key import key_set
from tests.overlay.conftest import Serve
from tests.overlay.fakes import API_SYSTEMS, changed


@pytest.fixture
def services(services: AppServices) -> AppServices:
    return changed(services, systems=(*API_SYSTEMS, "a2a"))


async def post(client: ClientSession, body: Any, **headers: str) -> dict[str, Any]:
    """The JSON-RPC response to a body, which is text or a JSON value."""
    sent = body if isinstance(body, str) else json.dumps(body)
    async with client.post("/a2a", data=sent, headers={"Content-Type": "application/json", **headers}) as response:
        assert response.status == 200
        answer: dict[str, Any] = await response.json()
        return answer


async def call(client: ClientSession, method: str, params: Any = None, version: str = "") -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": "1", "method": method, "params": {} if params is None else params}
    return await post(client, body, **({"A2A-Version": version} if version else {}))


async def refused(client: ClientSession, params: dict[str, Any]) -> tuple[int, str]:
    error = (await call(client, "SendMessage", params))["error"]
    return error["code"], error["message"]


def message(*parts: Any, **more: Any) -> dict[str, Any]:
    return {"message": {"messageId": "m1", "role": "ROLE_USER", "parts": list(parts), **more}}


async def test_the_card_is_at_both_paths_and_says_that_there_is_no_public_url(client: ClientSession) -> None:
    cards = []
    for path in ("/.well-known/agent-card.json", "/.well-known/agent.json"):
        async with client.get(path) as response:
            assert response.status == 200
            cards.append(await response.json())
        async with client.get(path, headers={"If-None-Match": response.headers["ETag"]}) as again:
            assert again.status == 304
    card, other = cards
    assert card == other
    endpoint = f"{response.url.origin()}/a2a"
    assert card["url"] == endpoint
    versions = [(one["url"], one["protocolVersion"]) for one in card["supportedInterfaces"]]
    assert versions == [(endpoint, "1.0"), (endpoint, "0.3")]
    assert "A2B_PUBLIC_URL" in card["metadata"]["note"]


async def test_the_urls_of_the_card_are_the_configured_ones(serve: Serve, services: AppServices) -> None:
    client = await serve(changed(services, public_url="https://registry.example"))
    async with client.get("/.well-known/agent-card.json") as response:
        card = await response.json()
    assert card["url"] == "https://registry.example/a2a"
    assert card["metadata"] == {"publicUrl": "https://registry.example"}


async def test_the_card_is_signed_by_the_key_of_the_server(serve: Serve, services: AppServices) -> None:
    client = await serve(changed(services, identity=IdentityKey(b"\1" * 32, b"\2" * 32)))
    async with client.get("/.well-known/agent-card.json") as response:
        card = await response.json()
    async with client.get("/.well-known/jwks.json") as response:
        keys = key_set(await response.read())
    check = verify(card, keys)
    assert (check.verified, check.form, check.algorithm) == (True, "a2a-jcs", "EdDSA")
    assert not verify(card | {"name": "x"}, keys).verified
    assert signatures(card)[0].jku == str(response.url)


async def test_a_server_without_keys_signs_nothing(client: ClientSession) -> None:
    async with client.get("/.well-known/agent-card.json") as response:
        assert "signatures" not in await response.json()
    async with client.get("/.well-known/jwks.json") as response:
        assert await response.json() == {"keys": []}


def test_the_card_is_valid_in_version_0_3(shared: Path) -> None:
    schema = json.loads((shared / "data" / "specs" / "a2a-v0.3.0.schema.json").read_text())
    card = own_card("https://registry.example", "1", is_configured=True)
    Draft7Validator({"$ref": "#/definitions/AgentCard", "definitions": schema["definitions"]}).validate(card)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("", -32700), ("\xff", -32700), ('{"id": NaN}', -32700), ("[" * 1000, -32700), ("[]", -32600), ("7", -32600),
        ({"jsonrpc": "1.0", "method": "SendMessage"}, -32600), ({"jsonrpc": "2.0"}, -32600),
        ({"jsonrpc": "2.0", "id": True, "method": "SendMessage"}, -32600),
        ({"jsonrpc": "2.0", "id": {}, "method": "SendMessage"}, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": 5}, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": []}, -32602),
        ({"jsonrpc": "2.0", "id": 1, "method": "SendMessage"}, -32602),
        ({"jsonrpc": "2.0", "id": 1, "method": "sendmessage"}, -32601),
    ],
)  # fmt: skip
async def test_what_is_no_call_gets_the_error_of_json_rpc(body: Any, code: int, client: ClientSession) -> None:
    assert (await post(client, body))["error"]["code"] == code


@pytest.mark.parametrize("name", sorted(METHODS.keys() - {"SendMessage", "message/send", "tasks/send", "ListTasks"}))
async def test_methods_that_are_not_served_say_why(name: str, client: ClientSession) -> None:
    answer = await call(client, name, {"id": "t1"}, METHODS[name].version)
    assert METHODS[name].error is not None
    assert answer["error"]["code"] == METHODS[name].error.code
    assert METHODS[name].error.sentence in answer["error"]["message"]
    assert answer["error"]["data"][0]["reason"] == METHODS[name].error.reason
    assert answer["id"] == "1"


async def test_there_are_no_tasks(client: ClientSession) -> None:
    assert (await call(client, "ListTasks"))["result"]["tasks"] == []
    assert (await call(client, "GetTask"))["error"]["code"] == -32602
    code, _ = await refused(client, message({"text": "x"}, taskId="t1"))
    assert code == -32001


@pytest.mark.parametrize("version", ["0.2", "2.0", "1", "1.1", "x" * 500])
async def test_other_versions_are_refused(version: str, client: ClientSession) -> None:
    assert (await call(client, "SendMessage", message({"text": "x"}), version))["error"]["code"] == -32009


async def test_a_patch_number_of_the_version_does_not_count(client: ClientSession) -> None:
    assert "result" in await call(client, "SendMessage", message({"text": "x"}), "1.0.1")


@pytest.mark.parametrize(
    ("params", "code", "named"),
    [
        (message(), -32602, "1 to 16 parts"),
        (message(*[{"text": "x"}] * 17), -32602, "1 to 16 parts"),
        (message("x"), -32602, "part 0"),
        (message({"text": 5}), -32602, "part 0"),
        (message({"text": "x", "data": {}}), -32602, "part 0"),
        (message({"data": "x"}), -32602, "part 0"),
        (message({"raw": "eA=="}), -32005, "part 0 is a file"),
        (message({"data": {"colour": "red", "limit": "x"}}), -32602, "colour"),
        (message({"data": {"tag": {"a": 1}}}), -32602, "tag"),
        (message({"data": {"tag": [["a"]]}}), -32602, "tag"),
        (message({"data": {"facets": "all"}}), -32602, "facets"),
        (message({"text": "x"}, {"data": {"q": "y"}}), -32602, "q: "),
        (message({"text": "x" * 4_097}), -32602, "4096"),
        (message({"text": "x"}, contextId=5), -32602, "contextId"),
        ({"message": []}, -32602, "message"),
        ({**message({"text": "x"}), "configuration": []}, -32602, "configuration"),
        ({**message({"text": "x"}), "configuration": {"acceptedOutputModes": 5}}, -32602, "acceptedOutputModes"),
        ({**message({"text": "x"}), "configuration": {"acceptedOutputModes": ["image/png"]}}, -32005, "text/plain"),
        ({**message({"text": "x"}), "configuration": {"pushNotificationConfig": {"url": "x"}}}, -32003, "push"),
    ],
)  # fmt: skip
async def test_bad_messages_are_refused_by_name(
    params: dict[str, Any], code: int, named: str, client: ClientSession
) -> None:
    answered, sentence = await refused(client, params)
    assert answered == code
    assert named in sentence


async def test_every_bad_parameter_is_named(client: ClientSession) -> None:
    params = message({"data": {"colour": "red", "maxPrice": "cheap"}})
    error = (await call(client, "SendMessage", params))["error"]
    assert [violation["field"] for violation in error["data"][1]["fieldViolations"]] == ["colour", "maxPrice"]


async def test_clients_get_the_kinds_of_parts_that_they_accept(client: ClientSession) -> None:
    for modes, members in (
        (["text/plain"], ["text"]), (["application/json"], ["data"]), (["*/*"], ["text", "data"]), (["text"], ["text"]),
        (["image/png", "text", 5, {}], ["text"]), (["Text/Plain; charset=utf-8"], ["text"]), (["text/*"], ["text"]),
        (["data"], ["data"]), (["text", "data"], ["text", "data"]), (["application/*"], ["data"]),
    ):  # fmt: skip
        params = {**message({"text": "tower"}), "configuration": {"acceptedOutputModes": modes}}
        parts = (await call(client, "SendMessage", params))["result"]["message"]["parts"]
        assert [next(iter(part)) for part in parts] == members


def task(*parts: Any, **more: Any) -> dict[str, Any]:
    """The parameters of A2A 0.1's `tasks/send`, as the sample clients of its time sent them."""
    sent = {"role": "user", "parts": list(parts)}
    return {"id": "t1", "sessionId": "s1", "acceptedOutputModes": ["text"], "message": sent, **more}


async def test_a_client_of_0_1_gets_a_completed_task(client: ClientSession, shared: Path) -> None:
    answer = await call(client, "tasks/send", task({"type": "text", "text": "tower"}, historyLength=1))
    schema = json.loads((shared / "data" / "specs" / "a2a-v0.1.0.schema.json").read_text())
    Draft7Validator({"$ref": "#/$defs/SendTaskResponse", "$defs": schema["$defs"]}).validate(answer)
    result = answer["result"]
    assert (result["id"], result["sessionId"], result["status"]["state"]) == ("t1", "s1", "completed")
    [artifact] = result["artifacts"]
    [part] = artifact["parts"]
    assert part["type"] == "text"
    params = {**message({"kind": "text", "text": "tower"}), "configuration": {"acceptedOutputModes": ["text"]}}
    [newer] = (await call(client, "message/send", params))["result"]["parts"]
    assert part["text"] == newer["text"]


async def test_a_task_of_0_1_takes_parameters_and_needs_no_session(client: ClientSession) -> None:
    params = task({"type": "data", "data": {"q": "tower", "limit": 1}})
    del params["sessionId"], params["acceptedOutputModes"]
    result = (await call(client, "tasks/send", params, "0.1"))["result"]
    assert result["sessionId"]
    assert [part["type"] for part in result["artifacts"][0]["parts"]] == ["text", "data"]
    assert len(result["artifacts"][0]["parts"][1]["data"]["items"]) == 1
    again = await call(client, "tasks/get", {"id": "t1"})
    assert again["error"]["code"] == -32001


@pytest.mark.parametrize(
    ("params", "code", "named"),
    [
        ({**task({"type": "text", "text": "x"}), "id": 7}, -32602, "id"),
        ({**task({"type": "text", "text": "x"}), "id": ""}, -32602, "id"),
        (task({"type": "text", "text": "x"}, sessionId="s" * 257), -32602, "sessionId"),
        ({"id": "t1"}, -32602, "message"),
        (task({"type": "text", "text": "x"}, acceptedOutputModes=["image/png"]), -32005, "text/plain"),
        (task({"type": "text", "text": "x"}, pushNotification={"url": "https://a.example"}), -32003, "push"),
        (task({"type": "file", "file": {"bytes": "eA=="}}), -32005, "part 0 is a file"),
    ],
)  # fmt: skip
async def test_bad_tasks_of_0_1_are_refused_by_name(
    params: dict[str, Any], code: int, named: str, client: ClientSession
) -> None:
    error = (await call(client, "tasks/send", params))["error"]
    assert error["code"] == code
    assert named in error["message"]


async def test_a_method_of_0_1_is_none_of_0_3(client: ClientSession) -> None:
    answer = await call(client, "tasks/send", task({"type": "text", "text": "x"}), "0.3")
    assert answer["error"]["code"] == -32009


async def test_a_body_that_is_too_large_is_refused_in_the_shape_of_json_rpc(client: ClientSession) -> None:
    async with client.post("/a2a", data=b"x" * 70_000) as response:
        assert response.status == 413
        assert (await response.json())["error"]["code"] == -32600


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
members = st.sampled_from(["text", "data", "kind", "file", "raw", "taskId", "contextId", "q"])


@given(
    parts=st.lists(st.dictionaries(members, json_values, max_size=3) | json_values, max_size=4),
    more=st.dictionaries(members, json_values),
    configuration=json_values,
)
@settings(max_examples=200)
def test_any_message_is_parameters_or_an_error(parts: list[Any], more: dict[str, Any], configuration: Any) -> None:
    sent = {**more, "parts": parts}
    with suppress(ProblemError):
        read = read_message({"message": sent, "configuration": configuration})
        assert all(isinstance(text, str) for pair in read.pairs for text in pair)
    with suppress(ProblemError):
        read = read_task({**more, "id": "t1", "message": sent, "acceptedOutputModes": configuration})
        assert (read.task_id, bool(read.context_id)) == ("t1", True)
