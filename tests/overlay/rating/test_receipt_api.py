"""The routes of evidence, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from jsonschema import Draft202012Validator

from overlay.api.openapi import document
from overlay.api.services import AppServices
from overlay.app.http_app import ROUTES, load_systems
from overlay.systems.rating.receipt_api import INTAKE
from tests.overlay.calls import problem
from tests.overlay.conftest import Serve
from tests.overlay.fakes import changed
from tests.overlay.rating.registry import Payer, Registry
from tests.parsers.claims.motebit.signers import ALICE, BOB, CAROL


@pytest.fixture
async def registry(tmp_path: Path) -> AsyncIterator[Registry]:
    registry = Registry(f"sqlite:///{tmp_path}/a2b.db")
    with registry.indexing:
        yield registry


@pytest.fixture
async def client(registry: Registry, serve: Serve, services: AppServices) -> ClientSession:
    return await serve(changed(services, brought={INTAKE: registry.intake}))


def validate(value: Any, name: str) -> None:
    schemas = document(ROUTES, "0.1.0", load_systems(("rating",)))["components"]
    Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": schemas}).validate(value)


async def test_evidence_is_handed_in_and_read_with_its_documents(registry: Registry, client: ClientSession) -> None:
    alice = await registry.inscribe(ALICE)
    task, proof = await registry.paid(Payer(1))
    tree = registry.work(ALICE, BOB, task)
    registration = {
        "kind": "receipt", "document": tree, "listing": alice, "bind": registry.token(ALICE, alice),
        "payment": {"beef": proof.beef.hex(), "parent": proof.parent.hex() if proof.parent else None},
    }  # fmt: skip
    validate(registration, "EvidenceOfWork")
    async with client.post("/v1/evidence", json=registration) as response:
        accepted = await response.json()
        assert (response.status, accepted["new"], accepted["listings"]) == (200, 1, [alice])
        validate(accepted, "AcceptedEvidence")
    registry.rate()
    async with client.get(f"/v1/listings/{alice}/evidence") as response:
        published = await response.json()
    validate(published, "Evidence")
    (record,) = published["records"]
    assert (record["rung"], record["payment"]["paid"], published["rating"]["rung"]) == ("E2", 5_000, "E2")
    for name in (record["document"], record["payment"]["proof"], published["binds"][0]["token"]):
        async with client.get(f"/v1/evidence/{name}") as response:
            assert sha256(await response.read()).hexdigest() == name


@pytest.mark.parametrize(
    ("body", "code", "pointer"),
    [
        (b"{", "truncated", ""),
        (b"[]", "not-an-object", ""),
        (b'{"kind": "receipt", "kind": "receipt"}', "duplicate-key", ""),
        (b'{"kind": "receipt", "more": 1}', "unknown-member", "/more"),
        (b'{"kind": "receipt", "document": {}}', "not-bound", "/document"),
        (b'{"kind": "song", "document": {}}', "unknown-kind", "/kind"),
        (b'{"kind": "receipt", "listing": "x", "document": {}}', "unknown-listing", "/listing"),
        (b'{"payment": {"beef": "0"}}', "not-hex", "/payment/beef"),
        (b"{}", "missing", "/document"),
        (b'{"kind": "receipt", "document": {}, "bind": "x"}', "missing", "/listing"),
        (b'{"listing": "x", "payment": {"beef": "00"}}', "missing", "/document"),
    ],
)
async def test_what_is_wrong_with_evidence_is_named(
    client: ClientSession, body: bytes, code: str, pointer: str
) -> None:
    async with client.post("/v1/evidence", data=body, headers={"Content-Type": "application/json"}) as response:
        problem = await response.json()
    assert response.status == 400
    assert [(fault["code"], fault.get("pointer", "")) for fault in problem["errors"]] == [(code, pointer)]


async def test_a_bad_token_is_named(registry: Registry, client: ClientSession) -> None:
    alice = await registry.inscribe(ALICE)
    for more, pointer in (({"bind": registry.token(BOB, alice)}, "/bind"), ({}, "/listing")):
        async with client.post("/v1/evidence", json={"listing": alice, **more}) as response:
            assert [fault["pointer"] for fault in (await response.json())["errors"]] == [pointer]


async def test_unknown_listings_and_documents_are_not_found(client: ClientSession) -> None:
    for path in ("/v1/listings/nobody/evidence", f"/v1/evidence/{'0' * 64}", "/v1/evidence/x"):
        async with client.get(path) as response:
            assert response.status == 404
    async with client.get("/v1/listings/nobody/evidence?after=x") as response:
        assert response.status == 400


async def test_a_position_among_the_records_of_one_listing_is_none_among_those_of_another(
    registry: Registry, client: ClientSession
) -> None:
    alice, bob = await registry.inscribe(ALICE), await registry.inscribe(BOB)
    for agent, listing, other in ((ALICE, alice, BOB), (BOB, bob, ALICE)):
        registry.bind(agent, listing)
        for task in ("one", "two"):
            registry.intake.submit("receipt", registry.work(agent, other, task))
    async with client.get(f"/v1/listings/{alice}/evidence") as response:
        first, *others = [f"{row['digest']}-{row['counterSigner'] or ''}" for row in (await response.json())["records"]]
    async with client.get(f"/v1/listings/{alice}/evidence?after={first}") as response:
        following = (await response.json())["records"]
    assert [f"{row['digest']}-{row['counterSigner'] or ''}" for row in following] == others
    for listing, after in ((bob, first), (alice, "0" * 64 + "-")):
        async with client.get(f"/v1/listings/{listing}/evidence?after={after}") as response:
            fault = (await problem(response, 400))["errors"][0]
        assert (fault["code"], fault["parameter"]) == ("bad-cursor", "after")


async def test_a_page_shows_the_receipts_behind_a_rating_as_a_tree(registry: Registry, client: ClientSession) -> None:
    alice = await registry.inscribe(ALICE)
    registry.bind(ALICE, alice)
    html = {"Accept": "text/html"}
    async with client.get(f"/listings/{alice}/evidence", headers=html) as response:
        assert (response.status, "No receipt was submitted yet" in await response.text()) == (200, True)
    task, proof = await registry.paid(Payer(1))
    paid = registry.work(ALICE, BOB, task)
    registry.intake.submit("receipt", paid, payment=proof)
    registry.intake.submit("receipt", registry.work(ALICE, BOB, "<b>bold</b>", status="failed"))
    registry.intake.submit("receipt", registry.receipt(ALICE))
    registry.later += 60
    repeated = registry.receipt(CAROL, "repeated", nested=paid["delegation_receipts"])
    registry.intake.submit("receipt", repeated, payment=proof)
    registry.rate()
    async with client.get(f"/listings/{alice}/evidence", headers=html) as response:
        text = await response.text()
    assert text.count("<ul>") == 5, "two of three documents nest a receipt"
    assert "only the agent itself signed it; does not count" in text
    assert "5,000 of 5,000 satoshis" in text
    assert "&lt;b&gt;bold&lt;/b&gt;" in text
    assert "repeated" not in text, "a receipt is shown in the document by which it counts"
    assert "<strong>1 paid task, 1 customer, 1 failed</strong>: 2 tasks count, at most on rung E2" in text
    assert "Stars are shown from ten customers on" in text
    async with client.get(f"/listings/{alice}/evidence", headers={"Accept": "application/json"}) as response:
        validate(await response.json(), "Evidence")
    async with client.get("/listings/nobody/evidence", headers=html) as response:
        assert response.status == 404
