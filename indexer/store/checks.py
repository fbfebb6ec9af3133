"""One queue of the periodic checks at hosts: when the next one is due, and how the last one ended. The results are in
the tables of their topics. Times are milliseconds since 1970. The functions that write work inside a transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, NewType

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Connection,
    Update,
    bindparam,
    case,
    delete,
    literal_column,
    select,
    tuple_,
    update,
)

from indexer.check_verdict import CheckVerdict
from indexer.retries import Backoff
from indexer.store.queries import Queries, batches, insert_new
from indexer.store.schema import checks

HOUR = 3_600_000
CHECK_INTERVAL = 24 * HOUR
"""Milliseconds between two successful checks of one subject."""

BACKOFF = Backoff(3_600, 7 * 86_400)
"""The pauses after failed checks of one subject: from an hour to a week, in seconds."""

PIN_DURATION = 30 * 24 * HOUR
"""The milliseconds without the answer that is pinned for a subject after which another may be pinned."""

GRACE = 7 * 24 * HOUR
"""The milliseconds without an answer of a host after which its verified results are lost."""


CheckKind = NewType("CheckKind", str)

kinds: dict[str, bool] = {}
"""Whether the results of a kind of checks are rebuilt, by the name of every kind."""


def check_kind(name: str, *, is_rebuilt: bool = False) -> CheckKind:
    """The kind of checks with a name, declared where their results are stored. `is_rebuilt`: these are rebuilt, and the
    checks are enlisted again with them. Raises ValueError for a name that another kind has."""
    if name in kinds:
        raise ValueError(f"the kind of checks {name!r} is declared twice")
    kinds[name] = is_rebuilt
    return CheckKind(name)


class DueCheck(NamedTuple):
    """A check that one visit to `target`, a host or a URL, makes, and the time since which it is due."""

    since: int
    kind: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckState:
    """`tries` counts the checks since the last one that verified; `checked_at` is 0 before the first, and `next_at`
    None where none is due; `reason` is a code of why the last one failed, "" for none."""

    tries: int
    checked_at: int
    next_at: int | None
    reason: str

    @property
    def verdict(self) -> CheckVerdict:
        """The outcome of the last check."""
        return CheckVerdict.of(self.checked_at and not self.tries, self.reason, self.checked_at)


START = DueCheck(-1, "", "")


class CheckQueries(Queries):
    """Reads of the queue."""

    def due(self, now: int, limit: int, after: DueCheck = START, kind: CheckKind | None = None) -> list[DueCheck]:
        """At most `limit` visits that are due, of one kind or all, those due longest first, after one."""
        order = (checks.c.next_at, checks.c.kind, checks.c.target)
        other = checks.alias()
        is_earlier = (other.c.kind == checks.c.kind) & (other.c.target == checks.c.target)
        is_earlier &= other.c.next_at < checks.c.next_at
        due = select(*order).distinct().where(checks.c.next_at <= now, checks.c.next_at >= after.since)
        due = due.where(tuple_(*order) > tuple(after), ~select(1).where(is_earlier).exists())
        if kind is not None:
            due = due.where(checks.c.kind == kind)
        with self._engine.connect() as connection:
            return [DueCheck(*row) for row in connection.execute(due.order_by(*order).limit(limit))]

    def names_due(self, kind: CheckKind, target: str, now: int, limit: int) -> list[str]:
        """At most `limit` names that are due at a target."""
        return self._scalars(select(checks.c.name).where(*_there(kind, target), checks.c.next_at <= now).limit(limit))

    def get(self, kind: CheckKind, name: str) -> CheckState | None:
        """The state of a check; None for an unknown check."""
        with self._engine.connect() as connection:
            return get(connection, kind, name)


def get(connection: Connection, kind: CheckKind, name: str) -> CheckState | None:
    """The state of a check; None for an unknown check."""
    columns = [checks.c[name] for name in CheckState.__dataclass_fields__]
    row = connection.execute(select(*columns).where(*_named(kind, [name]))).mappings().first()
    return None if row is None else CheckState(**row)


def states(connection: Connection, kind: CheckKind, names: Iterable[str]) -> list[tuple[str, CheckState]]:
    """The targets and states of checks, by target; unknown ones are left out."""
    columns = (checks.c.target, *(checks.c[name] for name in CheckState.__dataclass_fields__))
    rows = (
        dict(row)
        for batch in batches(names)
        for row in connection.execute(select(*columns).where(*_named(kind, batch)).order_by(checks.c.target)).mappings()
    )
    return [(row.pop("target"), CheckState(**row)) for row in rows]


def _there(kind: CheckKind, target: str) -> tuple[Any, ...]:
    return checks.c.kind == kind, checks.c.target == target


def _named(kind: CheckKind, names: Iterable[str]) -> tuple[Any, ...]:
    return checks.c.kind == kind, checks.c.name.in_(list(names))


def enlist(connection: Connection, kind: CheckKind, targets: Mapping[str, str], now: int) -> None:
    """Queue checks, by name, of subjects at these targets: new and paused ones are due at once."""
    new = {"kind": kind, "tries": 0, "checked_at": 0, "reason": "", "next_at": now}
    insert_new(connection, checks, [{**new, "name": name, "target": target} for name, target in targets.items()])
    for batch in batches(targets):
        paused = (*_named(kind, batch), checks.c.next_at.is_(None))
        connection.execute(update(checks).where(*paused).values(next_at=now))


def record(
    connection: Connection, kind: CheckKind, names: Iterable[str], now: int, reason: str = "",
    *, pause: int = CHECK_INTERVAL,
) -> None:  # fmt: skip
    """Store that these were verified; `reason` is why another way to do so failed."""
    values = {"tries": 0, "checked_at": now, "reason": reason, "next_at": now + pause}
    for batch in batches(names):
        connection.execute(update(checks).where(*_named(kind, batch)).values(**values))


def fail(connection: Connection, kind: CheckKind, names: Iterable[str], reason: str, now: int) -> None:
    """Store why these were not verified: the pause to the next check grows."""
    for batch in batches(names):
        _fail(connection, _named(kind, batch), reason, now)


def fail_all(connection: Connection, kind: CheckKind, target: str, reason: str, now: int) -> None:
    """Record a failure of all checks of a kind at a target, however many strangers have one there."""
    _fail(connection, _there(kind, target), reason, now)


def fail_due(connection: Connection, kind: CheckKind, target: str, reason: str, now: int) -> None:
    """Record a failure of the checks of a kind that are due at a target."""
    _fail(connection, (*_there(kind, target), checks.c.next_at <= now), reason, now)


_STEPS = 9  # then the pause is the longest


def _fail(connection: Connection, where: tuple[Any, ...], reason: str, now: int) -> None:
    connection.execute(_failed().where(*where), {"now": now, "why": reason})


@cache
def _failed() -> Update:
    """Checks that failed at the bound time. Cached: composing it takes half as long as a visit that fails."""
    now: BindParameter[int] = bindparam("now", type_=BigInteger)
    pauses = {tries: literal_column(f"{BACKOFF.pause_ms(tries + 1)}", BigInteger) for tries in range(_STEPS + 1)}
    longest = pauses.pop(_STEPS)
    next_at = now + case(pauses, value=checks.c.tries, else_=longest)
    values = {"tries": checks.c.tries + 1, "checked_at": now, "reason": bindparam("why"), "next_at": next_at}
    return update(checks).values(**values)


def pause(connection: Connection, kind: CheckKind, names: Iterable[str]) -> None:
    """Do not check these until they are enlisted again."""
    for batch in batches(names):
        connection.execute(update(checks).where(*_named(kind, batch)).values(next_at=None))


def hasten(connection: Connection, kind: CheckKind, names: Iterable[str], earliest: int) -> None:
    """Have these checked at `earliest`, if they would be later or not at all."""
    for batch in batches(names):
        later = checks.c.next_at.is_(None) | (checks.c.next_at > earliest)
        connection.execute(update(checks).where(*_named(kind, batch), later).values(next_at=earliest))


def hold(connection: Connection, kind: CheckKind, verified: Mapping[str, int]) -> None:
    """Have what stays verified, by name and when it last was, checked when its grace ends, if it would be later."""
    names_by_time: dict[int, list[str]] = {}  # one visit verifies any number
    for name, verified_at in verified.items():
        names_by_time.setdefault(verified_at + GRACE, []).append(name)
    for end, names in names_by_time.items():
        for batch in batches(names):
            later = (*_named(kind, batch), checks.c.next_at > end)
            connection.execute(update(checks).where(*later).values(next_at=end))


def forget(connection: Connection, kind: CheckKind, names: Iterable[str]) -> None:
    """Delete these checks."""
    for batch in batches(names):
        connection.execute(delete(checks).where(*_named(kind, batch)))
