"""A copy of a database that is put back is another time line: positions beyond it get a reset, earlier ones go on."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from indexer.model import BlockFacts
from indexer.store import Store, Writer, block_writer, connect
from overlay.api.change_broadcaster import feed
from overlay.listings.repository import ListingRepository
from tests.facts import born, says


class Database:
    """A file of SQLite that runs of a writer write, and of which a copy is put back. A block is written for each name,
    on the last one."""

    def __init__(self, folder: Path, block: Callable[[int, str], BlockFacts] | None = None) -> None:
        self._block = block or (lambda height, name: says(str(height), born(name, height=height)))
        self._file, self._copy, self._height = folder / "a2b.db", folder / "copy.db", 0
        self._open()

    def _open(self) -> None:
        self.store = Store(connect(f"sqlite:///{self._file}"))

    def run(self, *names: str) -> tuple[str, int]:
        """A run of the writer; the position of a reader that has read all then."""
        with closing(Writer(self.store.engine)) as writer:
            for name in names:
                block_writer.append(writer, "demo", [self._block(self._height, name)])
                self._height += 1
        outbox = self.store.outbox.position()
        return outbox.epoch, outbox.newest_seq

    def back_up(self) -> None:
        with closing(sqlite3.connect(self._file)) as source, closing(sqlite3.connect(self._copy)) as target:
            source.backup(target)
        self._backed_up = self._height

    def put_back(self) -> None:
        self.store.close()
        for name in ("a2b.db-wal", "a2b.db-shm"):
            self._file.with_name(name).unlink(missing_ok=True)
        shutil.copy(self._copy, self._file)
        self._height = self._backed_up
        self._open()

    def read(self, position: tuple[str, int]) -> list[str]:
        """The changes that a reader of the feed gets after a position."""
        page = feed(ListingRepository(self.store), position[1], 100, position[0])
        return [change["id"] or change["op"] for change in page["changes"]]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path)
    yield database
    database.store.close()


def ids(*names: str) -> list[str]:
    return [born(name).state.id for name in names]  # type: ignore[union-attr]


def test_a_reader_goes_on_over_runs_of_the_writer(database: Database) -> None:
    start = database.run()
    first = database.run("a", "b")
    second = database.run("c")
    assert database.run() == second, "a run that wrote nothing has no position"
    third = database.run("d", "e")
    assert len({first[0], second[0], third[0]}) == 3
    assert database.read(start) == ids("a", "b", "c", "d", "e")
    assert database.read((first[0], 1)) == ids("b", "c", "d", "e")
    assert database.read(first) == ids("c", "d", "e")
    assert database.read(second) == ids("d", "e")
    assert database.read(third) == []
    page = feed(ListingRepository(database.store), 0, 100, None)
    assert [change["epoch"] for change in page["changes"]] == [first[0]] * 2 + [second[0]] + [third[0]] * 2
    assert page["epoch"] == third[0]
    assert feed(ListingRepository(database.store), 0, 3, None)["epoch"] == second[0]


def test_a_reader_of_what_a_put_back_database_lacks_gets_a_reset(database: Database) -> None:
    early = database.run("a", "b")
    database.back_up()
    late = database.run("c", "d")
    database.put_back()
    assert database.read(late) == ["reset"], "before a writer runs"
    assert database.read(early) == []
    other = database.run("x", "y", "z")
    assert other[1] > late[1]
    assert database.read(late) == ["reset"], "though the number is there again"
    assert database.read(early) == ids("x", "y", "z")
    assert database.read(other) == []


def test_a_reader_within_the_run_that_was_copied_goes_on_up_to_the_copy(database: Database) -> None:
    with closing(Writer(database.store.engine)) as writer:
        block_writer.append(writer, "demo", [says("0"), says("1", born("a", height=1))])
        database.back_up()
        before = database.store.outbox.position()
        block_writer.append(writer, "demo", [says("2", born("b", height=2))])
        after = database.store.outbox.position()
    assert before.epoch == after.epoch
    database.put_back()
    database._height = 2
    assert database.read((before.epoch, before.newest_seq)) == []
    assert database.read((after.epoch, after.newest_seq)) == ["reset"]
    database.run("x")
    assert database.read((before.epoch, before.newest_seq)) == ids("x")
    assert database.read((after.epoch, after.newest_seq)) == ["reset"]
