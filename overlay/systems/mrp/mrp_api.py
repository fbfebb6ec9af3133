"""MRP, the Moltrouter Protocol (0.1): listings as routes to capabilities. HELLO, DISCOVER and NEGOTIATE are answered;
EXECUTE is refused with the address of the agent; the registry's routes serve its clients and other providers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from aiohttp import web

from overlay.api import values
from overlay.api.answers import SERVICES, body, conditional, json_answer
from overlay.api.base_url import base_url
from overlay.api.parameters import WHOLE, parameter, read_query, table
from overlay.api.problems import NotFoundError, ProblemError, listing_problem
from overlay.api.protocol_requests import get
from overlay.api.request_context import CONTEXT
from overlay.api.request_id import REQUEST_ID
from overlay.api.routes import Handler, Route
from overlay.api.systems import SystemApi
from overlay.listings.lookup import ListingHiddenError, ListingNotFoundError
from overlay.systems.mrp import exchanges, registration, route_offers
from overlay.systems.mrp.authentication import authenticate
from overlay.systems.mrp.envelopes import (
    BATCH_MEDIA_TYPE,
    MEDIA_TYPE,
    VERSION,
    MrpError,
    error_payload,
    json_error,
    keys,
    read,
    reply,
    service_id,
    signed,
)
from overlay.systems.mrp.provider_registry import bring
from overlay.text.compact_json import encode
from parsers.cards import strict_json
from parsers.claims.mrp.message_schemas import Envelope, envelope_schema
from parsers.errors import ParseError

MAX_BODY = 256 << 10
MAX_BATCH = 32
MANIFEST_TYPE = "application/mrp-manifest+json"

_MESSAGE: web.RequestKey[Any] = web.RequestKey("MRP message", object)
Exchange = Callable[[web.Request, Envelope], Awaitable[tuple[str, dict[str, Any]]]]


_QUERY = table(
    parameter("capability", "The id of a skill, or the name of a tool."),
    parameter("policy", "A policy that providers state; no listing does."),
    parameter("limit", "Entries a page: 20; others than 1 to 100 are cut to that.", values.whole, **WHOLE),
    parameter("cursor", "The `next_page` of the page before."),
)
_MANIFEST = table(parameter("capability", "One of several capabilities; default: the first."))


async def well_known(request: web.Request) -> web.Response:
    """The offer of this registry to MRP clients."""
    manifest_url = f"{base_url(request)}/mrp/manifest"
    answer = {"mrp_version": VERSION, "capabilities": ["registry-search"], "manifest_url": manifest_url}
    return conditional(encode(answer))


async def own_keys(request: web.Request) -> web.Response:
    """The public key that signs this registry's MRP messages."""
    return conditional(encode(keys(request.app[SERVICES].identity)))


async def own_manifest(request: web.Request) -> web.Response:
    """The manifest of the registry's own capability, search."""
    return _manifest(route_offers.own_manifest(base_url(request), request.app[SERVICES].process.version))


async def manifest(request: web.Request) -> web.Response:
    """The manifest of a capability of a listing; in place of its id, a capability is that of the most relevant one."""
    id_, capability = request.match_info["id"], read_query(request, _MANIFEST).get("capability")
    try:
        item = await get(request, id_)
    except ListingHiddenError:
        raise
    except ListingNotFoundError:
        matches = (await exchanges.with_capability(request, id_, [("limit", "20")]))[0]
        if not matches:
            raise
        item, capability = matches[0], capability or id_
    if "skills" not in item:
        raise NotFoundError(f"this is a config of several servers: {', '.join(item['servers'])[:1_000]}")
    names = route_offers.capabilities(item)
    if capability is not None and capability not in names:
        raise NotFoundError(f"the listing has no capability {capability[:100]!a}")
    return _manifest(route_offers.manifest(base_url(request), item, capability or names[0]))


def _manifest(document: dict[str, Any]) -> web.Response:
    response = conditional(encode(document))
    response.headers["Content-Type"] = MANIFEST_TYPE
    return response


async def query(request: web.Request) -> web.Response:
    """Verified providers, and listings as providers, at least half of a page while there are any; for one capability,
    the most relevant listings."""
    arguments = read_query(request, _QUERY)
    results, next_page = await registration.page(request, arguments)
    return conditional(encode({"mrp_version": VERSION, "next_page": next_page, "results": results}))


def _handler(msg_type: str, exchange: Exchange) -> Handler:
    """The handler of a route for messages of a type."""

    async def answer(request: web.Request) -> web.Response:
        return await _respond(request, msg_type, exchange)

    answer.__doc__ = exchange.__doc__
    return answer


async def _respond(request: web.Request, msg_type: str, exchange: Exchange) -> web.Response:
    """The answer to an envelope, or to each of a batch. An ERROR is answered with HTTP status 200, as clients in use
    read no body of another."""
    try:
        message = strict_json.request(await body(request, MAX_BODY))
    except ParseError as error:
        raise MrpError("MRP_INVALID_REQUEST", f"the body is not JSON: {error}") from None
    request[_MESSAGE] = None
    if not isinstance(message, list):
        return _envelopes(await _answer(request, message, msg_type, exchange), MEDIA_TYPE)
    if not 1 <= len(message) <= MAX_BATCH:
        raise MrpError("MRP_INVALID_REQUEST", f"a batch of {len(message)}: from 1 to {MAX_BATCH} messages are taken")
    answers = []
    for number, entry in enumerate(message):
        if number:
            _take(request)
        answers.append(await _answer(request, entry, msg_type, exchange))
    return _envelopes(answers, BATCH_MEDIA_TYPE)


def _take(request: web.Request) -> None:
    """Count a further message against the client's rate limit. Raises ProblemError."""
    context = request.app[CONTEXT]
    taken = context.take(request, context.routed(request))
    if taken is not None and taken.wait:
        raise ProblemError(
            429, f"too many messages; try again in {taken.wait} s", headers={"Retry-After": str(taken.wait)}
        )


async def _answer(request: web.Request, message: Any, msg_type: str, exchange: Exchange) -> dict[str, Any]:
    request[_MESSAGE] = message
    now = datetime.now(UTC)
    try:
        envelope = read(message, now)
        await authenticate(request, message, envelope)
        if envelope.msg_type != msg_type:
            raise MrpError("MRP_INVALID_REQUEST", f"msg_type is {envelope.msg_type}: here it is {msg_type}")
        answered, payload = await exchange(request, envelope)
    except (ProblemError, ListingNotFoundError) as error:
        problem = error if isinstance(error, ProblemError) else listing_problem(error, base_url(request))
        if problem.status >= 429:
            raise
        answered, payload = "ERROR", error_payload(problem, REQUEST_ID.get())
    return _signed(request, reply(message, service_id(base_url(request)), answered, payload, now), now)


def _signed(request: web.Request, envelope: dict[str, Any], now: datetime) -> dict[str, Any]:
    identity = request.app[SERVICES].identity
    return envelope if identity is None else signed(envelope, base_url(request), identity, now)


def _envelopes(value: Any, media: str) -> web.Response:
    response = json_answer(value)
    response.headers["Content-Type"] = media
    return response


def error_response(request: web.Request, problem: ProblemError, request_id: str) -> web.Response:
    """An ERROR envelope. Its HTTP status is 200 for errors in the message, else that of the problem."""
    payload = error_payload(problem, request_id)
    now = datetime.now(UTC)
    envelope = _signed(request, reply(request.get(_MESSAGE), service_id(base_url(request)), "ERROR", payload, now), now)
    status = 200 if isinstance(problem, MrpError) else problem.status
    response = json_answer(envelope, status=status)
    response.headers["Content-Type"] = MEDIA_TYPE
    return response


_OBJECT = {"type": "object"}
_TEXT = {"type": "string"}
SCHEMAS: dict[str, Any] = {
    "MrpMessage": {
        "description": "An envelope, or a batch of them.",
        "anyOf": [
            {"$ref": "#/components/schemas/MrpEnvelope"},
            {
                "type": "array",
                "items": {"$ref": "#/components/schemas/MrpEnvelope"},
                "minItems": 1,
                "maxItems": MAX_BATCH,
            },
        ],
    },
    "MrpEnvelope": {**envelope_schema("", is_strict=False), "description": "An envelope of MRP 0.1."},
    "MrpRegistryPage": {
        **_OBJECT,
        "required": ["mrp_version", "results"],
        "properties": {"mrp_version": _TEXT, "results": {"type": "array", "items": _OBJECT}},
    },
    "MrpManifest": {**_OBJECT, "required": ["capability_id", "capability", "version", "endpoints"]},
    "MrpKeys": {**_OBJECT, "required": ["keys"], "properties": {"keys": {"type": "array", "items": _OBJECT}}},
    "MrpWellKnown": {**_OBJECT, "required": ["mrp_version", "capabilities", "manifest_url"]},
}


_route = partial(Route, tag="MRP", error_response=json_error, conditional=True)
_registration = partial(
    Route, tag="MRP", method="POST", error_response=json_error, errors=(404,), limit="ingest", action="submit"
)
_exchange = partial(
    Route, answer="MrpMessage", tag="MRP", method="POST", body="MrpMessage", media=(MEDIA_TYPE, BATCH_MEDIA_TYPE),
    error_response=error_response, error_media=MEDIA_TYPE,
)  # fmt: skip
API = SystemApi(
    bring=bring,
    routes=(
        _route("/.well-known/mrp.json", well_known, "MrpWellKnown"),
        _route("/.well-known/mrp-keys.json", own_keys, "MrpKeys"),
        _route("/mrp/manifest", own_manifest, "MrpManifest", media=(MANIFEST_TYPE,)),
        _route(
            "/mrp/manifest/{id}",
            manifest,
            "MrpManifest",
            media=(MANIFEST_TYPE,),
            parameters=_MANIFEST,
            errors=(404, 451),
        ),
        _route("/mrp/registry/query", query, "MrpRegistryPage", parameters=_QUERY),
        _registration("/mrp/registry/submit", registration.submit, "MrpChallenge", body="MrpSubmission"),
        _registration("/mrp/registry/verify", registration.verify, "MrpVerified", body="MrpVerification"),
        _exchange("/mrp/hello", _handler("HELLO", exchanges.hello)),
        _exchange("/mrp/discover", _handler("DISCOVER", exchanges.discover)),
        _exchange("/mrp/negotiate", _handler("NEGOTIATE", exchanges.negotiate)),
        _exchange("/mrp/execute", _handler("EXECUTE", exchanges.execute)),
        _exchange("/mrp/evidence", _handler("EVIDENCE", exchanges.evidence)),
    ),
    schemas=SCHEMAS | registration.REGISTRATION_SCHEMAS,
)
