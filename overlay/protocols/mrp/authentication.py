"""Signed messages: verified by the keys of their issuer, and taken once. Every fault is MRP_AUTH_REQUIRED."""

from __future__ import annotations

import time
from asyncio import to_thread
from typing import Any

from aiohttp import web

from indexer.fetcher.mrp_manifests import MrpRegistry
from indexer.fetcher.reasons import FetchError
from overlay.api.answers import SERVICES
from overlay.api.base_url import base_url
from overlay.protocols.mrp.envelopes import MrpError, keys, service_id
from parsers.claims.canonical_json import ClaimRefusedError
from parsers.claims.mrp.signed_envelope import AUTH, WINDOW_MS, EnvelopeRules, mrp_keys, verify_envelope
from parsers.claims.rfc3339 import instant

_SECOND = 1_000_000_000


async def authenticate(request: web.Request, message: dict[str, Any]) -> str:
    """The host whose key signed a message, "" where `auth.type` is not `signed`. Raises MrpError."""
    auth = message.get("auth")
    if not isinstance(auth, dict) or auth.get("type") != "signed":
        return ""
    registry, now = request.app[SERVICES].mrp, time.time_ns()
    if registry is None:
        raise MrpError(AUTH, "this server verifies no signed messages, as it sends no requests to hosts")
    host, issuer_keys = await _keys(request, registry, auth)
    verdict = await to_thread(verify_envelope, message, EnvelopeRules(keys=issuer_keys, now=now))
    if verdict.error:
        raise MrpError(verdict.error, verdict.detail)
    if not await to_thread(_is_new, registry, host, message, now // _SECOND):
        raise MrpError(AUTH, "the nonce or the msg_id was used before: sign the message again")
    return host


async def _keys(request: web.Request, registry: MrpRegistry, auth: dict[str, Any]) -> tuple[str, Any]:
    """The host of the issuer and its keys: this server's own, or those that the issuer publishes."""
    issuer, signature = auth.get("issuer"), auth.get("signature")
    key_id = signature.get("key_id") if isinstance(signature, dict) else None
    if not isinstance(issuer, str) or not isinstance(key_id, str):
        raise MrpError(AUTH, "auth needs issuer, an origin such as https://agent.example, and signature.key_id")
    base = base_url(request)
    if issuer == base:
        return service_id(base), mrp_keys(keys(request.app[SERVICES].identity))
    try:
        return await registry.issuer_keys.get(issuer, key_id)
    except (FetchError, ClaimRefusedError) as error:
        raise MrpError(AUTH, f"no keys of the issuer {issuer[:200]!a}: {error}") from None


def _is_new(registry: MrpRegistry, host: str, message: dict[str, Any], now: int) -> bool:
    """Use the nonce and the id of a message, until it is refused for its age."""
    latest = (instant(message["timestamp"]) or 0) // _SECOND + WINDOW_MS // 1_000
    expires = min((instant(message["expires_at"]) or 0) // _SECOND, latest) + 1
    nonces, scope = registry.nonces(), f"mrp:{host}"
    return all(nonces.use(scope, f"{name}:{message[name]}", now, expires) for name in ("nonce", "msg_id"))
