"""The JSON Schemas of MRP 0.1 for envelopes and their payloads: strict as its root schemas have it, with
`in_reply_to`, `receiver` and all payloads; lenient as clients in use send, which leave these out."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

MESSAGE_TYPES = (
    "HELLO", "DISCOVER", "OFFER", "NEGOTIATE", "EXECUTE", "EVIDENCE", "JOB_ACCEPTED", "JOB_STATUS", "STREAM_CHUNK",
    "ERROR",
)  # fmt: skip
_ANSWERS = ("OFFER", "NEGOTIATE", "EXECUTE", "EVIDENCE", "ERROR")
_ADDRESSED = (*_ANSWERS, "JOB_ACCEPTED", "JOB_STATUS", "STREAM_CHUNK")

_TEXT: Schema = {"type": "string"}
_ANY_OBJECT: Schema = {"type": "object"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_FRACTION: Schema = {"type": "number", "minimum": 0, "maximum": 1}
_ID: Schema = {"type": "string", "minLength": 3}
_VERSION: Schema = {"type": "string", "pattern": r"^[0-9]+\.[0-9]+$"}


def _record(required: Schema, optional: Schema | None = None, *, is_open: bool = False) -> Schema:
    members = {**required, **(optional or {})}
    return {"type": "object", "required": list(required), "properties": members, "additionalProperties": is_open}


_ARTIFACT = _record(
    {
        "type": {"const": "artifact"},
        "uri": {"type": "string", "minLength": 1},
        "hash": {"type": "string", "pattern": "^(sha256|sha512):"},
    },
    {"size": _COUNT, "mime": _TEXT},
)
_VALUE: Schema = {"required": ["type", "value"], "properties": {"type": {"enum": ["text", "url", "json", "markdown"]}}}
_INPUT: Schema = {
    **_record(
        {"type": _TEXT}, {"value": True, "uri": _TEXT, "hash": _TEXT, "size": {"type": "integer"}, "mime": _TEXT}
    ),
    "oneOf": [_VALUE, _ARTIFACT],
}
_INPUTS: Schema = {"type": "array", "items": _INPUT}
_CONSTRAINTS = _record(
    {},
    {
        "max_cost": {"type": "number", "minimum": 0},
        "max_latency_ms": _COUNT,
        "data_residency": _TEXT,
        "policy": _TEXTS,
    },
    is_open=True,
)
_OFFER = _record(
    {"route_id": _TEXT, "capability": _TEXT},
    {
        "confidence": _FRACTION,
        **dict.fromkeys(("cost", "latency", "risk"), _ANY_OBJECT),
        **dict.fromkeys(("proofs", "policy"), _TEXTS),
        "endpoint": _TEXT,
    },
    is_open=True,
)
PAYLOADS: dict[str, Schema] = {
    "DISCOVER": _record(
        {"intent": {"type": "string", "minLength": 1}},
        {"inputs": _INPUTS, "constraints": _CONSTRAINTS, "proofs_required": _TEXTS},
    ),
    "OFFER": _record({"offers": {"type": "array", "items": _OFFER}}, {"page": _ANY_OBJECT}),
    "NEGOTIATE": _record(
        {"route_id": _TEXT},
        {"constraints": _ANY_OBJECT, "proofs": _TEXTS, "inputs": _INPUTS, "payment_intent": _ANY_OBJECT},
    ),
    "EXECUTE": _record({"route_id": _TEXT}, {"inputs": _INPUTS, "output_format": _TEXT, "job": _ANY_OBJECT}),
    "EVIDENCE": _record(
        {"route_id": _TEXT},
        {
            "job_id": _TEXT,
            "outputs": _INPUTS,
            "attestations": _TEXTS,
            **dict.fromkeys(("provenance", "usage", "settlement"), _ANY_OBJECT),
        },
    ),
    "ERROR": _record(
        {"code": {"type": "string", "pattern": "^MRP_[A-Z0-9_]+$"}, "message": _TEXT, "retryable": {"type": "boolean"}},
        {"retry_after_ms": _COUNT, "details": _ANY_OBJECT},
    ),
    "HELLO": _record(
        {},
        {
            "schemas": {"type": "array", "items": _VERSION},
            **dict.fromkeys(("proofs", "capabilities", "auth_methods"), _TEXTS),
            "manifest_url": _TEXT,
        },
    ),
    "JOB_ACCEPTED": _record({"job_id": _ID, "status": _TEXT, "status_url": _TEXT}, {"estimated_wait_ms": _COUNT}),
    "JOB_STATUS": _record({"job_id": _ID, "status": _TEXT}, {"progress": _FRACTION, "message": _TEXT}),
    "STREAM_CHUNK": _record({"stream_id": _ID, "sequence": _COUNT, "final": {"type": "boolean"}, "chunk": _INPUT}),
}
LENIENT_PAYLOADS = ("DISCOVER", "OFFER", "NEGOTIATE", "EXECUTE", "EVIDENCE", "ERROR")
"""Messages whose payload the lenient generation of the schemas describes; for others it is any object."""

_SIGNATURE = _record({"alg": _TEXT, "key_id": _TEXT, "value": _TEXT})
_AUTH = _record(
    {},
    {
        "type": {"type": "string", "enum": ["bearer", "mTLS", "signed"]},
        "token": _TEXT,
        "scopes": _TEXTS,
        "issuer": _TEXT,
        "signature": _SIGNATURE,
    },
    is_open=True,
)
_ENVELOPE = _record(
    {
        "mrp_version": _VERSION,
        "msg_id": {"type": "string", "minLength": 8},
        "msg_type": {"type": "string", "enum": list(MESSAGE_TYPES)},
        "timestamp": _TEXT,
        "sender": _record({"id": _ID}, {"proofs": _TEXTS}),
        "payload": _ANY_OBJECT,
    },
    {
        "receiver": _record({"id": _ID}),
        "in_reply_to": {"type": "string", "minLength": 8},
        "trace": _record({}, {"root": _TEXT, "parent": _TEXT}),
        "auth": _AUTH,
        **dict.fromkeys(("nonce", "expires_at", "idempotency_key"), _TEXT),
    },
)


def envelope_schema(msg_type: str, *, is_strict: bool) -> Schema:
    """The schema of an envelope of a message type."""
    payload = PAYLOADS.get(msg_type) if is_strict or msg_type in LENIENT_PAYLOADS else None
    required = list(_ENVELOPE["required"])
    if is_strict:
        required += ["in_reply_to"] if msg_type in _ANSWERS else []
        required += ["receiver"] if msg_type in _ADDRESSED else []
    members = {**_ENVELOPE["properties"], **({"payload": payload} if payload else {})}
    return {**_ENVELOPE, "required": required, "properties": members}
