"""Databases of earlier versions are brought up to date, and say afterwards what a new one says.

`schemas/N.DIALECT.sql` is what version N made its tables with, `rows.json` what the last version of schema 2 wrote
about the sample chain (bytes as 0x…; without what is null); its blocks, cards and proofs are those read today.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, create_engine, inspect, select

from indexer.model import RULES
from indexer.state_hash import state_hash
from indexer.store import Store, StoreError, Writer, connect, migrations
from indexer.store.block_writer import set_rules
from indexer.store.database import WRITER_LOCK
from indexer.store.schema import SCHEMA, metadata
from tests.databases import Cluster
from tests.facts import born, says
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.oracles.wire import frames

SCHEMAS = Path(__file__).parent / "schemas"
Rows = dict[str, list[dict[str, Any]]]


def rows_of(engine: Engine) -> Rows:
    """Everything that is stored, each table in an order of its own."""
    with engine.connect() as connection:
        return {
            table.name: sorted((dict(row) for row in connection.execute(select(table)).mappings()), key=repr)
            for table in metadata.sorted_tables
        }


@pytest.fixture(scope="module")
def today(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """What this version writes about the sample chain."""
    chain = MemoryChain(*frames((sample / "blk00000.dat").read_bytes()))
    with Indexing(f"sqlite:///{tmp_path_factory.mktemp('today')}/a2b.db", chain) as indexing:
        asyncio.run(indexing.catch_up())
        return rows_of(indexing.store.engine)


def written(value: Any) -> Any:
    return bytes.fromhex(value[2:]) if isinstance(value, str) and value.startswith("0x") else value


LATER: dict[str, tuple[str, ...]] = {
    "1": (),
    "2": ("proofs",),
    "3": ("proofs", "events", "sightings", "locators"),
    "4": ("proofs", "events", "sightings", "locators", "topic_anchors"),
}
"""Tables that a version filled as this one does."""


def make(url: str, version: str, today: Rows) -> None:
    """A database as version `version` left it."""
    engine = create_engine(url)
    dialect = engine.dialect.name
    body: Rows = json.loads((SCHEMAS / "rows.json").read_text())
    rows = {name: [{key: written(value) for key, value in row.items()} for row in body[name]] for name in body}
    rows["meta"] = [row | {"value": version} if row["key"] == "schema" else row for row in rows["meta"]]
    rows |= {name: today[name] for name in ("blocks", "cards", *LATER[version])}
    with engine.begin() as connection:
        for statement in (SCHEMAS / f"{version}.{dialect}.sql").read_text().split(";\n"):
            if statement.strip():
                connection.exec_driver_sql(statement)
        for name in dict.fromkeys(("meta", "blocks", "cards", "outputs", "changes", "events", *LATER[version])):
            table = metadata.tables[name]
            columns = [column for column in table.columns if version >= "3" or column.name != "anchor_digest"]
            values = [{column.name: row.get(column.name) for column in columns} for row in rows[name]]
            connection.execute(table.insert(), values)
    engine.dispose()


@pytest.fixture(params=["1", "2", "3", "4"])
def old(request: pytest.FixtureRequest, empty_database_url: str, today: Rows) -> str:
    """The URL of a database of an earlier version, which holds the sample chain."""
    make(empty_database_url, request.param, today)
    return empty_database_url


UNLIKE = {"meta", "sightings", "locators", "changes", "proofs", "headers", "outputs", "parents"}
"""Tables that hold times and names of their own, or that an earlier version did not fill."""


def test_an_old_database_says_what_a_new_one_says(old: str, today: Rows, sample: Path) -> None:
    engine = connect(old)
    result = rows_of(engine)
    assert {name: rows for name, rows in result.items() if name not in UNLIKE} == {
        name: rows for name, rows in today.items() if name not in UNLIKE
    }
    timeless = ("seen_at", "added_at", "next_at")
    for name in ("sightings", "locators"):
        assert [{k: v for k, v in row.items() if k not in timeless} for row in result[name]] == [
            {k: v for k, v in row.items() if k not in timeless} for row in today[name]
        ]
    stated = json.loads((sample / "expected.json").read_text())["stateHashes"]
    hashes = {int(height): digest for height, digest in stated.items()}
    store = Store(engine)
    assert {state_hash(store, "demo", height) for height in hashes} == {None}, "read by older rules"
    with engine.begin() as connection:
        set_rules(connection, "demo", RULES)
    assert {height: state_hash(store, "demo", height) for height in hashes} == hashes
    engine.dispose()


def test_it_has_the_tables_and_indexes_of_a_new_one(old: str) -> None:
    engine = connect(old)
    seen = inspect(engine)
    for table in metadata.sorted_tables:
        assert {column["name"] for column in seen.get_columns(table.name)} == {column.name for column in table.columns}
        there = {index["name"]: [*index["column_names"]] for index in seen.get_indexes(table.name)}
        assert there == {index.name: [column.name for column in index.columns] for index in table.indexes}
    engine.dispose()


def test_its_outbox_goes_on_and_more_can_be_written(old: str) -> None:
    engine = connect(old)
    store = Store(engine)
    body = json.loads((SCHEMAS / "rows.json").read_text())
    before = store.outbox.newest_seq()
    assert store.outbox.epoch == next(row["value"] for row in body["meta"] if row["key"] == "epoch")
    assert before == max(row["seq"] for row in body["changes"])
    with closing(Writer(engine)) as writer:
        writer.append("other", [says("0", chain="other"), says("1", born("a", height=1), chain="other")])
    assert [change.seq for change in store.outbox.after(before, 9)] == [before + 1]
    engine.dispose()
    connect(old).dispose()


def layout(engine: Engine) -> dict[str, list[str]]:
    """The columns of every table, and the schema that the database says it has."""
    seen = inspect(engine)
    tables = {table: [column["name"] for column in seen.get_columns(table)] for table in seen.get_table_names()}
    with engine.connect() as connection:
        version = connection.exec_driver_sql("SELECT value FROM meta WHERE key = 'schema'").scalar()
    return tables | {"schema": [str(version)]}


def test_a_step_that_fails_leaves_the_old_database(old: str, monkeypatch: pytest.MonkeyPatch) -> None:
    last = str(int(SCHEMA) - 1)

    def broken(connection: Connection) -> None:
        rename(connection)
        raise ZeroDivisionError

    rename = migrations.STEPS[last]
    engine = create_engine(old)
    before = layout(engine)
    assert before["schema"][0] in migrations.STEPS
    monkeypatch.setitem(migrations.STEPS, last, broken)
    with pytest.raises(ZeroDivisionError):
        connect(old)
    monkeypatch.undo()
    assert layout(engine) == before
    connect(old).dispose()
    assert layout(engine)["schema"] == [SCHEMA]
    engine.dispose()


@pytest.mark.parametrize("version", ["3", "4"])
def test_renamed_columns_keep_their_values(version: str, empty_database_url: str, today: Rows) -> None:
    make(empty_database_url, version, today)
    engine = create_engine(empty_database_url)
    with engine.begin() as connection:
        for row in (
            "requests (txid, client, asked_at, tries, next_at, state, detail) VALUES ('1', '', 11, 0, 0, '', '')",
            "checks (chain, txid, vout, asked_at, checked_at, told_at) VALUES ('demo', '1', 0, 21, 22, 23)",
            "quotes (feed, since, at, until, rank, base, source, rates) VALUES ('f', 31, 32, 33, 0, '', '', '')",
        ):
            connection.exec_driver_sql(f"INSERT INTO {row}")
    engine.dispose()
    engine = connect(empty_database_url)
    rows = rows_of(engine)
    assert [row["requested_at"] for row in rows["requests"]] == [11]
    assert [(row["tried_at"], row["checked_at"], row["announced_at"]) for row in rows["checks"]] == [(21, 22, 23)]
    assert [(row["since"], row["quoted_at"]) for row in rows["quotes"]] == [(31, 32)]
    engine.dispose()


def test_nothing_is_changed_under_an_indexer_that_writes(old: str, postgresql: Cluster) -> None:
    if old.startswith("sqlite"):
        with Path(old.removeprefix("sqlite:///") + ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with pytest.raises(StoreError, match="an indexer of an earlier version is writing to it; stop it first"):
                connect(old)
    else:
        engine = create_engine(old)
        with engine.connect() as connection:
            connection.exec_driver_sql(f"SELECT pg_advisory_lock({WRITER_LOCK})")
            with pytest.raises(StoreError, match="an indexer of an earlier version is writing to it; stop it first"):
                connect(old)
            connection.exec_driver_sql(f"SELECT pg_advisory_unlock({WRITER_LOCK})")
        engine.dispose()
    connect(old).dispose()


def test_every_earlier_schema_has_its_step() -> None:
    assert [*migrations.STEPS] == [str(number) for number in range(1, int(SCHEMA))]
    assert {path.name for path in SCHEMAS.glob("*.sql")} == {
        f"{version}.{dialect}.sql" for version in migrations.STEPS for dialect in ("sqlite", "postgresql")
    }
