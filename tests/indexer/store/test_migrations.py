"""A database of version 0.2.0 is brought up to date, and nothing in it is lost that nobody can bring again.

The rows are those of `tests/journey/upgrade/0.2.0.tar.xz`, which was made by that version; `schemas/6.postgresql.sql`
has its tables on PostgreSQL.
"""

from __future__ import annotations

import sqlite3
import tarfile
from contextlib import closing
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Boolean, Connection, Engine, MetaData, create_engine, inspect, make_url, select

import indexer.store
from indexer.model import SCHEMA
from indexer.state_hash import state_hash
from indexer.store import Migration, Store, StoreError, Writer, block_writer, imports, migrations
from indexer.store.migrations import RENAMED
from indexer.store.nonces import Nonces
from indexer.store.process_lock import writer_lock
from indexer.store.requests import Requests
from indexer.store.schema import HASH_KEY, metadata
from overlay.systems.delegateos.store import DelegationRecords
from overlay.systems.motebit.store_hosts import HostIdentities
from overlay.systems.mrp.store import MrpProviders
from overlay.systems.payments.store import PaymentStore
from overlay.systems.rating.store import ReceiptQueries
from overlay.systems.rating.store_trust import TrustGraph
from overlay.systems.relay.store import RelayStore
from overlay.systems.webhooks.store import StoredWebhooks
from tests.conftest import ROOT
from tests.facts import born, says
from tests.indexer.store.test_one_database import INTERVAL, NOW, WEBHOOK

connect = partial(indexer.store.connect, migration=Migration.WITH_COPY)

ARCHIVE = ROOT / "tests" / "journey" / "upgrade" / "0.2.0.tar.xz"
TABLES = Path(__file__).parent / "schemas" / "6.postgresql.sql"
Rows = dict[str, list[dict[str, Any]]]


@cache
def old_file() -> bytes:
    """The SQLite file that 0.2.0 left."""
    with tarfile.open(ARCHIVE) as archive:
        file = archive.extractfile("data/a2b.db")
        assert file is not None
        return file.read()


@cache
def old_rows() -> Rows:
    """All rows in it by table."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.row_factory = sqlite3.Row
        file = old_file()
        database.deserialize(file[:18] + b"\1\1" + file[20:])  # without a write-ahead log
        names = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: [*map(dict, database.execute(f"SELECT * FROM {name}"))] for name in names}


def make(url: str, *names: str) -> None:
    """A database as version 0.2.0 left it, or only these tables of it."""
    engine = create_engine(url)
    if engine.dialect.name == "sqlite":
        Path(str(make_url(url).database)).write_bytes(old_file())
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            fill_postgresql(connection)
        for name in old_rows().keys() - names if names else ():
            connection.exec_driver_sql(f"DROP TABLE {name}" + " CASCADE" * (engine.dialect.name == "postgresql"))
    engine.dispose()


def fill_postgresql(connection: Connection) -> None:
    """Create the tables of 0.2.0, and fill them."""
    connection.exec_driver_sql(TABLES.read_text())
    tables = MetaData()
    tables.reflect(connection)
    for table in tables.sorted_tables:
        truths = [column.name for column in table.columns if isinstance(column.type, Boolean)]
        rows = [row | {name: bool(row[name]) for name in truths} for row in old_rows()[table.name]]
        if rows:
            connection.execute(table.insert(), rows)


@pytest.fixture
def old(empty_database_url: str) -> str:
    """The URL of a database of version 0.2.0."""
    make(empty_database_url)
    return empty_database_url


def stored_rows(engine: Engine, name: str, columns: set[str]) -> list[dict[str, Any]]:
    """The rows of a table in these columns, without what is null, in an order of their own."""
    with engine.connect() as connection:
        rows = connection.execute(select(*(metadata.tables[name].c[key] for key in sorted(columns)))).mappings().all()
    return sorted(({key: value for key, value in row.items() if value is not None} for row in rows), key=repr)


def originals() -> list[str]:
    return [table.name for table in metadata.sorted_tables if not table.info["rebuilt"]]


def test_every_table_says_whether_it_can_be_rebuilt() -> None:
    assert {table.info["rebuilt"] for table in metadata.sorted_tables} == {True, False}


MIGRATED = ("schema", HASH_KEY)
"""Rows of `meta` that a migration writes."""


def test_each_database_has_a_hash_key_of_its_own_that_stays(old: str, tmp_path: Path) -> None:
    migrated, created = connect(old), connect(f"sqlite:///{tmp_path}/new.db")
    keys = [Store(engine).hash_key for engine in (migrated, created)]
    assert [len(key) for key in keys] == [32, 32]
    assert keys[0] != keys[1]
    created.dispose()
    created = connect(f"sqlite:///{tmp_path}/new.db")
    assert Store(created).hash_key == keys[1]
    imports.empty(created)
    assert Store(created).hash_key == keys[1]
    for engine in (migrated, created):
        engine.dispose()


def test_what_cannot_be_rebuilt_is_all_there_after_a_migration(old: str) -> None:
    renamed = {RENAMED.get(name, name): values for name, values in old_rows().items()}
    before = {name: renamed[name] for name in originals() if name in renamed}
    assert [name for name, values in before.items() if not values] == []
    assert len(before) > 40
    engine = connect(old)
    for name, values in before.items():
        values = [row for row in values if name != "meta" or row["key"] not in MIGRATED]
        values = [{key: value for key, value in row.items() if value is not None} for row in values]
        there = stored_rows(engine, name, {key for row in values for key in row})
        there = [row for row in there if name != "meta" or row["key"] not in MIGRATED]
        assert there == sorted((dict(sorted(row.items())) for row in values), key=repr), name
    engine.dispose()


def test_the_blocks_of_evm_chains_are_to_be_read_a_second_time(old: str) -> None:
    earlier = create_engine(old)
    with earlier.begin() as connection:
        connection.exec_driver_sql("INSERT INTO meta (key, value) VALUES ('chain:base', 'eip155:8453')")
        connection.exec_driver_sql("INSERT INTO cursors (name, epoch, seq) VALUES ('state:base', 'e', 1)")
    earlier.dispose()
    engine = connect(old)
    assert Store(engine).read_twice("base") == -1
    assert {name for name in Store(engine).chains() if Store(engine).read_twice(name) is not None} == {"base"}
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT name FROM outbox_positions WHERE name = 'state:base'").all() == []
    engine.dispose()


def test_its_components_go_on_where_they_were(old: str) -> None:
    engine = connect(old)
    payments, relay, webhooks = PaymentStore(engine), RelayStore(engine), StoredWebhooks(engine)
    assert (payments.counted(), payments.paid_interval(INTERVAL.id)) == (5, INTERVAL)
    assert relay.ledger.faults() == []
    assert relay.ledger.balances() | {"chain": 0} == {
        "agent:m": 610, "agent:n": 38, "chain": 0, "fees": 2, "locked:open": 50, "locked:settled": 0,
        "withdrawal:w": 300,
    }  # fmt: skip
    assert [one.id for one in webhooks.active()] == [WEBHOOK.id]
    waiting = webhooks.oldest_waiting(WEBHOOK.id)
    assert waiting is not None
    assert waiting.body == b"{}"
    assert DelegationRecords(engine).spent("b") == 1
    assert not Nonces(engine).use("dct", "n", 2 * NOW)
    assert [one.manifest_url for one in MrpProviders(engine).page(NOW * 1000, 9)] == ["https://a.example/m"]
    assert TrustGraph(engine).blocked() == {"ww"}
    [bind] = old_rows()["key_binds"]
    assert [one.key for one in ReceiptQueries(engine).keys_of(bind["listing"])] == [bind["key"]]
    assert HostIdentities(engine).get(["a.example"])["a.example"].motebit_id == "m"
    assert Requests(engine).counts()["waiting"] == 1
    engine.dispose()


def test_its_ratings_are_absent_until_they_are_computed_again(old: str) -> None:
    [before] = old_rows()["ratings"]
    assert before["score"] is not None
    engine = connect(old)
    receipts = ReceiptQueries(engine)
    assert receipts.ratings([before["listing"]])[before["listing"]].score is None
    assert [listing for listing, _ in receipts.due(0, 100)] == [before["listing"]]
    engine.dispose()


def test_its_state_hash_is_that_of_version_0_2_0(old: str) -> None:
    [before] = old_rows()["state_hashes"]
    engine = connect(old)
    assert state_hash(Store(engine), "demo", before["height"]) == before["hash"].hex()
    engine.dispose()


def test_it_has_the_tables_and_indexes_of_a_new_one(old: str) -> None:
    engine = connect(old)
    seen = inspect(engine)
    assert {*seen.get_table_names()} == {*metadata.tables}
    for new in metadata.sorted_tables:
        assert {column["name"] for column in seen.get_columns(new.name)} == {column.name for column in new.columns}
        there = {
            index["name"]: [*index["column_names"]]
            for index in seen.get_indexes(new.name)
            if not index.get("duplicates_constraint")
        }
        assert there.keys() == {index.name for index in new.indexes}
    engine.dispose()


def test_an_index_that_a_database_of_this_schema_lacks_is_created(empty_database_url: str) -> None:
    connect(empty_database_url).dispose()
    engine = create_engine(empty_database_url)
    with engine.begin() as connection:
        assert migrations.missing_indexes(connection) == []
        connection.exec_driver_sql("DROP INDEX events_not_live")
        assert [index.name for index in migrations.missing_indexes(connection)] == ["events_not_live"]
    connect(empty_database_url).dispose()
    with engine.begin() as connection:
        assert migrations.missing_indexes(connection) == []
    engine.dispose()


def test_readers_are_not_locked_out_while_indexes_are_created_in_place_of_others(empty_database_url: str) -> None:
    connect(empty_database_url).dispose()
    engine = create_engine(empty_database_url)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP INDEX events_by_output")
        connection.exec_driver_sql("CREATE INDEX events_by_tx ON events (txid)")
    if engine.dialect.name == "postgresql":
        with engine.connect() as connection:
            migrations.create_missing(connection)
            locks = "SELECT mode FROM pg_locks WHERE relation = 'events'::regclass AND pid = pg_backend_pid()"
            modes = connection.exec_driver_sql(locks).scalars().all()
            assert "ShareLock" in modes
            assert "AccessExclusiveLock" not in modes
            connection.rollback()
    connect(empty_database_url).dispose()
    names = {index["name"] for index in inspect(engine).get_indexes("events")}
    assert "events_by_output" in names
    assert "events_by_tx" not in names
    engine.dispose()


def test_its_outbox_goes_on_and_more_can_be_written(old: str) -> None:
    engine = connect(old)
    store = Store(engine)
    rows = old_rows()
    before = store.outbox.newest_seq()
    assert store.outbox.epoch == next(row["value"] for row in rows["meta"] if row["key"] == "epoch")
    assert before == max(row["seq"] for row in rows["changes"])
    with closing(Writer(engine)) as writer:
        block_writer.append(writer, "other", [says("0", chain="other"), says("1", born("a", height=1), chain="other")])
    assert [change.seq for change in store.outbox.after(before, 9)] == [before + 1]
    engine.dispose()
    connect(old).dispose()


PAYMENTS = ("meta", "payments", "payment_inputs", "paid_tasks", "paid_intervals")


def test_a_database_with_payments_alone_is_migrated_too(empty_database_url: str) -> None:
    make(empty_database_url, *PAYMENTS)
    with pytest.raises(StoreError, match="run `a2b migrate`"):
        PaymentStore.open(empty_database_url)
    connect(empty_database_url).dispose()
    with closing(PaymentStore.open(empty_database_url)) as ledger:
        assert (ledger.counted(), ledger.paid_interval(INTERVAL.id)) == (5, INTERVAL)


def test_payments_of_a_version_that_noted_no_schema_are_refused(empty_database_url: str) -> None:
    make(empty_database_url, *PAYMENTS[1:])
    before = inspected(empty_database_url)
    with pytest.raises(
        StoreError, match=r"the table paid_\w+ of .* has other columns .*: use the version that made it"
    ):
        PaymentStore.open(empty_database_url)
    assert inspected(empty_database_url) == before


def inspected(url: str) -> list[str]:
    engine = create_engine(url)
    names = inspect(engine).get_table_names()
    engine.dispose()
    return sorted(names)


def layout(engine: Engine) -> dict[str, list[str]]:
    """The columns of every table, and the schema that the database says it has."""
    seen = inspect(engine)
    tables = {table: [column["name"] for column in seen.get_columns(table)] for table in seen.get_table_names()}
    with engine.connect() as connection:
        version = connection.exec_driver_sql("SELECT value FROM meta WHERE key = 'schema'").scalar()
    return tables | {"schema": [str(version)]}


def test_a_migration_that_fails_leaves_the_old_database(old: str, monkeypatch: pytest.MonkeyPatch) -> None:
    migrate = migrations.migrate

    def broken(connection: Connection) -> None:
        migrate(connection)
        raise ZeroDivisionError

    engine = create_engine(old)
    before = layout(engine)
    assert before["schema"] == [migrations.PREVIOUS]
    monkeypatch.setattr(migrations, "migrate", broken)
    with pytest.raises(ZeroDivisionError):
        connect(old)
    monkeypatch.undo()
    assert layout(engine) == before
    connect(old).dispose()
    assert layout(engine)["schema"] == [SCHEMA]
    engine.dispose()


def test_nothing_is_changed_under_an_indexer_that_writes(old: str) -> None:
    engine = create_engine(old)
    lock = writer_lock(engine)
    assert lock.acquire()
    with pytest.raises(StoreError, match=r"an indexer of version 0\.2\.0 writes to the database.*: stop it first"):
        connect(old)
    lock.release()
    engine.dispose()
    connect(old).dispose()


@pytest.mark.parametrize("version", ["1", "5"])
@pytest.mark.parametrize("migration", Migration)
def test_a_database_that_is_older_is_refused_with_what_to_do(old: str, version: str, migration: Migration) -> None:
    engine = create_engine(old)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE meta SET value = '{version}' WHERE key = 'schema'")
    before = layout(engine)
    with pytest.raises(StoreError) as caught:
        indexer.store.connect(old, migration=migration)
    assert str(caught.value) == (
        f"the database has schema '{version}' and this program reads '{SCHEMA}': this version migrates databases of "
        "version 0.2.0 (schema 6) alone: open it once with that version, or index into a new database"
    )
    assert layout(engine) == before
    engine.dispose()
