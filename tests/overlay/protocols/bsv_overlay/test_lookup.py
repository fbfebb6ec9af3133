"""The route `/lookup`: what it refuses, and how, and how much it returns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from aiohttp import ClientSession
from hypothesis import given
from hypothesis import strategies as st

from indexer.model import Proof
from overlay.api.identity_key import read_or_create
from overlay.api.problems import ProblemError
from overlay.api.services import AppServices
from overlay.systems.bsv_overlay import lookup_api
from overlay.systems.bsv_overlay.host_tokens import host_outputs
from overlay.systems.bsv_overlay.output_list import (
    MAX_ANSWER_BYTES,
    OverlayOutput,
    PackedTransaction,
    aggregated,
    output_list,
)
from overlay.systems.bsv_overlay.service_names import LOOKUPS, by_name
from overlay.text.compact_json import encode
from parsers.bitcoin import beef
from parsers.bitcoin.tx import Outpoint, TxInput, TxOutput, serialise, sha256d
from parsers.byte_reader import ByteReader
from tests.overlay.conftest import Serve
from tests.overlay.fakes import CHAIN, FakeStore, changed
from tests.parsers.writers import from_branch

REGISTRY = "ls_agent_registry"
BINARY = {"X-Aggregation": "yes"}


def proof_of(size: int, seed: int = 0) -> tuple[bytes, Proof]:
    """A made-up transaction of at least 65 bytes, alone in a block: its txid and proof."""
    script = b"\xff" * (size - 60 - (0 if size - 60 < 0xFD else 2 if size - 60 < 0x10002 else 4))
    raw = serialise((TxInput(Outpoint(bytes([seed]) * 32, 0), b"", 0),), (TxOutput(1, script),))
    assert len(raw) == size
    txid = sha256d(raw)
    return txid, Proof(raw, from_branch(100, 0, txid, []).to_bytes())


class ProofStore(FakeStore):
    """Holds proofs of made-up transactions."""

    def __init__(self, *proofs: tuple[bytes, Proof]) -> None:
        super().__init__((), {})
        self.proofs = dict(proofs)

    def mined(self, chain: str, txids: Any, room: int) -> dict[bytes, Proof]:
        assert chain == CHAIN
        stored = {}
        for txid in txids:
            if txid in self.proofs and len(self.proofs[txid].raw) <= room:
                stored[txid] = self.proofs[txid]
                room -= len(stored[txid].raw)
        return stored


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "not-json"),
        (b"{", "not-json"),
        (b"[" * 60_000, "not-json"),
        (b"[]", "not-an-object"),
        (b"{}", "missing"),
        (b'{"query": {}}', "missing"),
        (b'{"service": "ls_a2b"}', "missing"),
        (b'{"service": 12345, "query": null}', "wrong-type"),
        (b'{"service": "ls_nobody", "query": {}}', "unknown-service"),
        (b'{"service": "tm_a2b", "query": {}}', "unknown-service"),
        (b'{"service": "ls_a2b", "query": null}', "wrong-type"),
        (b'{"service": "ls_a2b", "query": [1]}', "wrong-type"),
        (b'{"service": "ls_a2b", "query": {"nonsense": 1}}', "unknown-parameter"),
        (b'{"service": "ls_a2b", "query": {"q": {"a": 1}}}', "wrong-type"),
        (b'{"service": "ls_a2b", "query": {"q": [["a"]]}}', "wrong-type"),
        (b'{"service": "ls_a2b", "query": {"maxPrice": NaN}}', "not-an-amount"),
        (b'{"service": "ls_a2b", "query": {"id": 5}}', "not-alone"),
        (b'{"service": "ls_a2b", "query": {"q": "a", "id": "b"}}', "not-alone"),
        (b'{"service": "ls_a2b", "query": {"outpoint": "b"}}', "not-an-outpoint"),
        (b'{"service": "ls_ship", "query": 5}', "wrong-type"),
        (b'{"service": "ls_ship", "query": {"topics": [5]}}', "wrong-type"),
    ],
)
@pytest.mark.parametrize("headers", [{}, BINARY], ids=["json", "binary"])
async def test_questions_that_are_none_are_refused_by_name(
    body: bytes, code: str, headers: dict[str, str], client: ClientSession
) -> None:
    async with client.post("/lookup", data=body, headers=headers) as answer:
        assert (answer.status, answer.content_type) == (400, "application/json")
        refused = await answer.json()
    assert (refused["status"], refused["code"]) == ("error", code)
    assert refused["message"]


async def test_large_bodies_and_other_methods_are_refused_in_the_same_shape(client: ClientSession) -> None:
    async with client.post("/lookup", data=bytes(65_537)) as answer:
        assert (answer.status, (await answer.json())["status"]) == (413, "error")
    async with client.get("/lookup") as answer:
        assert answer.status == 405


async def test_a_busy_server_answers_in_the_same_shape(client: ClientSession, monkeypatch: pytest.MonkeyPatch) -> None:
    async def busy(*_: Any) -> Any:
        raise ProblemError(503, "too many searches are under way", headers={"Retry-After": "2"})

    monkeypatch.setattr(lookup_api, "_proved", busy)
    async with client.post("/lookup", json={"service": REGISTRY, "query": {}}) as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (503, "2")
        assert (await answer.json())["message"] == "too many searches are under way"


async def test_values_are_those_of_the_search(client: ClientSession, services: AppServices) -> None:
    query = {"type": ["agent", "tool"], "limit": 1e1, "offset": 5, "explain": False, "q": None, "owner": ["a", "b"]}
    async with client.post("/lookup", json={"service": REGISTRY, "query": query}) as answer:
        assert answer.status == 200
    searched = services.engine.requests[-1]  # type: ignore[attr-defined]
    assert (searched.limit, searched.offset, searched.owners) == (10, 5, ("a", "b"))


async def test_only_chains_of_bsv_are_searched(serve: Serve, services: AppServices) -> None:
    question = {"service": REGISTRY, "query": {"q": "tower"}}
    for chains, searched in (
        ({CHAIN: "bsv:regtest"}, ()),
        ({"btc": "bip122:00", CHAIN: "bsv:regtest", "test": "bsv:testnet"}, (CHAIN, "test")),
        ({"btc": "bip122:00"}, None),
    ):
        client = await serve(changed(services, chains=lambda chains=chains: chains))  # type: ignore[misc]
        services.engine.requests.clear()  # type: ignore[attr-defined]
        async with client.post("/lookup", json=question) as answer:
            assert answer.status == 200
        assert [query.chains for query in services.engine.requests] == ([] if searched is None else [searched])  # type: ignore[attr-defined]


def current(*txids: bytes) -> list[lookup_api.CurrentOutput]:
    return [lookup_api.CurrentOutput(f"id {txid.hex()}", CHAIN, Outpoint(txid, 0)) for txid in txids]


def test_an_output_without_a_proof_or_of_the_size_of_two_merkle_nodes_is_left_out() -> None:
    (proved, proof), (pair, pair_proof) = proof_of(200), proof_of(64)
    store = ProofStore((proved, proof), (pair, pair_proof))
    outputs = lookup_api.proved_outputs(store, current(pair, bytes(32), proved), 1 << 20)
    assert [output.outpoint.txid for output in outputs] == [proved]


def test_an_answer_has_room_for_so_many_bytes() -> None:
    proofs = [proof_of(400_000, seed) for seed in range(20)]
    expected = current(*(txid for txid, _ in proofs))
    for factor, form in ((1, aggregated), (4, lambda outputs: encode(output_list(outputs)))):
        outputs = lookup_api.proved_outputs(ProofStore(*proofs), expected, MAX_ANSWER_BYTES // factor)
        assert [output.outpoint for output in outputs] == [output.outpoint for output in expected[: len(outputs)]]
        assert MAX_ANSWER_BYTES // 2 < len(form(outputs)) <= MAX_ANSWER_BYTES


def test_the_size_of_an_output_covers_the_longest_merkle_path() -> None:
    branch = [(number + 1).to_bytes(32, "big") for number in range(64)]
    raw = proof_of(200)[1].raw
    path = from_branch(0xFFFFFFFF, 2**64 - 1, sha256d(raw), branch)
    output = OverlayOutput(Outpoint(sha256d(raw), 0xFFFFFFFF), b"c" * 999, (PackedTransaction(raw, path.to_bytes()),))
    assert len(aggregated([output])) <= output.size
    assert len(encode(output_list([output]))) <= 4 * output.size


def parsed(data: bytes) -> tuple[list[tuple[bytes, int, bytes]], bytes]:
    """The outputs of a binary answer, and its BEEF."""
    reader = ByteReader(data)
    outputs = []
    for _ in range(reader.varint("n")):
        txid, vout = reader.take(32, "txid")[::-1], reader.varint("vout")
        outputs.append((txid, vout, reader.take(reader.varint("length"), "context")))
    return outputs, data[reader.offset :]


def test_two_outputs_of_a_transaction_share_it() -> None:
    txid, proof = proof_of(200)
    transactions = (PackedTransaction(proof.raw, proof.bump),)
    outputs = [OverlayOutput(Outpoint(txid, vout), str(vout).encode(), transactions) for vout in (0, 300)]
    members, packed = parsed(aggregated(outputs))
    assert members == [(txid, 0, b"0"), (txid, 300, b"300")]
    assert [member.txid for member in beef.read(packed).members] == [txid]


def test_an_answer_without_outputs_holds_an_empty_beef() -> None:
    assert parsed(aggregated([])) == ([], beef.V2 + b"\0\0")


def test_an_unconfirmed_output_comes_with_its_ancestors() -> None:
    txid, proof = proof_of(200)
    raw = serialise((TxInput(Outpoint(txid, 0), b"", 0),), (TxOutput(1, b"\x51"),))
    transactions = (PackedTransaction(proof.raw, proof.bump), PackedTransaction(raw, None))
    output = OverlayOutput(Outpoint(sha256d(raw), 0), b"{}", transactions)
    [only] = output_list([output])["outputs"]
    for packed in (bytes(only["beef"]), parsed(aggregated([output]))[1]):
        package = beef.read(packed)
        assert [member.path for member in package.members] == [0, None]
        assert package.newest.txid == sha256d(raw)


def test_tokens_select_by_topic_domain_and_identity_key(services: AppServices, tmp_path: Path) -> None:
    key = read_or_create(tmp_path / "identity.json")
    named = changed(services, public_url="https://registry.example", identity=key)
    ship, slap = (by_name(LOOKUPS, name) for name in ("ls_ship", "ls_slap"))
    assert ship is not None
    assert slap is not None
    advertised = {"domain": "https://registry.example", "identityKey": key.secp256k1_public.hex()}
    for query, count in (
        ({}, 2),
        ("findAll", 2),
        (advertised, 2),
        ({"topics": ["tm_a2b"], "limit": 5}, 1),
        ({"topic": "tm_agent_registry"}, 1),
        ({"topics": []}, 0),
        ({"domain": "https://other.example"}, 0),
        ({"identityKey": "02" * 33}, 0),
        ({"domain": None}, 2),
    ):
        assert len(host_outputs(named, ship, query)) == count, query
    assert len(host_outputs(named, slap, {"service": "ls_ship"})) == 1
    assert len(host_outputs(named, slap, {"service": "ls_other"})) == 0


async def test_what_clients_sent_is_answered(overlay_url: str, shared: Path) -> None:
    """Replays the lookups that `@bsv/sdk` and `bsv-sdk` made."""
    statuses = []
    async with ClientSession(overlay_url) as client:
        for name in ("bsv_sdk", "py_sdk"):
            for line in (shared / "vectors" / "clients" / f"{name}.jsonl").read_text().splitlines():
                recorded = json.loads(line)
                if recorded["request"] != "POST /lookup":
                    continue
                headers = {key: value for key, value in recorded["headers"].items() if key.lower() != "host"}
                async with client.post("/lookup", data=recorded["body"].encode(), headers=headers) as answer:
                    statuses.append(answer.status)
                    data = await answer.read()
                if answer.status == 400:
                    assert json.loads(data)["status"] == "error"
                elif "X-Aggregation" in headers:
                    assert answer.headers["Content-Type"] == "application/octet-stream"
                    outputs, packed = parsed(data)
                    members = beef.read(packed).members if outputs else ()
                    assert {txid for txid, _, _ in outputs} == {member.txid for member in members}
                else:
                    assert all(beef.read(bytes(output["beef"])) for output in json.loads(data)["outputs"])
    assert statuses == [200] * 7 + [400] * 4 + [200, 200]


async def test_the_conformance_vectors_of_lookups_hold(overlay_url: str, shared: Path) -> None:
    """ts-stack's vectors, as far as they say anything of a server with other services."""
    folder = shared / "vectors" / "overlay" / "ts-stack-conformance" / "overlay"
    async with ClientSession(overlay_url) as client:
        for vector in json.loads((folder / "lookup.json").read_text())["vectors"]:
            sent, expected = vector["input"], vector["expected"]
            async with client.request(
                sent["method"], sent["path"], headers=sent["headers"], json=sent.get("body"), params=sent.get("query")
            ) as answer:
                body = await answer.read()
            other = "ls_custom" in str(sent) or "tm_ship" in str(sent.get("query"))
            statuses = [400] if other else expected.get("status_oneof", [expected.get("status")])
            assert answer.status in statuses, vector["id"]
            if answer.status == 400:
                assert json.loads(body)["status"] == "error"
            elif "content_type" in expected:
                assert answer.content_type == expected["content_type"]
            elif sent["path"] == "/lookup":
                assert json.loads(body)["type"] == "output-list"


async def test_the_conformance_vectors_of_health_and_synchronisation_hold(overlay_url: str, shared: Path) -> None:
    """ts-stack's vectors of a healthy node and of wrong requests; its others are of administration, of topics that are
    not served here, or name no route."""
    folder = shared / "vectors" / "overlay" / "ts-stack-conformance"
    vectors = [
        vector
        for name in ("overlay/topic-management", "sync/gasp-protocol")
        for vector in json.loads((folder / f"{name}.json").read_text())["vectors"]
    ]
    lengths = {"overlay.topicmanagement": (1, 3, 4), "sync.gasprotocol": (18, 20)}
    ids = {f"{name}.{number}" for name, numbers in lengths.items() for number in numbers}
    chosen = [vector for vector in vectors if vector["id"] in ids]
    assert len(chosen) == len(ids)
    async with ClientSession(overlay_url) as client:
        for vector in chosen:
            sent, expected = vector["input"], vector["expected"]
            async with client.request(
                sent["method"], sent["path"], headers=sent["headers"], json=sent.get("body")
            ) as answer:
                body = await answer.json()
            assert answer.status == expected["status"], vector["id"]
            members = {name: expected["body"][name] for name in ("status", "live", "ready") if name in expected["body"]}
            assert members.items() <= body.items(), vector["id"]


_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
_NAMES = st.sampled_from(["q", "limit", "tag", "owner", "id", "outpoint", "cursor", "topics"]) | st.text(max_size=9)
_QUERIES = st.recursive(_SCALARS, lambda inner: st.lists(inner) | st.dictionaries(_NAMES, inner), max_leaves=8)


@given(service=st.sampled_from(["ls_a2b", "ls_ship", "ls_slap"]), query=_QUERIES, binary=st.booleans())
def test_any_query_is_answered_or_refused(overlay_url: str, service: str, query: Any, binary: bool) -> None:
    body = json.dumps({"service": service, "query": query}).encode()
    status, answer = post(f"{overlay_url}/lookup", body, BINARY if binary else {})
    assert status == 200 or (status, json.loads(answer)["status"]) == (400, "error")


def post(url: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
    try:
        with urlopen(Request(url, data=body, headers=headers)) as answer:  # noqa: S310 - http only
            return answer.status, answer.read()
    except HTTPError as error:
        with error:
            return error.code, error.read()
