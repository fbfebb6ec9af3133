"""The signed documents that the pages show: the commands on these pages make them, and the parsers verify them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from parsers.claims.delegateos.capability_token import read_dct
from parsers.claims.delegateos.signed_objects import principal_of
from parsers.claims.verification import verify_document
from parsers.claims.work_receipts import bound_key, receipts_in
from tests.conftest import ROOT
from tests.parsers.claims.motebit.signers import ALICE, BOB, NOW
from tests.running import environment

PAGE = (ROOT / "docs" / "documents.md").read_text()
RANDOM = {"dct.txt"}
"""Files whose content differs from run to run."""

WORKER, CLIENT = ALICE, BOB


SHOWN: dict[str, str] = dict(re.findall(r"^`([\w.]+)`:\n\n```\w+\n(.*?)\n```$", PAGE, re.MULTILINE | re.DOTALL))
"""The files that the page shows, by name."""


def document(file: str) -> Any:
    return json.loads(SHOWN[file]) if file.endswith(".json") else SHOWN[file] + "\n" * file.endswith(".md")


def test_the_commands_of_the_page_make_the_documents_that_it_shows(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "a2b"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m overlay "$@"\n')
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    commands = "".join(re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
    done = subprocess.run(
        ["bash", "-e", "-c", commands], cwd=tmp_path, env=environment(PATH=path), capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert len(SHOWN) == 14
    for file, text in SHOWN.items():
        written = (tmp_path / file).read_text().rstrip("\n")
        if file not in RANDOM:
            assert written == text, file
        else:
            assert members_of_dct(written) == members_of_dct(text)


def members_of_dct(text: str) -> dict[str, Any]:
    """The members that do not change from token to token."""
    token = read_dct(text)
    random = ("delegationId", "expiresAt", "issuedAt")
    return {name: value for name, value in token["authority"].items() if name not in random}


def verdict(kind: str, value: Any, keys: Any = None, now: Any = NOW, **context: Any) -> dict[str, Any]:
    body = {"document": value, "keys": keys, "now": now, "context": context}
    return verify_document(kind, json.dumps(body).encode(), 0).as_json()


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("receipt.json", "receipt-chain"),
        ("delegation.json", "delegation"),
        ("motebit.md", "identity"),
        ("attestation.json", "attestation"),
    ],
)
def test_a_shown_document_verifies_by_itself(file: str, kind: str) -> None:
    answer = verdict(kind, document(file))
    assert (answer["verified"], answer.get("profile", "current")) == (True, "current")
    assert answer.get("allVerified", True) is True
    changed = json.loads(json.dumps(document(file)).replace("8", "9"))
    assert verdict(kind, changed)["verified"] is False


def test_a_shown_delegation_is_verified_under_its_grant_and_refused_under_its_revocation() -> None:
    token, grant, revocation = (document(f"{name}.json") for name in ("delegation", "grant", "revocation"))
    assert verdict("delegation", token, grant=grant, revocations=[])["axes"]["revocation"] == {"status": "fresh"}
    assert verdict("delegation", token, grant=grant, revocations=[revocation])["error"] == "revoked"


def test_the_shown_token_verifies_for_its_audience() -> None:
    keys = {WORKER.id: WORKER.key.hex()}
    assert verdict("token", document("token.txt"), keys, audience="market:query")["verified"] is True


def test_a_shown_succession_leads_from_the_key_of_the_shown_identity_file() -> None:
    record = document("succession.json")
    assert record["old_public_key"] == WORKER.key.hex()
    assert f'public_key: "{record["old_public_key"]}"' in document("motebit.md")


def test_the_shown_dct_and_contract_are_the_clients() -> None:
    dct = document("dct.txt")
    issued = read_dct(dct)["authority"]["issuedAt"]
    root = principal_of(CLIENT.seed)
    answer = verdict("dct", dct, [root], issued, operation="search", namespace="registry", resource="tool:search")
    assert answer["verified"] is True
    contract, attestation = document("contract.json"), document("attestation.json")
    assert verdict("attestation", attestation, contract=contract)["verified"] is True
    (work,) = receipts_in("attestation", {"attestation": attestation, "contract": contract}, NOW)
    assert (work.record.worker, work.record.counter_signer) == (WORKER.key.hex(), CLIENT.key.hex())


def test_the_documents_of_ratings_are_evidence_that_somebody_else_signed() -> None:
    origin = re.search(r'"origin": "(\w+)"', PAGE)
    assert origin
    assert bound_key(document("bind.txt"), WORKER.key.hex(), origin[1], NOW) == WORKER.key.hex()
    _, work = receipts_in("receipt", document("receipt.json"), NOW)
    assert (work.record.worker, work.record.counter_signer) == (WORKER.key.hex(), CLIENT.key.hex())
    assert work.txid.startswith("5e4d3c2b")
    keys = document("keys.json")["keys"]
    client = {"key_id": "client-1", "alg": "EdDSA", "public_key": principal_of(CLIENT.seed)}
    evidence = {name: document(f"{name}.json") for name in ("envelope", "request")}
    (work,) = receipts_in("mrp-evidence", {**evidence, "keys": [*keys, client]}, NOW + 60_000)
    assert (work.record.worker, work.record.counter_signer) == (WORKER.key.hex(), CLIENT.key.hex())


def test_the_pages_name_every_suite() -> None:
    for name in ("claims.md", "relay.md"):
        for encoding in ("jcs-ed25519-b64", "jwt-ed25519", "jcs-ed25519-hex"):
            assert f"motebit-{encoding}-v1" in (ROOT / "docs" / name).read_text(), name
