"""Further subjects that are checked at the hosts of listed agents, declared by the modules that store their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection

from indexer.check_verdict import CheckedState
from indexer.store import checks
from indexer.store.checks import CheckKind, CheckState

WORDS = {CheckedState.UNCHECKED: "new", CheckedState.REFUSED: "not verified", CheckedState.VERIFIED: "verified"}
"""The words of answers about rechecks."""


class Recheck(NamedTuple):
    """A fetch that a recheck repeats: `what` is pointer, domain, keys or a word of a topic, `name` its locator,
    host or URL, `state` and `reason` its last outcome, `next_at` when it is due now."""

    what: str
    name: str
    state: str
    reason: str
    detail: str
    last_at: int | None
    next_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTopic:
    """Functions that work inside a transaction: `enlist` has a host checked that a listed agent has and that answered,
    from a time (milliseconds since 1970) on; `recheck` has all at a host checked by a time, for a listing with a card
    (SHA-256), and returns what that is; `forget` deletes all of a host."""

    enlist: Callable[[Connection, str, int], None]
    recheck: Callable[[Connection, str, bytes, int], Iterable[Recheck]]
    forget: Callable[[Connection, str], None]


topics: list[HostTopic] = []
"""Every declared one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingTopic:
    """`recheck` works inside a transaction: it has all that belongs to a registration checked from a time (milliseconds
    since 1970) on, each a pause after its last check, and returns what that is."""

    recheck: Callable[[Connection, str, int, int], Iterable[Recheck]]


listing_topics: list[ListingTopic] = []
"""Every declared one."""


def hastened(
    connection: Connection, what: str, kind: CheckKind, names: list[str], next_at: int,
    title: Callable[[str], str] = str,
) -> list[Recheck]:  # fmt: skip
    """Have these checks made at `next_at` at the latest; returns them, each with the title of its target."""
    checks.hasten(connection, kind, names, next_at)
    return [_recheck(what, title(target), check) for target, check in checks.states(connection, kind, names)]


def _recheck(what: str, name: str, check: CheckState) -> Recheck:
    verdict = check.verdict
    return Recheck(what, name, WORDS[verdict.state], verdict.reason, "", verdict.checked_at or None, check.next_at or 0)
