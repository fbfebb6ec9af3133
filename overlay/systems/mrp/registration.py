"""The registry's routes for providers outside the chains. A provider proves control of the host of its manifest by
serving a text there (HTTP-01), and is listed as long as the manifest is served. A page of the registry's query has
verified providers, then listings. Providers fill at most half of a page as long as listings follow, so neither hides
the other."""

from __future__ import annotations

import secrets
import time
from asyncio import to_thread
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from aiohttp import web
from pydantic import Field

from indexer.fetcher.budgets import registrable
from indexer.fetcher.reasons import FetchError
from overlay.api.answers import body, json_answer
from overlay.api.base_url import base_url
from overlay.api.problems import NotFoundError, ProblemError, bad_request
from overlay.api.protocol_requests import find
from overlay.api.request_bodies import OpenBody, body_schemas, read_strictly
from overlay.api.request_context import CONTEXT
from overlay.systems.mrp import exchanges, route_offers
from overlay.systems.mrp.envelopes import VERSION, MrpError
from overlay.systems.mrp.mrp_manifests import CHALLENGE_PATH, ChallengeFailedError, challenge_url, meet
from overlay.systems.mrp.provider_registry import MRP, MrpRegistry
from overlay.systems.mrp.route_offers import provider_entry
from overlay.systems.mrp.store import CHALLENGE_DURATION, MrpChallenge, MrpProvider, TooManyProvidersError
from overlay.text.timestamps import timestamp
from parsers.claims.canonical_json import DocumentError, base64url_text, from_base64url

MAX_BODY = 16 << 10
_AGAIN = {"Retry-After": "3600"}


class NewProvider(OpenBody):
    """The manifest that a provider submits."""

    manifest_url: str = Field(min_length=1, max_length=2_048)


class ProviderProof(OpenBody):
    """The token of a challenge that the host serves now."""

    token: str = Field(min_length=1, max_length=200)


async def submit(request: web.Request) -> web.Response:
    """A challenge to the host of a manifest: the text that it must serve, and where, within a day. The earlier one that
    this client had for the same manifest is void."""
    registry = _registry(request)
    provider, now = read_strictly(NewProvider, await body(request, MAX_BODY)), _now()
    try:
        target = await registry.visits.target(provider.manifest_url)
    except FetchError as error:
        raise MrpError("MRP_INVALID_REQUEST", f"manifest_url: {error}") from None
    challenge = MrpChallenge(
        token=secrets.token_hex(16), client=request.app[CONTEXT].clients.of(request), manifest_url=target.url,
        expected=secrets.token_urlsafe(32), expires_at=now + CHALLENGE_DURATION,
    )  # fmt: skip
    try:
        await to_thread(registry.providers.open_challenge, challenge, now)
    except TooManyProvidersError as error:
        raise ProblemError(429, str(error), headers=_AGAIN) from None
    shown = {
        "type": "http-01",
        "expected": challenge.expected,
        "path": f"{CHALLENGE_PATH}{challenge.token}",
        "url": await challenge_url(registry.visits, challenge),
    }
    members = {"mrp_version": VERSION, "token": challenge.token, "manifest_url": target.url, "challenge": shown}
    return json_answer(members | {"expires_at": timestamp(challenge.expires_at // 1_000)})


async def verify(request: web.Request) -> web.Response:
    """List the provider that serves its challenge and a manifest."""
    registry = _registry(request)
    token, now = read_strictly(ProviderProof, await body(request, MAX_BODY)).token, _now()
    challenge = await to_thread(registry.providers.challenge, token, now) if token.isprintable() else None
    if challenge is None:
        raise NotFoundError("no challenge is open with this token: submit the manifest again")
    try:
        host, manifest = await meet(registry.visits, challenge)
        provider = MrpProvider(challenge.manifest_url, host, manifest, now)
        await to_thread(registry.providers.add, provider, registrable(host), token)
    except ChallengeFailedError as error:
        url = await challenge_url(registry.visits, challenge)
        raise MrpError("MRP_INVALID_REQUEST", str(error), challenge_url=url, expected=challenge.expected) from None
    except FetchError as error:
        wait = {"Retry-After": str(error.wait_seconds)}
        raise ProblemError(429, str(error), headers=wait) from None
    except TooManyProvidersError as error:
        raise ProblemError(429, str(error), headers=_AGAIN) from None
    return json_answer({"mrp_version": VERSION, "entry": provider_entry(provider)})


def _registry(request: web.Request) -> MrpRegistry:
    registry = request.app.get(MRP)
    if registry is None:
        raise NotFoundError("providers are not verified here: this server sends no requests to hosts")
    return registry


def _now() -> int:
    return time.time_ns() // 1_000_000


async def _providers(
    request: web.Request, limit: int, after: str, capability: str | None, policy: str | None
) -> list[MrpProvider]:
    """At most `limit` listed providers after a manifest URL; none where the server verifies none."""
    registry = request.app.get(MRP)
    if registry is None or not (capability or "").isprintable():
        return []
    return await to_thread(registry.providers.page, _now(), limit, after, capability=capability, policy=policy)


REGISTRATION_SCHEMAS: dict[str, Any] = {
    **body_schemas({"MrpSubmission": NewProvider, "MrpVerification": ProviderProof}),
    "MrpChallenge": {"type": "object", "required": ["mrp_version", "token", "manifest_url", "challenge", "expires_at"]},
    "MrpVerified": {
        "type": "object",
        "required": ["mrp_version", "entry"],
        "properties": {"entry": {"type": "object"}},
    },
}


MAX_PAGE = 100
_END = "-"
"""The part of a cursor for a list that has ended."""


async def page(request: web.Request, arguments: Mapping[str, Any]) -> tuple[list[dict[str, Any]], str | None]:
    """The entries of a page, and the cursor of the next one. A cursor is the mark of its question, the last
    provider of its page (base64url) and the cursor of the listings, joined by dots. Raises BadRequestError."""
    limit, capability, policy = arguments.get("limit", 20), arguments.get("capability"), arguments.get("policy")
    limit = min(max(limit, 1), MAX_PAGE)
    mark = base64url_text(sha256(f"{capability!a} {policy!a}".encode()).digest()[:8])
    after, cursor = _read(arguments.get("cursor", f"{mark}.."), mark)
    entries = [] if after is None else await _providers(request, limit + 1, after, capability, policy)
    listed: list[dict[str, Any]] = []
    following = None
    if policy is None and cursor is not None:
        room = max(limit // 2, limit - len(entries))
        listed, following = await _listings(request, room, capability, cursor)
    shown = entries[: limit - len(listed)]
    results = [route_offers.provider_entry(provider) for provider in shown]
    results += [route_offers.entry(base_url(request), item, capability) for item in listed]
    last = base64url_text(shown[-1].manifest_url.encode()) if len(shown) < len(entries) else _END
    if last == _END and following is None:
        return results, None
    return results, f"{mark}.{last}.{_END if following is None else following}"


async def _listings(
    request: web.Request, limit: int, capability: str | None, cursor: str
) -> tuple[list[dict[str, Any]], str | None]:
    """Listings and the cursor after them; with a capability by relevance, and on one page only."""
    if not limit:
        return [], cursor
    pairs = [("limit", str(limit)), *([("cursor", cursor)] if cursor else [])]
    if capability is not None:
        return (await exchanges.with_capability(request, capability, pairs))[0], None
    newest = await find(request, [*pairs, ("sort", "-created")])
    return newest.items, newest.next_cursor


def _read(cursor: str, mark: str) -> tuple[str | None, str | None]:
    """The provider before the page ("" for the first page), and the cursor of listings; None for a finished part."""
    question, _, position = cursor.partition(".")
    last, dot, listings = position.partition(".")
    try:
        after = None if last == _END else from_base64url(last).data.decode("ascii")
    except (DocumentError, ValueError):
        after, dot = None, ""
    if not dot or not (after or "").isprintable():
        raise bad_request("bad-cursor", f"{cursor[:100]!a} is not a cursor of this registry", "cursor")
    if question != mark:
        detail = "the cursor belongs to another capability or policy: repeat those of its page"
        raise bad_request("bad-cursor", detail, "cursor")
    return after, None if listings == _END else listings
