"""The route that verifies claims of other systems."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiohttp import ClientSession

from parsers.claims.delegateos.signed_objects import principal_of
from tests.overlay.calls import problem
from tests.parsers.claims.motebit.signers import ALICE, BOB, NOW
from tests.parsers.claims.signing import jwk, signed
from tests.parsers.claims.test_delegateos import ISSUER, ROOT, attestation, contract
from tests.parsers.claims.test_mrp_envelopes import SEED, envelope

MARCH = "2026-03-01T00:04:00Z"
MRP_KEY = {"key_id": "key-1", "alg": "EdDSA", "public_key": principal_of(SEED)}


async def answer(client: ClientSession, kind: str, document: Any, **members: Any) -> dict[str, Any]:
    async with client.post(f"/v1/verify/{kind}", json={"document": document, "now": NOW, **members}) as response:
        assert response.status == 200, await response.text()
        assert response.headers["Cache-Control"] == "no-store"
        body: dict[str, Any] = await response.json()
        return body


async def test_claims_are_verified_by_kind(client: ClientSession) -> None:
    nested = BOB.receipt(nested=[ALICE.receipt()])
    card = {"name": "Agent", "url": "https://agent.example"}
    for kind, document, keys in (
        ("receipt", ALICE.receipt(), None),
        ("receipt-chain", nested, {BOB.id: BOB.key.hex()}),
        ("receipt-sequence", [ALICE.receipt(submitted_at=NOW, completed_at=NOW)], None),
        ("delegation", ALICE.delegate(BOB), None),
        ("delegation-chain", [ALICE.delegate(BOB)], None),
        ("token", ALICE.token(), {ALICE.id: ALICE.key.hex()}),
        ("identity", ALICE.identity_file(), None),
        ("dct", ROOT, [principal_of(ISSUER)]),
        ("contract-output", {"contract": contract(), "output": {"summary": ""}}, None),
        ("attestation", attestation(), None),
        ("mrp-envelope", envelope(), [MRP_KEY]),
        ("card-signature", signed(card, "EdDSA"), {"keys": [jwk("EdDSA")]}),
    ):
        result = await answer(
            client, kind, document, keys=keys, **({"now": MARCH} if kind in ("dct", "mrp-envelope") else {})
        )
        assert (result["verified"], result["axes"]["integrity"]) == (True, "verified"), result


async def test_what_does_not_verify_is_an_answer_with_a_reason(client: ClientSession) -> None:
    result = await answer(client, "receipt", ALICE.receipt() | {"status": "failed"})
    assert (result["verified"], result["error"]) == (False, "bad-signature")
    assert result["axes"] == {
        "integrity": "invalid", "identityBinding": "sovereign", "authority": "unknown",
        "revocation": {"status": "unchecked"},
    }  # fmt: skip
    unknown = await answer(client, "token", ALICE.token())
    assert (unknown["error"], unknown["axes"]["integrity"]) == ("unknown-key", "unknown")
    printed = {name: value for name, value in ALICE.receipt().items() if name != "suite"}
    legacy = await answer(client, "receipt", ALICE.sign(printed))
    assert (legacy["error"], legacy["profile"], legacy["missing"]) == ("legacy-profile", "legacy", ["suite"])
    assert (legacy["verified"], legacy["profileVerified"]) == (False, True)
    async with client.post("/v1/verify/receipt", data=b'{"document": NaN}') as response:
        assert (response.status, (await response.json())["error"]) == (200, "not-a-number")


@pytest.mark.parametrize(
    ("kind", "body", "status", "pointer"),
    [
        ("nothing", {"document": 1}, 404, None),
        ("receipt", {}, 400, "/document"),
        ("receipt", [], 400, "/document"),
        ("receipt", {"document": 1, "keys": 2}, 400, "/keys"),
        ("receipt", {"document": 1, "context": {"x": 2}}, 400, "/context/x"),
        ("card-signature", {"document": {}, "keys": "x"}, 400, "/keys"),
    ],
)
async def test_a_wrong_request_is_a_problem(
    client: ClientSession, kind: str, body: Any, status: int, pointer: str | None
) -> None:
    async with client.post(f"/v1/verify/{kind}", data=json.dumps(body)) as response:
        problem_body = await problem(response, status)
    assert pointer is None or problem_body["errors"][0]["pointer"] == pointer
