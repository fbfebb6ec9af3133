"""MRP envelopes: requests are read leniently, as the clients in use leave out what the strict schemas require;
responses validate against the strict schemas of version 0.1."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from urllib.parse import urlsplit
from uuid import UUID, uuid4, uuid5

from aiohttp import web

from overlay.api.answers import json_answer
from overlay.api.identity_key import IdentityKey
from overlay.api.problems import ProblemError, bad_request
from overlay.api.values import shown
from parsers.claims.mrp.message_schemas import Envelope, MrpObject
from parsers.claims.mrp.signed_envelope import AUTH, WINDOW_MS, key_document, key_id, sign_envelope
from parsers.claims.verdict import SKEW_MS
from parsers.json_records import ABSENT, RecordError, convert

MAJOR, MINOR = 0, 1
VERSION = f"{MAJOR}.{MINOR}"
VALID_SECONDS = 300
"""How long a signed answer holds."""

MEDIA_TYPE = "application/mrp+json"
BATCH_MEDIA_TYPE = "application/mrp-batch+json"

_VERSION = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})")
_REPLIES = UUID("1c7f1e5e-2b0e-5d1c-9f53-3d6b3c1f7a20")
_UNKNOWN_ID = "00000000-0000-0000-0000-000000000000"
"""The reference of an error to a request without an id."""

_Request = TypeVar("_Request", bound=MrpObject)
_WINDOW, _SKEW = timedelta(milliseconds=WINDOW_MS), timedelta(milliseconds=SKEW_MS)


class MrpError(ProblemError):
    """A request that is answered with an ERROR envelope: `code` of MRP's taxonomy, `details` for programs."""

    def __init__(self, code: str, detail: str, **details: Any) -> None:
        super().__init__(400, detail)
        self.code, self.details = code, details


def moment(text: str) -> datetime:
    """A time by RFC 3339 in UTC. Raises ValueError."""
    time = datetime.fromisoformat(text)
    if time.utcoffset() != UTC.utcoffset(None) or "T" not in text.upper():
        raise ValueError(f"{shown(text)} is not a time by RFC 3339 in UTC, such as 2026-01-31T12:00:00Z")
    return time


def checked(kind: type[_Request], value: Any) -> _Request:
    """The message or payload in a JSON value; members that are null are absent. Raises BadRequestError."""
    try:
        return convert(_without_nulls(value), kind, "the message")
    except RecordError as error:
        raise bad_request(error.code, str(error), pointer=error.pointer) from None


def _without_nulls(value: Any) -> Any:
    """A message without the members that are null, nor those of its `auth`."""
    if not isinstance(value, dict):
        return value
    members = {name: member for name, member in value.items() if member is not None}
    return members | ({"auth": _without_nulls(members["auth"])} if "auth" in members else {})


def _check_texts(envelope: Envelope) -> None:
    """Check the times of an envelope, and the lengths of texts that are stored. Raises BadRequestError."""
    parties = [("sender/id", envelope.sender.id, 1_000)]
    parties += [("receiver/id", envelope.receiver.id, 1_000)] if envelope.receiver is not ABSENT else []
    key = "" if envelope.idempotency_key is ABSENT else envelope.idempotency_key
    for name, text, most in (*parties, ("msg_id", envelope.msg_id, 200), ("idempotency_key", key, 200)):
        if len(text) > most:
            raise bad_request("wrong-type", f"{name} has more than {most:,} characters", pointer=f"/{name}")
    for name, time in (("timestamp", envelope.timestamp), ("expires_at", envelope.expires_at)):
        try:
            if time is not ABSENT:
                moment(time)
        except ValueError as error:
            raise bad_request("not-a-time", str(error), pointer=f"/{name}") from None


def read(value: Any, now: datetime) -> Envelope:
    """The envelope in a JSON value. Raises MrpError or BadRequestError."""
    if isinstance(value, dict) and isinstance(version := value.get("mrp_version"), str):
        match = _VERSION.fullmatch(version)
        if match and int(match[1]) != MAJOR:
            detail = f"mrp_version {version} is not supported: {VERSION} is"
            raise MrpError("MRP_VERSION_UNSUPPORTED", detail, supported=[VERSION])
        if not match:
            raise MrpError("MRP_INVALID_REQUEST", f"mrp_version {shown(version)} is not of the form 0.1")
    envelope = checked(Envelope, value)
    _check_texts(envelope)
    code = AUTH if envelope.is_signed else "MRP_INVALID_REQUEST"
    if envelope.expires_at is not ABSENT and moment(envelope.expires_at) <= now:
        raise MrpError(code, f"the message has expired: expires_at is {envelope.expires_at}")
    if not now - _WINDOW <= moment(envelope.timestamp) <= now + _SKEW:
        detail = f"timestamp is {envelope.timestamp}: messages are taken within a day, by a clock that is right"
        raise MrpError(code, detail)
    return envelope


def reply(request: Any, sender: str, msg_type: str, payload: dict[str, Any], now: datetime) -> dict[str, Any]:
    """The envelope that answers `request`, a JSON value of any shape. A repeated `idempotency_key` of one sender is
    answered with the same `msg_id`, unless its payload is another one."""
    members: dict[str, Any] = request if isinstance(request, dict) else {}
    party, key = members.get("sender"), members.get("idempotency_key")
    receiver = _text(party.get("id") if isinstance(party, dict) else None, 3)
    version = _VERSION.fullmatch(_text(members.get("mrp_version"), 1))
    minor = min(int(version[2]), MINOR) if version and int(version[1]) == MAJOR else MINOR
    is_keyed = isinstance(key, str) and bool(key)
    sent = json.dumps(members.get("payload"), sort_keys=True) if is_keyed else ""
    answer = {
        "mrp_version": f"{MAJOR}.{minor}",
        "msg_id": str(uuid5(_REPLIES, f"{msg_type} {receiver} {key!a} {sent}") if is_keyed else uuid4()),
        "msg_type": msg_type,
        "timestamp": _rfc3339(now),
        "sender": {"id": sender},
        "receiver": {"id": receiver or "unknown"},
        "in_reply_to": _text(members.get("msg_id"), 8) or _UNKNOWN_ID,
        "payload": payload,
    }
    if isinstance(trace := members.get("trace"), dict):
        echoed = {name: trace[name] for name in ("root", "parent") if isinstance(trace.get(name), str)}
        answer |= {"trace": echoed} if echoed else {}
    return answer | ({"idempotency_key": key} if is_keyed else {})


def _text(value: Any, least: int) -> str:
    return value[:1_000] if isinstance(value, str) and len(value) >= least else ""


def signed(envelope: dict[str, Any], issuer: str, identity: IdentityKey, now: datetime) -> dict[str, Any]:
    """The envelope signed with this server's Ed25519 key; `keys` has its public key."""
    expires_at = _rfc3339(now + timedelta(seconds=VALID_SECONDS))
    bound = {"nonce": str(uuid4()), "expires_at": expires_at, "auth": {"type": "signed", "issuer": issuer}}
    return sign_envelope(identity.ed25519, key_id(identity.ed25519), envelope | bound)


def keys(identity: IdentityKey | None) -> dict[str, Any]:
    """The document of this server's keys; none where it has no identity."""
    return {"keys": [key_document(identity.ed25519, key_id(identity.ed25519))] if identity else []}


def _rfc3339(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def service_id(base: str) -> str:
    """The id by which this server sends, of its URL."""
    return f"service:a2b/{urlsplit(base).netloc}"


def error_payload(problem: ProblemError, request_id: str) -> dict[str, Any]:
    """The payload of ERROR for a problem. `retry_after_ms` is 0 where no time is known, or none helps."""
    details: dict[str, Any] = {"request_id": request_id}
    if isinstance(problem, MrpError):
        code = problem.code
        details |= problem.details
    elif problem.status == 429:
        code = "MRP_RATE_LIMITED"
    else:
        code = "MRP_INVALID_REQUEST" if problem.status < 500 else "MRP_INTERNAL_ERROR"
    if problem.faults:
        details["errors"] = [fault.as_json() for fault in problem.faults]
    seconds = problem.headers.get("Retry-After", "")
    return {
        "code": code, "message": problem.detail, "retryable": problem.status in (429, 503),
        "retry_after_ms": 1_000 * int(seconds) if seconds.isdigit() else 0, "details": details,
    }  # fmt: skip


def json_error(_request: web.Request, problem: ProblemError, request_id: str) -> web.Response:
    """The error of the registry's routes, which exchange no envelopes: `error` is the code. For a challenge that was
    not met, mrpd reads `challenge_url` and `expected`."""
    payload = error_payload(problem, request_id)
    lifted = {name: payload["details"][name] for name in ("challenge_url", "expected") if name in payload["details"]}
    members = {"mrp_version": VERSION, "error": payload.pop("code"), **payload, **lifted}
    return json_answer(members, status=problem.status)
