"""The relay's side of Motebit discovery, over cards with `x-motebit`: recorded requests, filters, signed metadata."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from parsers.cards import AgentCard, Kind, examine
from parsers.claims.motebit.identifiers import sovereign_id
from parsers.claims.motebit.identity_file import verify_identity, verify_relay_metadata
from parsers.claims.motebit.identity_tool import IDENTITY_TOOL, named_key
from tests.chainkit import ChainKit, agent
from tests.overlay.calls import local_http, read_json
from tests.overlay.protocols.vectors import recorded, send
from tests.running import Running

KEYS = {name: bytes([number]) * 32 for number, name in enumerate(("first", "second", "third"), 1)}


def claimed(name: str, identity: str, **more: Any) -> dict[str, Any]:
    claim = {"motebit_id": identity, "public_key": KEYS[name].hex(), "did": f"did:key:{name}", "spec": "x"}
    return agent(name, **{"x-motebit": claim, **more})


def skills(*ids: str) -> list[dict[str, Any]]:
    return [{"id": skill, "name": skill, "description": skill, "tags": []} for skill in ids]


@pytest.fixture(scope="module")
def cards() -> list[dict[str, Any]]:
    return [
        agent("Nobody", skills=skills("find-trials", "watchChannels")),
        claimed(
            "first", sovereign_id(KEYS["first"]), url="https://one.example/a2a", skills=skills("find-trials", "read")
        ),
        claimed("second", "id-2", url="https://two.example/", skills=skills("find-trial§")),
        claimed("third", sovereign_id(KEYS["first"]), url="https://three.example/", skills=skills("read")),
        agent("Broken", **{"x-motebit": {"motebit_id": "id-2", "public_key": "short"}}),
    ]


@pytest.fixture(scope="module")
def url(cards: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    kit, folder = ChainKit(), tmp_path_factory.mktemp("motebit")
    for card in cards:
        kit.mine(kit.inscribe(card))
    (folder / "blocks").mkdir()
    kit.write(folder / "blocks")
    flags = ("--port", "0", "--limits", "off")
    with Running("up", *flags, "--chains", f"live=files:{folder}/blocks?chain=bsv", cwd=folder) as running:
        running.until_ready()
        yield running.url


def discovered(url: str, query: str = "") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_json(f"{url}/api/v1/agents/discover?{query}")["agents"]
    return rows


def names(rows: list[dict[str, Any]]) -> list[str]:
    return [row["display_name"] for row in rows]


def test_recorded_requests_of_discover_via_relay_get_what_it_reads(url: str, shared: Path) -> None:
    expected = [["first", "second", "third"], ["first"], ["second"], ["first", "second"]]
    for request, answer in zip(recorded(shared, "motebit_relay"), expected, strict=True):
        rows = send(url, request).json()["agents"]
        assert names(rows) == answer, request.target
        for row in rows:
            assert row["public_key"] == KEYS[row["display_name"]].hex()
            assert all(isinstance(row[name], str) for name in ("motebit_id", "endpoint_url"))
            assert all(isinstance(one, str) for one in row["capabilities"])


def test_agents_without_an_identity_are_listed_only_when_requested(url: str) -> None:
    assert names(discovered(url, "unverified=false")) == ["first", "second", "third"]
    rows = discovered(url, "unverified=true&include=all")
    assert names(rows) == ["first", "second", "third", "Nobody", "Broken"]
    assert [row["identity"] for row in rows] == ["claimed"] * 3 + ["none"] * 2
    assert rows[-1]["motebit_id"] is None
    assert names(discovered(url, "unverified=true&capability=find-trials")) == ["first", "Nobody"]
    assert names(discovered(url, "unverified=true&capability=watchChannels")) == ["Nobody"]


def test_a_capability_and_an_identity_match_exactly(url: str) -> None:
    assert names(discovered(url, "capability=read")) == ["first", "third"]
    assert names(discovered(url, "capability=Read")) == []
    assert names(discovered(url, "motebit_id=id-2")) == ["second"]
    assert names(discovered(url, "motebit_id=id-2&unverified=true&capability=read")) == []


@pytest.mark.parametrize("query", ["limit=many", "include=some", "unverified=perhaps", "nonsense=1"])
def test_bad_parameters_are_refused_by_name(url: str, query: str) -> None:
    response = local_http.get(f"{url}/api/v1/agents/discover?{query}")
    assert response.status_code == 400
    assert query.partition("=")[0] in response.json()["error"]


def test_a_resolution_names_the_agent_whose_id_is_derived_from_its_key(url: str, shared: Path) -> None:
    schema = json.loads((shared / "vectors/trust/motebit-schemas/agent-resolution-result-v1.json").read_text())
    identity = sovereign_id(KEYS["first"])
    answer = read_json(f"{url}/api/v1/discover/{identity}")
    Draft7Validator(schema).validate(answer)
    assert (answer["found"], answer["public_key"]) == (True, KEYS["first"].hex())
    assert answer["relay_id"] == read_json(f"{url}/.well-known/motebit.json")["relay_id"]
    for unknown in ("nobody", "a%2Fb%0A", "x" * 300):
        answer = read_json(f"{url}/api/v1/discover/{unknown}")
        Draft7Validator(schema).validate(answer)
        assert not answer["found"]


def test_the_metadata_of_this_relay_is_signed_by_its_identity_key(url: str) -> None:
    metadata = read_json(f"{url}/.well-known/motebit.json")
    verdict = verify_relay_metadata(metadata)
    assert (verdict.verified, verdict.binding) == (True, "sovereign")
    assert metadata["agent_count"] == 3
    assert not verify_relay_metadata({**metadata, "agent_count": 4}).verified


def test_this_server_has_an_identity_file_in_both_forms(url: str) -> None:
    response = local_http.get(f"{url}/.well-known/motebit.md")
    assert response.headers["Content-Type"] == "text/markdown; charset=utf-8"
    verdict = verify_identity(response.text, {})
    assert (verdict.verified, verdict.binding) == (True, "sovereign")
    content, metadata = verdict.members["identity"], read_json(f"{url}/.well-known/motebit.json")
    assert (content["motebit_id"], content["public_key"]) == (metadata["relay_id"], metadata["public_key"])
    assert content["identity"] == {"algorithm": "Ed25519", "public_key": metadata["public_key"]}
    assert "service_url" not in content, "it would be the host that a client names"


def test_the_tool_motebit_identity_of_mcp_names_the_key_of_this_server(url: str) -> None:
    def result_of(method: str, **params: Any) -> Any:
        return local_http.post(f"{url}/mcp/message", json={"id": 1, "method": method, "params": params}).json()

    assert IDENTITY_TOOL in [tool["name"] for tool in result_of("tools/list")["result"]["tools"]]
    called = result_of("tools/call", name=IDENTITY_TOOL, arguments={})["result"]
    assert named_key(called) == read_json(f"{url}/.well-known/motebit.json")["public_key"]


def test_an_item_shows_the_identity_that_its_card_claims(url: str) -> None:
    [row] = discovered(url, "motebit_id=id-2")
    listing = row["listing"].partition("/v1/")[2]
    assert read_json(f"{url}/v1/{listing}")["motebit"] == {
        "id": "id-2", "publicKey": KEYS["second"].hex(), "did": "did:key:second", "verified": False,
        "endpoint": "https://two.example/", "capabilities": ["find-trial§"],
    }  # fmt: skip


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=300),
    lambda inner: st.dictionaries(st.sampled_from(["motebit_id", "public_key", "did", "x"]), inner, max_size=4),
)


@given(_VALUES)
def test_any_claim_is_read_or_ignored_with_a_warning(claim: Any) -> None:
    card, errors, warnings = examine(json.dumps(agent("Any", **{"x-motebit": claim})).encode(), Kind.AGENT)
    assert not errors
    assert isinstance(card, AgentCard)
    if card.motebit is None:
        assert claim in (None, {}) or any("x-motebit" in warning.pointer for warning in warnings)
    else:
        assert len(bytes.fromhex(card.motebit.public_key)) == 32
