"""Candidates for a task in the order of Motebit's routing: a product of semirings over the trust graph.

Trust and reliability take the best product of a path, cost and latency the smallest sum; the composite weighs them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

WEIGHTS = {"trust": 0.3, "cost": 0.2, "latency": 0.15, "reliability": 0.15, "risk": 0.2}
UNPRICED = 0.7
"""Price efficiency where there is no price."""

LATENCY_MS = 5_000.0
"""Half-way of the latency score."""

MAX_PEERS, MAX_EDGES = 1_000, 10_000
"""Candidates and edges between them that are looked at; others are left out."""

MAX_HOPS = 10
"""Edges of a path: delegations are at most as deep."""


class PathWeight(NamedTuple):
    """The value of a path: `trust` and `reliability` from 0 to 1, `cost` in units of price, `latency` in ms."""

    trust: float
    cost: float
    latency: float
    reliability: float
    risk: float

    def then(self, other: PathWeight) -> PathWeight:
        """The weight of one path after another."""
        return PathWeight(
            self.trust * other.trust,
            self.cost + other.cost,
            self.latency + other.latency,
            self.reliability * other.reliability,
            self.risk + other.risk,
        )

    def best(self, other: PathWeight) -> PathWeight:
        """The best of two paths, in each component."""
        return PathWeight(
            max(self.trust, other.trust),
            min(self.cost, other.cost),
            min(self.latency, other.latency),
            max(self.reliability, other.reliability),
            min(self.risk, other.risk),
        )

    @property
    def composite(self) -> float:
        """The weighted score."""
        parts = {
            "trust": self.trust,
            "cost": 1 / (1 + self.cost),
            "latency": 1 / (1 + self.latency / 1_000),
            "reliability": self.reliability,
            "risk": 1 - min(1.0, self.risk),
        }
        return sum(WEIGHTS[name] * part for name, part in parts.items())


class RouteCandidate(NamedTuple):
    """An agent that may take a task: `trust` of its level, `rate` of success, `price` for one task (0 for none)."""

    identity: str
    trust: float
    rate: float
    price: float
    latency_ms: float
    capabilities: frozenset[str]
    is_online: bool = True


class RankedRoute(NamedTuple):
    """A candidate with its score and the parts of the score."""

    identity: str
    composite: float
    scores: Mapping[str, float]


def rank(
    candidates: Sequence[RouteCandidate],
    required: frozenset[str],
    max_budget: float | None = None,
    edges: Iterable[tuple[str, str, PathWeight]] = (),
) -> list[RankedRoute]:
    """The candidates that have all required capabilities, are not blocked and within the budget, best first."""
    usable = {
        peer.identity: peer
        for peer in candidates[:MAX_PEERS]
        if peer.trust > 0 and required <= peer.capabilities and (max_budget is None or peer.price <= max_budget)
    }
    weights = _weights(usable, edges)
    ranked = []
    for identity, peer in usable.items():
        weight = weights[identity]
        efficiency = 1 - peer.price / max_budget if max_budget and peer.price else UNPRICED
        scores = {
            "trust": weight.trust,
            "success_rate": peer.rate,
            "latency": 1 - peer.latency_ms / (peer.latency_ms + LATENCY_MS),
            "price_efficiency": efficiency,
            "capability_match": 1.0,
            "availability": 1.0 if peer.is_online else 0.0,
        }
        ranked.append(RankedRoute(identity, weight.composite, scores))
    return sorted(ranked, key=lambda route: (-route.composite, route.identity))


def _weights(
    usable: Mapping[str, RouteCandidate], edges: Iterable[tuple[str, str, PathWeight]]
) -> dict[str, PathWeight]:
    """The best weight of any path from the observer to each candidate, directly or by others, MAX_HOPS at most."""
    weights = {
        identity: PathWeight(peer.trust, peer.price, peer.latency_ms, peer.rate, 0.0)
        for identity, peer in usable.items()
    }
    peers = defaultdict(list)
    for source, target, weight in islice(edges, MAX_EDGES):
        if source in weights and target in weights and source != target:
            peers[source].append((target, weight))
    for _ in range(MAX_HOPS):
        before = dict(weights)
        for source, out in peers.items():
            for target, weight in out:
                weights[target] = weights[target].best(before[source].then(weight))
        if weights == before:
            break
    return weights
