"""Webhooks: saved searches that send their changes to a URL."""

from __future__ import annotations

import re
import secrets
import time
from asyncio import to_thread
from functools import partial
from hashlib import sha256
from hmac import compare_digest
from operator import attrgetter
from typing import Any
from urllib.parse import urlencode

from aiohttp import hdrs, web
from pydantic import Field

from indexer.fetcher.reasons import FetchError
from overlay.answers.schema_parts import COUNT, TEXT, TIME, array_of, maybe, record
from overlay.api.answers import SERVICES, body, conditional, json_answer
from overlay.api.base_url import base_url
from overlay.api.parameters import SEARCH, table
from overlay.api.parameters import read as read_parameters
from overlay.api.problems import BadRequestError, Fault, NotFoundError, ProblemError, bad_request
from overlay.api.protocol_requests import json_pairs
from overlay.api.request_bodies import Body, body_schemas, read
from overlay.api.request_context import CONTEXT
from overlay.api.routes import Route
from overlay.api.search_request import from_pairs
from overlay.api.services import AppServices
from overlay.api.systems import SystemApi
from overlay.search.planner import required_terms
from overlay.systems.webhooks.delivery_jobs import WEBHOOKS, Webhooks, bring
from overlay.systems.webhooks.store import StoredWebhook, TooManyWebhooksError
from overlay.systems.webhooks.targets import ChallengeError
from overlay.text.compact_json import encode
from overlay.text.timestamps import timestamp

MAX_BODY = 16 << 10
MAX_URL, MAX_SEARCH = 1_024, 2_048
"""Characters of a target, and of a search as a query string."""

MIN_KEY, MAX_KEY = 16, 256
"""Characters of the key by which a target answers the challenge: short ones can be guessed."""

_KEY = re.compile(rf"[!-~]{{{MIN_KEY},{MAX_KEY}}}")

_NAMES = ("q", "type", "skillId", "acceptedCurrency", "interval", "maxPrice", "minPrice", "priceCurrency", "tag",
          "chain", "domain", "owner", "verified", "flagged", "deprecated", "access", "transport", "auth", "protocol",
          "launcher", "streaming", "hasPrice", "free", "payable",
          "minCustomers", "runnable", "reachable", "health", "forSale", "status")  # fmt: skip
_SAVED = table(*map(SEARCH.names.__getitem__, _NAMES))
_narrowing = attrgetter(
    "skills", "currencies", "intervals", "min_price", "max_price", "tags", "chains", "domains", "owners"
)


class NewSubscription(Body):
    """A request for a subscription: the parameters of a search as an object of texts, numbers, booleans and lists of
    these, the URL to report to, and the key with which the target answers the challenge. The key is not stored."""

    url: str
    key: str = Field(json_schema_extra={"pattern": f"^{_KEY.pattern}$"})
    search: dict[str, Any]


async def subscribe(request: web.Request) -> web.Response:
    """Report the listings that meet a search, and their changes, to a URL, which must answer a challenge first."""
    webhooks = _webhooks(request)
    requested = read(NewSubscription, await body(request, MAX_BODY))
    services, client = request.app[SERVICES], request.app[CONTEXT].clients.of(request)
    search = _search(requested.search, services)
    secret = secrets.token_urlsafe(32)
    try:
        await to_thread(webhooks.stored.check_room, client)
        url = await _challenged(webhooks, requested.url, requested.key)
        webhook = StoredWebhook(
            id=secrets.token_hex(12), client=client, url=url, search=search, base=base_url(request),
            secret_sha256=sha256(secret.encode()).digest(), created_at=int(time.time()),
            since_seq=(await to_thread(services.store.changes, 0, 0)).newest_seq,
        )  # fmt: skip
        await to_thread(webhooks.stored.add, webhook)
    except TooManyWebhooksError as error:
        raise ProblemError(429, str(error), headers={"Retry-After": "3600"}) from None
    headers = {"Location": f"/v1/subscriptions/{webhook.id}", "Cache-Control": "no-store"}
    created = {"secret": secret, "publicKey": webhooks.public_key}
    return json_answer(_webhook_json(webhook) | created, status=201, headers=headers)


async def signing_key(request: web.Request) -> web.Response:
    """The public key by which deliveries are verified."""
    return conditional(encode({"publicKey": _webhooks(request).public_key}))


async def subscription_log(request: web.Request) -> web.Response:
    """A subscription and its newest deliveries, for the holder of its secret (`Authorization: Bearer`)."""
    webhook = await _own_webhook(request)
    log = await to_thread(_webhooks(request).stored.log, webhook.id)
    rows = [
        {
            "sequence": delivery.sequence,
            "state": delivery.state,
            "changes": delivery.changes,
            "tries": delivery.tries,
            "outcome": delivery.outcome,
            "createdAt": timestamp(delivery.created_at),
            "triedAt": timestamp(delivery.tried_at),
        }
        for delivery in log
    ]
    return json_answer(_webhook_json(webhook) | {"deliveries": rows})


async def unsubscribe(request: web.Request) -> web.Response:
    """Delete a subscription with its deliveries, for the holder of its secret (`Authorization: Bearer`)."""
    webhook = await _own_webhook(request)
    await to_thread(_webhooks(request).stored.delete, webhook.id)
    return web.Response(status=204)


def _webhooks(request: web.Request) -> Webhooks:
    webhooks = request.app.get(WEBHOOKS)
    if webhooks is None:
        detail = "webhooks are not served here: this server has no identity key, or demonstrates sample blocks"
        raise NotFoundError(detail)
    return webhooks


def _search(members: dict[str, Any], services: AppServices) -> str:
    """A saved search as a query string. Raises BadRequestError naming every fault."""
    pairs = [(name, text) for name, text in json_pairs(members, "/search") if text.strip()]
    _, faults = read_parameters(pairs, _SAVED)
    if faults:
        raise BadRequestError([_located(fault) for fault in faults])
    try:
        request = from_pairs(pairs, services.chains(), services.exchange)
    except BadRequestError as error:
        raise BadRequestError([_located(fault) for fault in error.faults]) from None
    query = request.query
    if not (words := required_terms(query.text)) and query.text.strip():
        raise bad_request("no-words", "q has no words", pointer="/search/q")
    if not words and not any(_narrowing(query)):
        raise bad_request(
            "too-wide",
            "the search needs words, or a filter other than type: for all listings read /v1/changes",
            pointer="/search",
        )
    search = urlencode(pairs)
    if len(search) > MAX_SEARCH:
        raise bad_request(
            "too-long",
            f"as a query string the search has {len(search):,} characters; at most {MAX_SEARCH:,}",
            pointer="/search",
        )
    return search


def _located(fault: Fault) -> Fault:
    return fault._replace(parameter=None, pointer=f"/search/{fault.parameter}" if fault.parameter else "/search")


async def _challenged(webhooks: Webhooks, url: str, key: str) -> str:
    """The URL in canonical form, after its host has answered a challenge. Raises ProblemError."""
    if len(url) > MAX_URL:
        raise bad_request("too-long", f"the URL has {len(url):,} characters; at most {MAX_URL:,}", pointer="/url")
    if not _KEY.fullmatch(key):
        detail = f"the key is {MIN_KEY} to {MAX_KEY} visible ASCII characters, random ones"
        raise bad_request("not-a-key", detail, pointer="/key")
    try:
        checked = await webhooks.targets.check(url)
        await webhooks.targets.challenge(checked, key)
    except ChallengeError as error:
        raise bad_request("challenge-failed", str(error), pointer="/url") from None
    except FetchError as error:
        if error.refusal.code == "fetch-budget":
            wait = {"Retry-After": str(error.wait_seconds)}
            raise ProblemError(429, str(error), headers=wait) from None
        raise bad_request(error.refusal.code, f"the target cannot be reached: {error}", pointer="/url") from None
    return checked


async def _own_webhook(request: web.Request) -> StoredWebhook:
    """The subscription of a request that has its secret. Raises NotFoundError, and ProblemError (403)."""
    id_ = request.match_info["subscription"]
    webhook = await to_thread(_webhooks(request).stored.get, id_)
    if webhook is None:
        raise NotFoundError(f"there is no subscription {id_[:100]!a}")
    scheme, _, secret = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
    digest = sha256(secret.strip().encode("utf-8", "surrogateescape")).digest()
    if scheme.lower() != "bearer" or not compare_digest(digest, webhook.secret_sha256):
        raise ProblemError(403, "this needs the secret of the subscription: Authorization: Bearer SECRET")
    return webhook


def _webhook_json(webhook: StoredWebhook) -> dict[str, Any]:
    return {
        "id": webhook.id,
        "url": webhook.url,
        "search": webhook.search,
        "state": "active" if webhook.ended_at is None else "ended",
        "reason": webhook.reason or None,
        "createdAt": timestamp(webhook.created_at),
        "endedAt": timestamp(webhook.ended_at),
        "sequence": webhook.sequence,
        "failingSince": timestamp(webhook.failing_since),
        "nextAt": timestamp(webhook.next_at),
    }


_MEMBERS = {
    "id": TEXT, "url": TEXT, "search": TEXT, "state": {"enum": ["active", "ended"]}, "reason": maybe(TEXT),
    "createdAt": TIME, "endedAt": maybe(TIME), "sequence": COUNT, "failingSince": maybe(TIME), "nextAt": maybe(TIME),
}  # fmt: skip
_DELIVERY = record(
    {
        "sequence": COUNT, "state": {"enum": ["waiting", "delivered", "dropped"]}, "changes": COUNT, "tries": COUNT,
        "outcome": TEXT, "createdAt": TIME, "triedAt": maybe(TIME),
    }
)  # fmt: skip
_route = partial(Route, tag="feeds", errors=(404,))
_PATH = "/v1/subscriptions/{subscription}"
API = SystemApi(
    bring=bring,
    routes=(
        _route("/v1/subscriptions", subscribe, "CreatedSubscription", method="POST", body="NewSubscription",
               status=201, limit="ingest"),
        _route("/v1/subscriptions", signing_key, "SigningKey", conditional=True),
        _route(_PATH, subscription_log, "Subscription", errors=(403, 404)),
        _route(_PATH, unsubscribe, None, method="DELETE", media=(), status=204, errors=(403, 404), limit="ingest"),
    ),
    schemas={
        **body_schemas({"NewSubscription": NewSubscription}),
        "CreatedSubscription": record(_MEMBERS | {"secret": TEXT, "publicKey": TEXT}),
        "SigningKey": record({"publicKey": TEXT}),
        "Subscription": record(_MEMBERS | {"deliveries": array_of(_DELIVERY)}),
    },
)  # fmt: skip
