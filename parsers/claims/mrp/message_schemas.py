"""The messages of MRP 0.1, and their JSON Schemas: strict as its root schemas have it, with `in_reply_to`, `receiver`
and all payloads; lenient as clients in use send, which leave these out.

Requests are structs, which are read still more leniently: members that a struct does not name, and what is only
published of a member, are not checked. Messages that are not read here have their schemas alone.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from parsers.json_records import ABSENT, EMPTY, Absent, JsonObject, published, schema_of, sized

Schema = dict[str, Any]

_MessageType = Literal[
    "HELLO", "DISCOVER", "OFFER", "NEGOTIATE", "EXECUTE", "EVIDENCE", "JOB_ACCEPTED", "JOB_STATUS", "STREAM_CHUNK",
    "ERROR",
]  # fmt: skip
MESSAGE_TYPES: tuple[str, ...] = get_args(_MessageType)
_ANSWERS = ("OFFER", "NEGOTIATE", "EXECUTE", "EVIDENCE", "ERROR")
_ADDRESSED = (*_ANSWERS, "JOB_ACCEPTED", "JOB_STATUS", "STREAM_CHUNK")

_TEXT: Schema = {"type": "string"}
_ANY_OBJECT: Schema = {"type": "object"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_FRACTION: Schema = {"type": "number", "minimum": 0, "maximum": 1}
_ID: Schema = {"type": "string", "minLength": 3}
_Id = Annotated[str, sized(least=3)]
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


class MrpObject(JsonObject, rename=None):
    """An object of a request."""


class Hello(MrpObject):
    """The payload of HELLO."""

    schemas: tuple[Annotated[str, published(**_VERSION)], ...] = ()
    proofs: Annotated[Any, published(**_TEXTS)] = None
    capabilities: Annotated[Any, published(**_TEXTS)] = None
    auth_methods: Annotated[Any, published(**_TEXTS)] = None
    manifest_url: Annotated[Any, published(**_TEXT)] = None


class Discover(MrpObject):
    """The payload of DISCOVER."""

    intent: Annotated[str, sized(least=1)]
    inputs: Annotated[Any, published(**_INPUTS)] = None
    constraints: Annotated[dict[str, Any], published(**_CONSTRAINTS)] = EMPTY
    proofs_required: tuple[str, ...] = ()


class Negotiate(MrpObject):
    """The payload of NEGOTIATE."""

    route_id: str
    constraints: dict[str, Any] = EMPTY
    proofs: Annotated[Any, published(**_TEXTS)] = None
    inputs: Annotated[Any, published(**_INPUTS)] = None
    payment_intent: dict[str, Any] = EMPTY


class Execute(MrpObject):
    """The payload of EXECUTE."""

    route_id: str
    inputs: Annotated[Any, published(**_INPUTS)] = None
    output_format: Annotated[Any, published(**_TEXT)] = None
    job: Annotated[Any, published(**_ANY_OBJECT)] = None


class EvidencePayload(MrpObject):
    """The payload of EVIDENCE."""

    route_id: str
    job_id: Annotated[Any, published(**_TEXT)] = None
    outputs: tuple[Annotated[dict[str, Any], published(**_INPUT)], ...] = ()
    attestations: Annotated[Any, published(**_TEXTS)] = None
    provenance: dict[str, Any] = EMPTY
    usage: Annotated[Any, published(**_ANY_OBJECT)] = None
    settlement: Annotated[Any, published(**_ANY_OBJECT)] = None


class Sender(MrpObject):
    """The sender."""

    id: _Id
    proofs: Annotated[Any, published(**_TEXTS)] = None


class Receiver(MrpObject):
    """The receiver."""

    id: _Id


class Auth(MrpObject):
    """The authorization of a message: its scopes count for every type, its signature where the type is `signed`."""

    type: Annotated[Literal["bearer", "mTLS", "signed"], published(type="string")] | Absent = ABSENT
    token: Annotated[Any, published(**_TEXT)] = None
    scopes: list[str] | Absent = ABSENT
    issuer: Annotated[Any, published(**_TEXT)] = None
    signature: Annotated[Any, published(**_record(dict.fromkeys(("alg", "key_id", "value"), _TEXT)))] = None


class Envelope(MrpObject):
    """A request."""

    mrp_version: Annotated[str, published(**_VERSION)]
    msg_id: Annotated[str, sized(least=8)]
    msg_type: Annotated[_MessageType, published(type="string")]
    timestamp: str
    sender: Sender
    payload: dict[str, Any]
    receiver: Receiver | Absent = ABSENT
    in_reply_to: Annotated[Any, published(type="string", minLength=8)] = None
    trace: Annotated[Any, published(**_record({}, {"root": _TEXT, "parent": _TEXT}))] = None
    auth: Annotated[Auth, published(additionalProperties=True)] | Absent = ABSENT
    nonce: Annotated[Any, published(**_TEXT)] = None
    expires_at: str | Absent = ABSENT
    idempotency_key: str | Absent = ABSENT

    @property
    def is_signed(self) -> bool:
        """Whether the message is marked as signed; the signature is not verified."""
        return self.auth is not ABSENT and self.auth.type == "signed"

    @property
    def scopes(self) -> list[str] | None:
        """The scopes, None where the message has none."""
        return None if self.auth is ABSENT or self.auth.scopes is ABSENT else self.auth.scopes


PAYLOADS: dict[str, Schema] = {
    "DISCOVER": schema_of(Discover),
    "OFFER": _record({"offers": {"type": "array", "items": _OFFER}}, {"page": _ANY_OBJECT}),
    "NEGOTIATE": schema_of(Negotiate),
    "EXECUTE": schema_of(Execute),
    "EVIDENCE": schema_of(EvidencePayload),
    "ERROR": _record(
        {"code": {"type": "string", "pattern": "^MRP_[A-Z0-9_]+$"}, "message": _TEXT, "retryable": {"type": "boolean"}},
        {"retry_after_ms": _COUNT, "details": _ANY_OBJECT},
    ),
    "HELLO": schema_of(Hello),
    "JOB_ACCEPTED": _record({"job_id": _ID, "status": _TEXT, "status_url": _TEXT}, {"estimated_wait_ms": _COUNT}),
    "JOB_STATUS": _record({"job_id": _ID, "status": _TEXT}, {"progress": _FRACTION, "message": _TEXT}),
    "STREAM_CHUNK": _record({"stream_id": _ID, "sequence": _COUNT, "final": {"type": "boolean"}, "chunk": _INPUT}),
}
LENIENT_PAYLOADS = ("DISCOVER", "OFFER", "NEGOTIATE", "EXECUTE", "EVIDENCE", "ERROR")
"""Messages whose payload the lenient generation of the schemas describes; for others it is any object."""

_ENVELOPE = schema_of(Envelope)


def envelope_schema(msg_type: str, *, is_strict: bool) -> Schema:
    """The schema of an envelope of a message type."""
    payload = PAYLOADS.get(msg_type) if is_strict or msg_type in LENIENT_PAYLOADS else None
    required = list(_ENVELOPE["required"])
    if is_strict:
        required += ["in_reply_to"] if msg_type in _ANSWERS else []
        required += ["receiver"] if msg_type in _ADDRESSED else []
    members = {**_ENVELOPE["properties"], **({"payload": payload} if payload else {})}
    return {**_ENVELOPE, "required": required, "properties": members}
