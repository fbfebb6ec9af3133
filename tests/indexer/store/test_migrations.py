"""Databases of earlier versions are brought up to date, and nothing in them is lost that nobody can bring again.

`schemas/5.DIALECT.sql` has the tables of schema 5, `schemas/5.json` what the last version with it wrote into them: of
the sample chain (without its larger proofs and cards), and for a client of each kind. Bytes are written as 0x…
"""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, column, create_engine, inspect, select, table, text

from indexer.model import SCHEMA
from indexer.state_hash import state_hash
from indexer.store import Store, StoreError, Writer, block_writer, connect, migrations
from indexer.store.checks import CheckKind, CheckState
from indexer.store.nonces import Nonces
from indexer.store.process_lock import writer_lock
from indexer.store.requests import Requests
from indexer.store.schema import metadata
from overlay.systems.delegateos.store import DelegationRecords
from overlay.systems.mrp.store import MrpProviders
from overlay.systems.payments.store import PaymentStore
from overlay.systems.rating.store import ReceiptQueries
from overlay.systems.rating.store_trust import TrustGraph
from overlay.systems.relay.store import RelayStore
from overlay.systems.webhooks.store import StoredWebhooks
from tests.facts import born, says
from tests.indexer.store.test_one_database import INTERVAL, NOW, WEBHOOK

SCHEMAS = Path(__file__).parent / "schemas"
Rows = dict[str, list[dict[str, Any]]]
RENAMED = {"found": "extra_transactions", "checks": "spend_checks"}
"""Tables of schema 5 that have another name now."""


QUEUED = {"tries", "next_at", "reason"}
"""Columns of which some tables of schema 5 gave those that they have no more to the queue of checks."""

DAY = 86_400_000
CHECKED = 1_790_000_000_000


def written(value: Any) -> Any:
    return bytes.fromhex(value[2:]) if isinstance(value, str) and value.startswith("0x") else value


def old_rows() -> Rows:
    body: Rows = json.loads((SCHEMAS / "5.json").read_text())
    return {name: [{key: written(value) for key, value in row.items()} for row in rows] for name, rows in body.items()}


def make(url: str, *names: str) -> None:
    """A database as the last version of schema 5 left it, or only these tables of it."""
    engine = create_engine(url)
    rows = old_rows()
    with engine.begin() as connection:
        for statement in (SCHEMAS / f"5.{engine.dialect.name}.sql").read_text().split(";\n"):
            if statement.strip():
                connection.execute(text(statement))
        for name, values in rows.items():
            for row in values if not names or name in names else ():
                connection.execute(table(name, *map(column, row)).insert().values(**row))
            if names and name not in names:
                connection.exec_driver_sql(f"DROP TABLE {name}" + " CASCADE" * (engine.dialect.name == "postgresql"))
    engine.dispose()


@pytest.fixture
def old(empty_database_url: str) -> str:
    """The URL of a database of schema 5."""
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


def test_what_cannot_be_rebuilt_is_all_there_after_a_migration(old: str) -> None:
    rows, names = old_rows(), {new: old for old, new in RENAMED.items()}
    new = {"checks"}
    before = {name: rows.pop(names.get(name, name)) for name in {*originals()} - new if names.get(name, name) in rows}
    assert [name for name, values in before.items() if not values] == []
    assert len(before) > 40
    engine = connect(old)
    for name, values in before.items():
        values = [row for row in values if name != "meta" or row["key"] != "schema"]
        gone = QUEUED - {*metadata.tables[name].columns.keys()}
        values = [{key: value for key, value in row.items() if key not in gone} for row in values]
        there = stored_rows(engine, name, {key for row in values for key in row})
        there = [row for row in there if name != "meta" or row["key"] != "schema"]
        assert there == sorted((dict(sorted(row.items())) for row in values), key=repr), name
    engine.dispose()


def test_all_that_is_checked_again_is_due_when_it_was(old: str) -> None:
    rows = old_rows()
    named, other = (row["registration"] for row in rows["badges"])
    card, key = (rows["card_signatures"][0]["card"].hex(), rows["motebit_endpoints"][0]["public_key"])
    endpoint, logo, manifest = "https://a.example/mcp", "https://a.example/logo.png", "https://a.example/m"
    engine = connect(old)
    queue = Store(engine).checks
    hour = DAY // 24
    assert queue.due(10**16, 100) == [
        (CHECKED, "logo", logo),
        (CHECKED, "motebit", "a.example"),
        (CHECKED, "motebit", "hex.example"),
        (CHECKED + hour, "badge", "b.example"),
        (CHECKED + DAY, "badge", "a.example"),
        (CHECKED + DAY, "keys", "https://a.example/keys"),
        (CHECKED + DAY, "mcp", f"{endpoint}#{key}@a.example"),
        (1_800_000_000_000 + DAY, "mrp", manifest),
    ]
    expected = CheckState(tries=1, checked_at=CHECKED, next_at=CHECKED + hour, reason="unreachable")
    assert queue.get(CheckKind.BADGE, other) == expected
    assert queue.names_due(CheckKind.KEYS, "https://a.example/keys", 10**16, 9) == [card]
    badges = Store(engine).badges.get([named, other])
    assert {id_: (badge.by, badge.checked_at) for id_, badge in badges.items()} == {
        named: ("name", CHECKED), other: ("", CHECKED),
    }  # fmt: skip
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
    assert not Nonces(engine).use("dct", "n", NOW, 2 * NOW)
    assert [one.manifest_url for one in MrpProviders(engine).page(NOW * 1000, 9)] == ["https://a.example/m"]
    store = Store(engine)
    assert TrustGraph(engine).blocked() == {"ww"}
    assert [bind.key for bind in ReceiptQueries(engine).keys_of("one")] == ["aa"]
    assert store.motebit_hosts.get(["a.example"])["a.example"].motebit_id == "m"
    assert Requests(engine).counts()["waiting"] == 1
    assert len(list(store.spend_checks.transactions("demo"))) == 1
    engine.dispose()


def test_its_state_hashes_are_those_of_the_chain(old: str, sample: Path) -> None:
    stated = json.loads((sample / "expected.json").read_text())["stateHashes"]
    engine = connect(old)
    store = Store(engine)
    assert {height: state_hash(store, "demo", int(height)) for height in stated} == stated
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


LEDGERS = (
    *("payments", "payment_inputs", "paid_tasks", "paid_intervals", "ledger_entries", "ledger_postings"),
    *("ledger_balances", "seen_nonces"),
)


def test_a_ledger_without_a_registry_is_migrated_too(empty_database_url: str) -> None:
    make(empty_database_url, *LEDGERS)
    for _ in range(2):
        ledger = PaymentStore.open(empty_database_url)
        assert (ledger.counted(), ledger.paid_interval(INTERVAL.id)) == (5, INTERVAL)
        ledger.close()


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
        step(connection)
        raise ZeroDivisionError

    step = migrations.STEPS[last]
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


def test_nothing_is_changed_under_an_indexer_that_writes(old: str) -> None:
    engine = create_engine(old)
    lock = writer_lock(engine)
    assert lock.acquire()
    with pytest.raises(StoreError, match="an indexer of an earlier version is writing to it; stop it first"):
        connect(old)
    lock.release()
    engine.dispose()
    connect(old).dispose()


@pytest.mark.parametrize("version", ["1", "4"])
def test_a_database_that_is_too_old_says_which_version_migrates_it(old: str, version: str) -> None:
    engine = create_engine(old)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE meta SET value = '{version}' WHERE key = 'schema'")
    before = layout(engine)
    with pytest.raises(StoreError, match=rf"has schema '{version}'.*open it once with a version .* has schema 5"):
        connect(old)
    assert layout(engine) == before
    engine.dispose()


def test_tables_of_an_older_relay_say_so_too(old: str) -> None:
    engine = create_engine(old)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE relay_trust")
    with pytest.raises(StoreError, match=r"the relay's tables are older .* that has schema 5"):
        connect(old)
    engine.dispose()


def test_every_earlier_schema_has_its_step() -> None:
    assert [*migrations.STEPS] == [str(number) for number in range(int(migrations.OLDEST), int(SCHEMA))]
