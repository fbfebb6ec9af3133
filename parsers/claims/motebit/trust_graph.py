"""Trust by Motebit's algebra: levels and their scores, and the trust graph: edges from observers to workers, each the
fold of the transitions over the outcomes that the observer counter-signed. Anyone with the receipts computes the same
edges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

SCORES = {"unknown": 0.1, "first_contact": 0.3, "verified": 0.6, "trusted": 0.9, "blocked": 0.0}
"""The value of a level. `blocked` is set by the operator."""

_DEMOTED = {"trusted": "verified", "verified": "first_contact"}


class TrustThresholds(NamedTuple):
    """The numbers of tasks and rates of success from which on a level is left."""

    verified_tasks: int = 5
    verified_rate: float = 0.8
    trusted_tasks: int = 20
    trusted_rate: float = 0.9
    demotion_tasks: int = 3
    demotion_rate: float = 0.5


THRESHOLDS = TrustThresholds()


def transition(level: str, successes: int, failures: int) -> str | None:
    """The next level, at most one step away; None without a change. Demotion has priority over promotion."""
    tasks, thresholds = successes + failures, THRESHOLDS
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


ANYBODY = ""
"""The observer that is this registry: it counts the tasks that a proven payment paid for."""


class EdgePair(NamedTuple):
    """The observer, or `ANYBODY`, and the worker."""

    observer: str
    worker: str


class TaskOutcome(NamedTuple):
    """The outcome in a receipt: when the task was completed (milliseconds since 1970), the receipt's SHA-256, and
    completed, failed or denied."""

    completed_at: int
    digest: bytes
    outcome: str


class TrustEdge(NamedTuple):
    """The trust level of an observer in a worker, and the outcomes behind it."""

    level: str = "unknown"
    successes: int = 0
    failures: int = 0

    @property
    def trust(self) -> float:
        """The value of the level, from 0 to 1."""
        return SCORES[self.level]

    @property
    def tasks(self) -> int:
        """How many tasks were completed or failed."""
        return self.successes + self.failures

    @property
    def rate(self) -> float:
        """The rate of success; half where there is nothing."""
        return self.successes / self.tasks if self.tasks else 0.5

    def after(self, outcome: str) -> TrustEdge:
        """The edge after one more task, at most one level away; a denied one is neutral."""
        if outcome == "denied":
            return self
        successes, failures = self.successes + (outcome == "completed"), self.failures + (outcome != "completed")
        return TrustEdge(transition(self.level, successes, failures) or self.level, successes, failures)


def fold(outcomes: Iterable[TaskOutcome]) -> TrustEdge:
    """The edge of these outcomes, in the order of their completion and then of their digests, each digest once,
    independent of their arrival. Denied tasks are neutral."""
    trust = TrustEdge()
    for outcome in sorted({outcome.digest: outcome for outcome in outcomes}.values()):
        trust = trust.after(outcome.outcome)
    return trust


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
