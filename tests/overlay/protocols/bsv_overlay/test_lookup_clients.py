"""Unmodified clients of BSV overlays look listings and hosts up: `@bsv/sdk` from npm, `bsv-sdk` from PyPI."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from overlay.api.identity_key import read_or_create
from overlay.api.services import AppServices
from tests.overlay.conftest import Serve
from tests.overlay.fakes import changed
from tests.overlay.protocols.bsv_overlay.overlay_clients import resolved, resolved_by_python

REGISTRY = "ls_agent_registry"


@pytest.fixture(scope="module")
def oracle(sample: Path) -> dict[str, dict[str, Any]]:
    """The live registrations of the sample chain by outpoint."""
    registrations = json.loads((sample / "expected.json").read_text())["registrations"]
    return {entry["outpoint"]: entry for entry in registrations if entry["status"] == "live"}


def plain(output: dict[str, Any]) -> str:
    """The registration's id in the context of an output."""
    assert list(output["context"]) == ["id"]
    return str(output["context"]["id"]).partition("#")[0]


async def test_the_resolver_gets_every_output_once_with_the_proof_of_where_it_is(
    overlay_url: str, oracle: dict[str, dict[str, Any]]
) -> None:
    [outputs] = await resolved(overlay_url, {"service": REGISTRY, "query": {"limit": 100}})
    assert sorted(output["outpoint"] for output in outputs) == sorted(oracle)
    async with ClientSession(overlay_url) as client:
        for output in outputs:
            expected = oracle[output["outpoint"]]
            assert (plain(output), output["satoshis"]) == (expected["id"], 1)
            assert output["height"] == expected["revisions"][-1]["height"]
            assert output["again"] == output["outpoint"][:64]
            async with client.get(f"/v1/listings/{expected['id']}/proof") as answer:
                proof = await answer.json()
            header = proof.get("current", proof)["header"]
            assert output["root"] == bytes.fromhex(header)[36:68][::-1].hex()


async def test_the_resolver_searches_and_looks_up(overlay_url: str, oracle: dict[str, dict[str, Any]]) -> None:
    dex = next(entry for entry in oracle.values() if len(entry["revisions"]) == 5)
    past = dex["revisions"][1]["outpoint"]
    words, alias, tools, by_id, there, moved, owned, nothing = await resolved(
        overlay_url,
        {"service": REGISTRY, "query": {"q": "Trial", "limit": 100}},
        {"service": "ls_a2b", "query": {"q": "Trial", "limit": 100}},
        {"service": REGISTRY, "query": {"type": "tool", "limit": 100}},
        {"service": REGISTRY, "query": {"id": dex["id"]}},
        {"service": REGISTRY, "query": {"outpoint": dex["outpoint"].replace("_", ".")}},
        {"service": REGISTRY, "query": {"outpoint": past}},
        {"service": REGISTRY, "query": {"owner": dex["owner"], "limit": 100}},
        {"service": REGISTRY, "query": {"id": "00" * 32 + "_0"}},
    )
    assert [oracle[output["outpoint"]]["card"]["name"] for output in words] == ["Trial Finder"]
    assert alias == words
    assert {output["outpoint"] for output in tools} == {o for o, entry in oracle.items() if entry["type"] == "tool"}
    assert past != dex["outpoint"]
    assert [plain(output) for output in by_id] == [dex["id"]]
    assert by_id == there == moved
    assert {output["outpoint"] for output in owned} == {
        outpoint for outpoint, entry in oracle.items() if entry["owner"] == dex["owner"]
    }
    assert nothing == []


async def test_an_empty_query_is_everything_by_page(overlay_url: str, oracle: dict[str, dict[str, Any]]) -> None:
    first, second = await resolved(
        overlay_url, {"service": REGISTRY, "query": {}}, {"service": REGISTRY, "query": {"offset": 20}}
    )
    assert 19 <= len(first) <= 20
    assert {output["outpoint"] for output in [*first, *second]} == set(oracle)


async def test_hosts_are_named_by_tokens_that_the_topic_managers_of_ship_and_slap_accept(
    serve: Serve, services: AppServices, tmp_path: Path
) -> None:
    key = read_or_create(tmp_path / "identity.json")
    url = "https://registry.example/a2b"
    client = await serve(changed(services, public_url=url, identity=key))
    ship, alias, slap, hosts = await resolved(
        str(client._base_url).rstrip("/"),
        {"service": "ls_ship", "query": "findAll"},
        {"service": "ls_ship", "query": {"topics": ["tm_a2b", "tm_other"]}},
        {"service": "ls_slap", "query": {"service": REGISTRY}},
        {"broadcaster": ["tm_agent_registry", "tm_a2b"]},
    )
    token = {"identityKey": key.secp256k1_public.hex(), "domain": url, "linked": True}
    assert [output["token"] for output in ship] == [
        {"protocol": "SHIP", "topicOrService": topic, **token} for topic in ("tm_agent_registry", "tm_a2b")
    ]
    assert [output["token"]["topicOrService"] for output in alias] == ["tm_a2b"]
    assert [output["token"] for output in slap] == [{"protocol": "SLAP", "topicOrService": REGISTRY, **token}]
    assert {output["height"] for output in [*ship, *slap]} == {None}
    assert hosts == {url: ["tm_agent_registry", "tm_a2b"]}


async def test_the_python_resolver_gets_the_same_outputs(overlay_url: str, oracle: dict[str, dict[str, Any]]) -> None:
    ids = await resolved_by_python(overlay_url, REGISTRY, {"limit": 100})
    assert {outpoint: id_.partition("#")[0] for outpoint, id_ in ids.items()} == {
        outpoint: entry["id"] for outpoint, entry in oracle.items()
    }
