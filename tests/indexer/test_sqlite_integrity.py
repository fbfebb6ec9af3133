"""A damaged SQLite file: found by a check after a stop that was not clean, and by the errors of statements."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import insert, select

from indexer import sqlite_integrity as integrity
from indexer.sqlite_heights import heights
from indexer.store import DamagedDatabaseError, Store, StoreUnavailableError, Writer, chain_marks, connect
from indexer.store.database import writing
from indexer.store.layout import connect_read_only
from indexer.store.schema import cards, meta
from tests.damage import damage_table


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A database with a few hundred rows in one table."""
    file = tmp_path / "a2b.db"
    with closing(Store(connect(f"sqlite:///{file}"))) as store, writing(store.engine) as connection:
        rows = [{"sha256": bytes((number % 256, number // 256)) * 16, "body": b"x" * 900} for number in range(300)]
        connection.execute(insert(cards), rows)
    return file


@pytest.fixture
def store(file: Path) -> Iterator[Store]:
    with closing(Store(connect(f"sqlite:///{file}"))) as store:
        yield store


def check(file: Path, seconds: float = 60.0) -> integrity.IntegrityReport:
    return integrity.quick_check(str(file), threading.Event(), seconds)


def report(file: Path, state: str, detail: str = "") -> None:
    integrity.guard_of(str(file)).report(integrity.IntegrityReport(state, 1, detail))


def test_a_whole_file_has_no_fault_and_a_damaged_one_is_named_by_its_page(file: Path) -> None:
    assert check(file).state == integrity.OK
    damage_table(file, "cards")
    checked = check(file)
    assert checked.state == integrity.DAMAGED
    assert checked.detail
    file.write_bytes(b"no database at all" * 500)
    assert check(file)[::2] == (integrity.DAMAGED, "file is not a database")


def test_a_check_is_interrupted_after_its_time_and_at_the_end_of_the_program(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE large (body BLOB NOT NULL)")
        numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500000)"
        connection.execute(f"INSERT INTO large {numbers} SELECT randomblob(100) FROM n")
    report = check(file, 0.0)
    assert (report.state, report.detail) == (integrity.INTERRUPTED, "no fault was found in 0 s")
    ended = threading.Event()
    ended.set()
    assert integrity.quick_check(str(file), ended).state == integrity.INTERRUPTED
    assert check(file).state == integrity.OK


def test_a_statement_that_meets_damage_says_what_to_do(file: Path) -> None:
    damage_table(file, "cards")
    with closing(Store(connect(f"sqlite:///{file}"))) as store:
        for read in (store.engine.connect, lambda: writing(store.engine)):
            with (
                pytest.raises(DamagedDatabaseError, match=r"a2b\.db is damaged \(.* malformed\)"),
                read() as connection,
            ):
                connection.execute(select(cards)).all()
    assert integrity.guard_of(str(file)).suspected.is_set()


def test_what_is_no_database_any_more_is_damaged_not_unavailable(file: Path) -> None:
    file.write_bytes(b"no database at all" * 500)
    with pytest.raises(DamagedDatabaseError, match="file is not a database"):
        connect(f"sqlite:///{file}")
    with pytest.raises(DamagedDatabaseError, match="file is not a database"):
        connect_read_only(file)
    with pytest.raises(OSError, match="put a backup in its place"):
        heights(file)


def test_nothing_is_read_or_written_once_a_check_has_found_damage(file: Path, store: Store) -> None:
    writer = Writer(store.engine)
    report(file, integrity.DAMAGED, "page 7")
    for use in (store.chains, lambda: chain_marks.name_chain(writer, "demo", "bsv:x"), lambda: heights(file)):
        with pytest.raises((DamagedDatabaseError, OSError), match=r"damaged \(page 7\).* put a backup in its place"):
            use()
    with pytest.raises(DamagedDatabaseError):
        connect(f"sqlite:///{file}")
    report(file, integrity.OK)
    assert store.chains() == {}
    writer.close()


def test_a_backup_in_the_place_of_a_damaged_file_is_read(file: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    backup.write_bytes(file.read_bytes())
    report(file, integrity.DAMAGED, "page 7")
    file.rename(tmp_path / "damaged.db")
    backup.rename(file)
    integrity.guard_of.cache_clear()  # as in the next process
    assert integrity.read(str(file)) is None
    with connect(f"sqlite:///{file}").connect() as connection:
        assert connection.execute(select(meta.c.value).where(meta.c.key == "schema")).scalar()


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"inode": 1}', '{"inode": 0, "state": "damaged", "at": 1}', "null"]
)
def test_a_report_that_cannot_be_read_is_none(file: Path, content: str) -> None:
    Path(f"{file}.check").write_text(content)
    assert integrity.read(str(file)) is None


# -- how the last writer ended


def ended_unclean(store: Store, *, checked: bool = False) -> bool:
    """True where the last writer ended unclean, by the next one; this one is checked or not before it stops cleanly."""
    with closing(Writer(store.engine)) as writer:
        was_unclean = writer.lock.was_unclean
        writer.lock.was_unclean &= not checked
    return was_unclean


def test_a_clean_stop_leaves_no_mark_and_any_other_does_until_the_file_is_checked(file: Path, store: Store) -> None:
    with closing(Writer(store.engine)) as first:
        assert not first.lock.was_unclean
        content = Path(f"{file}.lock").read_text()
    assert not ended_unclean(store)
    Path(f"{file}.lock").write_text(content)  # as a process leaves it that is killed
    assert ended_unclean(store)
    assert ended_unclean(store), "it was not checked before it stopped"
    assert ended_unclean(store, checked=True)
    assert not ended_unclean(store)


def test_damage_is_retried_by_loops_as_an_unavailable_database_is() -> None:
    assert issubclass(DamagedDatabaseError, StoreUnavailableError)
