"""Hashes of the outputs in an EVIDENCE, recomputed where the content is there: the UTF-8 of a text, the RFC 8785 form
of JSON, and the content of a `data:` URI. What is elsewhere is not fetched."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from parsers.cards import data_uri
from parsers.claims.canonical_json import DocumentError, jcs

MAX_OUTPUTS = 32
_ALGORITHMS = ("sha256", "sha512")
_CODE = "hash-mismatch"


def check_outputs(outputs: Sequence[Any]) -> int:
    """How many hashes were recomputed. Raises DocumentError (hash-mismatch, too-many-values) for content with
    another hash or size."""
    if len(outputs) > MAX_OUTPUTS:
        raise DocumentError("too-many-values", f"{len(outputs):,} outputs; at most {MAX_OUTPUTS} are checked")
    return sum(_check(f"outputs[{number}]", output) for number, output in enumerate(outputs))


def _check(name: str, output: Any) -> bool:
    if not isinstance(output, dict) or "hash" not in output:
        return False
    algorithm, colon, digest = str(output["hash"]).partition(":")
    if not colon or algorithm not in _ALGORITHMS:
        raise DocumentError(_CODE, f"{name}: the hash is not of the form sha256:… or sha512:…")
    content = _content(name, output)
    if content is None:
        return False
    if hashlib.new(algorithm, content).hexdigest() != digest.lower():
        raise DocumentError(_CODE, f"{name}: the content has another {algorithm}")
    if output.get("size", len(content)) != len(content):
        raise DocumentError(_CODE, f"{name}: the content has {len(content):,} bytes")
    return True


def _content(name: str, output: dict[str, Any]) -> bytes | None:
    """The bytes of an output, None where they are elsewhere."""
    if "value" in output:
        value = output["value"]
        return value.encode() if isinstance(value, str) and output.get("type") != "json" else jcs(value)
    uri = str(output.get("uri", "")).encode("utf-8", "replace")
    if not data_uri.is_data_uri(uri):
        return None
    content = data_uri.read(uri)
    if not isinstance(content, bytes):
        raise DocumentError(_CODE, f"{name}: {content.sentence}")
    return content
