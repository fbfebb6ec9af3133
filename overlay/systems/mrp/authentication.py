"""Authentication of messages: the sender, the actions that the scopes allow, and protection against replay.

Signed messages are verified by the keys of their issuer. Every fault is MRP_AUTH_REQUIRED, a missing scope
MRP_SCOPE_DENIED. Nonces and ids of signed messages are stored. Unsigned messages can be repeated by anyone under
another id: their latest ids are in memory shared by all processes, and a repeated one is MRP_INVALID_REQUEST.
"""

from __future__ import annotations

import time
from asyncio import to_thread
from collections.abc import Mapping
from typing import Any, NamedTuple

from aiohttp import web

from indexer.fetcher.reasons import FetchError
from overlay.api.answers import SERVICES
from overlay.api.base_url import base_url
from overlay.api.request_context import CONTEXT
from overlay.systems.mrp.envelopes import MrpError, keys, service_id
from overlay.systems.mrp.provider_registry import MRP, MrpRegistry
from parsers.claims.canonical_json import DocumentError
from parsers.claims.mrp.message_schemas import Envelope
from parsers.claims.mrp.signed_envelope import (
    AUTH,
    INVALID,
    SCOPE_DENIED,
    WINDOW_MS,
    EnvelopeRules,
    check_scope,
    mrp_keys,
    scope_of,
    verify_envelope,
)
from parsers.claims.rfc3339 import instant
from parsers.claims.verdict import SKEW_MS

_SECOND = 1_000_000_000
_WINDOW_SECONDS = (WINDOW_MS + SKEW_MS) / 1_000
"""How long a message's timestamp may be good."""


class MessageSigner(NamedTuple):
    """The signer of a message: the host of the issuer, and its key."""

    message: dict[str, Any]
    host: str
    key_id: str
    key: bytes


VERIFIED: web.RequestKey[MessageSigner | None] = web.RequestKey("signer of the MRP message")


async def authenticate(request: web.Request, message: dict[str, Any], envelope: Envelope) -> None:
    """Set `VERIFIED` to the signer of a message, None where `auth.type` is not `signed`. Raises MrpError."""
    request[VERIFIED] = None
    try:
        if envelope.is_signed:
            request[VERIFIED] = await _signer(request, message)
        else:
            check_scope(envelope.msg_type, envelope.scopes)
            _take_unsigned(request, envelope)
    except DocumentError as error:
        details = {"required_scopes": [scope_of(envelope.msg_type)]} if error.code == SCOPE_DENIED else {}
        raise MrpError(error.code, error.detail, **details) from None


def _take_unsigned(request: web.Request, envelope: Envelope) -> None:
    ids, now = request.app[CONTEXT].counters.messages, time.monotonic()
    slot = ids.slot(0, f"{envelope.sender.id!a} {envelope.msg_id!a}", now)
    if ids.full_at(slot) > now:
        raise DocumentError(INVALID, f"the msg_id {envelope.msg_id!a} was used before")
    ids.set_full_at(slot, now + _WINDOW_SECONDS)


async def _signer(request: web.Request, message: dict[str, Any]) -> MessageSigner:
    """The signer of a message that is verified and new. Raises MrpError, DocumentError."""
    signer = await key_of(request, message)
    rules = EnvelopeRules(keys={signer.key_id: signer.key}, now=time.time_ns())
    verdict = await to_thread(verify_envelope, message, rules)
    if verdict.error:
        raise DocumentError(verdict.error, verdict.detail)
    if not await to_thread(_is_new, _registry(request), signer.host, message):
        raise MrpError(AUTH, "the nonce or the msg_id was used before: sign the message again")
    return signer


async def key_of(request: web.Request, message: dict[str, Any]) -> MessageSigner:
    """The key that a signed message names: this server's own, or one that the issuer publishes. The signature is not
    verified. Raises MrpError."""
    auth = message.get("auth")
    members: dict[str, Any] = auth if isinstance(auth, dict) else {}
    issuer, signature = members.get("issuer"), members.get("signature")
    key_id = signature.get("key_id") if isinstance(signature, dict) else None
    if not isinstance(issuer, str) or not isinstance(key_id, str):
        raise MrpError(AUTH, "auth needs issuer, an origin such as https://agent.example, and signature.key_id")
    registry, base = _registry(request), base_url(request)
    published: Mapping[str, bytes]
    if issuer == base:
        host, published = service_id(base), mrp_keys(keys(request.app[SERVICES].identity))
    else:
        try:
            host, published = await registry.issuer_keys.get(issuer, key_id)
        except (FetchError, DocumentError) as error:
            raise MrpError(AUTH, f"no keys of the issuer {issuer[:200]!a}: {error}") from None
    if key_id not in published:
        raise MrpError(AUTH, f"the issuer publishes no key {key_id[:100]!a}")
    return MessageSigner(message, host, key_id, published[key_id])


def _registry(request: web.Request) -> MrpRegistry:
    registry = request.app.get(MRP)
    if registry is None:
        raise MrpError(AUTH, "this server verifies no signed messages, as it sends no requests to hosts")
    return registry


def _is_new(registry: MrpRegistry, host: str, message: dict[str, Any]) -> bool:
    """Use the nonce and the id of a message, until it is refused for its age."""
    latest = (instant(message["timestamp"]) or 0) // _SECOND + WINDOW_MS // 1_000
    expires = min((instant(message["expires_at"]) or 0) // _SECOND, latest) + 1
    nonces, scope = registry.nonces(), f"mrp:{host}"
    return all(nonces.use(scope, f"{name}:{message[name]}", expires) for name in ("nonce", "msg_id"))
