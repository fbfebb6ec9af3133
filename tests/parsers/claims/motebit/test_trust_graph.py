"""Edges of the trust graph, and the bounds of a ranking."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from parsers.claims.motebit.route_ranking import MAX_HOPS, PathWeight, RouteCandidate, rank
from parsers.claims.motebit.trust_graph import TaskOutcome, TrustEdge, fold

outcomes = st.lists(
    st.builds(
        TaskOutcome, st.integers(0, 20), st.binary(min_size=1, max_size=2),
        st.sampled_from(["completed", "completed", "completed", "failed", "denied"]),
    ),
    max_size=60,
    unique_by=lambda outcome: outcome.digest,
)  # fmt: skip


def worked(count: int, outcome: str = "completed", start: int = 0) -> list[TaskOutcome]:
    return [TaskOutcome(number, b"%d" % number, outcome) for number in range(start, start + count)]


def test_levels_are_reached_task_by_task_and_lost_again() -> None:
    assert fold([]) == TrustEdge("unknown", 0, 0)
    levels = [fold(worked(count)).level for count in (1, 4, 5, 19, 20)]
    assert levels == ["first_contact", "first_contact", "verified", "verified", "trusted"]
    assert fold([*worked(5), *worked(6, "failed", 5)]) == TrustEdge("first_contact", 5, 6)
    assert fold(worked(9, "denied")) == TrustEdge("unknown", 0, 0)


@given(outcomes, st.randoms(use_true_random=False))
def test_the_order_of_arrival_and_repetitions_change_no_level(outcomes_: list[TaskOutcome], random: object) -> None:
    shuffled = [*outcomes_, *outcomes_[::2]]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert fold(shuffled) == fold(outcomes_)


def candidate(name: str, trust: float) -> RouteCandidate:
    return RouteCandidate(name, trust, 1.0, 0, 0.0, frozenset("x"))


def test_a_path_over_many_agents_is_bounded_in_length_and_time() -> None:
    """Time that grew with the cube of the agents would not end."""
    names = [f"{number:04}" for number in range(1_000)]
    weight = PathWeight(1.0, 0.0, 0.0, 1.0, 0.0)
    # the worst order: each round carries trust by one edge
    edges = [(source, target, weight) for source, target in reversed(list(pairwise(names)))]
    candidates = [candidate(names[0], 0.9), *(candidate(name, 0.1) for name in names[1:])]
    ranked = rank(candidates, frozenset("x"), edges=edges)
    trusting = {route.identity: route.scores["trust"] for route in ranked}
    assert sum(trust == 0.9 for trust in trusting.values()) == MAX_HOPS + 1
    assert trusting[names[MAX_HOPS + 1]] == 0.1


def test_no_more_edges_than_the_bound_are_read() -> None:
    def endless() -> object:
        while True:
            yield "a", "b", PathWeight(0.5, 0.0, 0.0, 1.0, 0.0)

    ranked = rank([candidate("a", 0.9), candidate("b", 0.1)], frozenset("x"), edges=endless())  # type: ignore[arg-type]
    assert {route.identity: route.scores["trust"] for route in ranked} == {"a": 0.9, "b": 0.45}
