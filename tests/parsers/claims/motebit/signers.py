"""Agents of Motebit for tests: what they sign, all of it valid."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from parsers.claims import ed25519
from parsers.claims.canonical_json import base64url_text, jcs, without
from parsers.claims.motebit.identifiers import HEX_SUITE, SUITE, sovereign_id

NOW = 1_790_000_000_000


class Agent:
    """An agent with the key of this number."""

    def __init__(self, number: int) -> None:
        self.seed = bytes([number]) * 32
        self.key = ed25519.public_key_of(self.seed)
        self.id = sovereign_id(self.key)

    def sign(self, record: dict[str, Any]) -> dict[str, Any]:
        body = without(record, "signature")
        return {**body, "signature": base64url_text(ed25519.sign(self.seed, jcs(body)))}

    def receipt(self, task: str = "task-1", nested: list[dict[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
        result = more.pop("result", "done")
        body = {
            "task_id": task, "motebit_id": self.id, "device_id": "device", "submitted_at": NOW - 5_000,
            "completed_at": NOW - 1_000, "status": "completed", "result": result, "tools_used": ["web_search"],
            "memories_formed": 0, "prompt_hash": sha256(b"?").hexdigest(),
            "result_hash": sha256(result.encode()).hexdigest(), "public_key": self.key.hex(), "suite": SUITE,
        }  # fmt: skip
        if nested is not None:
            body["delegation_receipts"] = nested
        return self.sign({**body, **more})

    def delegate(self, other: Agent, scope: str = "web_search,read_url", **more: Any) -> dict[str, Any]:
        body = {
            "delegator_id": self.id, "delegator_public_key": self.key.hex(), "delegate_id": other.id,
            "delegate_public_key": other.key.hex(), "scope": scope, "issued_at": NOW - 10_000,
            "expires_at": NOW + 60_000, "suite": SUITE,
        }  # fmt: skip
        return self.sign({**body, **more})

    def token(self, **more: Any) -> str:
        payload = {
            "mid": self.id, "did": "device", "iat": NOW, "exp": NOW + 300_000, "jti": "one", "aud": "task:submit",
            "suite": "motebit-jwt-ed25519-v1",
        }  # fmt: skip
        body = json.dumps({**payload, **more}).encode()
        return f"{base64url_text(body)}.{base64url_text(ed25519.sign(self.seed, body))}"

    def identity_file(self, *lines: str) -> str:
        text = "\n".join(
            (f"motebit_id: {self.id}", "identity:", "  algorithm: Ed25519", f'  public_key: "{self.key.hex()}"', *lines)
        )
        comment = f"<!-- motebit:sig:{HEX_SUITE}:{ed25519.sign(self.seed, text.encode()).hex()} -->"
        return f"---\n{text}\n---\n{comment}\n"

    def succeed(self, new: Agent, timestamp: int = NOW, **more: Any) -> dict[str, Any]:
        body = {
            "old_public_key": self.key.hex(), "new_public_key": new.key.hex(), "timestamp": timestamp,
            "suite": HEX_SUITE, **more,
        }  # fmt: skip
        message = jcs(body)
        signatures = {"old_key_signature": self, "new_key_signature": new}
        return body | {name: ed25519.sign(agent.seed, message).hex() for name, agent in signatures.items()}


ALICE, BOB, CAROL, DAVE = map(Agent, (1, 2, 3, 4))
