"""The OpenAPI document says what the application does: every route, every parameter, every answer."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import ClientSession
from jsonschema import Draft202012Validator

from indexer.store import connect
from overlay.api.openapi import COMPONENTS, document
from overlay.api.parameters import CHANGES, CHECK, COMPARE, HEADERS, PROOF, QUOTE, RECEIPTS, SEARCH, STREAM, SUGGEST
from overlay.api.request_bodies import BODIES
from overlay.api.services import AppServices
from overlay.app.http_app import ROUTES, create_app, load_systems
from overlay.installation import NAMES
from overlay.systems.delegateos.delegated_access import ACCESS, DelegatedAccess
from overlay.systems.delegateos.revocation_api import REVOCATIONS
from overlay.systems.delegateos.store import DelegationRecords
from tests.overlay.answer_models import fits
from tests.overlay.calls import TOWER
from tests.overlay.conftest import Serve
from tests.overlay.fakes import API_SYSTEMS, FakeEngine, FakeStore, changed

TABLES = {
    "/v1/search": SEARCH, "/v1/search/enhanced": SEARCH, "/": SEARCH, "/v1/suggest": SUGGEST, "/v1/changes": CHANGES,
    "/v1/check": CHECK, "/v1/headers": HEADERS, "/v1/listings/{id}/proof": PROOF, "/v1/stream": STREAM,
    "/v1/quote": QUOTE, "/v1/compare": COMPARE, "/compare": COMPARE,
    "/v1/delegations/revocations": REVOCATIONS, "/v1/listings/{id}/evidence": RECEIPTS,
}  # fmt: skip


@pytest.fixture(scope="module")
def api() -> dict[str, Any]:
    return document(ROUTES, "0.1.0", load_systems(API_SYSTEMS))


def validate(api: dict[str, Any], value: Any, name: str) -> None:
    """Hold a value against a named schema of the document, and an answer against its model."""
    Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": api["components"]}).validate(value)
    if name not in BODIES and name not in FREE:
        fits(value, name)


FREE = ("CardOrPrices", "Card", "ClaimDocument", "OpenApi")


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        return {value["$ref"]} if "$ref" in value else set().union(*map(references, value.values()), set())
    return set().union(*map(references, value), set()) if isinstance(value, list) else set()


async def test_every_route_is_documented_and_nothing_else(services: AppServices, api: dict[str, Any]) -> None:
    served = {
        (route.method, re.sub(r"{(\w+):[^}]*}", r"{\1}", route.resource.canonical))
        for route in create_app(services).router.routes()
        if route.resource and route.method not in ("HEAD", "*")
    }
    documented = {(method.upper(), path) for path, methods in api["paths"].items() for method in methods}
    assert served == documented


def test_the_parameters_documented_are_those_read(api: dict[str, Any]) -> None:
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            named = {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "query"}
            is_read = path in TABLES and (method == "get" or len(methods) == 1)
            assert named == (set(TABLES[path].names) if is_read else set())
            in_path = {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"}
            assert in_path == set(re.findall(r"{(\w+)}", path))


def test_the_document_is_well_formed_openapi_3_1(api: dict[str, Any]) -> None:
    assert api["openapi"].startswith("3.1.")
    schemas = api["components"]["schemas"]
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
    assert {name.removeprefix("#/components/schemas/") for name in references(api)} <= api["components"][
        "schemas"
    ].keys()
    operations = [operation for methods in api["paths"].values() for operation in methods.values()]
    ids = [operation["operationId"] for operation in operations]
    assert len(ids) == len(set(ids))
    for operation in operations:
        assert operation["summary"].endswith(".")
        assert any(
            code.startswith("2") and response["description"] for code, response in operation["responses"].items()
        )
        assert all(parameter["description"] and parameter["schema"] for parameter in operation["parameters"])


def test_no_schema_is_left_over(api: dict[str, Any]) -> None:
    assert {f"#/components/schemas/{name}" for name in api["components"]["schemas"]} == references(api)


async def test_the_document_is_served(client: ClientSession, api: dict[str, Any]) -> None:
    async with client.get("/openapi.json") as response:
        assert await response.json() == api


def calls(services: AppServices) -> dict[str, list[str]]:
    """Real calls of every JSON route, by the path that documents them."""
    store, engine = services.store, services.engine
    assert isinstance(store, FakeStore)
    assert isinstance(engine, FakeEngine)
    ids = [*store.listings, *(item.id for item in engine.documents if "#" in item.id)]
    everything = "?limit=100&status=all&facets=all&explain=1&maxPrice=1&priceCurrency=BSV"
    return {
        "/v1/search": [
            "/v1/search" + everything,
            "/v1/search?limit=1",
            "/v1/search?q=zzzz",
            "/v1/search?q=free+agents+map",
        ],
        "/v1/search/enhanced": ["/v1/search/enhanced?type=tool"],
        "/v1/suggest": ["/v1/suggest?q=Tower"],
        "/v1/listings/{id}": [f"/v1/listings/{quote(id_, safe='')}" for id_ in ids],
        "/v1/listings/{id}/history": [f"/v1/listings/{id_}/history" for id_ in store.listings],
        "/v1/listings/{id}/card": [f"/v1/listings/{id_}/card" for id_ in store.listings],
        "/v1/compare": ["/v1/compare?" + "&".join(f"id={quote(id_, safe='')}" for id_ in ids[:2])],
        "/compare": ["/compare?" + "&".join(f"id={quote(id_, safe='')}" for id_ in ids[:2])],
        "/v1/listings/{id}/snippets": [
            f"/v1/listings/{quote(id_, safe='')}/snippets" for id_ in (TOWER, *(id_ for id_ in ids if "#" in id_))
        ],
        "/v1/listings/{id}/findability": [f"/v1/listings/{TOWER}/findability"],
        "/v1/listings/{id}/tools": [],  # real ones are in overlay/test_observed_tools.py
        "/v1/listings/{id}/proof": [f"/v1/listings/{TOWER}/proof", f"/v1/listings/{TOWER}/proof?from=29999"],
        "/v1/listings/{id}/payments/{txid}": [],  # real ones are in overlay/rating/test_rating_by_client.py
        "/v1/listings/{id}/evidence": [],  # real ones are in overlay/rating/test_rating_story.py
        "/v1/evidence/{sha256}": [],
        "/v1/quote": [f"/v1/quote?id={TOWER}", f"/v1/quote?id={TOWER}&currency=USD"],
        "/v1/diagnose/{what}": ["/v1/diagnose/" + "ab" * 32],
        "/v1/changes": ["/v1/changes?limit=3", "/v1/changes?since=12345"],
        "/v1/headers": ["/v1/headers?from=29990", "/v1/headers?from=29990&chain=bsv:regtest"],
        "/v1/delegations/revocations": ["/v1/delegations/revocations", "/v1/delegations/revocations?after=1&limit=0"],
        "/v1/status": ["/v1/status"],
        "/v1/hidden": [],  # real ones are in overlay/test_hidden.py
        "/healthz": ["/healthz"],
        "/readyz": ["/readyz"],
        "/openapi.json": ["/openapi.json"],
        "/docs": ["/docs"],
        "/docs/api": ["/docs/api"],
        "/": ["/?q=tower"],
        "/listings/{id}/evidence": [],
        "/listings/{id}/findability": [f"/listings/{TOWER}/findability"],
        "/listings/{id}": [f"/listings/{id_}" for id_ in list(store.listings)[:3]],
        "/publish": ["/publish?tx=" + "ab" * 32],
        "/status": ["/status"],
    }


async def test_real_answers_fit_their_schemas(
    serve: Serve, services: AppServices, api: dict[str, Any], tmp_path: Path
) -> None:
    engine = connect(f"sqlite:///{tmp_path}/tokens.db")
    client = await serve(changed(services, brought={ACCESS: DelegatedAccess([], DelegationRecords(engine))}))
    created = calls(services)
    for route in ROUTES:
        if route.method != "GET" or route.answer is None:
            continue
        for path in created[route.path]:
            async with client.get(path, headers={"Accept": "application/json"}) as response:
                assert response.status == 200, path
                validate(api, json.loads(await response.read()), route.answer)
    engine.dispose()


def test_a_chain_that_another_process_follows_fits_its_schema(services: AppServices, api: dict[str, Any]) -> None:
    status_now = services.process.status()
    unknown = dict.fromkeys(("tip", "lag", "mempool", "reorgs"))
    validate(api, status_now | {"chains": [chain | unknown for chain in status_now["chains"]]}, "Status")


async def test_real_answers_to_posts_fit_their_schemas(client: ClientSession, api: dict[str, Any]) -> None:
    card = {"name": "A", "url": "https://a.example", "skills": [{"id": "s"}]}
    for path, body, name, sent in (
        ("/v1/check", card, "Check", "CardOrPrices"),
        ("/v1/check", [], "Check", "CardOrPrices"),
        ("/v1/check?findability=true", card, "Check", "CardOrPrices"),
        ("/v1/diagnose", {"rawTx": "01"}, "Diagnosis", "RawTransaction"),
        ("/v1/ingest", {"txid": "AB" * 32}, "Ingest", "WantedTransaction"),
    ):
        validate(api, body, sent)
        async with client.post(path, json=body) as response:
            assert str(response.status) in api["paths"][path.partition("?")[0]]["post"]["responses"]
            validate(api, await response.json(), name)


async def test_real_problems_fit_their_schema_and_are_announced(client: ClientSession, api: dict[str, Any]) -> None:
    for path, documented, status in (
        ("/v1/search?foo=1", "/v1/search", 400),
        ("/v1/listings/nobody", "/v1/listings/{id}", 404),
        ("/v1/diagnose/x", "/v1/diagnose/{what}", 400),
        ("/v1/changes?since=x", "/v1/changes", 400),
    ):
        async with client.get(path) as response:
            assert response.status == status
            validate(api, json.loads(await response.read()), "Problem")
        assert str(status) in api["paths"][documented]["get"]["responses"]


def test_the_schemas_can_refuse(api: dict[str, Any]) -> None:
    """A schema that takes anything would make the tests above worthless."""
    from jsonschema import ValidationError

    for name, value in (
        ("Page", {"items": []}),
        ("Item", {"id": "a"}),
        ("Listing", {}),
        ("Problem", {"status": 200}),
        ("Check", {"ok": "yes", "errors": [], "warnings": [], "preview": None}),
        ("History", {"id": "a", "revisions": [{}]}),
        ("Changes", {"changes": [{"seq": -1}], "epoch": "e", "nextSince": 0, "more": False}),
        ("Diagnosis", {"txid": "x"}),
        ("Status", {}),
        ("RawTransaction", {"rawTx": "0"}),
        ("WantedTransaction", {"txid": "ab" * 31}),
        ("Ingest", {"txid": "ab" * 32, "state": "lost"}),
    ):
        with pytest.raises(ValidationError):
            validate(api, value, name)


def test_every_json_route_of_the_api_shows_a_request_and_its_answer(api: dict[str, Any]) -> None:
    for path, methods in api["paths"].items():
        for operation in methods.values():
            contents = [response.get("content", {}) for response in operation["responses"].values()]
            examples = [media["examples"] for content in contents for media in content.values() if "examples" in media]
            if path.startswith("/v1/") and any("application/json" in content for content in contents):
                assert len(examples) == 1, path


def test_no_system_describes_a_component_again() -> None:
    described = [*COMPONENTS, *(name for one in load_systems(NAMES) for name in one.schemas)]
    assert sorted(described) == sorted(set(described))


def test_every_post_names_its_body_and_every_member_of_an_item_is_explained(api: dict[str, Any]) -> None:
    posts = {path: methods["post"] for path, methods in api["paths"].items() if "post" in methods}
    assert {path for path, post in posts.items() if "requestBody" not in post} == {"/v1/listings/{id}/recheck"}
    properties = api["components"]["schemas"]["Item"]["properties"]
    assert not [name for name, member in properties.items() if not member.get("description")]
