"""The trust graph: edges from observers to workers, each the fold of Motebit's transitions over the outcomes that the
observer counter-signed. Anyone with the receipts computes the same edges."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from parsers.claims.motebit.trust_levels import SCORES, transition

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
        """What the level is worth, from 0 to 1."""
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
