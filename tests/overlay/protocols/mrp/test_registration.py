"""MRP providers outside the chains, and signed messages: against hosts on this machine, with the client of PyPI."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest

from parsers.claims import ed25519
from parsers.claims.canonical_json import base64url_text
from parsers.claims.mrp.signed_envelope import signing_input
from tests.https import Https
from tests.overlay.calls import local_http, read_json
from tests.overlay.protocols.mrp.test_mrp import message, moment, mrpd, mrpd_command
from tests.running import Running
from tests.waiting import PATIENCE

HOST, OTHER, ISSUER = "provider.example", "other.example", "issuer.example"
URL = f"https://{HOST}/mrp/manifest"
SEED = b"\x07" * 32
KEYS = {"keys": [{"key_id": "k1", "alg": "EdDSA", "public_key": base64url_text(ed25519.public_key_of(SEED))}]}
MANIFEST = {
    "capability_id": "capability:mcp/summarize", "capability": "summarize", "version": "0.1", "tags": ["mrp"],
    "inputs": [{"type": "json"}], "outputs": [{"type": "json"}], "constraints": {"policy": ["no_pii"]},
    "proofs_required": [], "endpoints": {"discover": "/mrp/discover", "execute": "/mrp/execute"},
    "metadata": {"name": "Summarizer"},
}  # fmt: skip


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Https]:
    with Https(tmp_path_factory.mktemp("hosts"), HOST, OTHER, ISSUER) as served:
        served.bodies[HOST, "/mrp/manifest"] = json.dumps(MANIFEST).encode()
        served.bodies[ISSUER, "/.well-known/mrp-keys.json"] = json.dumps(KEYS).encode()
        yield served


@pytest.fixture(scope="module")
def registry(hosts: Https, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("registry")
    with Running("up", "--port", "0", "--limits", "off", cwd=folder, **hosts.environment) as running:
        running.until_ready()
        yield running.url


def submit(registry: str, url: str = URL) -> dict[str, Any]:
    answer: dict[str, Any] = local_http.post(f"{registry}/mrp/registry/submit", json={"manifest_url": url}).json()
    return answer


def verify(registry: str, token: str) -> httpx.Response:
    return local_http.post(f"{registry}/mrp/registry/verify", json={"token": token}, timeout=PATIENCE)


def entries(registry: str, **parameters: Any) -> list[str]:
    """The ids of all entries that a query gives, page by page."""
    ids: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = local_http.get(f"{registry}/mrp/registry/query", params={"limit": 7, **parameters, **cursor}).json()
        ids += [entry["id"] for entry in page["results"]]
        if page["next_page"] is None:
            return ids
        cursor = {"cursor": page["next_page"]}


# -- providers


def test_mrpd_publishes_a_provider_and_finds_it(hosts: Https, registry: str) -> None:
    command, environment = mrpd_command("publish", "--manifest-url", URL, "--registry", registry, "--poll-seconds", "1")
    printed: list[str] = []
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        for line in client.stdout:
            printed.append(line.strip())
            if line.startswith("Waiting"):
                break
        path = next(line for line in printed if line.startswith("/.well-known/mrp-registry-challenge/"))
        expected = printed[printed.index(f"https://{HOST}{path}") + 2]
        hosts.bodies[HOST, path] = expected.encode()
        rest = client.stdout.read()
        assert client.wait(timeout=PATIENCE) == 0, rest
    assert "Verified and published" in rest
    assert f'"manifest_url": "{URL}"' in rest
    printed_route = mrpd("route", "read this", "--capability", "summarize", "--registry", registry)
    assert f"id={URL} name=Summarizer" in printed_route
    assert entries(registry, policy="no_pii") == [URL]
    for limit in (0, 1, 10**9):
        page = local_http.get(f"{registry}/mrp/registry/query", params={"limit": limit})
        assert (page.status_code, page.json()["results"][0]["id"]) == (200, URL)
        assert len(page.json()["results"]) <= min(max(limit, 1), 100)
    ids = entries(registry)
    assert sorted(ids) == sorted({*ids})
    assert ids[0] == URL
    assert len(ids) == 1 + read_json(f"{registry}/v1/search")["total"]


def test_an_entry_has_what_clients_of_the_registry_read(hosts: Https, registry: str) -> None:
    answer = submit(registry)
    challenge = answer["challenge"]
    assert challenge["url"] == f"https://{HOST}{challenge['path']}"
    hosts.bodies[HOST, challenge["path"]] = challenge["expected"].encode()
    entry = verify(registry, answer["token"]).json()["entry"]
    assert (entry["id"], entry["name"], entry["capabilities"]) == (URL, "Summarizer", ["summarize"])
    assert entry["trust"] == {"level": "registry_attested", "proofs": [f"mrp:http-01:{HOST}"]}
    assert entry["metadata"]["endpoints"]["execute"] == f"https://{HOST}/mrp/execute"
    assert verify(registry, answer["token"]).status_code == 404


@pytest.mark.parametrize("served", [b"", b"something else", b"{expected}\n", b'"{expected}"'])
def test_only_the_exact_text_meets_a_challenge(hosts: Https, registry: str, served: bytes) -> None:
    url = f"https://{HOST}/another/{len(served)}"
    hosts.bodies[HOST, url.removeprefix(f"https://{HOST}")] = json.dumps(MANIFEST).encode()
    answer = submit(registry, url)
    expected, path = answer["challenge"]["expected"], answer["challenge"]["path"]
    hosts.bodies[HOST, path] = served.replace(b"{expected}", expected.encode())
    refused = verify(registry, answer["token"])
    assert refused.status_code == 400 or refused.status_code == 429
    if refused.status_code == 400:
        assert refused.json()["expected"] == expected
        assert refused.json()["challenge_url"] == answer["challenge"]["url"]
    assert url not in entries(registry)


def test_a_new_challenge_voids_the_old_one(registry: str) -> None:
    old, new = submit(registry, f"https://{OTHER}/m"), submit(registry, f"https://{OTHER}/m")
    assert verify(registry, old["token"]).status_code == 404
    refused = verify(registry, new["token"])
    assert (refused.status_code, refused.json()["error"]) == (400, "MRP_INVALID_REQUEST")
    assert "the challenge is not served" in refused.json()["message"]


@pytest.mark.parametrize(
    "url",
    [
        "http://provider.example/m",
        "https://127.0.0.1/m",
        "https://provider.example:8443/m",
        "ftp://x",
        "",
        "https://a",
        "https://provider.example/<b>",
        "https://provider.example/\x1b[31m",
    ],
)
def test_urls_that_are_not_fetched_are_refused(registry: str, url: str) -> None:
    refused = local_http.post(f"{registry}/mrp/registry/submit", json={"manifest_url": url})
    assert (refused.status_code, refused.json()["error"]) == (400, "MRP_INVALID_REQUEST")


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"manifest_url": 7}', b'{"token": "\\u0000"}', b"\xff"])
def test_bad_bodies_are_refused(registry: str, body: bytes) -> None:
    for route in ("submit", "verify"):
        refused = local_http.post(f"{registry}/mrp/registry/{route}", content=body)
        assert refused.status_code in (400, 404)
        assert refused.json()["error"] == "MRP_INVALID_REQUEST"


def test_bad_cursors_are_refused(registry: str) -> None:
    for cursor in ("x", "!.", "-.nonsense", "AA.", "w6Q."):
        assert local_http.get(f"{registry}/mrp/registry/query", params={"cursor": cursor}).status_code == 400


# -- signed messages


def signed(
    envelope: dict[str, Any], *, issuer: str = f"https://{ISSUER}", key_id: str = "k1", **more: Any
) -> dict[str, Any]:
    """The envelope, signed; with more members of `auth`."""
    auth: dict[str, Any] = {"type": "signed", "issuer": issuer, **more}
    expires_at = (datetime.now(UTC) + timedelta(minutes=5)).isoformat()
    whole = {"nonce": str(uuid4()), "expires_at": expires_at, **envelope, "auth": auth}
    value = base64url_text(ed25519.sign(SEED, signing_input(whole)))
    return whole | {"auth": auth | {"signature": {"alg": "EdDSA", "key_id": key_id, "value": value}}}


def outcome(registry: str, envelope: dict[str, Any]) -> str:
    """The code of the error that answers, or the type of the answer."""
    answer = local_http.post(f"{registry}/mrp/hello", json=envelope).json()
    return str(answer["payload"].get("code", answer["msg_type"]))


def test_a_signed_message_is_taken_once(registry: str) -> None:
    envelope = signed(message("HELLO", {}))
    assert outcome(registry, envelope) == "HELLO"
    assert outcome(registry, envelope) == "MRP_AUTH_REQUIRED"
    assert outcome(registry, signed(message("HELLO", {}) | {"msg_id": envelope["msg_id"]})) == "MRP_AUTH_REQUIRED"
    assert outcome(registry, signed(message("HELLO", {}) | {"nonce": envelope["nonce"]})) == "MRP_AUTH_REQUIRED"


@pytest.mark.parametrize(
    ("change", "options"),
    [
        ({"payload": {"schemas": ["0.1"]}}, {}),
        ({"expires_at": "2026-01-01T00:00:00Z"}, {}),
        ({}, {"key_id": "k2"}),
        ({}, {"issuer": f"https://{HOST}"}),
        ({}, {"issuer": "https://127.0.0.1"}),
        ({}, {"issuer": f"https://{ISSUER}/path"}),
        ({"auth": {"type": "signed"}}, {}),
        ({"auth": {"type": "signed", "issuer": f"https://{ISSUER}"}}, {}),
    ],
)
def test_every_fault_of_a_signature_is_refused(registry: str, change: dict[str, Any], options: dict[str, str]) -> None:
    assert outcome(registry, signed(message("HELLO", {}), **options) | change) == "MRP_AUTH_REQUIRED"


def test_a_signed_message_out_of_the_window_or_beyond_its_scopes_is_refused(registry: str) -> None:
    for away in ({"days": -1, "minutes": -5}, {"hours": 2}):
        assert outcome(registry, signed(message("HELLO", {}, timestamp=moment(**away)))) == "MRP_AUTH_REQUIRED"
    assert outcome(registry, signed(message("HELLO", {}), scopes=[])) == "HELLO"
    discover = message("DISCOVER", {"intent": "x"})
    for scopes, expected in ((["mrp:execute"], "MRP_SCOPE_DENIED"), (["mrp:discover"], "OFFER")):
        envelope = signed(discover | {"msg_id": str(uuid4())}, scopes=scopes)
        answer = local_http.post(f"{registry}/mrp/discover", json=envelope).json()
        assert answer["payload"].get("code", answer["msg_type"]) == expected
    changed = signed(discover, scopes=["mrp:execute"])
    changed["auth"]["scopes"] = ["mrp:discover"]
    answer = local_http.post(f"{registry}/mrp/discover", json=changed).json()
    assert answer["payload"]["code"] == "MRP_AUTH_REQUIRED"


def test_keys_are_fetched_once(hosts: Https, registry: str) -> None:
    for _ in range(3):
        assert outcome(registry, signed(message("HELLO", {}))) == "HELLO"
    query = hosts.requests.count((ISSUER, "/.well-known/mrp-keys.json"))
    assert query <= 2  # once more for an unknown key
    assert local_http.post(f"{registry}/mrp/hello", json=message("HELLO", {})).json()["payload"]["auth_methods"] == [
        "signed"
    ]


def test_unsigned_messages_need_no_keys(registry: str) -> None:
    assert outcome(registry, message("HELLO", {}, auth={"type": "bearer", "token": "x"})) == "HELLO"
