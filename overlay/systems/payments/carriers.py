"""Where a request carries its payment claim: the header `A2B-Payment`, a DataPart of an A2A message, `_meta` of MCP."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from parsers.cards import strict_json
from parsers.claims.amount_due import PaymentRefusedError
from parsers.claims.canonical_json import without
from parsers.claims.gate_receipts import PAYMENT_MEMBER, a2a_request, mcp_request, payment_of_part
from parsers.errors import CardError
from parsers.json_records import object_or_empty

PAYMENT_HEADER, TASK_HEADER = "A2B-Payment", "A2B-Task"
SUBSCRIPTION_HEADER = "A2B-Subscription"
MEMBER, TASK_MEMBER, SUBSCRIPTION_MEMBER = PAYMENT_MEMBER, "x-payment-task", "x-payment-subscription"

A2A_METHODS = frozenset(
    {"message/send", "message/stream", "SendMessage", "SendStreamingMessage", "tasks/send", "tasks/sendSubscribe"}
)
MCP_METHODS = frozenset({"tools/call"})
FREE_METHODS = frozenset(
    (
        "initialize", "ping", "logging/setLevel", "tools/list", "prompts/list", "resources/list",
        "resources/templates/list", "tasks/get", "tasks/list", "tasks/cancel", "GetTask", "ListTasks", "CancelTask",
        "agent/getAuthenticatedExtendedCard", "GetExtendedAgentCard",
    )
)  # fmt: skip
"""Methods of A2A and MCP that are free because they request no work, as are the notifications of MCP. All others are
paid for."""

_NOTIFICATION = "notifications/"

_BEFORE_JSON = b" \t\r\n\0\xef\xbb\xbf\xfe\xff"
"""Bytes before the first bracket: white space, and the bytes that UTF-16 and UTF-32, which Python's `json` reads, have
there."""

MAX_PARTS = 1_000
_ID = re.compile(r"[A-Za-z0-9_-]{16,128}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PaidCall:
    """A request as a gate reads it. `claim` is JSON, None without one. `task` and `subscription` are ids that the
    client chooses, hard to guess ("" without one, or for another form), and `a2a_task` is the id of its A2A task.
    `skill` is the requested one, None where the request names none; `method` is that of JSON-RPC. `rpc` is the id of a
    JSON-RPC request, in a list of one; empty for plain HTTP. `is_paid`: the call may request work. `body` is that of
    the request, where receipts are given."""

    claim: Any = None
    task: str = ""
    a2a_task: str = ""
    subscription: str = ""
    skill: str | None = None
    method: str = ""
    rpc: list[Any] = field(default_factory=list)
    url: str = ""
    is_paid: bool = True
    body: bytes = b""


def read_call(headers: Mapping[str, str], body: bytes, url: str = "") -> PaidCall:
    """The call in a request; a claim in the body counts before one in the header. Raises PaymentRefusedError for a
    header that is neither JSON nor base64 of it, for a JSON body that another parser might read otherwise (a batch,
    repeated keys, other encodings than UTF-8, more than 64 levels or 1 MiB), for a compressed one, and for a call that
    names two skills."""
    task, subscription = task_id(headers.get(TASK_HEADER)), task_id(headers.get(SUBSCRIPTION_HEADER))
    claim = _header_claim(headers.get(PAYMENT_HEADER))
    if body and headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity"):
        raise _malformed("the request is compressed: send it as it is")
    message = _message(body)
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or not isinstance(message.get("method"), str):
        return PaidCall(claim=claim, task=task, subscription=subscription, url=url)
    method, params, a2a_task = message["method"], object_or_empty(message.get("params")), ""
    meta = object_or_empty(params.get("_meta"))
    if method in A2A_METHODS:
        sent = object_or_empty(params.get("message"))
        around, within = object_or_empty(params.get("metadata")), object_or_empty(sent.get("metadata"))
        meta = around | within
        # A2A 0.1 and 0.2: the client names the task of `tasks/send`; later: the server, and messages repeat its id
        a2a_task = task_id(sent.get("taskId")) or (task_id(params.get("id")) if method.startswith("tasks/") else "")
        carried, skill = _part_claim(sent.get("parts")), _skill(params, around, within)
    else:
        carried, skill = meta.get(MEMBER), params.get("name") if method in MCP_METHODS else None
    return PaidCall(
        claim=claim if carried is None else carried,
        task=task_id(meta.get(TASK_MEMBER)) or task,
        a2a_task=a2a_task,
        subscription=task_id(meta.get(SUBSCRIPTION_MEMBER)) or subscription,
        skill=skill if isinstance(skill, str) else None,
        method=method,
        rpc=[message.get("id")],
        url=url,
        is_paid=method not in FREE_METHODS and not method.startswith(_NOTIFICATION),
    )


def request_bytes(body: bytes) -> bytes:
    """The bytes of a call of A2A or MCP that its receipt binds. Raises PaymentRefusedError, DocumentError."""
    message = object_or_empty(_message(body))
    params = object_or_empty(message.get("params"))
    if message.get("method") in A2A_METHODS:
        return a2a_request(object_or_empty(params.get("message")).get("parts"))
    has_arguments = "arguments" in params or message.get("method") in MCP_METHODS
    return mcp_request(params.get("arguments") if has_arguments else without(params, "_meta"))


def _message(body: bytes) -> Any:
    """The JSON object of a body, None for a body that is not JSON in any encoding. Raises PaymentRefusedError."""
    if body.lstrip(_BEFORE_JSON)[:1] not in (b"{", b"["):
        return None
    try:
        value, repeated = strict_json.loads(body)
    except CardError as error:
        raise _malformed(error.about("the request")) from None
    if repeated or not isinstance(value, dict):
        raise _malformed(
            "the request repeats a key" if repeated else "the request is a batch: one payment is for one call"
        )
    return value


def _malformed(detail: str) -> PaymentRefusedError:
    return PaymentRefusedError("PaymentInvalid", "request-malformed", detail)


def _skill(*members: dict[str, Any]) -> Any:
    """The skill named by one of the objects of a message, None without one. Raises PaymentRefusedError for two
    skills."""
    named = [member["skillId"] for member in members if member.get("skillId") is not None]
    if any(skill != named[0] for skill in named):
        raise _malformed("the request names two skills in skillId: a server may take either")
    return named[0] if named else None


def bare_claim(value: Any) -> Any:
    """A claim without the data part around it (A2B §4.2), or without the data of that part."""
    carried = _part_claim([value, {"data": value}])
    return value if carried is None else carried


def _part_claim(parts: Any) -> Any:
    """The claim in the first part of a message that has one, for every version's name of the part."""
    claims = map(payment_of_part, parts[:MAX_PARTS] if isinstance(parts, list) else ())
    return next((claim for claim in claims if claim is not None), None)


def _header_claim(text: str | None) -> Any:
    if text is None:
        return None
    raw = text.strip().encode("utf-8", "surrogateescape")
    if not raw.startswith(b"{"):
        try:
            raw = base64.b64decode(raw.replace(b"-", b"+").replace(b"_", b"/") + b"=" * (-len(raw) % 4), validate=True)
        except binascii.Error:
            raw = b""
    value = _json(raw)
    if value is None:
        detail = f"the header {PAYMENT_HEADER} is neither a JSON object without repeated keys nor base64 of one"
        raise PaymentRefusedError("PaymentInvalid", "claim-malformed", detail)
    return value


def _json(raw: bytes) -> Any:
    try:
        value, repeated = strict_json.loads(raw)
    except CardError:
        return None
    return None if repeated else value


def task_id(value: Any) -> str:
    """An id of a task or paid interval that is hard to guess, "" for anything else."""
    return value if isinstance(value, str) and _ID.fullmatch(value) else ""
