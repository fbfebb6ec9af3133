"""The identity that the tool `motebit_identity` of a Motebit agent's MCP server names (Motebit, delegation: identity
verification)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from parsers.claims.canonical_json import DocumentError, read
from parsers.claims.motebit.identifiers import hex_bytes
from parsers.claims.motebit.identity_file import verify_identity

IDENTITY_TOOL = "motebit_identity"


def named_key(result: Any) -> str:
    """The public key (hex) in the result of `motebit_identity`: `{motebit_id, public_key}` as JSON, or a whole identity
    file with a valid signature. Raises DocumentError: no-identity, or the code of the file."""
    if not isinstance(result, dict) or result.get("isError"):
        raise DocumentError("no-identity", f"{IDENTITY_TOOL} failed")
    for text in _texts(result.get("content")):
        if text.lstrip().startswith("{"):
            members = read(text.encode())
            key = hex_bytes(members.get("public_key"), 32) if isinstance(members, dict) else None
            if key is None or not isinstance(members.get("motebit_id"), str):
                raise DocumentError("no-identity", "motebit_id or public_key (64 hex digits) is missing")
            return key.hex()
        verdict = verify_identity(text, {})
        if not verdict.verified:
            raise DocumentError(verdict.error, verdict.detail)
        return str(verdict.members["identity"]["identity"]["public_key"])
    raise DocumentError("no-identity", f"{IDENTITY_TOOL} gives no text")


def _texts(content: Any) -> Iterable[str]:
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str):
            yield part["text"]
