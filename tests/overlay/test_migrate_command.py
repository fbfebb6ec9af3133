"""A database of version 0.2.0 is only changed by `up`, `index` and `migrate`, after a copy of it was made."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine

from indexer.model import SCHEMA
from indexer.settings import Settings
from indexer.store import Migration, StoreError, connect, migrations
from indexer.store.database_copy import make_copy, planned_copy
from overlay import cli
from overlay.app.composition import build
from tests.indexer.store.test_migrations import layout, make
from tests.overlay.calls import TOWER
from tests.overlay.test_cli import Run, alone, run
from tests.running import SAMPLE, Running, a2b

__all__ = ["alone", "run"]

REMEDY = "run `a2b migrate`, `a2b index` or `a2b up` of this version on it once"
CHANGING = {"up", "index", "migrate"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with a database of version 0.2.0."""
    folder = tmp_path / "data"
    folder.mkdir()
    make(f"sqlite:///{folder}/a2b.db")
    return folder


def contents(file: Path) -> list[str]:
    with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as database:
        return list(database.iterdump())


def schema(file: Path) -> str:
    with closing(sqlite3.connect(file)) as database:
        return str(database.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()[0])


def copies(folder: Path) -> list[Path]:
    names = [path for path in folder.iterdir() if ".schema-" in path.name or "copying" in path.name]
    return sorted(path for path in names if not path.name.endswith(("-wal", "-shm")))  # of readers of a copy


def parsers() -> dict[str, ArgumentParser]:
    """The commands that open a database."""
    actions = cli.parser()._actions
    commands = next(action for action in actions if isinstance(action, _SubParsersAction)).choices
    return {
        name: parser
        for name, parser in commands.items()
        if any(action.dest == "database" for action in parser._actions)
    }


def arguments(parser: ArgumentParser, file: Path) -> list[str]:
    """Arguments for what a command needs: its positional arguments, and options that are required."""
    words: list[str] = []
    for action in parser._actions:
        value = str(next(iter(action.choices))) if action.choices else str(file) if action.type is Path else TOWER
        if not action.option_strings and action.nargs in (None, "+", 1):
            words.append(value)
        elif action.required:
            words += [action.option_strings[0], value]
    return words


READING = [
    ["status"], ["status", "--recompute"], ["show", TOWER], ["history", TOWER], ["verify", TOWER], ["diagnose", TOWER],
    ["export", "snapshot"], ["backup", "file"], ["rebuild"], ["refunds"], ["mirror", "http://127.0.0.1:9"], ["serve"],
]  # fmt: skip


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_what_only_looks_refuses_an_older_schema_with_what_to_do(run: Run, data: Path, words: list[str]) -> None:
    before = contents(data / "a2b.db")
    result = run(*words, "--data", data)
    assert result.code == 3
    assert f"has schema '6' and this program reads '{SCHEMA}': {REMEDY}" in result.err
    assert contents(data / "a2b.db") == before
    assert copies(data) == []


def test_no_other_command_changes_a_database_of_an_older_schema(run: Run, data: Path, tmp_path: Path) -> None:
    before, file = contents(data / "a2b.db"), tmp_path / "file"
    names = parsers().keys() - CHANGING
    assert {"status", "import", "restore"} <= names
    for name in sorted(names):
        file.write_text("{}")
        result = run(*name.split(), *arguments(parsers()[name], file), "--data", data)
        assert result.code in ((0,) if name == "config" else (1, 2, 3)), name
        assert contents(data / "a2b.db") == before, name
    assert copies(data) == []


def test_a_look_creates_no_tables_either(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "data" / "a2b.db"
    file.parent.mkdir()
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE theirs (a)")
    before = contents(file)
    result = run("status", "--data", file.parent)
    assert (result.code, "holds no registry yet" in result.err) == (3, True)
    assert contents(file) == before


def test_migrate_copies_the_database_beside_it_first(run: Run, data: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = contents(data / "a2b.db")
    (data / "a2b.db").chmod(0o640)
    result = run("migrate", "--data", data)
    assert result.code == 0, result.err
    assert result.out == f"sqlite:///{data}/a2b.db has schema {SCHEMA} now; it had 6\n"
    (copy,) = copies(data)
    assert f"migrating it to {SCHEMA}, it was copied to {copy} first" in caplog.text
    assert contents(copy) == before
    assert copy.stat().st_mode & 0o777 == 0o640
    assert schema(data / "a2b.db") == SCHEMA
    assert run("status", "--data", data).code == 0
    again = run("migrate", "--data", data)
    assert (again.code, "there is nothing to migrate" in again.out, copies(data)) == (0, True, [copy])


def test_the_copy_is_what_the_version_before_goes_back_to(data: Path) -> None:
    connect(f"sqlite:///{data}/a2b.db", migration=Migration.WITH_COPY).dispose()
    (copy,) = copies(data)
    for name in ("a2b.db", "a2b.db-wal", "a2b.db-shm"):
        (data / name).unlink(missing_ok=True)
    copy.rename(data / "a2b.db")
    engine = create_engine(f"sqlite:///{data}/a2b.db")
    assert layout(engine)["schema"] == ["6"]
    engine.dispose()
    connect(f"sqlite:///{data}/a2b.db", migration=Migration.WITH_COPY).dispose()
    assert len(copies(data)) == 1


@pytest.mark.parametrize("serve", [True, False], ids=["up", "index"])
def test_up_and_index_migrate_after_a_copy(data: Path, serve: bool) -> None:
    before = contents(data / "a2b.db")
    build(Settings.load({"data": str(data)}), follow=True, serve=serve).close()
    (copy,) = copies(data)
    assert contents(copy) == before
    assert schema(data / "a2b.db") == SCHEMA


def test_no_copy_is_made_where_it_is_declined(run: Run, data: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert run("migrate", "--no-copy", "--data", data).code == 0
    assert (copies(data), schema(data / "a2b.db")) == ([], SCHEMA)
    assert "without a copy of it" in caplog.text


def test_a_dry_run_changes_nothing(run: Run, data: Path) -> None:
    before = contents(data / "a2b.db")
    result = run("migrate", "--dry-run", "--data", data)
    size = (data / "a2b.db").stat().st_size
    assert result.code == 0
    assert f"has schema 6: it would be migrated to {SCHEMA}\n" in result.out
    assert "  new tables: " in result.out
    assert f"  copied first, beside it: {size:,} bytes, of " in result.out
    assert (contents(data / "a2b.db"), copies(data)) == (before, [])
    assert "  no copy: make one before" in run("migrate", "--dry-run", "--no-copy", "--data", data).out


def test_migrate_creates_no_database(run: Run, tmp_path: Path) -> None:
    result = run("migrate", "--data", tmp_path / "nothing")
    assert (result.code, "there is no database" in result.err) == (3, True)
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("version", ["5", "99", "other"])
def test_migrate_says_which_version_reads_what_it_cannot_migrate(run: Run, data: Path, version: str) -> None:
    with closing(sqlite3.connect(data / "a2b.db")) as database, database:
        database.execute("UPDATE meta SET value = ? WHERE key = 'schema'", (version,))
    for words in (["migrate"], ["migrate", "--dry-run"]):
        result = run(*words, "--data", data)
        assert (result.code, f"has schema '{version}'" in result.err, copies(data)) == (3, True, [])


def test_a_migration_that_fails_leaves_no_copy_behind(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(data / "a2b.db")

    def broken(_: object) -> None:
        assert len(copies(data)) == 1
        raise ZeroDivisionError

    monkeypatch.setattr(migrations, "migrate", broken)
    with pytest.raises(ZeroDivisionError):
        connect(f"sqlite:///{data}/a2b.db", migration=Migration.WITH_COPY)
    assert (contents(data / "a2b.db"), copies(data)) == (before, [])


def test_postgresql_is_migrated_without_a_copy(postgresql: Any, run: Run, caplog: pytest.LogCaptureFixture) -> None:
    url = postgresql.new()
    make(url)
    engine = create_engine(url)
    before = layout(engine)
    refused = run("status", "--database", url)
    assert (refused.code, REMEDY in refused.err) == (3, True)
    planned = run("migrate", "--dry-run", "--database", url)
    assert (planned.code, "no copy: make one before (PostgreSQL: pg_dump)" in planned.out) == (0, True)
    assert layout(engine) == before
    assert run("migrate", "--database", url).code == 0
    assert "without a copy of it" in caplog.text
    assert layout(engine)["schema"] == [SCHEMA]
    engine.dispose()


# -- no room

Mount = Callable[[int], Path]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """A file system of so many bytes, with a copy of that database."""
    folder = tmp_path / "small"
    folder.mkdir()

    def sized(size: int) -> Path:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True)
        if done.returncode:
            pytest.skip(f"no file system can be mounted here: {done.stderr.decode()}")
        make(f"sqlite:///{tmp_path}/a2b.db")
        shutil.copy(tmp_path / "a2b.db", folder / "a2b.db")
        return folder

    yield sized
    subprocess.run(["umount", "--lazy", folder], capture_output=True)


def test_without_room_for_the_copy_nothing_is_migrated(mount: Mount, run: Run, tmp_path: Path) -> None:
    make(f"sqlite:///{tmp_path}/size.db")
    size = (tmp_path / "size.db").stat().st_size
    folder = mount(size + size // 2)
    before = contents(folder / "a2b.db")
    planned = run("migrate", "--dry-run", "--data", folder)
    assert (planned.code, "there is no room for that" in planned.out) == (1, True)
    result = run("migrate", "--data", folder)
    assert result.code == 3
    assert f"takes {size:,} bytes, and " in result.err
    assert "make room, or migrate without a copy (--no-copy)" in result.err
    with pytest.raises(StoreError, match="make room"):
        build(Settings.load({"data": str(folder)}), follow=True, serve=False)
    assert (contents(folder / "a2b.db"), copies(folder)) == (before, [])


def test_a_copy_that_fills_the_disk_is_removed(mount: Mount, tmp_path: Path) -> None:
    make(f"sqlite:///{tmp_path}/size.db")
    folder = mount((tmp_path / "size.db").stat().st_size * 3 // 2)
    before = contents(folder / "a2b.db")
    plan = planned_copy(folder / "a2b.db", "6")._replace(room=1 << 40)  # others fill it meanwhile
    with pytest.raises(StoreError, match=r"cannot be copied to .*(full|No space).*make room, or"):
        make_copy(plan)
    assert (contents(folder / "a2b.db"), copies(folder)) == (before, [])


# -- as processes


def test_a_server_refuses_and_up_says_where_the_copy_is(data: Path, tmp_path: Path) -> None:
    refused = a2b("serve", "--data", str(data), "--port", "0", cwd=tmp_path)
    assert (refused.returncode, REMEDY in refused.stderr) == (3, True)
    assert schema(data / "a2b.db") == "6"
    with Running("index", "--chains", SAMPLE, "--data", str(data), cwd=tmp_path) as process:
        process.until(lambda: copies(data) and schema(data / "a2b.db") == SCHEMA)
        process.until(lambda: str(copies(data)[0]) in process.err)
