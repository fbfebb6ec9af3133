"""`a2b dct`: tokens made, narrowed, verified and revoked by their owners' keys."""

from __future__ import annotations

import json
import time
from pathlib import Path

from parsers.claims.delegateos.holder_proof import check_proof
from parsers.claims.delegateos.signed_objects import principal_of
from tests.running import a2b_here
from tests.token_kit import AGENT, HELPER, ISSUER, STRANGER, revocation

OWNER, TO, NEXT = map(principal_of, (ISSUER, AGENT, HELPER))


def test_a_token_from_its_issue_to_its_revocation(tmp_path: Path) -> None:
    (tmp_path / "agent.key").write_text(AGENT.hex() + "\n")
    (tmp_path / "identity.json").write_text(json.dumps({"ed25519": ISSUER.hex(), "secp256k1": "00"}))
    for name in ("agent.key", "identity.json"):
        (tmp_path / name).chmod(0o600)
    shown = a2b_here("dct", "principal", "--key-file", "identity.json", cwd=tmp_path)
    assert (shown.returncode, shown.stdout.strip()) == (0, OWNER)

    completed = a2b_here(
        "dct", "issue", "--to", TO, "--allow", "search", "--allow", "submit:tool:ingest", "--budget", "9", cwd=tmp_path,
        A2B_DCT_KEY=ISSUER.hex(),
    )  # fmt: skip
    assert completed.returncode == 0, completed.stderr
    (tmp_path / "root").write_text(completed.stdout)
    narrow = ("dct", "attenuate", "root", "--to", NEXT, "--key-file", "agent.key")
    completed = a2b_here(*narrow, "--allow", "search:tool:search", "--budget", "2", "--seconds", "99999", cwd=tmp_path)
    assert completed.returncode == 0, completed.stderr
    (tmp_path / "leaf").write_text(completed.stdout)
    wider = a2b_here(*narrow, "--allow", "rate", cwd=tmp_path)
    assert (wider.returncode, wider.stdout) == (1, "")
    assert "Capability expansion not allowed: registry:rate:**" in wider.stderr

    body = json.loads(a2b_here("dct", "inspect", "-", "--json", cwd=tmp_path, stdin=completed.stdout.encode()).stdout)
    assert (body["issuer"], body["delegatee"], body["maxBudgetMicrocents"]) == (OWNER, NEXT, 2)
    assert "registry:search for tool:search\n" in a2b_here("dct", "inspect", "leaf", cwd=tmp_path).stdout

    verify = ("dct", "verify", "leaf", "--root", OWNER)
    assert a2b_here(*verify, "--grants", "search:tool:search", cwd=tmp_path).stdout == "verified\n"
    denied = a2b_here(*verify, "--grants", "submit:tool:ingest", cwd=tmp_path)
    assert denied.stdout == "capability_not_granted: registry:submit is not granted for tool:ingest\n"
    assert denied.returncode == 1
    assert a2b_here("dct", "verify", "leaf", "--root", TO, "--json", cwd=tmp_path).returncode == 1

    for key, options, why in (
        ("identity.json", (), "so its revocation would never count; it signed 0 of the blocks 0 to 1 (--chain"),
        ("agent.key", ("--block", "0"), "did not sign block 0, so its revocation would never count; it signed 1 of"),
        ("agent.key", ("--chain",), "did not sign a block above block 1"),
        ("agent.key", ("--chain", "--block", "0"), "did not sign a block above block 0"),
    ):  # fmt: skip
        refused = a2b_here("dct", "revoke", "leaf", *options, "--key-file", key, cwd=tmp_path)
        assert (refused.returncode, refused.stdout, why in refused.stderr) == (2, "", True), refused.stderr
    for key, options in (("agent.key", ()), ("identity.json", ("--block", "0"))):
        assert a2b_here("dct", "revoke", "leaf", *options, "--key-file", key, cwd=tmp_path).returncode == 0
    entry = a2b_here("dct", "revoke", "leaf", "--chain", "--key-file", "identity.json", cwd=tmp_path)
    others = [revocation(STRANGER, completed.stdout.strip())] * 999
    (tmp_path / "list.json").write_text(json.dumps({"revocations": [*others, json.loads(entry.stdout)]}))
    revoked = a2b_here(*verify, "--revocations", "list.json", cwd=tmp_path)
    assert (revoked.returncode, revoked.stdout.partition(":")[0]) == (1, "revoked")


def test_a_proof_is_for_a_request(tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(b"{}")
    header = a2b_here("dct", "prove", "post", "/v1/ingest?x=1", "body", cwd=tmp_path, A2B_DCT_KEY=HELPER.hex()).stdout
    proof = check_proof(header.strip(), holder=NEXT, method="POST", path="/v1/ingest?x=1", now=time.time_ns())
    assert proof.body_sha256 == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


def test_keys_and_capabilities_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.key").write_text("secret words")
    (tmp_path / "bad.key").chmod(0o600)
    for key in (("--key-file", "bad.key"), ()):
        refused = a2b_here("dct", "principal", *key, cwd=tmp_path)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "is not a key" in refused.stderr
        assert "secret" not in refused.stderr
    refused = a2b_here("dct", "issue", "--to", TO, "--allow", "delete", cwd=tmp_path, A2B_DCT_KEY=ISSUER.hex())
    assert (refused.returncode, "is not search, submit or rate" in refused.stderr) == (2, True)
