"""Motebit's relay, read-only: `GET /api/v1/agents/discover`, `GET /api/v1/discover/{id}` and this registry's signed
metadata. Agents are listings with a Motebit identity: their card states one in `x-motebit`, or their host serves a
verified identity file. Discovery also names agents that are registered only with the relay of this server."""

from __future__ import annotations

from asyncio import to_thread
from functools import partial
from typing import Any

from aiohttp import web

from overlay.api import values
from overlay.api.answers import MARKDOWN, SERVICES, conditional, json_answer, markdown
from overlay.api.base_url import base_url
from overlay.api.identity_key import IdentityKey
from overlay.api.parameters import MAX_LIMIT, parameter, read_query, table
from overlay.api.problems import NotFoundError, ProblemError
from overlay.api.protocol_requests import find
from overlay.api.routes import Route
from overlay.api.shared_services import AGENT_RELAY, IDENTITY_FILE
from overlay.api.systems import Parts, Services, SystemApi
from overlay.systems.motebit import agent_rows, market
from overlay.text.compact_json import encode
from parsers.cards.identity_statement import MAX_ID
from parsers.claims.motebit.identifiers import CLAIMED, NONE, VERIFIED, canonical_id, capability_fact, id_fact

_everything = partial(values.one_of, allowed=("all",))

_DISCOVER = table(
    parameter("capability", "The exact id of a capability (skill); of agents without an identity in any case."),
    parameter("motebit_id", "The identity of an agent."),
    parameter("limit", f"Agents: 20; numbers outside 1 to {MAX_LIMIT} are clamped.", market.limited, type="number"),
    parameter(
        "include", "`all`, which a relay takes for silent agents; here none is left out.", _everything, enum=["all"]
    ),
    parameter("unverified", "`true`: also agents without a Motebit identity.", values.truth, type="boolean"),
)


async def discover(request: web.Request) -> web.Response:
    """Agents with a Motebit identity: first those with a verified identity file at their host, last those registered
    only with the relay."""
    query = read_query(request, _DISCOVER)
    limit, capability, motebit_id = query.get("limit", 20), query.get("capability"), query.get("motebit_id")
    groups = [(id_fact(motebit_id),)] if motebit_id is not None else []
    identified = [*groups, (capability_fact(capability),)] if capability is not None else groups
    searches = [(VERIFIED, identified), (CLAIMED, identified)]
    if query.get("unverified") and motebit_id is None:
        searches.append((NONE, [(f"skill:{capability.casefold()}",)] if capability is not None else []))
    base, relay = base_url(request), agent_rows.relay_id(request.app[SERVICES].identity)
    rows: list[dict[str, Any]] = []
    for fact, more in searches:
        if len(rows) < limit:
            is_named, room = motebit_id is not None, limit - len(rows)
            items = await market.live_agents(request, room, (fact,), *more, with_duplicates=is_named)
            rows += [agent_rows.agent(base, item, relay) for item in items]
    rows += await _registered(request, rows, relay, capability, motebit_id)
    return conditional(encode({"agents": rows[:limit]}))


async def _registered(
    request: web.Request, rows: list[dict[str, Any]], relay_id: str, capability: str | None, motebit_id: str | None
) -> list[dict[str, Any]]:
    """The rows of agents that are registered with the relay of this server, where it is one, without agents whose key
    another row has."""
    relay = request.app.get(AGENT_RELAY)
    if relay is None:
        return []
    listed = {(canonical_id(row["motebit_id"] or ""), row["public_key"]) for row in rows}
    if motebit_id is None:
        agents = await to_thread(relay.agents.live, relay.now(), market.MAX_CANDIDATES, capability)
    else:
        agents = list(filter(None, [await to_thread(relay.agents.agent, relay.identity(motebit_id))]))
    return [
        agent_rows.registered(agent, relay_id)
        for agent in agents
        if capability is None or capability in agent.capabilities
        if agent.expires_at > relay.now() and (canonical_id(agent.motebit_id), agent.public_key.hex()) not in listed
    ]


async def resolve(request: web.Request) -> web.Response:
    """Where the agent with an identity is, by its listing, else by its registration with the relay of this server;
    `found` is false where it has neither."""
    motebit_id = request.match_info["id"]
    items = []
    if len(motebit_id) <= MAX_ID:
        for fact in (VERIFIED, CLAIMED):
            items += await market.live_agents(request, 20, (fact,), (id_fact(motebit_id),), with_duplicates=True)
    base, relay = base_url(request), agent_rows.relay_id(request.app[SERVICES].identity)
    rows = agent_rows.best(base, items, relay) or await _registered(request, [], relay, None, motebit_id)
    return conditional(encode(agent_rows.resolution(base, motebit_id, rows, relay)))


async def metadata(request: web.Request) -> web.Response:
    """The metadata of this registry for Motebit agents, signed with its identity key."""
    identity = _identity(request)
    pairs = [("type", "agent"), ("status", "live"), ("limit", "1")]
    count = (await find(request, pairs, facts=((VERIFIED, CLAIMED),))).total
    settles = request.app.get(AGENT_RELAY) is not None
    return conditional(encode(agent_rows.signed(identity, base_url(request), count, settles=settles)))


async def identity_file(request: web.Request) -> web.Response:
    """The identity of this registry, signed with its key, as hosts of agents serve theirs."""
    _identity(request)
    return markdown(request.app[IDENTITY_FILE])


def bring(parts: Parts) -> Services:
    """The identity file of this registry, where it has a key of its own."""
    if parts.identity is None:
        return {}
    return {IDENTITY_FILE: agent_rows.identity_file(parts.identity, parts.settings.public_url)}


def _identity(request: web.Request) -> IdentityKey:
    identity = request.app[SERVICES].identity
    if identity is None:
        raise NotFoundError("this registry has no identity key to sign with: set A2B_IDENTITY_KEY")
    return identity


async def candidates(request: web.Request) -> web.Response:
    """Agents with a capability, ranked by price, by the observer's trust and by the trust of those that the observer
    trusts."""
    return json_answer(await market.candidates(request))


def error_response(_request: web.Request, problem: ProblemError, _request_id: str) -> web.Response:
    """The relay's error: a text in `error`."""
    headers = {"Cache-Control": "no-store", **problem.headers}
    return json_answer({"error": problem.detail, "status": problem.status}, status=problem.status, headers=headers)


_OBJECT = {"type": "object"}
_TEXT = {"type": "string"}
_AGENT = {"required": ["motebit_id", "endpoint_url", "capabilities", "public_key", "identity", "listing"], **_OBJECT}
_SCORE = {**_OBJECT, "description": "RouteScore (v1).",
          "required": ["motebit_id", "composite", "sub_scores", "selected", "trust_level"]}  # fmt: skip
_TOKEN = parameter("Authorization", "`Bearer motebit:TOKEN` of the agent whose trust counts; else this registry's.")


_route = partial(Route, tag="Motebit", error_response=error_response, conditional=True)
API = SystemApi(
    routes=(
        _route("/api/v1/agents/discover", discover, "MotebitAgents", parameters=_DISCOVER),
        _route("/api/v1/discover/{id}", resolve, "MotebitResolution"),
        _route(
            "/api/v1/market/candidates",
            candidates,
            "MotebitCandidates",
            parameters=market.PARAMETERS,
            headers=(_TOKEN,),
            errors=(401,),
            conditional=False,
            limit="costly",
        ),
        _route("/.well-known/motebit.json", metadata, "MotebitRelay", errors=(404,)),
        _route("/.well-known/motebit.md", identity_file, None, media=(MARKDOWN,), errors=(404,)),
    ),
    schemas={
        "MotebitCandidates": {
            **_OBJECT,
            "required": ["observer", "candidates"],
            "properties": {"candidates": {"type": "array", "items": _SCORE}},
        },
        "MotebitAgents": {
            **_OBJECT,
            "required": ["agents"],
            "properties": {"agents": {"type": "array", "items": _AGENT}},
        },
        "MotebitResolution": {
            **_OBJECT,
            "description": "AgentResolutionResult (v1).",
            "required": ["motebit_id", "found", "resolved_via", "cached", "ttl"],
            "properties": {"motebit_id": _TEXT, "found": {"type": "boolean"}, "relay_url": _TEXT, "public_key": _TEXT},
        },
        "MotebitRelay": {
            **_OBJECT,
            "description": "Relay metadata, with an Ed25519 signature (hex) over all other members by RFC 8785.",
            "required": ["protocol_version", "relay_id", "public_key", "endpoint_url", "suite", "signature"],
            "properties": dict.fromkeys(("relay_id", "public_key", "endpoint_url", "suite", "signature"), _TEXT),
        },
    },
    bring=bring,
)
