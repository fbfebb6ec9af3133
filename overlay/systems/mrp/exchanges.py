"""The registry's answers to envelopes: HELLO to HELLO, OFFER to DISCOVER, NEGOTIATE to NEGOTIATE. The registry executes
nothing, so it refuses EXECUTE with the address of the agent. It accepts EVIDENCE that an agent signed of its work. The
signed EXECUTE that this replies to may come with it, as `provenance.request`: its signer becomes the second party."""

from __future__ import annotations

from asyncio import to_thread
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Annotated, Any, NamedTuple

from aiohttp import web

from overlay.api.answers import SERVICES
from overlay.api.base_url import base_url
from overlay.api.executors import PUBLISHING, run_in
from overlay.api.problems import ProblemError
from overlay.api.protocol_requests import find, get
from overlay.api.quote_api import quoted
from overlay.api.request_id import REQUEST_ID
from overlay.api.shared_services import RECEIPTS
from overlay.listings.lookup import ListingNotFoundError
from overlay.systems.mrp import route_offers
from overlay.systems.mrp.authentication import VERIFIED, key_of
from overlay.systems.mrp.envelopes import VERSION, MrpError, checked
from overlay.systems.mrp.provider_registry import MRP
from overlay.systems.mrp.route_offers import RouteId, parse_capability, parse_route
from parsers.claims.canonical_json import DocumentError, base64url_text
from parsers.claims.mrp.artifact_hashes import check_outputs
from parsers.claims.mrp.message_schemas import Discover, Envelope, EvidencePayload, Execute, Hello, MrpObject, Negotiate
from parsers.claims.mrp.signed_envelope import AUTH, SCOPE_DENIED, key_id
from parsers.json_records import ABSENT, least
from parsers.local_hosts import shared_url

_NEVER_STATED = ("policy", "data_residency", "max_latency_ms")
"""Requirements that no listing states: nothing is offered under them."""

_APPLIED = ("max_cost", "currency", "capability")


class _PriceConstraintsJson(MrpObject):
    max_cost: Annotated[int, least(0)] | Annotated[float, least(0)] | None = None
    currency: str = "USD"
    capability: str | None = None


class RouteConstraints(NamedTuple):
    """A highest price with its currency, a capability, and the names of members that cannot be met or were not
    applied."""

    max_cost: str | None
    currency: str
    capability: str | None
    unmet: list[str]
    unapplied: list[str]


def read_constraints(constraints: dict[str, Any]) -> RouteConstraints:
    """The constraints in a payload. `max_cost` is in `currency`, by default USD. Raises BadRequestError."""
    read = checked(_PriceConstraintsJson, constraints)
    unmet = [name for name in _NEVER_STATED if constraints.get(name) not in (None, [])]
    unapplied = [name for name in constraints if name not in (*_APPLIED, *_NEVER_STATED)]
    max_cost = None if read.max_cost is None else _plain(read.max_cost)
    return RouteConstraints(max_cost, read.currency, read.capability, unmet, unapplied[:32])


def _plain(number: float) -> str:
    return format(number, "f") if isinstance(number, int) else format(number, ".12f").rstrip("0").rstrip(".")


_OFFERS = 20
_LONGEST_ROUTE = 2_000
_LEAST_SHARE = 0.5
"""The share of the rarity of an intent's words that a listing must hold to be offered."""
_SERVICES = ("service:", "registry:")
"""How ids of services begin. A message to a service asks about all listings, one to a listing's id about this
listing."""


async def hello(request: web.Request, envelope: Envelope) -> tuple[str, dict[str, Any]]:
    """HELLO: the versions and capabilities of this registry.

    Raises MrpError where the sender supports other versions only.
    """
    requested = checked(Hello, envelope.payload).schemas
    if requested and not any(version.startswith("0.") for version in requested):
        detail = f"none of the versions {', '.join(requested[:8])[:200]} is supported: {VERSION} is"
        raise MrpError("MRP_VERSION_UNSUPPORTED", detail, supported=[VERSION])
    manifest_url, identity = f"{base_url(request)}/mrp/manifest", request.app[SERVICES].identity
    return "HELLO", {
        "schemas": [VERSION], "capabilities": ["registry-search"], "manifest_url": manifest_url,
        "auth_methods": ["signed"] if MRP in request.app else [],
        "proofs": [] if identity is None else [f"mrp:key:{key_id(identity.ed25519)}"],
    }  # fmt: skip


async def discover(request: web.Request, envelope: Envelope) -> tuple[str, dict[str, Any]]:
    """DISCOVER: offers for an intent, an empty list where none is known to meet the requirements.

    The most fitting come first.
    """
    question = checked(Discover, envelope.payload)
    limits, intent = read_constraints(question.constraints), question.intent
    capability, unapplied = limits.capability, limits.unapplied
    max_cost = limits.max_cost
    if (address := parse_capability(intent)) is not None:
        capability, intent, max_cost = address.capability, address.intent, address.budget or max_cost
        unapplied = [*unapplied, *(["format"] if address.format else [])]
    page: dict[str, Any] = {"unapplied": unapplied} if unapplied else {}
    if limits.unmet:
        return "OFFER", {"offers": [], "page": page | {"unmet": limits.unmet}}
    items, total = await _listings(request, envelope, intent, capability, max_cost, limits.currency)
    fitting = [item for item in items if all(route_offers.has_proof(item, proof) for proof in question.proofs_required)]
    base = base_url(request)
    page |= {"limit": _OFFERS} | ({} if question.proofs_required else {"total": total})
    offered = [
        route_offers.offer(base, item, capability or route_offers.best_capability(item, intent)) for item in fitting
    ]
    return "OFFER", {"offers": offered, "page": page}


async def _listings(
    request: web.Request, envelope: Envelope, intent: str, capability: str | None, max_cost: str | None, currency: str
) -> tuple[list[dict[str, Any]], int]:
    receiver = envelope.receiver.id if envelope.receiver is not ABSENT else ""
    if receiver and not receiver.startswith(_SERVICES) and max_cost is None:
        try:
            item = await get(request, receiver)
        except (ListingNotFoundError, ProblemError):
            item = {}
        if "skills" in item and (capability is None or capability in route_offers.capabilities(item)):
            return [item], 1
    priced = [] if max_cost is None else [("maxPrice", max_cost), ("priceCurrency", currency)]
    words = [("q", intent)] if intent else []
    return await with_capability(request, capability, [*words, *priced, ("limit", str(_OFFERS))])


async def with_capability(
    request: web.Request, capability: str | None, pairs: list[tuple[str, str]]
) -> tuple[list[dict[str, Any]], int]:
    """The listings that a search finds, with their total; with a capability those that have a skill of this id, else
    those among the most relevant with a tool of this name."""
    if capability is None:
        page = await find(request, pairs)
        share = page.hits.plan.share
        fitting = [item for item in page.items if share(item.get("lacks", ())) >= _LEAST_SHARE]
        return fitting, page.total if len(fitting) == len(page.items) else len(fitting)
    page = await find(request, [*pairs, ("skillId", capability)])
    if page.total:
        return page.items, page.total
    others = [pair for pair in pairs if pair[0] != "q"]
    page = await find(request, [*others, ("q", capability)])
    items = [item for item in page.items if capability in route_offers.capabilities(item)]
    return items, len(items)


async def negotiate(request: web.Request, envelope: Envelope) -> tuple[str, dict[str, Any]]:
    """NEGOTIATE: whether a route is available under constraints, and its present price.

    Nothing is reserved.
    """
    question = checked(Negotiate, envelope.payload)
    limits = read_constraints(question.constraints)
    route, item = await _route(request, question.route_id)
    if limits.unmet:
        detail = f"the listing does not state {', '.join(limits.unmet)}"
        raise MrpError("MRP_POLICY_VIOLATION", detail, unmet=limits.unmet)
    payload: dict[str, Any] = {"route_id": str(route), "proofs": route_offers.proofs(item)}
    payload["constraints"] = {k: v for k, v in question.constraints.items() if k in ("max_cost", "currency")}
    if not item["offers"]:
        return "NEGOTIATE", payload
    intent = question.payment_intent
    quote = await _quote(request, item, intent, limits)
    for name, bound in (("payment_intent.amount", intent.get("amount")), ("max_cost", limits.max_cost)):
        if bound is not None and "amount" in quote and _decimal(name, bound) < Decimal(quote["amount"]):
            detail = f"{name} is {bound}, below the price of {quote['amount']} {quote['currency']}"
            raise MrpError("MRP_BUDGET_EXCEEDED", detail, quote=quote)
    if not quote["ok"]:
        raise MrpError("MRP_PAYMENT_REQUIRED", f"no quote: {quote['detail']}", quote=quote)
    return "NEGOTIATE", payload | {"payment_intent": quote}


async def _quote(
    request: web.Request, item: dict[str, Any], intent: dict[str, Any], limits: RouteConstraints
) -> dict[str, Any]:
    """The present price of an offer, in the currency of the budget or the payment, or why no price is quoted (`ok`).
    Raises MrpError."""
    config = intent.get("configId") or item["cheapest"]["offerId"]
    currency = intent.get("currency") or (limits.currency if limits.max_cost is not None else None)
    if not isinstance(config, str) or not isinstance(currency, str | None):
        raise MrpError("MRP_INVALID_REQUEST", "payment_intent.configId and .currency are texts")
    parameters = {"id": item["id"], "configId": config} | ({"currency": currency.upper()} if currency else {})
    return await to_thread(quoted, request.app[SERVICES], parameters)


def _decimal(name: str, value: Any) -> Decimal:
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        number = Decimal("NaN")
    if isinstance(value, bool) or not number.is_finite():
        raise MrpError("MRP_INVALID_REQUEST", f"{name} is not a number")
    return number


async def execute(request: web.Request, envelope: Envelope) -> tuple[str, dict[str, Any]]:
    """EXECUTE: refused with the address of the agent, as the registry executes nothing.

    Always raises MrpError.
    """
    route, item = await _route(request, checked(Execute, envelope.payload).route_id, is_current=False)
    protocol = "A2A" if item["type"] == "agent" else "MCP"
    detail = f"this registry executes nothing: ask the {item['type']} itself by {protocol}"
    details = {"endpoint": shared_url(item["url"]), "protocol": protocol, "listing": item["id"], "route_id": str(route)}
    raise MrpError("MRP_POLICY_VIOLATION", detail, **details)


async def _route(request: web.Request, text: str, *, is_current: bool = True) -> tuple[RouteId, dict[str, Any]]:
    """A route and its listing. Raises MrpError for others, and with `is_current` for terms that have changed."""
    route = parse_route(text)
    if route is None:
        raise MrpError("MRP_INVALID_REQUEST", f"route_id {text[:100]!a} is not a route of this registry")
    item = await get(request, route.listing)
    if "skills" not in item:
        raise MrpError("MRP_INVALID_REQUEST", "the route names several servers", servers=item["servers"])
    names = route_offers.capabilities(item)
    if route.capability not in names:
        detail = f"the listing has no capability {route.capability[:100]!a}"
        raise MrpError("MRP_INVALID_REQUEST", detail, capabilities=names[:64])
    now = route_offers.route_id(item, route.capability)
    if is_current and route != now:
        raise MrpError("MRP_INVALID_REQUEST", "the listing was updated since this offer", route_id=str(now))
    return now, item


_CODES = {"not-bound": "MRP_POLICY_VIOLATION", "key-bound": "MRP_POLICY_VIOLATION",
          "too-many": "MRP_POLICY_VIOLATION", AUTH: AUTH,
          SCOPE_DENIED: SCOPE_DENIED}  # fmt: skip


async def evidence(request: web.Request, envelope: Envelope) -> tuple[str, dict[str, Any]]:
    """EVIDENCE: what an agent signed of its work, accepted as a receipt.

    The answer reports what was stored. Raises MrpError.
    """
    intake, verified = request.app.get(RECEIPTS), request.get(VERIFIED)
    if intake is None:
        raise MrpError("MRP_POLICY_VIOLATION", "this server takes no receipts")
    if verified is None:
        raise MrpError(AUTH, "EVIDENCE is signed by the agent that worked: auth.type is signed")
    payload = checked(EvidencePayload, envelope.payload)
    if len(payload.route_id) > _LONGEST_ROUTE:
        raise MrpError("MRP_INVALID_REQUEST", f"route_id has more than {_LONGEST_ROUTE:,} characters")
    keys, document = {verified.key_id: verified.key}, {"envelope": verified.message}
    if isinstance(order := payload.provenance.get("request"), dict):
        signer = await key_of(request, order)
        if keys.setdefault(signer.key_id, signer.key) != signer.key:
            raise MrpError("MRP_INVALID_REQUEST", "two keys have the same key_id: name them differently")
        document["request"] = order
    shown = [{"key_id": id_, "alg": "EdDSA", "public_key": base64url_text(key)} for id_, key in keys.items()]
    route = parse_route(payload.route_id)
    listing = None if route is None else route.listing
    submit = partial(intake.submit, "mrp-evidence", document | {"keys": {"keys": shown}}, listing=listing)
    try:
        hashes = await run_in(request, PUBLISHING, check_outputs, payload.outputs)
        accepted = await run_in(request, PUBLISHING, submit)
    except DocumentError as error:
        raise MrpError(_CODES.get(error.code, "MRP_INVALID_REQUEST"), error.detail, reason=error.code) from None
    stored = accepted.as_json()
    return "EVIDENCE", {
        "route_id": payload.route_id,
        "provenance": {"evidence": stored["document"], "new": stored["new"], "listings": stored["listings"],
                       "hashes_checked": hashes, "request_id": REQUEST_ID.get()},
    }  # fmt: skip
