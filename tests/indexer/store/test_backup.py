"""Backups: exactly the rows that nothing else brings back, of one instant, all or nothing."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Boolean, Engine, Integer, LargeBinary, insert, select
from sqlalchemy.dialects import sqlite

from indexer.store import StoreError, Writer, connect
from indexer.store.backup import BackupError, BackupHead, original_tables, restore, write_backup
from indexer.store.hidden import hidden
from indexer.store.schema import cards, metadata
from overlay.systems.relay.store_ledger import ledger_entries, ledger_postings
from overlay.systems.webhooks.store import subscriptions
from tests.conftest import ROOT
from tests.databases import Cluster
from tests.running import environment

ROWS = 3
KEYS = {"ed25519": "11" * 32, "secp256k1": "22" * 32}
MARKS = {"chain:demo": "bsv:regtest", "partial:demo": "yes", "program:sol": "p", "rules:demo": "1"}


def value(column: Any, number: int) -> Any:
    """A value of the column's type for row `number`: the same in columns that refer to each other."""
    if column.nullable and number == 2:
        return None
    if kinds := getattr(column.type, "enum_class", None):
        return next(iter(kinds))
    if column.name == "amount" and column.table.name.startswith("ledger_"):
        return 0  # any other balance has to be the sum of its entries
    if isinstance(column.type, LargeBinary):
        return bytes([number, 255]) * 16
    if isinstance(column.type, Boolean):
        return number % 2 == 0
    return number if isinstance(column.type, Integer) else f"text {number} ☃"


def fill(engine: Engine) -> None:
    """Rows in every table."""
    with engine.begin() as connection:
        for table in metadata.sorted_tables:
            if table.name != "meta":
                rows = [{one.name: value(one, number) for one in table.columns} for number in range(1, ROWS + 1)]
                connection.execute(insert(table), rows)
        connection.execute(insert(metadata.tables["meta"]), [{"key": key, "value": MARKS[key]} for key in MARKS])


def contents(engine: Engine) -> dict[str, list[Any]]:
    """All rows that a backup holds, by table."""
    results = {}
    with engine.connect() as connection:
        for table in metadata.sorted_tables:
            rows = [dict(row) for row in connection.execute(select(table)).mappings()]
            if table.name == "meta":
                rows = [row for row in rows if row["key"].partition(":")[0] in ("chain", "program")]
            if not table.info["rebuilt"]:
                results[table.name] = sorted(rows, key=str)
    return results


def written(engine: Engine, progress: Callable[[int, int], None] = lambda _done, _all: None) -> list[bytes]:
    """The lines of a backup."""
    file = io.BytesIO()
    write_backup(engine, file, BackupHead("1.0", KEYS), progress)
    return file.getvalue().splitlines(keepends=True)


def is_empty(engine: Engine) -> bool:
    return not any(contents(engine).values())


@pytest.fixture
def filled(database_url: str) -> Iterator[Engine]:
    """A database with rows in every table."""
    engine = connect(database_url)
    fill(engine)
    yield engine
    engine.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def other(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """A new database of each kind."""
    cluster: Cluster = request.getfixturevalue("postgresql")
    engine = connect(f"sqlite:///{tmp_path}/other.db" if request.param == "sqlite" else cluster.prepared())
    yield engine
    engine.dispose()


def restart_outbox(rows: dict[str, list[dict[str, Any]]]) -> None:
    """Rows as they are in another database, whose outbox counts anew and announces again what is hidden."""
    for row in rows[subscriptions.name]:
        row["since_seq"] = 0
    for row in rows[hidden.name]:
        row["state"] = "new"


def test_exactly_the_rows_that_nothing_else_brings_back_are_restored(filled: Engine, other: Engine) -> None:
    expected = contents(filled)
    restart_outbox(expected)
    assert len(expected) > 35
    count = restore(other, written(filled))
    assert count == sum(map(len, expected.values()))
    assert contents(other) == expected
    with other.connect() as connection:
        marks = {key for key, _ in connection.execute(select(metadata.tables["meta"]))}
        assert marks & {*MARKS} == {"chain:demo", "program:sol"}, "how the lost blocks were read is not a concern"
        for table in metadata.sorted_tables:
            if table.info["rebuilt"]:
                is_filled = connection.execute(select(table).limit(1)).first() is not None
                assert is_filled == ("fill" in table.info), table.name
    with pytest.raises(StoreError, match=r"holds .*meta.*relay_agents.* already: restore into a new database"):
        restore(other, written(filled))
    assert contents(other) == expected


def test_checks_whose_results_are_rebuilt_come_again_with_them(filled: Engine, tmp_path: Path) -> None:
    checks = metadata.tables["checks"]
    with filled.begin() as connection:
        for kind in ("badge", "keys", "logo", "mrp"):
            row = {one.name: value(one, 1) for one in checks.columns}
            connection.execute(insert(checks), row | {"kind": kind})
    other = connect(f"sqlite:///{tmp_path}/next.db")
    restore(other, written(filled))
    assert {row["kind"] for row in contents(other)["checks"]} >= {"mrp"}
    assert not {row["kind"] for row in contents(other)["checks"]} & {"badge", "keys", "logo"}
    other.dispose()


def test_a_backup_is_of_one_instant_while_others_write(filled: Engine, tmp_path: Path) -> None:
    before, writes = contents(filled), 0

    def write(_done: int, _all: int) -> None:
        nonlocal writes
        with filled.begin() as connection:
            for name in (ledger_entries.name, "cards", "payments"):
                table = metadata.tables[name]
                connection.execute(insert(table), {one.name: value(one, 10 + writes) for one in table.columns})
        writes += 1

    lines = written(filled, write)
    assert writes == sum(map(len, before.values())) > 100
    restart_outbox(before)
    other = connect(f"sqlite:///{tmp_path}/later.db")
    restore(other, lines)
    assert contents(other) == before
    other.dispose()


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda lines: lines[:-1], "cut off"),
        (lambda lines: [line.replace(b"text 3", b"text 4") for line in lines], "damaged"),
        (lambda lines: lines[:40] + lines[41:], "damaged"),
        (lambda lines: [*lines, lines[-1]], "damaged"),
        (lambda lines: [*lines[:9], b"{\n"], "is not JSON"),
        (lambda lines: [*lines[:9], b"[" * 100_000 + b"\n"], "is not JSON"),
        (lambda lines: [*lines[:2], b'{"table":"blocks","columns":[]}\n', *lines[2:]], "a table 'blocks' that"),
        (lambda lines: [lines[0].replace(b'"schema":"7"', b'"schema":"5"'), *lines[1:]], "is of schema '5'.*'1.0'"),
        (lambda lines: lines[1:], "not a backup"),
        (lambda _: [b'{"header":1}\n'], "not a backup"),
        (lambda _: [], "not JSON"),
    ],
)
def test_a_damaged_file_restores_nothing(
    damage: Callable[[list[bytes]], list[bytes]], why: str, filled: Engine, tmp_path: Path
) -> None:
    other = connect(f"sqlite:///{tmp_path}/damaged.db")
    with pytest.raises(BackupError, match=why):
        restore(other, damage(written(filled)))
    assert is_empty(other)
    other.dispose()


def changed(lines: list[bytes], name: str, column: str, value: Any) -> list[bytes]:
    """A backup that agrees with itself, with another value in the first row of a table."""
    result, prefix = lines[:-1], b'{"table":"%s"' % name.encode()
    begin = next(number for number, line in enumerate(lines) if line.startswith(prefix))
    row = json.loads(lines[begin + 1])
    row[json.loads(lines[begin])["columns"].index(column)] = value
    result[begin + 1] = json.dumps(row).encode() + b"\n"
    end = {"rows": json.loads(lines[-1])["end"]["rows"], "sha256": sha256(b"".join(result)).hexdigest()}
    return [*result, json.dumps({"end": end}).encode() + b"\n"]


WRONG: dict[str, list[Any]] = {
    "BIGINT": ["7", 1.5, True, 1 << 63, -(1 << 63) - 1, None, [], {}],
    "INTEGER": ["7", 1e300, False],
    "BOOLEAN": [0, "true"],
    "TEXT": [7, "\ud800", None],
    "BLOB": [7, "\u00e9", "A", None],
}
"""Values that a column of a type does not take."""


def test_a_backup_with_values_that_a_column_does_not_take_is_refused_with_a_sentence(
    filled: Engine, tmp_path: Path
) -> None:
    lines, other = written(filled), connect(f"sqlite:///{tmp_path}/wrong.db")
    columns: dict[str, Any] = {}
    for table in original_tables():
        for column in table.columns:
            if not column.nullable and not column.foreign_keys and table.name != "meta":
                columns.setdefault(column.type.compile(dialect=sqlite.dialect()), column)
    for kind, values in WRONG.items():
        for wrong in values:
            column = columns[kind]
            with pytest.raises(
                BackupError, match=rf"^the backup is damaged: .*(in {column.table.name}|base64|rows of)"
            ):
                restore(other, changed(lines, column.table.name, column.name, wrong))
    for name, column_name, wrong, why in (
        ("hidden", "reason", "because", "'because' in hidden.reason is not a text that it takes"),
        ("ledger_balances", "amount", 5, "entries do not make ledger_balances: text 1"),
        ("ledger_postings", "amount", 5, "entries do not make ledger_balances: text 1 ☃, text 1 ☃ text 1"),
        ("clients", "name", "text 2 \u2603", "rows of clients: UNIQUE"),
    ):
        with pytest.raises(BackupError, match=why):
            restore(other, changed(lines, name, column_name, wrong))
    assert is_empty(other)
    other.dispose()


def test_nothing_is_restored_while_an_indexer_writes(filled: Engine, other: Engine) -> None:
    writer = Writer(other)
    with pytest.raises(StoreError, match=r"an indexer writes to .*: stop it first"):
        restore(other, written(filled))
    writer.close()
    assert restore(other, written(filled)) > 0


KILLED = """
import os, signal, sys
from pathlib import Path
from indexer.store import backup
from indexer.snapshot.exporter import read_lines
from indexer.store import connect
from overlay.installation import declare_tables

declare_tables()

def until_killed(lines, number):
    for count, line in enumerate(lines):
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)
        yield line

backup.ROWS_AT_ONCE = 1
lines = until_killed(read_lines(Path(sys.argv[2])), int(sys.argv[3]))
backup.restore(connect(sys.argv[1]), lines)
"""


@pytest.mark.parametrize("part", [0.1, 0.6, 1.0])
def test_a_kill_in_the_middle_restores_nothing_and_the_next_try_everything(
    part: float, filled: Engine, other: Engine, tmp_path: Path
) -> None:
    lines = written(filled)
    (tmp_path / "backup").write_bytes(b"".join(lines))
    url, killed_after = other.url.render_as_string(hide_password=False), int(part * (len(lines) - 1))
    command = [sys.executable, "-c", KILLED, url, str(tmp_path / "backup"), str(killed_after)]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert is_empty(other)
    assert restore(other, lines) == len(lines) - 2 - len(contents(filled))
    assert contents(other)[ledger_postings.name] == contents(filled)[ledger_postings.name]


def test_large_rows_are_read_and_written_a_few_at_a_time(filled: Engine, tmp_path: Path) -> None:
    body = bytes(range(256)) * 40_000
    with filled.begin() as connection:
        connection.execute(insert(cards), [{"sha256": bytes([n]) * 32, "body": body} for n in range(40, 45)])
    other = connect(f"sqlite:///{tmp_path}/large.db")
    restore(other, written(filled))
    assert contents(other)["cards"] == contents(filled)["cards"]
    other.dispose()
