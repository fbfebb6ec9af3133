"""All components in one database, as an overlay has them: names are unique."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import sha256
from itertools import permutations
from pathlib import Path

import pytest
from sqlalchemy import Engine, String, inspect
from sqlalchemy.exc import InvalidRequestError

from indexer.store import Store, StoreError, Writer, chain_marks, connect, unchecked
from indexer.store.locks import advisory_lock, locks
from indexer.store.nonces import Nonces
from indexer.store.schema import keys, metadata, rebuilt_table
from overlay.systems.delegateos.store import BlockBudget, DelegationRecords, NonceUse
from overlay.systems.mrp.store import MrpProviders
from overlay.systems.payments.store import PaymentStore
from overlay.systems.payments.store_records import PaidInterval, PaidTask, PaymentState, StoredPayment, TaskState
from overlay.systems.rating.store import ReceiptQueries, StoredReceipt, SubmittedDocument
from overlay.systems.rating.store_trust import TrustGraph
from overlay.systems.relay.store import RelayStore
from overlay.systems.webhooks.store import StoredWebhook, StoredWebhooks
from parsers.bitcoin.tx import Outpoint
from parsers.claims.motebit.settlement import RelayAgent
from tests.conftest import ROOT
from tests.databases import Cluster
from tests.overlay.protocols.mrp.test_store import challenge, provider
from tests.running import environment

NOW = 1_790_000_000
WEBHOOK = StoredWebhook(
    id="w", client="c", url="https://a.example/h", search="q=x", base="https://b.example", secret_sha256=bytes(32),
    created_at=NOW,
)  # fmt: skip
INTERVAL = PaidInterval(id="old-task", config="month", started_at=NOW, periods=2, paid_until=NOW + 5_000_000)
COIN = Outpoint(bytes(32), 1)
PAYMENT = StoredPayment(
    chain="bsv:regtest", txid=b"\x01" * 32, task="t", config="month", stage="full", needed=5, paid=5, raw=b"raw",
    created_at=NOW, updated_at=NOW,
)  # fmt: skip
TASK = PaidTask(id="t", state=TaskState.RUNNING, config="month", updated_at=NOW)


def sources() -> Iterator[Path]:
    for room in ("parsers", "indexer", "overlay"):
        yield from (ROOT / room).rglob("*.py")


def test_a_second_table_or_index_of_a_name_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="Table 'subscriptions' is already defined"):
        rebuilt_table("subscriptions", *keys(id=String))
    indexes = [str(index.name) for table in metadata.sorted_tables for index in table.indexes]
    names = Counter([*metadata.tables, *indexes])
    assert len(metadata.tables) > 60
    assert [name for name, times in names.items() if times > 1] == []


def test_tables_and_locks_are_declared_in_one_way() -> None:
    uses = {
        str(path.relative_to(ROOT)): Counter(words)
        for path in sources()
        if (words := re.findall(r"\bMetaData\(|\bTable\(name|\bTable\(\s*[\x22]", path.read_text()))
    }
    assert uses == {"indexer/store/schema.py": {"MetaData(": 1, "Table(name": 2}}
    assert {number >> 8 for letter, number in locks.items() if letter} == {locks[""]} == {0x613262}
    with pytest.raises(ValueError, match="the advisory lock 'w' is declared twice"):
        advisory_lock("w")


def test_a_process_that_indexes_a_database_has_the_tables_of_all_systems(tmp_path: Path) -> None:
    """In a process that imports nothing besides, as a bench does."""
    program = (
        "from indexer.store import Store, connect\n"
        "from overlay.projection.projector import IndexProjector\n"
        "from overlay.projection.search_index import SearchIndex\n"
        "IndexProjector(Store(connect('sqlite:///a2b.db')), SearchIndex('native:index')).run()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=environment(), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    engine = connect(f"sqlite:///{tmp_path}/a2b.db", create=False)
    assert {*inspect(engine).get_table_names()} >= {*metadata.tables}
    engine.dispose()


def test_the_tables_that_only_a_backup_brings_back_are_documented() -> None:
    text = (ROOT / "docs" / "operations.md").read_text().partition("## Backups")[2].partition("\n## ")[0]
    named = {name for name in re.findall(r"`(\w+)`", text) if name in metadata.tables}
    assert named == {table.name for table in metadata.sorted_tables if not table.info["rebuilt"]}


def use_registry(engine: Engine) -> None:
    writer = Writer(engine)
    chain_marks.name_chain(writer, "demo", "bsv:regtest")
    writer.close()
    assert Store(engine).chains() == {"demo": "bsv:regtest"}


def use_evidence(engine: Engine) -> None:
    with_document = SubmittedDocument(sha256(b"d").digest(), "receipt", b"d", NOW)
    row = StoredReceipt(
        digest=sha256(b"a").digest(), counter_signer="", document=with_document.sha256, listing="one", worker="aa",
        task="t", outcome="completed", completed_at=NOW, received_at=NOW,
    )  # fmt: skip
    ReceiptQueries(engine).submit([with_document], [row])
    assert ReceiptQueries(engine).page("one", None, 9) == [row]
    TrustGraph(engine).block("ww", NOW)
    assert TrustGraph(engine).blocked() == {"ww"}


def use_webhooks(engine: Engine) -> None:
    StoredWebhooks(engine).add(WEBHOOK)
    assert StoredWebhooks(engine).active() == [WEBHOOK]


def use_payments(engine: Engine) -> None:
    ledger = PaymentStore(engine)
    ledger.reserve(PAYMENT, [COIN], TASK)
    completed = PaidTask(id="t", state=TaskState.COMPLETED, config="month", updated_at=NOW)
    assert ledger.move_both(PAYMENT, PaymentState.SENT, completed, renew=lambda old: old or INTERVAL)
    task = PaymentStore(engine).task("t")
    assert task is not None
    assert (task.state, ledger.counted(), ledger.paid_interval(task.subscription)) == ("completed", 5, INTERVAL)


def use_relay(engine: Engine) -> None:
    store = RelayStore(engine)
    agent = RelayAgent(
        motebit_id="m", public_key=bytes(32), endpoint="", capabilities=(), last_seen=NOW, expires_at=2 * NOW
    )
    store.agents.put(agent, None)
    assert RelayStore(engine).agents.agent("m") == agent
    assert store.ledger.faults() == []
    assert (store.cash.watched(), store.cash.open_withdrawals(), store.tasks.locked_by("m")) == ([], [], 0)


def use_delegations(engine: Engine) -> None:
    ledger = DelegationRecords(engine)
    ledger.charge([BlockBudget("b", 9, 2 * NOW)], NonceUse("dct", "n", 2 * NOW))
    assert DelegationRecords(engine).spent("b") == 1
    assert not Nonces(engine).use("dct", "n", 2 * NOW)


def use_mrp(engine: Engine) -> None:
    providers = MrpProviders(engine)
    new = provider()
    providers.open_challenge(challenge("1"), new.verified_at)
    providers.add(new, "a.example", "1")
    assert [one.manifest_url for one in MrpProviders(engine).page(new.verified_at, 9)] == [new.manifest_url]


COMPONENTS: tuple[Callable[[Engine], None], ...] = (
    use_registry, use_evidence, use_webhooks, use_payments, use_relay, use_delegations, use_mrp,
)  # fmt: skip


def test_every_component_reads_and_writes_in_the_database_of_all(database_url: str) -> None:
    engine = connect(database_url)
    for use in COMPONENTS:
        use(engine)
    engine.dispose()
    engine = connect(database_url)  # after a restart, with everything in it
    inspector = inspect(engine)
    stored = {name: {column["name"] for column in inspector.get_columns(name)} for name in inspector.get_table_names()}
    assert stored == {table.name: set(table.columns.keys()) for table in metadata.sorted_tables}
    assert StoredWebhooks(engine).active() == [WEBHOOK]
    assert PaymentStore(engine).paid_interval(INTERVAL.id) == INTERVAL
    engine.dispose()


@pytest.mark.parametrize("order", list(permutations((use_payments, use_relay, use_delegations))))
def test_components_are_opened_in_any_order_and_before_the_registry(
    order: tuple[Callable[[Engine], None], ...], tmp_path: Path
) -> None:
    engine = connect(f"sqlite:///{tmp_path}/a2b.db")
    for use in order:
        use(engine)
    engine.dispose()
    engine = connect(f"sqlite:///{tmp_path}/a2b.db")
    use_webhooks(engine)
    assert PaymentStore(engine).paid_interval(INTERVAL.id) == INTERVAL
    engine.dispose()


def run(url: str, *statements: str) -> None:
    engine = unchecked(url)
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    engine.dispose()


def test_a_table_of_something_else_is_an_error_that_names_it_before_anything_is_paid(empty_database_url: str) -> None:
    run(empty_database_url, "CREATE TABLE paid_intervals (id TEXT PRIMARY KEY, url TEXT)")
    with pytest.raises(StoreError, match=r"the table paid_intervals of .* has other columns .*paid_until.*url"):
        PaymentStore.open(empty_database_url)


def test_two_processes_may_create_at_once(postgresql: Cluster) -> None:
    from concurrent.futures import ThreadPoolExecutor

    url = postgresql.new()
    openings = [lambda: PaymentStore.open(url).close(), lambda: connect(url).dispose()] * 3
    with ThreadPoolExecutor(6) as pool:
        for opening in [pool.submit(one) for one in openings]:
            opening.result()
    with closing(PaymentStore.open(url)) as ledger:
        assert ledger.counted() == 0
