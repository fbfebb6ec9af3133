"""Plans of SQLite: what names transactions, outpoints or registrations reads few rows, however many a chain has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection
from sqlalchemy.event import listen

from indexer.state_hash import update_state_hash
from indexer.store import Store, block_writer, connect
from tests.chainkit import ChainKit, agent
from tests.facts import says
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.pointer_facts import card, points

OF_A_WHOLE_CHAIN = re.compile(
    r"(SCAN|SEARCH) (events|proofs|blocks|pending|submissions|sightings|changes)"
    r"( USING .*\(chain=\?( AND place<\?)?\).*)?"
)
STATEMENTS_OF_A_WHOLE_CHAIN = (
    "SELECT events.at_txid, events.at_vout",  # the outpoints to watch, at the start
    "max(blocks.height)", "min(blocks.height)", "ORDER BY blocks.height DESC", "min(events.height)",
    "count(*)",  # of status, from indexes
    "FROM pending WHERE pending.chain = ? ORDER BY pending.place",  # a mempool is bounded
    "DELETE FROM pending WHERE pending.chain = ?",
    # a partial index
    "events.kind = ? ORDER BY events.place LIMIT", "events.kind = ? LIMIT", "events.kind = ? AND events.place < ? ",
)  # fmt: skip
"""The beginnings, or parts, of what reads a whole chain on purpose or one end of an index."""


class Plans:
    """The plans of all statements that an engine runs."""

    def __init__(self, store: Store) -> None:
        self.whole_chains: list[tuple[str, str]] = []
        self.number = 0
        listen(store.engine, "before_cursor_execute", self._explain)

    def _explain(self, connection: Connection, _cursor: Any, text: str, values: Any, _context: Any, many: bool) -> None:
        if not text.startswith(("SELECT", "UPDATE", "DELETE", "WITH")):
            return
        self.number += 1
        cursor = connection.connection.cursor()
        plan = cursor.execute(f"EXPLAIN QUERY PLAN {text}", values[0] if many else values).fetchall()
        steps = [step for (*_, step) in plan if OF_A_WHOLE_CHAIN.fullmatch(step)]
        text = " ".join(text.split())
        if steps and not any(part in text for part in STATEMENTS_OF_A_WHOLE_CHAIN):
            self.whole_chains.append((steps[0], text))


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/a2b.db"


@pytest.fixture
def indexing(url: str) -> Iterator[Indexing]:
    kit = ChainKit()
    with Indexing(url, MemoryChain(*kit.blocks, kit.mine(kit.inscribe(agent())))) as opened:
        yield opened


async def test_blocks_and_a_reorganisation_are_stored_without_reading_the_chain(url: str) -> None:
    kit = ChainKit()
    chain = MemoryChain(*kit.blocks)
    with Indexing(url, chain) as indexing:
        await indexing.catch_up()
        update_state_hash(indexing.store, indexing.writer, "demo")
        plans = Plans(indexing.store)
        first, second = kit.inscribe(agent("First")), kit.inscribe(agent("Second"))
        fork = kit.mine(first, second)
        chain.arrive(fork)
        await indexing.catch_up()
        chain.arrive(kit.mine(kit.update(first, agent("Third"))))
        await indexing.catch_up()
        update_state_hash(indexing.store, indexing.writer, "demo")
        chain.arrive(kit.mine_empty(1, parent=fork), kit.mine_empty(2))
        await indexing.catch_up()
        update_state_hash(indexing.store, indexing.writer, "demo")
        assert plans.number > 20
        assert plans.whole_chains == []


def test_pointers_are_replaced_and_rolled_back_without_reading_the_chain(url: str) -> None:
    with Indexing(url) as indexing:
        store, writer = indexing.store, indexing.writer
        block_writer.append(writer, "demo", [says("0", points("a.example", card("A"), "account"))])
        plans = Plans(store)
        block_writer.append(writer, "demo", [says("1", points("b.example", card("B"), "account"))])
        assert len(store.pointers.anchors(["a.example", "b.example"])) == 1
        block_writer.forget(writer, "demo", 0)
        assert store.pointers.anchors(["a.example", "b.example"]).keys() == {"a.example"}
        assert plans.number > 10
        assert plans.whole_chains == []


async def test_what_names_transactions_or_registrations_reads_only_those(indexing: Indexing) -> None:
    await indexing.catch_up()
    store, plans = indexing.store, Plans(indexing.store)
    (id_,) = indexing.live()
    (txid,) = {past.event.txid for past in store.history.of(id_)}
    many = [txid, *(bytes([number]) * 32 for number in range(100))]
    for txids in ([txid], many):
        assert store.proofs.get_many("demo", txids).keys() == {txid}
        assert store.proofs.sizes("demo", txids).keys() == {txid}
        assert store.proofs.stored(txids) == {txid}
    (outpoint,) = {past.event.outpoint for past in store.history.of(id_) if past.event.outpoint}
    assert store.registrations.at_outpoints("demo", [outpoint]).keys() == {outpoint}
    assert store.registrations.departed("demo", [outpoint]) == set()
    assert len(store.history.arrivals(outpoint)) == 1
    assert len(store.history.of_transaction(txid)) == 1
    assert store.pending.new_ids() == []
    assert plans.whole_chains == []


def test_a_database_without_statistics_gets_them_when_it_is_opened_and_keeps_those_it_has(url: str) -> None:
    def statistics() -> dict[str, str]:
        engine = connect(url)
        with engine.connect() as connection:
            rows = dict(connection.exec_driver_sql("SELECT idx, stat FROM sqlite_stat1").all())
        engine.dispose()
        return rows

    written = statistics()
    assert written["sqlite_autoindex_proofs_1"] == "1048576 20000 100 1"
    assert written["state_lines"] == "1048576 20000 1"
    engine = connect(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM sqlite_stat1 WHERE tbl != 'proofs'")
        connection.exec_driver_sql("UPDATE sqlite_stat1 SET stat = '7 7 7 1' WHERE idx LIKE 'sqlite_autoindex_proofs%'")
    engine.dispose()
    assert statistics() == written | {"sqlite_autoindex_proofs_1": "7 7 7 1"}
