"""Nonces that were used."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Connection, Engine

from indexer.store import unchecked
from indexer.store.nonces import CLOCK_SECONDS, Nonces, database_time, seen_nonces


class DatabaseTime:
    """A clock of the database, in seconds, that a test moves."""

    now = 100

    def __call__(self, _: Connection) -> int:
        return self.now


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = unchecked(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def clock() -> DatabaseTime:
    return DatabaseTime()


@pytest.fixture
def nonces(engine: Engine, clock: DatabaseTime) -> Nonces:
    return Nonces(engine, clock)


def count(engine: Engine) -> int:
    with engine.connect() as connection:
        return len(connection.execute(seen_nonces.select()).all())


def test_a_nonce_is_used_once_in_its_scope(nonces: Nonces, engine: Engine, clock: DatabaseTime) -> None:
    assert nonces.use("relay", "a", 400)
    clock.now = 399
    assert not nonces.use("relay", "a", 700)
    assert nonces.use("mrp", "a", 400)
    assert nonces.use("relay", "b", 400)
    assert not Nonces(engine, clock).use("relay", "b", 400)


def test_nonces_of_any_text_are_kept_apart(nonces: Nonces) -> None:
    texts = ["", "\0", "\ud800", "\u00e9", "e\u0301", "x" * 100_000]
    assert sum(nonces.use("relay", text, 200) for text in texts) == len(texts)
    assert not any(nonces.use("relay", text, 200) for text in texts)


def test_nonces_that_expired_long_ago_are_deleted_as_others_are_used_and_never_new_again(
    nonces: Nonces, engine: Engine, clock: DatabaseTime
) -> None:
    for number in range(150):
        nonces.use("relay", str(number), 200)
    assert count(engine) == 150
    clock.now = 200 + CLOCK_SECONDS
    nonces.use("relay", "late", clock.now)
    assert count(engine) == 151, "as long as the clock of a server may lag"
    assert not nonces.use("relay", "7", 200)
    clock.now += 1
    nonces.use("relay", "later", clock.now)
    nonces.use("relay", "latest", clock.now)
    assert count(engine) == 3
    assert not nonces.use("relay", "7", 200), "by a server whose clock lags more"


def test_by_default_the_clock_is_that_of_the_database(engine: Engine) -> None:
    with engine.connect() as connection:
        assert abs(database_time(connection) - time.time()) < 60
    nonces = Nonces(engine)
    assert nonces.use("relay", "a", int(time.time()))
    assert not nonces.use("relay", "b", int(time.time()) - CLOCK_SECONDS - 60)


def test_of_many_clients_at_once_one_uses_a_nonce(nonces: Nonces) -> None:
    with ThreadPoolExecutor(16) as pool:
        used = list(pool.map(lambda number: nonces.use("relay", str(number % 5), 1_000), range(50)))
    assert sum(used) == 5
