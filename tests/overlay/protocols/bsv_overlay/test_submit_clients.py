"""Unmodified clients of BSV overlays submit transactions: `@bsv/sdk` from npm, `bsv-sdk` from PyPI, and what both
sent when they were recorded."""

from __future__ import annotations

import json
from pathlib import Path

from aiohttp import ClientSession

from tests.minting import Mint
from tests.overlay.protocols.bsv_overlay.overlay_clients import submitted, submitted_by_python
from tests.ports import free_port
from tests.serving import new_app, serving
from tests.waiting import until_told

TOPIC = "tm_agent_registry"
FRESH = {"outputsToAdmit": [0], "coinsToRetain": []}
FORMS = ("v1", "v2", "atomic", "offChain")


async def test_the_broadcaster_finds_this_host_and_every_form_of_beef_gets_the_same_answer(tmp_path: Path) -> None:
    mint = Mint()
    inscription, payment = mint.inscribed("Echo"), mint.payment(2)
    update = mint.inscribed("Echo", 1, mint.coin_of(inscription, 0), version="2")
    packages = mint.package(inscription), mint.package(inscription, update), mint.package(payment)
    port = free_port()  # the server names its own address
    url = f"http://localhost:{port}"
    async with serving(new_app(tmp_path, mint.chain, port=port, public_url=url, limits="off")) as session:
        fresh, moved, other = await submitted(url, *packages)
        assert fresh == {form: {TOPIC: FRESH} for form in FORMS} | {"broadcaster": "success"}
        spent = {TOPIC: {"outputsToAdmit": [0], "coinsToRetain": [0]}}
        assert moved == dict.fromkeys(FORMS, spent) | {"broadcaster": "success"}
        # a host that admits nothing has not acknowledged, to this client
        nothing = {TOPIC: {"outputsToAdmit": [], "coinsToRetain": []}}
        assert other == dict.fromkeys(FORMS, nothing) | {"broadcaster": "error"}
        mint.broadcast(inscription, update)
        await until_told(session, "/v1/search?q=echo", lambda page: page["total"] == 1)


async def test_the_python_client_submits_with_a_comma_list_of_topics(tmp_path: Path) -> None:
    mint = Mint()
    async with serving(new_app(tmp_path, mint.chain)) as session:
        answer = await submitted_by_python(str(session._base_url).rstrip("/"), mint.package(mint.inscribed("Snake")))
        assert answer == {TOPIC: FRESH, "tm_a2b": FRESH}


async def test_what_clients_submitted_is_answered(overlay_url: str, shared: Path) -> None:
    """Replays submissions of a transaction of the sample chain: three forms of BEEF, and one with off-chain values; one
    with a forged path, a bare txid, a cut one, nothing; then a browser's preflight, and the Python client."""
    admitted, answers = {"outputsToAdmit": [0], "coinsToRetain": [0]}, []
    async with ClientSession(overlay_url) as client:
        for name in ("bsv_sdk", "py_sdk"):
            for line in (shared / "vectors" / "clients" / f"{name}.jsonl").read_text().splitlines():
                recorded = json.loads(line)
                method, _, path = recorded["request"].partition(" ")
                if path != "/submit":
                    continue
                headers = {key: value for key, value in recorded["headers"].items() if key.lower() != "host"}
                body = bytes.fromhex(recorded["body"]["hex"]) if recorded["body"] else b""
                async with client.request(method, path, data=body, headers=headers) as answer:
                    if method == "OPTIONS":
                        requested = recorded["headers"]["Access-Control-Request-Headers"].split(", ")
                        assert set(requested) <= set(answer.headers["Access-Control-Allow-Headers"].lower().split(", "))
                        continue
                    document = await answer.json()
                answers.append(document if answer.status == 200 else document["code"])
    refused = ["not-proved", "txid-only", "not-a-beef", "not-a-beef"]
    assert answers == [{TOPIC: admitted}] * 4 + refused + [{TOPIC: admitted, "tm_a2b": admitted}]


async def test_the_conformance_vectors_of_submissions_hold(overlay_url: str, shared: Path) -> None:
    """ts-stack's vectors of refusals: the other bodies are not BEEF, also to its own SDK. A list of topics that is not
    JSON is taken from the Python client, and the topic of the vectors is not served here."""
    folder = shared / "vectors" / "overlay" / "ts-stack-conformance" / "overlay"
    async with ClientSession(overlay_url) as client:
        for vector in json.loads((folder / "submit.json").read_text())["vectors"]:
            sent = vector["input"]
            async with client.post("/submit", data=bytes.fromhex(sent["body_hex"]), headers=sent["headers"]) as answer:
                document = await answer.json()
            assert (answer.status, document["status"]) == (400, "error"), vector["id"]
            assert document["message"]
