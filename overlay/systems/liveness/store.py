"""The URLs that listings name, and whether they answer. Times are milliseconds since 1970.

One visit to a URL is for all listings that name it. The functions that write work inside a transaction of the writer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Boolean,
    Connection,
    Index,
    Integer,
    String,
    Text,
    delete,
    insert,
    select,
    tuple_,
    update,
)

from indexer.store import checks, outbox
from indexer.store.checks import CHECK_INTERVAL, CheckState, check_kind
from indexer.store.host_topics import ListingTopic, Recheck, listing_topics
from indexer.store.observed_tools import record_tools
from indexer.store.queries import Queries, Row, batches, count, insert_new, rows_in
from indexer.store.schema import BYTEWISE, keys, optional, rebuilt_table, required
from indexer.store.writer import Writer
from overlay.systems.liveness.day_bits import DAY_MS, DayBits
from parsers.pointers.locator import url_host

PROBE_CHECK = check_kind("probe", is_rebuilt=True)
"""The check of a URL, by the URL."""

POSITION = "probe targets"
"""The outbox position up to which listings were read for their URLs."""

CHANGED = "health"
"""Why the outbox announces a listing whose state has changed."""

PER_HOST = 64
"""URLs of a host that are visited for listings that the host does not name: strangers may name any number."""

MAX_ANNOUNCED = 1_000
"""Listings that are announced when the state of a URL changes, at most, those that the host names before others."""

FAILED_DAYS = 7
"""Checked days without an answer after which a listing ranks lower."""

FRESH_MS = 7 * DAY_MS
"""How long a state holds without another check."""

MAX_COMPARED = 16
"""Listings of a URL whose cards are compared with the one that the host serves."""

RETIRED = 500
"""URLs whose state is given up in one step, at most."""


class HealthState(StrEnum):
    """The outcome of the last visit to a URL; `NOT_CHECKED` where none was possible, or none is recent."""

    ANSWERS = "answers"
    NEEDS_AUTH = "needs-auth"
    NEEDS_PAYMENT = "needs-payment"
    FAILS = "fails"
    NOT_CHECKED = "not-checked"


REACHABLE = frozenset((HealthState.ANSWERS, HealthState.NEEDS_AUTH, HealthState.NEEDS_PAYMENT))


class ProbeMethod(StrEnum):
    """How a URL is visited, the most conclusive way first. `OFF`: the card asks not to be visited; `PARTS`: the URL has
    parts that may be secrets."""

    A2A = "a2a"
    A2A_1 = "a2a-1.0"
    MCP = "mcp"
    SSE = "sse"
    READ = "read"
    OFF = "off"
    PARTS = "parts"


_NOT_VISITED = {ProbeMethod.OFF: "opt-out", ProbeMethod.PARTS: "url-parts"}
"""The reason of `NOT_CHECKED` by the methods that visit nothing."""


class ProbeTarget(NamedTuple):
    """A URL that a registration names, how to visit it, and whether its host names the registration."""

    registration: str
    url: str
    method: str
    named: bool


class ProbeOutcome(NamedTuple):
    """The outcome of a visit: `state` is None where the earlier one stays, as the host is busy; `reason` a code of why
    a URL fails or was not checked; `latency_ms` the milliseconds until it answered; `tools` those of an MCP server, as
    it lists them; `payees` the addresses that a 402 names."""

    state: HealthState | None
    reason: str = ""
    latency_ms: int | None = None
    tools: list[Any] | None = None
    payees: tuple[str, ...] = ()


probe_targets = rebuilt_table(
    "probe_targets",
    *keys(registration=BYTEWISE, url=BYTEWISE),
    *required(method=String, named=Boolean, differs=Text),
    Index("probe_targets_by_url", "url", "named"),
)
"""The URLs of live listings, by the method of `ProbeMethod`; `named`: the host of the URL names the registration.
`differs` is JSON: texts of the differences between its card and the one that the host serves."""

health = rebuilt_table(
    "health",
    *keys(url=BYTEWISE),
    *required(host=BYTEWISE, state=String, reason=String, since=BigInteger, checked_at=BigInteger),
    *optional(latency_ms=Integer),
    *required(day=BigInteger, checked=BigInteger, answered=BigInteger, is_lost=Boolean),
    Index("health_by_host", "host"),
    Index("health_by_time", "state", "checked_at"),
)
"""Whether a URL answers: its `state` since a time, as of the last check (0 for none). `day`, `checked` and `answered`
are the last 30 days (`DayBits`); `is_lost`: it has not answered on `FAILED_DAYS` checked days."""


class Health(NamedTuple):
    """The stored state of a URL; of a listing also in what the card that the host serves differs from its card."""

    url: str
    state: HealthState
    reason: str
    since: int
    checked_at: int
    latency_ms: int | None
    days: DayBits
    is_lost: bool
    differs: tuple[str, ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether there was a visit, or a reason why there is none."""
        return bool(self.checked_at or self.reason)


class HealthQueries(Queries):
    """Reads of the states of URLs."""

    def of_registrations(self, ids: Iterable[str]) -> dict[str, dict[str, Health]]:
        """The states of the URLs of registrations by id and URL, of which something is known."""
        of_url = health.c.url == probe_targets.c.url
        columns = (probe_targets.c.registration, probe_targets.c.differs, health)
        statement = select(*columns).join(health, of_url)
        states: dict[str, dict[str, Health]] = {}
        for row in self._rows_in(statement, probe_targets.c.registration, sorted(set(ids))):
            stored = _health(row)._replace(differs=tuple(json.loads(row["differs"])))
            if stored.is_known:
                states.setdefault(row["registration"], {})[stored.url] = stored
        return states

    def named(self, url: str) -> list[str]:
        """The registrations with a URL whose host names them, at most `MAX_COMPARED`."""
        named = (probe_targets.c.url == url, probe_targets.c.named)
        return self._scalars(select(probe_targets.c.registration).where(*named).limit(MAX_COMPARED))

    def method(self, url: str) -> ProbeMethod | None:
        """How a URL is visited; None where no listing names it any more."""
        with self._engine.connect() as connection:
            return _method(connection, url)


def _health(row: Row) -> Health:
    return Health(
        row["url"], HealthState(row["state"]), row["reason"], row["since"], row["checked_at"], row["latency_ms"],
        DayBits(row["day"], row["checked"], row["answered"]), row["is_lost"],
    )  # fmt: skip


def _method(connection: Connection, url: str) -> ProbeMethod | None:
    """The method of the listings that the host names, where there are any, as strangers may name any URL; of several,
    the most conclusive one."""
    statement = select(probe_targets.c.method, probe_targets.c.named).where(probe_targets.c.url == url).distinct()
    rows = connection.execute(statement).all()
    named = [row for row in rows if row.named] or rows
    methods = {row.method for row in named}
    return next((method for method in ProbeMethod if method in methods), None)


def record_targets(
    writer: Writer, targets: Iterable[ProbeTarget], registrations: Sequence[str], seq: int | None, now: int
) -> int:
    """Make `targets` the only URLs of these registrations; `seq` is the sequence number up to which the outbox was read
    for that, None in the middle of a scan. Returns how many listings may have changed."""
    with writer.transaction() as connection:
        changed = _update_targets(connection, set(targets), registrations, now)
        if seq is not None:
            outbox.move_position(connection, seq, POSITION)
        return outbox.announce(connection, sorted(changed), CHANGED)


def _update_targets(
    connection: Connection, targets: set[ProbeTarget], registrations: Iterable[str], now: int
) -> set[str]:
    table = probe_targets
    before = {
        ProbeTarget(*(row[name] for name in ProbeTarget._fields))
        for row in rows_in(connection, select(table), table.c.registration, registrations)
    }
    outdated, new = before - targets, targets - before
    for batch in batches([target[:2] for target in outdated]):
        connection.execute(delete(table).where(tuple_(table.c.registration, table.c.url).in_(batch)))
    if new:
        connection.execute(insert(table), [{**target._asdict(), "differs": "[]"} for target in sorted(new)])
    urls = {target.url for target in (*outdated, *new)}
    changed = {url for url in sorted(urls) if _enlist(connection, url, now)}
    shown = {row["url"] for row in rows_in(connection, select(health), health.c.url, {target.url for target in new})
             if _health(row).is_known}  # fmt: skip
    lost = {target.registration for target in outdated} - {target.registration for target in targets}
    return lost | {target.registration for target in new if target.url in changed | shown}


def _enlist(connection: Connection, url: str, now: int) -> bool:
    """Have a URL checked as the listings that name it say. Returns whether its state changes by that."""
    method, same, host = _method(connection, url), health.c.url == url, url_host(url)
    if method is None:
        connection.execute(delete(health).where(same))
        checks.forget(connection, PROBE_CHECK, [url])
        return False
    stored = connection.execute(select(health.c.reason).where(same)).scalar()
    if stored is None:
        is_named = count(connection, probe_targets, probe_targets.c.url == url, probe_targets.c.named) > 0
        if not is_named and count(connection, health, health.c.host == host) >= PER_HOST:
            return False
        state: dict[str, Any] = {"state": HealthState.NOT_CHECKED.value, "reason": "", "since": now, "checked_at": 0}
        row = {**state, "latency_ms": None, **DayBits()._asdict(), "is_lost": False}
        insert_new(connection, health, [{**row, "url": url, "host": host}])
        stored = ""
    reason = _NOT_VISITED.get(method, "")
    if reason:
        checks.forget(connection, PROBE_CHECK, [url])
    else:
        checks.enlist(connection, PROBE_CHECK, {url: url}, now)
    if stored == reason or (not reason and stored not in _NOT_VISITED.values()):
        return False
    values = {"state": HealthState.NOT_CHECKED.value, "reason": reason, "since": now, "is_lost": False}
    connection.execute(update(health).where(same).values(**values))
    return True


def record_probe(
    writer: Writer, url: str, outcome: ProbeOutcome, now: int, differs: Mapping[str, Sequence[str]] | None = None
) -> int:
    """Store the outcome of a visit; return how many listings may have changed for it: none, unless the state of the URL
    has, or the tools that it lists, or in what the served card differs from the cards of registrations."""
    with writer.transaction() as connection:
        moved = {id_ for id_, texts in (differs or {}).items() if _compare(connection, url, id_, texts)}
        changed = outbox.announce(connection, sorted(moved | {*_record(connection, url, outcome, now)}), CHANGED)
        has_new_tools = outcome.tools is not None and record_tools(connection, url, outcome.tools, now)
        return changed + has_new_tools


def _compare(connection: Connection, url: str, registration: str, differs: Sequence[str]) -> bool:
    """Store in what a served card differs; returns whether that is new."""
    table, text = probe_targets, json.dumps(list(differs))
    of_both = (table.c.registration == registration, table.c.url == url, table.c.differs != text)
    return connection.execute(update(table).where(*of_both).values(differs=text)).rowcount > 0


def _record(connection: Connection, url: str, outcome: ProbeOutcome, now: int) -> list[str]:
    same = health.c.url == url
    row = connection.execute(select(health).where(same)).mappings().first()
    if row is None:
        checks.forget(connection, PROBE_CHECK, [url])
        return []
    before = _health(row)
    values = _judged(before, outcome, now)
    if values:
        connection.execute(update(health).where(same).values(**values))
    is_failed = outcome.state in (None, HealthState.FAILS) and not values.get("is_lost", before.is_lost)
    pause = CHECK_INTERVAL // 2 if is_failed else CHECK_INTERVAL
    checks.record(connection, PROBE_CHECK, [url], now, outcome.reason, pause=pause)
    compared = {"state": before.state.value, "is_lost": before.is_lost}
    if all(values.get(name, value) == value for name, value in compared.items()):
        return []
    return _naming(connection, url)


def _judged(before: Health, outcome: ProbeOutcome, now: int) -> dict[str, Any]:
    """The new values of a row; none where the earlier state stays."""
    state = outcome.state
    if state is None:
        return {}
    days = before.days
    if state is not HealthState.NOT_CHECKED:
        days = days.noted(now, is_answered=state in REACHABLE)
    since = before.since if state is before.state else now
    values: dict[str, Any] = {"state": state.value, "reason": outcome.reason, "since": since, "checked_at": now}
    is_lost = state is HealthState.FAILS and days.failed_days >= FAILED_DAYS
    return {**values, "latency_ms": outcome.latency_ms, **days._asdict(), "is_lost": is_lost}


def _naming(connection: Connection, url: str) -> list[str]:
    """The registrations that name a URL, sorted."""
    table = probe_targets
    naming = select(table.c.registration).where(table.c.url == url).order_by(table.c.named.desc())
    return sorted(connection.execute(naming.limit(MAX_ANNOUNCED)).scalars())


def retire(writer: Writer, now: int) -> int:
    """Give up states that were not checked again for `FRESH_MS`; return how many listings may have changed."""
    is_old = (health.c.state != HealthState.NOT_CHECKED, health.c.checked_at < now - FRESH_MS)
    with writer.transaction() as connection:
        urls = list(connection.execute(select(health.c.url).where(*is_old).limit(RETIRED)).scalars())
        if not urls:
            return 0
        values = {"state": HealthState.NOT_CHECKED.value, "reason": "stale", "since": now, "is_lost": False}
        connection.execute(update(health).where(health.c.url.in_(urls)).values(**values))
        changed = {id_ for url in urls for id_ in _naming(connection, url)}
        return outbox.announce(connection, sorted(changed), CHANGED)


def _recheck(connection: Connection, registration: str, earliest: int, pause: int) -> list[Recheck]:
    """Have the URLs of a registration checked, each `pause` milliseconds after its last check."""
    urls = select(probe_targets.c.url).where(probe_targets.c.registration == registration).limit(PER_HOST)
    rows = rows_in(connection, select(health), health.c.url, connection.execute(urls).scalars().all())
    stored = {row["url"]: _health(row) for row in rows}
    due: Mapping[str, CheckState] = dict(checks.states(connection, PROBE_CHECK, stored))
    rechecks = []
    for url, check in due.items():
        next_at = max(earliest, check.checked_at + pause)
        checks.hasten(connection, PROBE_CHECK, [url], next_at)
        next_at = next_at if check.next_at is None else min(next_at, check.next_at)
        state, last = stored[url], check.checked_at or None
        rechecks.append(Recheck("health", url, state.state.value, state.reason, "", last, next_at))
    return rechecks


listing_topics.append(ListingTopic(recheck=_recheck))
