"""Calls of an agent or tool with a payment claim, by the protocol of its card: A2A and MCP over JSON-RPC, or plain
HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from indexer.fetcher.event_data import event_data
from indexer.retries import retry_after
from overlay.client.hire.a2a_forms import TaskInput, input_parts, message_call, poll_call, read_result
from overlay.client.hire.agent_link import AgentLink, HttpReply
from overlay.client.hire.journal import Hire
from overlay.client.hire.replies import Answered, AnswerPart, Busy, Declined, FinalDue, Reply, WorkFailed, Working
from overlay.client.payment_claims import claim_headers, claim_meta
from parsers.cards import strict_json
from parsers.claims.canonical_json import DocumentError
from parsers.claims.gate_receipts import (
    HEADER,
    MCP_METADATA,
    a2a_request,
    answer_bytes,
    from_header,
    mcp_request,
    receipt_of,
)
from parsers.errors import ParseError
from parsers.json_records import object_or_empty

HTTP, MCP = "http", "mcp"
"""Protocols beside the versions of A2A."""

NEEDS_FINAL = "needs-final"
"""The reason of a 402 for the rest of a price."""

MCP_VERSION = "2025-06-18"
MAX_PAUSE_SECONDS = 60.0
_BUSY = frozenset((429, 503))


async def call(link: AgentLink, hire: Hire, claim: Mapping[str, Any] | None) -> Reply:
    """Send the input of a hire with a claim, again or for the first time. Raises EndpointError, UnreachableError."""
    task_input = TaskInput(input_of(hire), hire.is_text, hire.name)
    if hire.protocol == HTTP:
        return _of_http(await link.post(task_input.content, claim_headers(claim, hire.task) | _media(task_input)))
    if hire.protocol == MCP:
        return await _call_tool(link, hire, claim)
    message = message_call(hire.protocol, hire.task, task_input, claim, hire.skill, hire.agent_task)
    return _of_rpc(await link.post(json.dumps(message).encode(), _rpc_headers(hire)))


async def poll(link: AgentLink, hire: Hire) -> Reply:
    """The state of the agent's task. Raises EndpointError, UnreachableError."""
    body = json.dumps(poll_call(hire.protocol, hire.agent_task)).encode()
    return _of_rpc(await link.post(body, _rpc_headers(hire)))


def input_of(hire: Hire) -> bytes:
    """The input of a hire as it is sent."""
    return hire.content.encode("utf-8", "surrogatepass") if hire.is_text else bytes.fromhex(hire.content)


def request_bytes(hire: Hire) -> bytes:
    """The bytes of the request whose hash a receipt has (`parsers.claims.gate_receipts`). Raises DocumentError."""
    content = input_of(hire)
    if hire.protocol == HTTP:
        return content
    if hire.protocol == MCP:
        return mcp_request(_json(content))
    return a2a_request(input_parts(hire.protocol, TaskInput(content, hire.is_text, hire.name)))


def _rpc_headers(hire: Hire) -> dict[str, str]:
    version = {"A2A-Version": "1.0"} if hire.protocol == "1.0" else {}
    return {"Content-Type": "application/json", "A2B-Task": hire.task, **version}


def _media(task_input: TaskInput) -> dict[str, str]:
    return {"Content-Type": "text/plain; charset=utf-8" if task_input.is_text else "application/octet-stream"}


async def _call_tool(link: AgentLink, hire: Hire, claim: Mapping[str, Any] | None) -> Reply:
    """Open a session of MCP, and call the tool with the input as its arguments."""
    headers = {"Content-Type": "application/json", "A2B-Task": hire.task}
    info = {"protocolVersion": MCP_VERSION, "capabilities": {}, "clientInfo": {"name": "a2b", "version": "1"}}
    opened = await link.post(_request(1, "initialize", info), headers)
    if opened.status != 200:
        return _of_rpc(opened)
    if session := opened.headers.get("mcp-session-id"):
        headers["Mcp-Session-Id"] = session
    version = object_or_empty(object_or_empty(_message(opened)).get("result")).get("protocolVersion")
    headers["MCP-Protocol-Version"] = version if isinstance(version, str) else MCP_VERSION
    await link.post(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode(), headers)
    params = {"name": hire.tool, "arguments": _json(input_of(hire)), "_meta": claim_meta(claim, hire.task)}
    return _of_rpc(await link.post(_request(2, "tools/call", params), headers), of_tool=True)


def _request(number: int, method: str, params: Mapping[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()


def _of_http(reply: HttpReply) -> Reply:
    """The reply of plain HTTP."""
    if (refusal := _refusal(reply, _json(reply.body))) is not None:
        return refusal
    if reply.status >= 400:
        return WorkFailed(f"it answers {reply.status}: {reply.body[:500].decode('utf-8', 'replace')}")
    if reply.status == 202:
        return Working("")
    media = reply.headers.get("content-type", "application/octet-stream")
    return Answered((AnswerPart(media, reply.body),), reply.body, _header_receipt(reply))


def _of_rpc(reply: HttpReply, *, of_tool: bool = False) -> Reply:
    """The reply of JSON-RPC."""
    message = object_or_empty(_message(reply))
    error = object_or_empty(message.get("error"))
    if (refusal := _refusal(reply, error.get("data"))) is not None:
        return refusal
    if error:
        return WorkFailed(f"{error.get('code')}: {str(error.get('message'))[:2_000]}")
    if reply.status >= 400 or "result" not in message:
        return WorkFailed(f"it answers {reply.status}, and not with a result: {reply.body[:300]!a}")
    result = message["result"]
    try:
        return _of_tool(object_or_empty(result)) if of_tool else read_result(result)
    except DocumentError as error:
        return WorkFailed(f"its answer has no RFC 8785 form: {error}")


def _refusal(reply: HttpReply, data: Any) -> Reply | None:
    """The reply of a gate that does not let the call pass; None for any other."""
    stated = object_or_empty(data)
    detail = str(stated.get("detail") or stated.get("error") or f"status {reply.status}")[:2_000]
    if reply.status in _BUSY:
        pause = retry_after(reply.headers.get("retry-after", ""), MAX_PAUSE_SECONDS)
        return Busy(2.0 if pause is None else pause, detail)
    reason = str(stated.get("reason", ""))[:100]
    if reason == NEEDS_FINAL:
        return FinalDue(detail)
    return Declined(reason or "payment-required", detail) if reply.status == 402 else None


def _header_receipt(reply: HttpReply) -> Any:
    text = reply.headers.get(HEADER.lower())
    return None if text is None else from_header(text)


def _of_tool(result: dict[str, Any]) -> Reply:
    parts = list(_contents(result))
    if result.get("isError") is True:
        words = " ".join(part.content.decode("utf-8", "replace") for part in parts if part.media == "text/plain")
        return WorkFailed(words[:2_000] or "the tool reports an error")
    return Answered(parts, answer_bytes(result, MCP_METADATA), receipt_of(result, MCP_METADATA))


def _contents(result: Mapping[str, Any]) -> Iterator[AnswerPart]:
    contents = result.get("content")
    for entry in map(object_or_empty, contents[:1_000] if isinstance(contents, list) else ()):
        if isinstance(entry.get("text"), str):
            yield AnswerPart("text/plain", entry["text"].encode("utf-8", "surrogatepass"))
        else:
            yield AnswerPart("application/json", json.dumps(entry, ensure_ascii=False).encode())
    if "structuredContent" in result:
        yield AnswerPart("application/json", json.dumps(result["structuredContent"], ensure_ascii=False).encode())


def _message(reply: HttpReply) -> Any:
    """The JSON of a body; of a stream of events, the last one with a result or an error."""
    if not reply.headers.get("content-type", "").startswith("text/event-stream"):
        return _json(reply.body)
    messages = [object_or_empty(_json(data)) for data in event_data(reply.body)]
    return next((message for message in reversed(messages) if {"result", "error"} & message.keys()), {})


def _json(body: bytes) -> Any:
    try:
        return strict_json.answer(body)
    except ParseError:
        return None


class ArgumentsError(Exception):
    """The input of a tool is not a JSON object."""


def check_arguments(content: bytes) -> None:
    """Raise ArgumentsError unless an input is a JSON object, as the arguments of a tool are."""
    if not isinstance(_json(content), dict):
        raise ArgumentsError("the input of a tool is a JSON object of its arguments: name a file with --input FILE")
