"""Cards signed by the SDKs of A2A are verified; their signatures do not cover prices beside the members of A2A."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from parsers.claims.card_signature import verify
from tests.conftest import missing
from tests.parsers.claims.signing import jwk, private
from tests.parsers.claims.test_card_signature import PRICED

HERE = Path(__file__).parent
OLD = {
    "name": "Écho", "description": "", "version": "1", "protocolVersion": "0.3.0", "url": "https://a.example/a2a",
    "preferredTransport": "JSONRPC", "capabilities": {"streaming": False}, "defaultInputModes": ["text/plain"],
    "defaultOutputModes": [], "skills": PRICED["skills"], "x-payment-config": PRICED["x-payment-config"],
}  # fmt: skip


def sign(signer: str, card: dict[str, Any]) -> dict[str, Any]:
    """The card with the signature of an SDK."""
    key = private("ES256", 2048).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    environment, node = dict(os.environ), shutil.which("node")
    if signer == "@a2a-js/sdk 1.3.0":
        if node is None or not (HERE / "node_modules").is_dir():
            missing("@a2a-js/sdk (npm ci in tests/overlay/protocols/a2a)")
        command = [node, HERE / "sign.mjs"]
    else:
        if find_spec("a2a") is None or find_spec("jwt") is None or not (HERE / "python_modules").is_dir():
            missing("a2a-sdk[signing], or a2a-sdk 0.3 (python_modules.txt)")
        command = [sys.executable, HERE / "sign.py"]
        environment |= {"PYTHONPATH": str(HERE / "python_modules")} if signer == "a2a-sdk 0.3.26" else {}
    done = subprocess.run(
        [*command, key], input=json.dumps(card), capture_output=True, text=True, timeout=120, env=environment
    )
    assert done.returncode == 0, done.stderr
    signed: dict[str, Any] = json.loads(done.stdout)
    return signed


@pytest.mark.parametrize(
    ("signer", "card", "form"),
    [
        ("a2a-sdk 1.3.0", PRICED, "a2a-jcs"),
        ("@a2a-js/sdk 1.3.0", PRICED, "a2a-jcs"),
        ("a2a-sdk 0.3.26", OLD, "a2a-python"),
    ],
    ids=["a2a-sdk 1.3.0", "@a2a-js/sdk 1.3.0", "a2a-sdk 0.3.26"],
)
def test_a_card_signed_by_an_sdk_is_verified(signer: str, card: dict[str, Any], form: str) -> None:
    signed = sign(signer, card)
    check = verify(signed, [jwk("ES256")])
    assert (check.verified, check.form, check.covers_pricing) == (True, form, False)
    assert verify(signed | {"x-payment-config": []}, [jwk("ES256")]).verified
    assert verify(signed | {"name": "Echo"}, [jwk("ES256")]).code == "bad-signature"
