"""Signed messages: verified by the keys of their issuer, and taken once. Every fault is MRP_AUTH_REQUIRED."""

from __future__ import annotations

import time
from asyncio import to_thread
from collections.abc import Mapping
from typing import Any, NamedTuple

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


class MessageSigner(NamedTuple):
    """Who signed a message: the host of the issuer, and its key."""

    message: dict[str, Any]
    host: str
    key_id: str
    key: bytes


VERIFIED: web.RequestKey[MessageSigner | None] = web.RequestKey("signer of the MRP message")


async def authenticate(request: web.Request, message: dict[str, Any]) -> None:
    """Set `VERIFIED` to who signed a message, None where `auth.type` is not `signed`. Raises MrpError."""
    request[VERIFIED] = None
    auth = message.get("auth")
    if not isinstance(auth, dict) or auth.get("type") != "signed":
        return
    signer, now = await key_of(request, message), time.time_ns()
    rules = EnvelopeRules(keys={signer.key_id: signer.key}, now=now)
    verdict = await to_thread(verify_envelope, message, rules)
    if verdict.error:
        raise MrpError(verdict.error, verdict.detail)
    if not await to_thread(_is_new, _registry(request), signer.host, message, now // _SECOND):
        raise MrpError(AUTH, "the nonce or the msg_id was used before: sign the message again")
    request[VERIFIED] = signer


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
        except (FetchError, ClaimRefusedError) as error:
            raise MrpError(AUTH, f"no keys of the issuer {issuer[:200]!a}: {error}") from None
    if key_id not in published:
        raise MrpError(AUTH, f"the issuer publishes no key {key_id[:100]!a}")
    return MessageSigner(message, host, key_id, published[key_id])


def _registry(request: web.Request) -> MrpRegistry:
    registry = request.app[SERVICES].mrp
    if registry is None:
        raise MrpError(AUTH, "this server verifies no signed messages, as it sends no requests to hosts")
    return registry


def _is_new(registry: MrpRegistry, host: str, message: dict[str, Any], now: int) -> bool:
    """Use the nonce and the id of a message, until it is refused for its age."""
    latest = (instant(message["timestamp"]) or 0) // _SECOND + WINDOW_MS // 1_000
    expires = min((instant(message["expires_at"]) or 0) // _SECOND, latest) + 1
    nonces, scope = registry.nonces(), f"mrp:{host}"
    return all(nonces.use(scope, f"{name}:{message[name]}", now, expires) for name in ("nonce", "msg_id"))
