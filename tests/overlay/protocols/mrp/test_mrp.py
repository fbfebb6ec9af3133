"""MRP over the sample chain: the client of PyPI unmodified, recorded requests, and what the specification asks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from overlay.api.services import AppServices
from overlay.systems.mrp.route_offers import RouteId, parse_capability, parse_route, route_id
from parsers.claims.mrp.signed_envelope import EnvelopeRules, mrp_keys, verify_envelope
from tests.conftest import missing
from tests.overlay.calls import get, local_http, read_json
from tests.overlay.conftest import Serve
from tests.overlay.fakes import API_SYSTEMS, changed, priced
from tests.overlay.protocols.vectors import api_page, recorded, send
from tests.waiting import PATIENCE

PYTHON = Path(__file__).parent / "python_modules"
WATCHTOWER = "dc35745fe6bf0623a33a2d79bcfeaeb9d34808c5d37d772598ebe5fa93db9dd7_0"
TRIALS = "d5b4f3d641dd7478e1d38861246f9fd1c20a6652728e96c3ea1c41175b3f75fb_0"


def moment(**away: float) -> str:
    """A time before or after now, as clients write it."""
    return (datetime.now(UTC) + timedelta(**away)).isoformat().replace("+00:00", "Z")


def message(msg_type: str, payload: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "mrp_version": "0.1", "msg_id": str(uuid4()), "msg_type": msg_type, "timestamp": moment(),
        "sender": {"id": "agent:test/one"}, "payload": payload, **more,
    }  # fmt: skip


def ask(url: str, msg_type: str, payload: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The payload that answers a message."""
    sent = message(msg_type, payload, **more)
    response = local_http.post(f"{url}/mrp/{msg_type.lower()}", json=sent)
    assert (response.status_code, response.headers["Content-Type"]) == (200, "application/mrp+json"), response.text
    answer = response.json()
    assert answer["in_reply_to"] == sent["msg_id"]
    assert answer["receiver"] == sent["sender"]
    return {"msg_type": answer["msg_type"], **answer["payload"]}


def offers(url: str, intent: str, **constraints: Any) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = ask(url, "DISCOVER", {"intent": intent, "constraints": constraints})["offers"]
    return results


@pytest.fixture(scope="module")
def schemas(shared: Path) -> Registry[Any]:
    folder = shared / "vectors" / "trust" / "mrp" / "schemas-strict"
    documents = [json.loads(file.read_text()) for file in sorted(folder.rglob("*.json"))]
    return Registry[Any]().with_resources((document["$id"], Resource.from_contents(document)) for document in documents)


def check(schemas: Registry[Any], document: Any, name: str = "envelope") -> None:
    schema = {"$ref": f"https://www.moltrouter.dev/schemas/mrp/0.1/{name}.schema.json"}
    formats = Draft202012Validator.FORMAT_CHECKER
    Draft202012Validator(schema, registry=schemas, format_checker=formats).validate(document)


# -- clients


def mrpd_command(*arguments: str) -> tuple[list[str], dict[str, str]]:
    """The client's command line, and its environment."""
    if not PYTHON.is_dir():
        missing("mrpd (pip install --no-deps --target python_modules -r python_modules.txt)")
    environment = {**os.environ, "PYTHONPATH": str(PYTHON), "COLUMNS": "200", "PYTHONUNBUFFERED": "1"}
    return [sys.executable, "-m", "mrpd", *arguments], environment


def mrpd(*arguments: str) -> str:
    command, environment = mrpd_command(*arguments)
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=environment).stdout


def test_mrpd_ranks_the_listings_with_a_capability_and_reads_their_manifests(overlay_url: str) -> None:
    printed = mrpd("route", "find a clinical trial", "--capability", "find-trials", "--registry", overlay_url)
    assert f"Winner: score=50.00 id={TRIALS} name=Trial Finder" in printed
    assert "Manifest capability: find-trials" in printed
    assert f"'execute': '{overlay_url}/mrp/execute'" in printed


def test_mrpd_falls_back_to_all_listings_for_an_unknown_capability(overlay_url: str) -> None:
    printed = mrpd("route", "anything", "--capability", "no such skill", "--registry", overlay_url, "--limit", "5")
    assert "No candidates satisfied the requested requirements" in printed
    assert printed.count("missing: capability:no such skill") == 5


def test_mrpd_discovers_and_is_referred_to_the_agent(overlay_url: str) -> None:
    printed = mrpd(
        "run", "watch my channel", "--url", "https://w.example", "--capability", "watchChannels",
        "--registry", overlay_url,
    )  # fmt: skip
    assert "Received evidence." in printed
    assert "this registry executes nothing: ask the agent itself by A2A" in printed


def test_recorded_requests_are_answered(overlay_url: str, shared: Path) -> None:
    for request in recorded(shared, "mrpd_client"):
        if "/mrp/registry/" in request.target and request.method == "POST":
            continue
        if request.body:  # as the client would send it today
            document = json.loads(request.body) | {"timestamp": moment(), "msg_id": str(uuid4())}
            request = request._replace(body=json.dumps(document))
        response = send(overlay_url, request)
        assert response.status_code == 200, response.text
        if request.target == "/mrp/discover":
            assert response.json()["msg_type"] == "OFFER"
        if "/mrp/manifest/" in request.target:  # the recording's registry names manifests by skill
            assert response.json()["capability"] == request.target.rpartition("/")[2]


def test_a_manifest_of_no_listing_and_no_capability_is_not_there(overlay_url: str) -> None:
    response = local_http.get(f"{overlay_url}/mrp/manifest/nothing")
    assert (response.status_code, response.json()["error"]) == (404, "MRP_INVALID_REQUEST")


# -- messages


def test_every_answer_fits_the_strict_schemas(overlay_url: str, schemas: Registry[Any]) -> None:
    [offer, *_] = offers(overlay_url, "lightning watchtower")
    for name, sent in (
        ("hello", message("HELLO", {"schemas": ["0.1"]}, trace={"root": "r", "parent": "p", "x": 1})),
        ("discover", message("DISCOVER", {"intent": "watchtower"}, idempotency_key="k")),
        ("discover", message("DISCOVER", {"intent": "x", "constraints": {"policy": ["no_pii"]}})),
        ("negotiate", message("NEGOTIATE", {"route_id": offer["route_id"]})),
        ("execute", message("EXECUTE", {"route_id": offer["route_id"]})),
        ("execute", {}),
        ("execute", 7),
    ):
        answer = local_http.post(f"{overlay_url}/mrp/{name}", json=sent).json()
        check(schemas, answer)
        if isinstance(sent, dict) and "trace" in sent:
            assert answer["trace"] == {"root": "r", "parent": "p"}
    check(schemas, local_http.post(f"{overlay_url}/mrp/execute", content=b"{").json())
    check(schemas, read_json(f"{overlay_url}/mrp/manifest"), "manifest")
    for item in api_page(overlay_url, limit=100)["items"]:
        manifest = local_http.get(f"{overlay_url}/mrp/manifest/{item['id'].replace('#', '%23').replace('/', '%2F')}")
        assert manifest.headers["Content-Type"] == "application/mrp-manifest+json"
        check(schemas, manifest.json(), "manifest")


def test_offers_are_what_a_search_finds(overlay_url: str) -> None:
    results = offers(overlay_url, "lightning watchtower")
    page = api_page(overlay_url, q="lightning watchtower", limit=20)
    fitting = [item["id"] for item in page["items"] if "lacks" not in item]
    offered = [offer["listing"] for offer in results]
    assert fitting
    assert set(fitting) <= set(offered)
    assert offered == [item["id"] for item in page["items"] if item["id"] in offered]
    assert results[0]["confidence"] == max(offer["confidence"] for offer in results)
    assert results[0]["proofs"] == [f"a2b:inscription:{results[0]['listing']}"]


def test_what_holds_less_than_half_of_an_intent_is_not_offered(overlay_url: str) -> None:
    intent = "watchtower zorbling quixotics"  # the last two are in no listing
    assert api_page(overlay_url, q=intent)["total"]
    assert offers(overlay_url, intent) == []


def test_budgets_and_proofs_narrow_offers(overlay_url: str) -> None:
    priced = api_page(overlay_url, priceCurrency="USD", maxPrice="1000", sort="price", limit=100)["items"]
    item = next(item for item in reversed(priced) if item["skills"])
    amount, name = item["cheapest"]["amount"], item["skills"][0]["id"]
    uri = f"mrp://capability/{name}?budget={{}}&format=json"
    assert item["id"] in [offer["listing"] for offer in offers(overlay_url, uri.format(amount))]
    assert offers(overlay_url, uri.format("0.0000001")) == []
    all_in_budget = api_page(overlay_url, priceCurrency="USD", maxPrice=amount, q="agent", limit=20)["total"]
    assert len(offers(overlay_url, "agent", max_cost=float(amount))) == all_in_budget
    parsed = ask(overlay_url, "DISCOVER", {"intent": "watchtower", "proofs_required": ["a2b:domain"]})
    assert all(any(proof.startswith("a2b:domain:") for proof in offer["proofs"]) for offer in parsed["offers"])
    assert ask(overlay_url, "DISCOVER", {"intent": "watchtower", "proofs_required": ["zk"]})["offers"] == []


@pytest.mark.parametrize("member", ["policy", "data_residency", "max_latency_ms"])
def test_nothing_is_offered_under_requirements_that_no_listing_states(overlay_url: str, member: str) -> None:
    value = {"policy": ["no_pii"], "data_residency": "EU", "max_latency_ms": 10}[member]
    answer = ask(overlay_url, "DISCOVER", {"intent": "watchtower", "constraints": {member: value}})
    assert (answer["offers"], answer["page"]["unmet"]) == ([], [member])
    [offer, *_] = offers(overlay_url, "watchtower")
    refused = ask(overlay_url, "NEGOTIATE", {"route_id": offer["route_id"], "constraints": {member: value}})
    assert refused["code"] == "MRP_POLICY_VIOLATION"


def test_constraints_that_are_not_applied_are_named(overlay_url: str) -> None:
    answer = ask(overlay_url, "DISCOVER", {"intent": "watchtower", "constraints": {"max_context_tokens": 5}})
    assert answer["page"]["unapplied"] == ["max_context_tokens"]
    assert answer["offers"]


def test_a_message_to_a_listing_is_about_that_listing(overlay_url: str) -> None:
    answer = ask(overlay_url, "DISCOVER", {"intent": "anything at all"}, receiver={"id": WATCHTOWER})
    assert [offer["listing"] for offer in answer["offers"]] == [WATCHTOWER]


async def test_a_price_is_negotiated(serve: Serve, services: AppServices) -> None:
    client = await serve(changed(priced(services), systems=(*API_SYSTEMS, "mrp")))
    item = await get(client, "/v1/listings/priced")
    route = str(route_id(item, "s"))

    async def negotiate(payload: dict[str, Any]) -> dict[str, Any]:
        async with client.post("/mrp/negotiate", json=message("NEGOTIATE", payload)) as response:
            answer = await response.json(content_type="application/mrp+json")
        return {"msg_type": answer["msg_type"], **answer["payload"]}

    agreed = await negotiate({"route_id": f"mrp://route/{route}"})
    quote = agreed["payment_intent"]
    assert (agreed["msg_type"], agreed["route_id"], quote["ok"]) == ("NEGOTIATE", route, True)
    assert quote["address"]
    low = {"currency": quote["currency"], "configId": quote["configId"], "amount": "0.00000001"}
    refused = await negotiate({"route_id": route, "payment_intent": low})
    assert (refused["code"], refused["details"]["quote"]) == ("MRP_BUDGET_EXCEEDED", quote)
    enough = await negotiate({"route_id": route, "payment_intent": low | {"amount": quote["amount"]}})
    assert enough["payment_intent"] == quote
    budget = {"max_cost": 0, "currency": quote["currency"]}
    refused = await negotiate({"route_id": route, "constraints": budget})
    assert refused["code"] == "MRP_BUDGET_EXCEEDED"
    refused = await negotiate({"route_id": route, "payment_intent": {"currency": "ZZZ"}})
    assert refused["code"] == "MRP_PAYMENT_REQUIRED"


def test_a_price_that_nobody_can_pay_is_not_negotiated(overlay_url: str) -> None:
    [offer, *_] = offers(overlay_url, "fee weather")
    refused = ask(overlay_url, "NEGOTIATE", {"route_id": offer["route_id"]})
    # in BTC, of which no chain is here, and without a rate to BSV
    assert (refused["code"], refused["details"]["quote"]["currency"]) == ("MRP_PAYMENT_REQUIRED", "BSV")
    refused = ask(overlay_url, "NEGOTIATE", {"route_id": offer["route_id"], "payment_intent": {"currency": "BTC"}})
    assert (refused["code"], refused["details"]["quote"]["error"]) == ("MRP_PAYMENT_REQUIRED", "unpayable")
    unreachable = next(one["route_id"] for one in offers(overlay_url, "watchtower") if one["listing"] == WATCHTOWER)
    refused = ask(overlay_url, "NEGOTIATE", {"route_id": unreachable})
    assert (refused["code"], refused["details"]["quote"]["error"]) == ("MRP_PAYMENT_REQUIRED", "address-checksum")
    refused = ask(overlay_url, "NEGOTIATE", {"route_id": unreachable, "payment_intent": {"amount": 0.0000001}})
    assert refused["code"] == "MRP_BUDGET_EXCEEDED", "whatever else hinders the payment"


def test_terms_of_an_earlier_revision_are_refused_with_the_present_route(overlay_url: str) -> None:
    [offer, *_] = offers(overlay_url, "lightning watchtower")
    old = offer["route_id"].rpartition("@")[0] + "@" + "00" * 32
    refused = ask(overlay_url, "NEGOTIATE", {"route_id": old})
    assert (refused["code"], refused["details"]["route_id"]) == ("MRP_INVALID_REQUEST", offer["route_id"])


def test_executing_is_refused_with_the_address_of_the_agent(overlay_url: str) -> None:
    [offer, *_] = offers(overlay_url, "lightning watchtower")
    refused = ask(overlay_url, "EXECUTE", {"route_id": offer["route_id"]})
    assert (refused["msg_type"], refused["retryable"]) == ("ERROR", False)
    assert refused["details"]["endpoint"] == offer["endpoint"]
    assert refused["details"]["request_id"]


def test_a_repeated_key_is_answered_with_the_same_id(overlay_url: str) -> None:
    def sent(key: str, intent: str = "watchtower") -> str:
        body = message("DISCOVER", {"intent": intent}, idempotency_key=key)
        answer = local_http.post(f"{overlay_url}/mrp/discover", json=body).json()
        assert answer["idempotency_key"] == key
        return str(answer["msg_id"])

    assert sent("a") == sent("a") != sent("b")
    assert sent("a", "lantern") != sent("a"), "another request is not answered under the id of the first"


def test_a_batch_is_answered_message_by_message(overlay_url: str) -> None:
    batch = [message("DISCOVER", {"intent": "watchtower"}), message("HELLO", {}), {"mrp_version": "9.9"}]
    response = local_http.post(f"{overlay_url}/mrp/discover", json=batch)
    assert response.headers["Content-Type"] == "application/mrp-batch+json"
    answers = response.json()
    assert [answer["msg_type"] for answer in answers] == ["OFFER", "ERROR", "ERROR"]
    assert [answer["in_reply_to"] for answer in answers[:2]] == [item["msg_id"] for item in batch[:2]]
    assert answers[2]["payload"]["code"] == "MRP_VERSION_UNSUPPORTED"
    for length in (0, 33):
        refused = local_http.post(f"{overlay_url}/mrp/discover", json=batch[:1] * length).json()
        assert refused["payload"]["message"] == f"a batch of {length}: from 1 to 32 messages are taken"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"mrp_version": "9.9"}, "MRP_VERSION_UNSUPPORTED"),
        ({"mrp_version": "x"}, "MRP_INVALID_REQUEST"),
        ({"mrp_version": 1}, "MRP_INVALID_REQUEST"),
        ({"msg_id": "short"}, "MRP_INVALID_REQUEST"),
        ({"msg_type": "SHOUT"}, "MRP_INVALID_REQUEST"),
        ({"msg_type": "HELLO"}, "MRP_INVALID_REQUEST"),
        ({"timestamp": "yesterday"}, "MRP_INVALID_REQUEST"),
        ({"timestamp": "2026-01-01T00:00:00+02:00"}, "MRP_INVALID_REQUEST"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "MRP_INVALID_REQUEST"),
        ({"timestamp": moment(days=-1, minutes=-5)}, "MRP_INVALID_REQUEST"),
        ({"timestamp": moment(hours=2)}, "MRP_INVALID_REQUEST"),
        ({"auth": "Bearer x"}, "MRP_INVALID_REQUEST"),
        ({"auth": {"type": "Bearer"}}, "MRP_INVALID_REQUEST"),
        ({"auth": {"type": "bearer", "scopes": "mrp:discover"}}, "MRP_INVALID_REQUEST"),
        ({"auth": {"type": "bearer", "scopes": [1]}}, "MRP_INVALID_REQUEST"),
        ({"auth": {"type": "bearer", "token": "x", "scopes": []}}, "MRP_SCOPE_DENIED"),
        ({"auth": {"type": "mTLS", "scopes": ["mrp:execute", "discover"]}}, "MRP_SCOPE_DENIED"),
        ({"auth": {"scopes": ["mrp:negotiate"]}}, "MRP_SCOPE_DENIED"),
        ({"sender": {}}, "MRP_INVALID_REQUEST"),
        ({"sender": "agent:x"}, "MRP_INVALID_REQUEST"),
        ({"payload": []}, "MRP_INVALID_REQUEST"),
        ({"payload": {}}, "MRP_INVALID_REQUEST"),
        ({"payload": {"intent": ""}}, "MRP_INVALID_REQUEST"),
        ({"payload": {"intent": "x" * 4_097}}, "MRP_INVALID_REQUEST"),
        ({"payload": {"intent": "x", "constraints": {"max_cost": "cheap"}}}, "MRP_INVALID_REQUEST"),
        ({"payload": {"intent": "x", "constraints": {"max_cost": -1}}}, "MRP_INVALID_REQUEST"),
        ({"payload": {"intent": "mrp://capability/x?budget=cheap"}}, "MRP_INVALID_REQUEST"),
    ],
)
def test_bad_messages_are_answered_with_errors(overlay_url: str, change: dict[str, Any], code: str) -> None:
    response = local_http.post(f"{overlay_url}/mrp/discover", json=message("DISCOVER", {"intent": "x"}) | change)
    assert (response.status_code, response.json()["msg_type"]) == (200, "ERROR")
    payload = response.json()["payload"]
    assert (payload["code"], payload["retryable"], payload["retry_after_ms"]) == (code, False, 0)


def test_a_time_in_another_zone_is_named_as_no_time(overlay_url: str) -> None:
    sent = message("HELLO", {}, timestamp="2025-01-01T00:00:00+01:00")
    payload = local_http.post(f"{overlay_url}/mrp/hello", json=sent).json()["payload"]
    assert [(fault["pointer"], fault["code"]) for fault in payload["details"]["errors"]] == [
        ("/timestamp", "not-a-time"),
    ]


@pytest.mark.parametrize(
    ("msg_type", "payload", "code"),
    [
        ("HELLO", {}, None),
        ("DISCOVER", {"intent": "x"}, "MRP_SCOPE_DENIED"),
        ("NEGOTIATE", {"route_id": "x"}, "MRP_SCOPE_DENIED"),
        ("EXECUTE", {"route_id": "x"}, "MRP_SCOPE_DENIED"),
        ("EVIDENCE", {"route_id": "x"}, "MRP_SCOPE_DENIED"),
    ],
)
def test_a_requested_capability_is_among_the_scopes(
    overlay_url: str, msg_type: str, payload: dict[str, Any], code: str | None
) -> None:
    scope = f"mrp:{msg_type.lower()}"
    denied = ask(overlay_url, msg_type, payload, auth={"type": "bearer", "scopes": ["mrp:other", scope.upper()]})
    assert denied.get("code") == code
    if code:
        assert (denied["details"]["required_scopes"], denied["retryable"]) == ([scope], False)
    granted = ask(overlay_url, msg_type, payload, auth={"type": "bearer", "scopes": ["mrp:other", scope]})
    assert granted.get("code") != "MRP_SCOPE_DENIED"


def test_a_message_is_taken_once(overlay_url: str) -> None:
    sent = message("DISCOVER", {"intent": "watchtower"})

    def codes(*messages: dict[str, Any]) -> list[str]:
        answers = local_http.post(f"{overlay_url}/mrp/discover", json=list(messages)).json()
        return [answer["payload"].get("code", answer["msg_type"]) for answer in answers]

    assert codes(sent, sent) == ["OFFER", "MRP_INVALID_REQUEST"]
    assert codes(sent | {"payload": {"intent": "other"}, "timestamp": moment()}) == ["MRP_INVALID_REQUEST"]
    assert codes(sent | {"msg_id": str(uuid4())}, sent | {"sender": {"id": "agent:test/two"}}) == ["OFFER", "OFFER"]
    hours = [moment(hours=-23), moment(minutes=4)]
    assert codes(*(message("DISCOVER", {"intent": "x"}, timestamp=one) for one in hours)) == ["OFFER", "OFFER"]


@pytest.mark.parametrize("route_id", ["", "route:mrpd/x@1", f"route:a2b/{WATCHTOWER}", f"route:a2b/{WATCHTOWER}/x@1"])
def test_unknown_routes_are_refused(overlay_url: str, route_id: str) -> None:
    assert ask(overlay_url, "NEGOTIATE", {"route_id": route_id})["code"] == "MRP_INVALID_REQUEST"


@pytest.mark.parametrize(
    "odd", [b'"payload":{},', b'"x":NaN,', b'"x":1e500,', b'"x":"\\ud800",', b'"x":' + b"1" * 200 + b","]
)
def test_messages_that_readers_read_differently_are_refused(overlay_url: str, odd: bytes) -> None:
    sent = json.dumps(message("DISCOVER", {"intent": "x"})).encode()
    response = local_http.post(f"{overlay_url}/mrp/discover", content=b"{" + odd + sent[1:])
    assert response.json()["payload"]["code"] == "MRP_INVALID_REQUEST"


def test_large_bodies_are_refused_in_the_same_shape(overlay_url: str) -> None:
    response = local_http.post(f"{overlay_url}/mrp/discover", content=b" " * 300_000)
    assert (response.status_code, response.json()["msg_type"]) == (413, "ERROR")


def test_versions_meet_at_the_highest_common_one(overlay_url: str) -> None:
    def version(sent: str) -> str:
        answer = local_http.post(f"{overlay_url}/mrp/hello", json=message("HELLO", {}) | {"mrp_version": sent}).json()
        return str(answer["mrp_version"])

    assert [version(sent) for sent in ("0.0", "0.1", "0.7")] == ["0.0", "0.1", "0.1"]
    assert ask(overlay_url, "HELLO", {"schemas": ["2.0"]})["code"] == "MRP_VERSION_UNSUPPORTED"


def test_answers_are_signed_with_the_published_key(overlay_url: str) -> None:
    keys = mrp_keys(read_json(f"{overlay_url}/.well-known/mrp-keys.json"))
    rules = EnvelopeRules(keys=keys, now=time.time_ns(), is_strict=True)
    for sent in (message("DISCOVER", {"intent": "watchtower"}, trace={"root": "ünïcode"}), {"payload": 1}):
        answer = local_http.post(f"{overlay_url}/mrp/discover", json=sent).json()
        verdict = verify_envelope(answer, rules)
        assert (verdict.error, verdict.integrity) == ("", "verified")
        assert answer["auth"]["issuer"] == overlay_url
        assert ask(overlay_url, "HELLO", {})["proofs"] == [f"mrp:key:{answer['auth']['signature']['key_id']}"]
        changed = answer | {"in_reply_to": "another message"}
        assert verify_envelope(changed, rules).error == "MRP_AUTH_REQUIRED"


# -- the registry


def test_the_registry_is_read_page_by_page(overlay_url: str) -> None:
    ids, cursor = [], None
    while True:
        page = local_http.get(
            f"{overlay_url}/mrp/registry/query", params={"limit": 7} | ({"cursor": cursor} if cursor else {})
        )
        ids += [entry["id"] for entry in page.json()["results"]]
        cursor = page.json()["next_page"]
        if not cursor:
            break
    assert sorted(ids) == sorted(item["id"] for item in api_page(overlay_url, limit=100)["items"])


def test_a_capability_is_a_skill_or_a_tool(overlay_url: str) -> None:
    for item in api_page(overlay_url, limit=100)["items"]:
        for name in [skill["id"] for skill in item["skills"]] + item["tools"]:
            page = local_http.get(f"{overlay_url}/mrp/registry/query", params={"capability": name, "limit": 100}).json()
            assert all(name in entry["capabilities"] for entry in page["results"])
            [entry] = [entry for entry in page["results"] if entry["id"] == item["id"]]
            assert read_json(entry["manifest_url"])["capability"] == name


def test_policies_and_unknown_parameters(overlay_url: str) -> None:
    assert read_json(f"{overlay_url}/mrp/registry/query?policy=no_pii")["results"] == []
    refused = local_http.get(f"{overlay_url}/mrp/registry/query?gopher=1")
    assert (refused.status_code, refused.json()["error"]) == (400, "MRP_INVALID_REQUEST")
    assert local_http.get(f"{overlay_url}/mrp/manifest/nobody").status_code == 404
    assert local_http.get(f"{overlay_url}/mrp/manifest/{WATCHTOWER}?capability=x").status_code == 404


# -- addresses


@given(st.text(min_size=1, max_size=60), st.text(min_size=1, max_size=60))
def test_route_ids_are_read_back(listing: str, capability: str) -> None:
    route = RouteId(listing, capability, "ab" * 32)
    texts = (str(route), str(route).removeprefix("route:"), quote(str(route), safe=""))
    assert {parse_route(str(route)), *(parse_route(f"mrp://route/{text}") for text in texts)} == {route}


@given(st.text(max_size=100))
def test_any_text_is_an_address_or_none(text: str) -> None:
    for prefix in ("", "route:a2b/", "mrp://route/route:a2b/", "mrp://capability/"):
        parse_route(prefix + text)
        parse_capability(prefix + text)


def test_capability_addresses() -> None:
    capability = parse_capability("mrp://capability/summarize_url?intent=read%20this&budget=0.5&format=markdown")
    assert capability == ("summarize_url", "read this", "0.5", "markdown")
