"""The registry's routes for providers outside the chains: one proves control of the host of its manifest by serving a
text there (HTTP-01), and is listed as long as the manifest is served."""

from __future__ import annotations

import secrets
import time
from asyncio import to_thread
from typing import Any

from aiohttp import web
from pydantic import ConfigDict, Field

from indexer.fetcher.budgets import registrable
from indexer.fetcher.mrp_manifests import CHALLENGE_PATH, ChallengeFailedError, MrpRegistry, challenge_url, meet
from indexer.fetcher.reasons import FetchError
from indexer.store.mrp_providers import CHALLENGE_DURATION, MrpChallenge, MrpProvider, TooManyProvidersError
from overlay.api.answers import SERVICES, body, json_answer
from overlay.api.problems import NotFoundError, ProblemError
from overlay.api.request_bodies import Body, read
from overlay.api.request_context import CONTEXT
from overlay.listings.item_json import timestamp
from overlay.protocols.mrp.envelopes import VERSION, MrpError
from overlay.protocols.mrp.route_offers import provider_entry

MAX_BODY = 16 << 10
_AGAIN = {"Retry-After": "3600"}


class NewProvider(Body):
    """The manifest that a provider wants to be listed."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    manifest_url: str = Field(min_length=1, max_length=2_048)


class ProviderProof(Body):
    """The token of a challenge that the host serves now."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    token: str = Field(min_length=1, max_length=200)


async def submit(request: web.Request) -> web.Response:
    """A challenge to the host of a manifest: what it has to serve, and where, within a day. The earlier one that this
    client had for the same manifest is void."""
    registry = _registry(request)
    wanted, now = read(NewProvider, await body(request, MAX_BODY)), _now()
    try:
        place = await registry.visits.target(wanted.manifest_url)
    except FetchError as error:
        raise MrpError("MRP_INVALID_REQUEST", f"manifest_url: {error}") from None
    challenge = MrpChallenge(
        token=secrets.token_hex(16), client=request.app[CONTEXT].clients.of(request), manifest_url=place.url,
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
    members = {"mrp_version": VERSION, "token": challenge.token, "manifest_url": place.url, "challenge": shown}
    return json_answer(members | {"expires_at": timestamp(challenge.expires_at // 1_000)})


async def verify(request: web.Request) -> web.Response:
    """List the provider whose host serves its challenge, and a manifest."""
    registry = _registry(request)
    token, now = read(ProviderProof, await body(request, MAX_BODY)).token, _now()
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
        wait = {"Retry-After": str(int(error.retry_after or 0) + 1)}
        raise ProblemError(429, str(error), headers=wait) from None
    except TooManyProvidersError as error:
        raise ProblemError(429, str(error), headers=_AGAIN) from None
    return json_answer({"mrp_version": VERSION, "entry": provider_entry(provider)})


def _registry(request: web.Request) -> MrpRegistry:
    registry = request.app[SERVICES].mrp
    if registry is None:
        raise NotFoundError("providers are not verified here: this server sends no requests to hosts")
    return registry


def _now() -> int:
    return time.time_ns() // 1_000_000


async def providers(
    request: web.Request, limit: int, after: str, capability: str | None, policy: str | None
) -> list[MrpProvider]:
    """At most `limit` listed providers after a manifest URL; none where the server verifies none."""
    registry = request.app[SERVICES].mrp
    if registry is None or not (capability or "").isprintable():
        return []

    def page() -> list[MrpProvider]:
        return registry.providers.page(_now(), limit, after, capability=capability, policy=policy)

    return await to_thread(page)


REGISTRATION_SCHEMAS: dict[str, Any] = {
    "MrpSubmission": {
        "type": "object",
        "required": ["manifest_url"],
        "properties": {"manifest_url": {"type": "string", "maxLength": 2_048}},
    },
    "MrpChallenge": {"type": "object", "required": ["mrp_version", "token", "manifest_url", "challenge", "expires_at"]},
    "MrpVerification": {
        "type": "object",
        "required": ["token"],
        "properties": {"token": {"type": "string", "maxLength": 200}},
    },
    "MrpVerified": {
        "type": "object",
        "required": ["mrp_version", "entry"],
        "properties": {"entry": {"type": "object"}},
    },
}
