"""Receipts of a payment gate for paid work: what of a call and its answer they bind, and where an answer carries them.

A receipt is one of Motebit (execution-ledger@1.0 §11) without content: `task_id` is the SHA-256 of the task's id,
`prompt_hash` the SHA-256 of that id, a line feed and the bytes of the request, `result` the text `sha256:` and the
SHA-256 of the bytes of the answer, `relay_task_id` the payment (`bsv:tx:<txid>`). Whoever has task, request and answer
can check it, and nobody else learns of them.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from parsers.claims.canonical_json import DocumentError, jcs, plain, read, without
from parsers.json_records import object_or_empty

MEMBER, HEADER, EVENT = "x-a2b-receipt", "A2B-Receipt", "a2b-receipt"
"""Where an answer carries its receipt: a member of `metadata` (A2A) or `_meta` (MCP), the header of a call by HTTP
(base64 of JSON), the last event of a stream."""

MAX_RECEIPT_BYTES = 4_096

PAYMENT_MEMBER = "x-payment"
A2A_METADATA, MCP_METADATA = "metadata", "_meta"


def hashed_task(task: str) -> str:
    """The `task_id` of the receipt for a task."""
    return sha256(task.encode()).hexdigest()


def prompt_hash(task: str, request: bytes) -> str:
    """The `prompt_hash` of the receipt for the bytes of a request."""
    return sha256(task.encode() + b"\n" + request).hexdigest()


def result_text(digest: bytes) -> str:
    """The `result` of the receipt for an answer whose bytes have this SHA-256."""
    return f"sha256:{digest.hex()}"


def a2a_request(parts: Any) -> bytes:
    """The bytes of a message of A2A: RFC 8785 of its parts without those that carry a claim. Raises DocumentError."""
    listed = parts if isinstance(parts, list) else []
    return jcs(plain([part for part in listed if payment_of_part(part) is None]))


def mcp_request(arguments: Any) -> bytes:
    """The bytes of a call of MCP: RFC 8785 of its arguments. Raises DocumentError."""
    return jcs(plain({} if arguments is None else arguments))


def payment_of_part(part: Any) -> Any:
    """The claim in a part of a message, for every version's name of the part; None without one."""
    data = object_or_empty(object_or_empty(part).get("data"))
    data = object_or_empty(data.get("data")) if PAYMENT_MEMBER not in data and "data" in data else data
    return data.get(PAYMENT_MEMBER)


def answer_bytes(result: Mapping[str, Any], metadata: str) -> bytes:
    """The bytes of a result of A2A or MCP: RFC 8785 of it without its receipt, and without the metadata that then are
    empty. Raises DocumentError."""
    return jcs(plain(_with_metadata(result, metadata, None)))


def with_receipt(result: Mapping[str, Any], metadata: str, receipt: Mapping[str, Any]) -> dict[str, Any]:
    """A result of A2A or MCP that carries a receipt."""
    return _with_metadata(result, metadata, receipt)


def receipt_of(result: Mapping[str, Any], metadata: str) -> Any:
    """The receipt that a result of A2A or MCP carries, not verified; None without one."""
    form = _form(result, metadata)
    holder = result[form] if form else result
    return object_or_empty(holder.get(metadata)).get(MEMBER)


def header_text(receipt: Mapping[str, Any]) -> str:
    """A receipt as the header of an answer by HTTP."""
    return b64encode(json.dumps(receipt, separators=(",", ":")).encode()).decode()


def from_header(text: str) -> Any:
    """The receipt in a header, not verified; None for anything else."""
    try:
        return read(b64decode(text, validate=True), max_bytes=MAX_RECEIPT_BYTES)
    except (ValueError, DocumentError):
        return None


def event(receipt: Mapping[str, Any]) -> bytes:
    """A receipt as the last event of a stream. The answer is what precedes it."""
    return f"event: {EVENT}\ndata: {json.dumps(receipt, separators=(',', ':'))}\n\n".encode()


def from_stream(stream: bytes) -> tuple[bytes, Any]:
    """The answer in a stream and the receipt in its last event, not verified; None without one."""
    answer, mark, data = stream.rpartition(f"event: {EVENT}\ndata: ".encode())
    try:
        return (answer, read(data.strip(), max_bytes=MAX_RECEIPT_BYTES)) if mark else (stream, None)
    except DocumentError:
        return stream, None


def check_receipt(receipt: Mapping[str, Any], task: str, request: bytes, answer: bytes, txid: str) -> None:
    """Whether a receipt that verifies is for this task, request, answer and payment (txid in hex). Raises
    DocumentError: task-mismatch, prompt-mismatch, result-mismatch, payment-mismatch."""
    bound = {
        "task-mismatch": ("task_id", hashed_task(task)),
        "prompt-mismatch": ("prompt_hash", prompt_hash(task, request)),
        "result-mismatch": ("result", result_text(sha256(answer).digest())),
        "payment-mismatch": ("relay_task_id", f"bsv:tx:{txid}"),
    }
    for code, (name, value) in bound.items():
        if receipt.get(name) != value:
            raise DocumentError(code, f"{name} of the receipt is {str(receipt.get(name))[:100]!a}, and not {value}")


def _with_metadata(result: Mapping[str, Any], metadata: str, receipt: Any) -> dict[str, Any]:
    form = _form(result, metadata)
    holder = result[form] if form else result
    members = without(object_or_empty(holder.get(metadata)), MEMBER) | ({} if receipt is None else {MEMBER: receipt})
    changed = without(holder, metadata) | ({metadata: members} if members else {})
    return {**result, form: changed} if form else changed


def _form(result: Mapping[str, Any], metadata: str) -> str:
    """The member of a result of A2A 1.0 that holds what earlier versions answer itself; "" for these, and for MCP."""
    forms = ("task", "message") if metadata == A2A_METADATA else ()
    return next((form for form in forms if isinstance(result.get(form), dict)), "")
