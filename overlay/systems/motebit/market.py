"""Candidates for a task: agents with a Motebit identity, ranked by how far an observer trusts them (market@1.0)."""

from __future__ import annotations

import time
from asyncio import to_thread
from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from aiohttp import web

from overlay.api import values
from overlay.api.parameters import MAX_LIMIT, parameter, read_query, table
from overlay.api.problems import NotFoundError, ProblemError
from overlay.api.protocol_requests import find
from overlay.api.shared_services import AGENT_RELAY, TRUST
from overlay.api.signed_requests import signed_request
from parsers.claims.canonical_json import DocumentError
from parsers.claims.motebit.bearer_token import MAX_BYTES, PREFIX, check_bound, stated_identity, verify_token
from parsers.claims.motebit.identifiers import CLAIMED, VERIFIED, binding, canonical_id, capability_fact, id_fact
from parsers.claims.motebit.route_ranking import LATENCY_MS, PathWeight, RankedRoute, RouteCandidate, rank
from parsers.claims.motebit.settlement import MAX_PRICE
from parsers.claims.motebit.trust_graph import ANYBODY, EdgePair, TrustEdge

if TYPE_CHECKING:
    from overlay.api.shared_services import AgentRelay, TrustReader

AUDIENCE = "market:query"
MAX_CANDIDATES = 200
"""Agents that are ranked: first those with an identity file served by their host, then those registered with the
relay."""

_budget = partial(values.clamped, low=0, high=MAX_PRICE)
limited = partial(values.clamped, low=1, high=MAX_LIMIT)
"""The number of entries in a text, at most as many as a page has."""

PARAMETERS = table(
    parameter("capability", "The exact id of a capability (skill).", required=True),
    parameter("max_budget", "What a task may cost, in satoshis.", _budget, type="number"),
    parameter("limit", f"Candidates: 20; numbers outside 1 to {MAX_LIMIT} are clamped.", limited, type="number"),
)


class _Observer(NamedTuple):
    """The observer: its key (hex), `ANYBODY` for this registry, and its identity, "" without one."""

    key: str
    motebit_id: str


class _Agent(NamedTuple):
    """An agent that may take the task: its key (hex), "" where nothing binds one to its identity; its price, 0 for
    none."""

    motebit_id: str
    key: str
    price: int


async def candidates(request: web.Request) -> dict[str, Any]:
    """The answer: RouteScores (v1), the best first. Raises ProblemError."""
    query = read_query(request, PARAMETERS)
    observer = await _observer(request)
    agents = await _agents(request, query["capability"])
    trust = request.app.get(TRUST)
    if trust is None:
        raise NotFoundError("this server has no trust graph")
    edges = await to_thread(_edges, trust, request.app.get(AGENT_RELAY), observer, agents)
    blocked = await to_thread(trust.blocked)
    routes = _ranked(edges, blocked, observer.key, agents, query["capability"], query.get("max_budget"))
    rows = [_row(route, direct, number == 0) for number, (route, direct) in enumerate(routes[: query.get("limit", 20)])]
    return {"observer": observer.key or None, "candidates": rows}


def _edges(
    graph: TrustReader, relay: AgentRelay | None, observer: _Observer, agents: Mapping[str, _Agent]
) -> dict[EdgePair, TrustEdge]:
    """The edges from the observer and these agents to these agents. Receipts and the tasks that this relay settled both
    give edges, perhaps for the same tasks: the edge from more tasks is used."""
    keys = {agent.key for agent in agents.values() if agent.key}
    edges = graph.edges({observer.key, *keys}, keys)
    if relay is None:
        return edges
    keys_of = {id_: agent.key for id_, agent in agents.items()} | {observer.motebit_id: observer.key}
    registered = {id_: key.hex() for id_, key in relay.agents.keys(keys_of).items()}
    current = {id_: key for id_, key in registered.items() if key == keys_of[id_]}
    for (submitter, worker), trust in relay.tasks.trust(current).items():
        pair = EdgePair(current[submitter], current[worker])
        if pair.observer != pair.worker and trust.tasks >= edges.get(pair, TrustEdge()).tasks:
            edges[pair] = trust
    return edges


def _ranked(
    edges: Mapping[EdgePair, TrustEdge], blocked: Collection[str], observer: str, agents: Mapping[str, _Agent],
    capability: str, budget: int | None,
) -> list[tuple[RankedRoute, TrustEdge]]:  # fmt: skip
    trusted = {
        id_: TrustEdge("blocked") if agent.key in blocked else edges.get(EdgePair(observer, agent.key), TrustEdge())
        for id_, agent in agents.items()
    }
    of_key = {agent.key: agent for agent in agents.values() if agent.key}
    paths = [
        (of_key[pair.observer].motebit_id, of_key[pair.worker].motebit_id,
         PathWeight(direct.trust, of_key[pair.worker].price, LATENCY_MS, direct.rate, 0.0))
        for pair, direct in edges.items()
        if pair.observer in of_key and pair.worker not in blocked
    ]  # fmt: skip
    offered = frozenset((capability,))
    ranked = rank(
        [
            RouteCandidate(agent.motebit_id, trusted[id_].trust, trusted[id_].rate, agent.price, LATENCY_MS, offered)
            for id_, agent in agents.items()
        ],
        offered, budget, paths,
    )  # fmt: skip
    return [(route, trusted[route.identity]) for route in ranked]


def _row(route: RankedRoute, direct: TrustEdge, is_first: bool) -> dict[str, Any]:
    """A RouteScore and the direct edge at its start. `selected` marks the best one."""
    return {
        "motebit_id": route.identity, "composite": route.composite, "sub_scores": dict(route.scores),
        "selected": is_first, "trust_level": direct.level, "successful_tasks": direct.successes,
        "failed_tasks": direct.failures,
    }  # fmt: skip


async def live_agents(
    request: web.Request, limit: int, *facts: tuple[str, ...], with_duplicates: bool = False
) -> list[dict[str, Any]]:
    """The live agents with these facts, the oldest listing first."""
    pairs = [("type", "agent"), ("status", "live"), ("sort", "-created"), ("limit", str(limit))]
    return (await find(request, pairs, with_duplicates=with_duplicates, facts=facts)).items


async def _agents(request: web.Request, capability: str) -> dict[str, _Agent]:
    """Agents with a capability by their identity: of several listings with one the best proved."""
    agents: dict[str, _Agent] = {}
    relay = request.app.get(AGENT_RELAY)
    registered = [] if relay is None else await to_thread(relay.agents.live, relay.now(), MAX_CANDIDATES, capability)
    for fact in (VERIFIED, CLAIMED):
        for item in await live_agents(request, MAX_LIMIT, (fact,), (capability_fact(capability),)):
            identity = item["motebit"]
            id_ = canonical_id(identity["id"]) or identity["id"]
            agents.setdefault(id_, _Agent(id_, _bound_key(identity), 0))
        for agent in registered if fact == VERIFIED else []:
            stored = agents.get(agent.motebit_id)
            if stored is None or stored.key == agent.public_key.hex():
                price = agent.prices.get(capability, 0)
                agents[agent.motebit_id] = _Agent(agent.motebit_id, agent.public_key.hex(), price)
    return dict(list(agents.items())[:MAX_CANDIDATES])


def _bound_key(identity: Mapping[str, Any]) -> str:
    """The key of an identity where its host serves it or the identity is derived from it: any card can name others."""
    is_bound = identity["verified"] or binding(identity["id"], bytes.fromhex(identity["publicKey"]), {}) == "sovereign"
    return str(identity["publicKey"]) if is_bound else ""


async def _observer(request: web.Request) -> _Observer:
    """The token's agent; `ANYBODY` without a token. Raises ProblemError (401)."""
    signed = await signed_request(request, MAX_BYTES)
    if not signed.authorization:
        return _Observer(ANYBODY, "")
    try:
        if not signed.authorization.startswith(PREFIX):
            raise DocumentError("malformed", f"send {PREFIX}TOKEN, or nothing")
        mid = stated_identity(signed.authorization)
        keys = await _keys(request, mid) if mid else {}
        verdict = verify_token(signed.authorization, keys, time.time() * 1_000, audience=AUDIENCE)
        if verdict.error:
            raise DocumentError(verdict.error, verdict.detail)
        payload = verdict.members["payload"]
        if not check_bound(payload, signed, time.time() * 1_000) and (relay := request.app.get(AGENT_RELAY)):
            await to_thread(relay.use, payload)
    except DocumentError as error:
        headers = {"WWW-Authenticate": "Bearer"}
        raise ProblemError(401, f"{error.code}: {error.detail}", headers=headers) from None
    return _Observer(keys[mid].hex(), canonical_id(mid) or mid)


async def _keys(request: web.Request, mid: str) -> dict[str, bytes]:
    """The key of an identity: that which is registered with the relay, else that of a listing that is bound to it."""
    relay = request.app.get(AGENT_RELAY)
    registered = None if relay is None else await to_thread(relay.agents.agent, relay.identity(mid))
    if registered is not None:
        return {mid: registered.public_key}
    for fact in (VERIFIED, CLAIMED):
        for item in await live_agents(request, 20, (fact,), (id_fact(mid),), with_duplicates=True):
            if key := _bound_key(item["motebit"]):
                return {mid: bytes.fromhex(key)}
    return {}
