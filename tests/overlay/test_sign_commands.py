"""`a2b motebit sign`, `a2b mrp` and `a2b dct contract` and `attest`: what people sign verifies, and counts."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from parsers.claims.delegateos.signed_objects import principal_of
from parsers.claims.motebit.identity_file import parse_identity
from parsers.claims.verification import verify_document
from parsers.claims.work_receipts import bound_key, receipts_in
from tests.parsers.claims.motebit.signers import ALICE, BOB, Agent
from tests.running import a2b_here


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, agent in (("alice", ALICE), ("bob", BOB)):
        (tmp_path / f"{name}.key").write_text(agent.seed.hex())
        (tmp_path / f"{name}.key").chmod(0o600)
    return tmp_path


def signed(folder: Path, *arguments: str, members: Any, signer: str = "alice") -> str:
    done = a2b_here(*arguments, "-", "--key-file", f"{signer}.key", cwd=folder, stdin=json.dumps(members).encode())
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def verdict(kind: str, document: Any, keys: Any = None, **context: Any) -> dict[str, Any]:
    body = {"document": document, "keys": keys, "context": context}
    return verify_document(kind, json.dumps(body).encode(), time.time_ns()).as_json()


def receipt(folder: Path, signer: str = "alice", **members: Any) -> Any:
    body = {"result": "done", "prompt": "?", **members}
    return json.loads(signed(folder, "motebit", "sign", "receipt", members=body, signer=signer))


def test_a_receipt_and_the_one_that_nests_it_count(folder: Path) -> None:
    work = receipt(folder, relay_task_id=f"bsv:tx:{'ab' * 32}")
    tree = receipt(folder, "bob", delegation_receipts=[work])
    answer = verdict("receipt-chain", tree)
    assert (answer["verified"], answer["allVerified"], answer["profile"]) == (True, True, "current")
    top, below = receipts_in("receipt", tree, int(time.time() * 1_000))
    assert (top.record.counter_signer, below.record.counter_signer, below.txid) == ("", BOB.key.hex(), "ab" * 32)


def test_the_key_of_receipts_is_named_by_the_member_of_a_card(folder: Path) -> None:
    done = a2b_here("motebit", "key", "--key-file", "alice.key", cwd=folder)
    member = json.loads(done.stdout)["x-motebit"]
    assert (done.returncode, done.stderr) == (0, "")
    assert (member["motebit_id"], member["public_key"]) == (ALICE.id, ALICE.key.hex())
    (folder / "card.json").write_text(json.dumps({"name": "a", "description": "b", "x-motebit": member}))
    assert "motebit" not in a2b_here("check", "card.json", cwd=folder).stdout
    assert a2b_here("motebit", "key", cwd=folder).returncode == 2


def test_delegations_grants_and_their_revocations_are_signed(folder: Path) -> None:
    parties = {"delegate_public_key": BOB.key.hex(), "scope": "web_search"}
    grant = json.loads(signed(folder, "motebit", "sign", "grant", members=parties))
    token = json.loads(
        signed(folder, "motebit", "sign", "delegation", members={**parties, "grant_id": grant["grant_id"]})
    )
    assert verdict("delegation", token)["verified"] is True
    under = verdict("delegation", token, grant=grant, revocations=[])
    assert (under["verified"], under["axes"]["revocation"]) == (True, {"status": "fresh"})
    members = {"grant_id": grant["grant_id"]}
    revocation = json.loads(signed(folder, "motebit", "sign", "revocation", members=members))
    assert verdict("delegation", token, grant=grant, revocations=[revocation])["error"] == "revoked"


def test_a_token_binds_a_listing(folder: Path) -> None:
    token = signed(folder, "motebit", "sign", "token", members={"aud": "custom:a2b-bind", "origin": "a_0"}).strip()
    assert verdict("token", token, {ALICE.id: ALICE.key.hex()})["verified"] is True
    assert bound_key(token, ALICE.key.hex(), "a_0", int(time.time() * 1_000)) == ALICE.key.hex()


def test_an_identity_file_has_the_succession_of_its_keys(folder: Path) -> None:
    (folder / "members").write_text("{}")
    succession = a2b_here(
        "motebit", "sign", "succession", "members", "--key-file", "bob.key", "--new-key-file", "alice.key", cwd=folder
    )  # fmt: skip
    record = json.loads(succession.stdout)
    members = {
        "motebit_id": BOB.id, "service_name": 'Search: "the web"', "capabilities": ["web_search"],
        "succession": [record], "devices": [],
    }  # fmt: skip
    text = signed(folder, "motebit", "sign", "identity", members=members)
    answer = verdict("identity", text)
    assert (answer["verified"], answer["axes"]["identityBinding"]) == (True, "sovereign")
    assert answer["succession"] == {"valid": True, "rotations": 1, "genesis_public_key": BOB.key.hex()}
    content = parse_identity(text).content
    assert {name: content[name] for name in members} == members
    alone = a2b_here("motebit", "sign", "succession", "members", "--key-file", "bob.key", cwd=folder)
    assert (alone.returncode, "--new-key-file" in alone.stderr) == (2, True)


@pytest.mark.parametrize(
    ("kind", "members", "why"),
    [
        ("receipt", {"prompt": "?"}, "result, result_hash are missing in a receipt"),
        ("receipt", {"result": "x", "prompt": "?", "result_hash": "0" * 64}, "result_hash is not"),
        ("receipt", {"result": "x", "prompt": "?", "suite": "other"}, "motebit-jcs-ed25519-b64-v1"),
        ("receipt", {"result": "x", "prompt": "?", "public_key": BOB.key.hex()}, "public_key is not"),
        ("receipt", {"result": "x", "prompt": "?", "note": 1}, "'note' is not a member of a receipt"),
        ("delegation", {"scope": "x"}, "delegate_id, delegate_public_key are missing in a delegation token"),
        ("delegation", {"scope": "x", "delegate_public_key": BOB.key.hex(), "expires_at": 5}, "expires_at"),
        ("token", {}, "aud is missing in a token's payload"),
        ("token", {"aud": "x", "iat": "now"}, "iat is not a number"),
        ("identity", {"capabilities": "web_search"}, "capabilities is not a list of texts"),
        ("revocation", [], "JSON object"),
    ],
)
def test_members_that_make_no_document_are_refused_by_name(folder: Path, kind: str, members: Any, why: str) -> None:
    refused = a2b_here(
        "motebit", "sign", kind, "-", "--key-file", "alice.key", cwd=folder, stdin=json.dumps(members).encode()
    )
    assert (refused.returncode, refused.stdout) == (1, "")
    assert why in refused.stderr
    assert ALICE.seed.hex() not in refused.stderr


def envelope(folder: Path, signer: Agent, name: str, msg_type: str, **members: Any) -> Any:
    body = {
        "msg_type": msg_type, "sender": {"id": f"agent:{name}"}, "receiver": {"id": "agent:other"}, **members,
    }  # fmt: skip
    return json.loads(signed(folder, "mrp", "sign", "--key-id", name, members=body, signer=name))


def test_signed_evidence_of_mrp_counts_with_the_execute_that_it_answers(folder: Path) -> None:
    route = {"route_id": "route:a2b/x"}
    request = envelope(folder, BOB, "bob", "EXECUTE", payload={**route, "inputs": []}, in_reply_to="offer-0001")
    evidence = envelope(folder, ALICE, "alice", "EVIDENCE", payload={**route, "outputs": [], "provenance": {}},
                        in_reply_to=request["msg_id"])  # fmt: skip
    shown = [a2b_here("mrp", "keys", "--key-id", name, "--key-file", f"{name}.key", cwd=folder).stdout
             for name in ("alice", "bob")]  # fmt: skip
    keys = [json.loads(text)["keys"][0] for text in shown]
    document = {"envelope": evidence, "request": request, "keys": keys}
    (work,) = receipts_in("mrp-evidence", document, int(time.time() * 1_000))
    assert (work.record.worker, work.record.counter_signer) == (ALICE.key.hex(), BOB.key.hex())
    refused = a2b_here("mrp", "sign", "-", "--key-file", "alice.key", cwd=folder, stdin=b'{"msg_type": "EXECUTE"}')
    assert (refused.returncode, "sender" in refused.stderr) == (1, True)


CONTRACT = {
    "task": {"title": "Search", "description": "", "inputs": {}, "outputSchema": {"type": "string"}},
    "verification": {"method": "deterministic_check", "checkName": "string_length", "checkParams": {"min": 3}},
    "constraints": {
        "maxBudgetMicrocents": 100, "deadline": "2099-01-01T00:00:00Z", "maxChainDepth": 0, "requiredCapabilities": [],
    },
}  # fmt: skip


def test_an_attestation_counts_with_its_contract(folder: Path) -> None:
    contract = json.loads(signed(folder, "dct", "contract", members=CONTRACT, signer="bob"))
    (folder / "contract.json").write_text(json.dumps(contract))
    result = {"success": True, "output": "found", "costMicrocents": 5, "durationMs": 10}
    attestation = json.loads(signed(folder, "dct", "attest", "contract.json", members={"result": result}))
    answer = verdict("attestation", attestation, contract=contract)
    assert (answer["verified"], answer["principal"]) == (True, principal_of(ALICE.seed))
    (work,) = receipts_in("attestation", {"attestation": attestation, "contract": contract}, 0)
    assert (work.record.worker, work.record.counter_signer) == (ALICE.key.hex(), BOB.key.hex())
    short = json.dumps({"result": {**result, "output": "no"}}).encode()
    refused = a2b_here("dct", "attest", "contract.json", "-", "--key-file", "alice.key", cwd=folder, stdin=short)
    assert (refused.returncode, refused.stdout) == (1, "")
    issued = json.dumps({**CONTRACT, "issuer": principal_of(ALICE.seed)}).encode()
    other = a2b_here("dct", "contract", "-", "--key-file", "bob.key", cwd=folder, stdin=issued)
    assert (other.returncode, "issuer is not the principal of the key" in other.stderr) == (1, True)
