"""Capability tokens of DelegateOS in MCP messages (§11): in the header `Authorization`, or in `params._delegateos`.

A message is read once: the token is checked and removed, and the tools get the rest, serialised again. A refusal is the
JSON-RPC error -32001 with the denial as its data. A call of a tool is charged one unit, and `tools/list` shows what the
token grants. Messages without a token are answered as before.
"""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from overlay.api.answers import json_answer
from overlay.listings.ids import parse_id
from overlay.systems.delegateos import delegateos_messages
from overlay.systems.delegateos.delegated_access import (
    NAMESPACE,
    Access,
    DelegatedAccess,
    bearer_token,
    delegated_access,
    denial_json,
)
from overlay.text.compact_json import encode
from parsers.claims.delegateos.capability_token import FORMAT, TokenDeniedError
from parsers.json_records import object_or_empty

DENIED = -32001
_GRANTED: web.RequestKey[Access] = web.RequestKey("granted access", Access)
_MAX_ID = 2_000
_ACTION = "search"
"""The action that all tools of this registry are."""


async def take_token(
    request: web.Request, message: Any, document: bytes, tools: Mapping[str, bool]
) -> bytes | web.Response:
    """The message in a document, with its token checked and removed; or the response where the token is refused, or
    where the message is one of DelegateOS. `tools` maps each tool to whether it acts on a listing."""
    if not isinstance(message, dict):
        return encode(message)
    params = object_or_empty(message.get("params"))
    try:
        text, contract_id = _token(request, params.pop("_delegateos", None))
        if text is not None:
            access = delegated_access(request)
            request[_GRANTED] = await to_thread(_authorize, access, text, contract_id, message, tools)
    except TokenDeniedError as error:
        refusal = {"code": DENIED, "message": "DCT verification failed", "data": denial_json(error)}
        return json_answer({"jsonrpc": "2.0", "id": message.get("id"), "error": refusal})
    if str(message.get("method")) in delegateos_messages.METHODS:
        return await delegateos_messages.answer(request, message, document)
    return encode(message)


def _token(request: web.Request, meta: Any) -> tuple[str | None, str | None]:
    """The token that a message presents, and the contract that it names. Raises TokenDeniedError."""
    header = bearer_token(request)
    if meta is None:
        return header, None
    if not isinstance(meta, dict) or not isinstance(text := meta.get("dct"), str):
        raise TokenDeniedError("malformed_token", "_delegateos is an object with a token in dct")
    if meta.get("format", FORMAT) != FORMAT:
        raise TokenDeniedError("malformed_token", f"the format is not {FORMAT}")
    if header not in (None, text):
        raise TokenDeniedError("malformed_token", "the header Authorization has another token than _delegateos")
    contract_id = meta.get("contractId")
    return text, contract_id if isinstance(contract_id, str) else None


def _authorize(
    access: DelegatedAccess, text: str, contract_id: str | None, message: dict[str, Any], tools: Mapping[str, bool]
) -> Access:
    granted = access.verify(text, contract_id)
    params = object_or_empty(message.get("params"))
    if message.get("method") == "tools/call" and str(params.get("name")) in tools:
        names, id_ = [f"tool:{params['name']}"], object_or_empty(params.get("arguments")).get("id")
        if tools[params["name"]] and isinstance(id_, str) and len(id_) <= _MAX_ID:
            names.append(parse_id(id_)[0])
        granted.check(_ACTION, names)
        access.charge(granted)
    return granted


def is_visible(request: web.Request, tool: str, on_listing: bool, /) -> bool:
    """Whether `tools/list` shows a tool to the holder of a token: where the token may grant a call of it."""
    granted = request.get(_GRANTED)
    if granted is None:
        return True
    try:
        granted.check(_ACTION, [f"tool:{tool}"])
    except TokenDeniedError:
        # a capability on listings grants the tools that take a listing
        return on_listing and any(
            capability["namespace"] in (NAMESPACE, "*")
            and capability["action"] in (_ACTION, "*")
            and not capability["resource"].startswith("tool:")
            for capability in granted.steps[-1].capabilities
        )
    return True
