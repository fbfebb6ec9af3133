"""How far an observer trusts an agent, from the outcomes of its tasks (Motebit's trust algebra): levels, their scores,
and what a tree of delegations is worth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

SCORES = {"unknown": 0.1, "first_contact": 0.3, "verified": 0.6, "trusted": 0.9, "blocked": 0.0}
"""The value of a level. `blocked` is set by the operator."""

_DEMOTED = {"trusted": "verified", "verified": "first_contact"}


class TrustThresholds(NamedTuple):
    """From which numbers of tasks and rates of success a level is left."""

    verified_tasks: int = 5
    verified_rate: float = 0.8
    trusted_tasks: int = 20
    trusted_rate: float = 0.9
    demotion_tasks: int = 3
    demotion_rate: float = 0.5


THRESHOLDS = TrustThresholds()


def transition(level: str, successes: int, failures: int, thresholds: TrustThresholds = THRESHOLDS) -> str | None:
    """The next level, at most one step away; None without a change. Demotion has priority over promotion."""
    tasks = successes + failures
    if level not in SCORES or level == "blocked" or not tasks:
        return None
    rate = successes / tasks
    if tasks >= thresholds.demotion_tasks and rate < thresholds.demotion_rate:
        return _DEMOTED.get(level)
    if level == "unknown":
        return "first_contact"
    if level == "first_contact" and successes >= thresholds.verified_tasks and rate >= thresholds.verified_rate:
        return "verified"
    if level == "verified" and successes >= thresholds.trusted_tasks and rate >= thresholds.trusted_rate:
        return "trusted"
    return None


def delegated_trust(direct: float, tree: Mapping[str, Any], trust: Mapping[str, float]) -> float:
    """The trust in the outcome of a task: the trust in the agent times the trust of the best path below it. `tree` has
    `delegation_receipts` of `motebit_id`; an agent without a level counts as unknown."""
    best = direct if not tree.get("delegation_receipts") else 0.0
    todo = [(direct, child) for child in _children(tree)]
    while todo:
        value, node = todo.pop()
        value *= trust.get(node.get("motebit_id", ""), SCORES["unknown"])
        children = list(_children(node))
        todo.extend((value, child) for child in children)
        if not children:
            best = max(best, value)
    return best


def _children(node: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    children = node.get("delegation_receipts")
    return children if isinstance(children, list) else ()
