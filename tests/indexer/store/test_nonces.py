"""Nonces that were used."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine

from indexer.store import unchecked
from indexer.store.nonces import Nonces, seen_nonces


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = unchecked(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def nonces(engine: Engine) -> Nonces:
    return Nonces(engine)


def count(engine: Engine) -> int:
    with engine.connect() as connection:
        return len(connection.execute(seen_nonces.select()).all())


def test_a_nonce_is_used_once_in_its_scope(nonces: Nonces, engine: Engine) -> None:
    assert nonces.use("relay", "a", 100, 400)
    assert not nonces.use("relay", "a", 399, 700)
    assert nonces.use("mrp", "a", 100, 400)
    assert nonces.use("relay", "b", 100, 400)
    assert not Nonces(engine).use("relay", "b", 100, 400)


def test_nonces_of_any_text_are_kept_apart(nonces: Nonces) -> None:
    texts = ["", "\0", "\ud800", "\u00e9", "e\u0301", "x" * 100_000]
    assert sum(nonces.use("relay", text, 1, 2) for text in texts) == len(texts)
    assert not any(nonces.use("relay", text, 1, 2) for text in texts)


def test_expired_nonces_are_deleted_as_others_are_used(nonces: Nonces, engine: Engine) -> None:
    for number in range(150):
        nonces.use("relay", str(number), 100, 200)
    assert count(engine) == 150
    nonces.use("relay", "late", 200, 300)
    assert count(engine) == 151, "at its last second a nonce is kept"
    nonces.use("relay", "later", 201, 300)
    nonces.use("relay", "latest", 201, 300)
    assert count(engine) == 3


def test_of_many_clients_at_once_one_uses_a_nonce(nonces: Nonces) -> None:
    with ThreadPoolExecutor(16) as pool:
        used = list(pool.map(lambda number: nonces.use("relay", str(number % 5), number, 1_000), range(50)))
    assert sum(used) == 5
