"""The index of a database of which a copy was put back has what the database has: no ghosts, and nothing missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from overlay.duplicates.duplicate_index import DuplicateIndex
from overlay.projection.projector import IndexProjector
from overlay.projection.search_index import SearchIndex
from overlay.projection.unread_changes import pending_changes
from tests.contracts.listed import matching_ids
from tests.contracts.test_rebuilding import block
from tests.indexer.store.test_put_back import Database, ids


@pytest.fixture
def duplicates(tmp_path: Path) -> Iterator[DuplicateIndex]:
    index = DuplicateIndex(str(tmp_path / "duplicates"))
    yield index
    index.close()


def test_an_index_beyond_a_database_that_was_put_back_is_rebuilt(
    engine: SearchIndex, duplicates: DuplicateIndex, tmp_path: Path
) -> None:
    database = Database(tmp_path, block)
    database.run("a", "b")
    database.back_up()
    assert IndexProjector(database.store, engine, duplicates).run() == 2
    database.run("c", "d")
    assert IndexProjector(database.store, engine, duplicates).run() == 2
    version = engine.version
    assert matching_ids(engine) == {*ids("a", "b", "c", "d")}
    database.put_back()
    database.run("x", "y", "z")
    assert pending_changes(database.store, engine) == 5
    IndexProjector(database.store, engine, duplicates).run()
    assert matching_ids(engine) == {*ids("a", "b", "x", "y", "z")}
    assert engine.version != version
    assert pending_changes(database.store, engine) == 0
    database.store.close()


def test_an_index_of_an_earlier_run_goes_on(engine: SearchIndex, duplicates: DuplicateIndex, tmp_path: Path) -> None:
    database = Database(tmp_path, block)
    database.run("a")
    IndexProjector(database.store, engine, duplicates).run()
    version = engine.version
    database.run("b")
    database.back_up()
    database.run("c")
    database.put_back()
    assert pending_changes(database.store, engine) == 1
    database.run("x")
    assert IndexProjector(database.store, engine, duplicates).run() == 2
    assert (matching_ids(engine), engine.version) == ({*ids("a", "b", "x")}, version)
    assert engine.position() == database.store.outbox.position()[:2]
    database.store.close()
