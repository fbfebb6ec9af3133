"""The queue of checks beside a slow one in memory, on each database; and what only a queue of many strangers shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine, delete

from indexer.store import checks, connect
from indexer.store.badges import BADGE_CHECK
from indexer.store.card_signatures import KEYS_CHECK
from indexer.store.checks import CHECK_INTERVAL, HOUR, START, CheckKind, CheckQueries, CheckState, DueCheck
from indexer.store.logos import LOGO_CHECK
from indexer.store.schema import checks as table

NOW = 1_800_000_000_000
KINDS = (BADGE_CHECK, KEYS_CHECK)
TARGETS = {"a": "host", "b": "host", "c": "other", "d": "é/host"}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    engine = connect(f"sqlite:///{tmp_path_factory.mktemp('queue')}/queue.db")
    yield engine
    engine.dispose()


@dataclass(frozen=True)
class Entry:
    target: str
    state: CheckState


class SlowQueue:
    """A queue of checks in a dict, by the rules in words: a pause of an hour after one failure, of twice the last after
    each further one, of a week at most."""

    def __init__(self) -> None:
        self.entries: dict[tuple[CheckKind, str], Entry] = {}

    def enlist(self, kind: CheckKind, name: str, now: int) -> None:
        entry = self.entries.get((kind, name))
        if entry is None:
            state = CheckState(tries=0, checked_at=0, next_at=now, reason="")
            self.entries[kind, name] = Entry(TARGETS[name], state)
        elif entry.state.next_at is None:
            self._set(kind, name, next_at=now)

    def _set(self, kind: CheckKind, name: str, **values: object) -> None:
        entry = self.entries.get((kind, name))
        if entry is not None:
            self.entries[kind, name] = Entry(entry.target, replace(entry.state, **values))  # type: ignore[arg-type]

    def record(self, kind: CheckKind, name: str, now: int) -> None:
        self._set(kind, name, tries=0, checked_at=now, next_at=now + CHECK_INTERVAL, reason="")

    def fail(self, kind: CheckKind, name: str, now: int) -> None:
        if (entry := self.entries.get((kind, name))) is not None:
            pause = HOUR
            for _ in range(entry.state.tries):
                pause = min(2 * pause, 7 * 24 * HOUR)
            self._set(kind, name, tries=entry.state.tries + 1, checked_at=now, next_at=now + pause, reason="why")

    def fail_at(self, kind: CheckKind, target: str, now: int, *, only_due: bool) -> None:
        for (other, name), entry in list(self.entries.items()):
            is_due = entry.state.next_at is not None and entry.state.next_at <= now
            if other is kind and entry.target == target and (is_due or not only_due):
                self.fail(kind, name, now)

    def pause(self, kind: CheckKind, name: str) -> None:
        self._set(kind, name, next_at=None)

    def hasten(self, kind: CheckKind, name: str, earliest: int) -> None:
        entry = self.entries.get((kind, name))
        if entry is not None and (entry.state.next_at is None or entry.state.next_at > earliest):
            self._set(kind, name, next_at=earliest)

    def due(self, now: int, kind: CheckKind | None) -> list[DueCheck]:
        since: dict[tuple[str, str], int] = {}
        for (queued_kind, _), entry in self.entries.items():
            if entry.state.next_at is not None and entry.state.next_at <= now and kind in (queued_kind, None):
                key = queued_kind, entry.target
                since[key] = min(since.get(key, entry.state.next_at), entry.state.next_at)
        return sorted(DueCheck(time, *key) for key, time in since.items())


STEPS = ("enlist", "record", "fail", "fail_all", "fail_due", "pause", "hasten", "forget")
steps = st.lists(
    st.tuples(
        st.sampled_from(STEPS), st.sampled_from(KINDS), st.sampled_from(sorted(TARGETS)), st.integers(0, 9 * HOUR)
    ),
    max_size=40,
)


@given(steps)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_the_queue_is_that_of_the_rules_in_words(engine: Engine, script: list[tuple[str, CheckKind, str, int]]) -> None:
    follow(engine, script)


def test_so_it_is_on_each_database(database_url: str) -> None:
    engine = connect(database_url)
    script = [
        (step, kind, name, number * HOUR)
        for number, step in enumerate((*STEPS, "enlist", "fail_due", "pause", "enlist", "fail", "fail", "hasten"))
        for kind in KINDS
        for name in TARGETS
    ]
    follow(engine, script)
    engine.dispose()


def follow(engine: Engine, script: list[tuple[str, CheckKind, str, int]]) -> None:
    """Take all steps in the queue and in the slow one, and compare them."""
    slow, now, queue = SlowQueue(), NOW, CheckQueries(engine)
    with engine.begin() as connection:
        connection.execute(delete(table))
    for step, kind, name, passed in script:
        now += passed
        with engine.begin() as connection:
            take(connection, slow, step, kind, name, now)
        assert queue.get(kind, name) == (slow.entries[kind, name].state if (kind, name) in slow.entries else None)
    for only in (*KINDS, None):
        assert queue.due(now, 100, kind=only) == slow.due(now, only)
        assert queue.due(now + 10 * CHECK_INTERVAL, 100, kind=only) == slow.due(now + 10 * CHECK_INTERVAL, only)


def take(connection: Connection, slow: SlowQueue, step: str, kind: CheckKind, name: str, now: int) -> None:
    target = TARGETS[name]
    both: dict[str, tuple[Callable[[], None], Callable[[], object]]] = {
        "enlist": (
            lambda: checks.enlist(connection, kind, {name: target}, now),
            lambda: slow.enlist(kind, name, now),
        ),
        "record": (lambda: checks.record(connection, kind, [name], now), lambda: slow.record(kind, name, now)),
        "fail": (lambda: checks.fail(connection, kind, [name], "why", now), lambda: slow.fail(kind, name, now)),
        "fail_all": (
            lambda: checks.fail_all(connection, kind, target, "why", now),
            lambda: slow.fail_at(kind, target, now, only_due=False),
        ),
        "fail_due": (
            lambda: checks.fail_due(connection, kind, target, "why", now),
            lambda: slow.fail_at(kind, target, now, only_due=True),
        ),
        "pause": (lambda: checks.pause(connection, kind, [name]), lambda: slow.pause(kind, name)),
        "hasten": (lambda: checks.hasten(connection, kind, [name], now), lambda: slow.hasten(kind, name, now)),
        "forget": (lambda: checks.forget(connection, kind, [name]), lambda: slow.entries.pop((kind, name), None)),
    }
    for act in both[step]:
        act()


def test_a_target_that_many_name_is_one_visit_and_pages_miss_nothing(database_url: str) -> None:
    engine = connect(database_url)
    queue = CheckQueries(engine)
    names = [f"{number:04}" for number in range(1_000)]
    with engine.begin() as connection:
        checks.enlist(connection, BADGE_CHECK, dict.fromkeys(names, "victim.example"), NOW)
        checks.enlist(connection, LOGO_CHECK, {name: name for name in names}, NOW + 1)
        checks.enlist(connection, KEYS_CHECK, {"k": "victim.example"}, NOW + 2)
    seen, after = list[DueCheck](), START
    while page := queue.due(NOW + 2, 300, after):
        seen += page
        after = page[-1]
    logos = [DueCheck(NOW + 1, "logo", name) for name in names]
    assert seen == [DueCheck(NOW, "badge", "victim.example"), *logos, DueCheck(NOW + 2, "keys", "victim.example")]
    assert queue.due(NOW + 2, 300, logos[-1]) == seen[-1:]
    assert len(queue.names_due(BADGE_CHECK, "victim.example", NOW, 160)) == 160
    engine.dispose()
