"""A block of which every transaction is ours costs little memory, and says the same as when all of it is held."""

from __future__ import annotations

import gc
import random
import tempfile
import tracemalloc
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from indexer import spill
from indexer.errors import SourceUnavailableError
from indexer.headers.networks import CoinRules
from indexer.model import BlockRef
from indexer.resolution.block_reader import BlockReader, ReadResult
from indexer.resolution.registration_lookup import RegistrationLookup
from indexer.resolution.spend_order import OutputValues, spend_order
from indexer.spill import Spill, SpilledPairs
from indexer.store import Store, Writer, block_writer, connect
from indexer.store.pending import replace_pending
from indexer.store.schema import cards, changes, events, metadata, pending
from indexer.store.schema import proofs as proofs_table
from indexer.sync import catchup
from parsers.bitcoin import block, merkle_tree, tx
from parsers.bitcoin.tx import Outpoint, Transaction, TxInput, TxOutput, serialise, varint
from tests.bench.bench_ours import transactions
from tests.bench.synthetic import COINBASE
from tests.chainkit import ChainKit, agent
from tests.facts import born, moved, near_miss, outpoint_of, says
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.oracles.wire import frames
from tests.proved import check_proofs

pytestmark = pytest.mark.usefixtures("often_collected")

RULES = CoinRules("bsv", segwit=False, envelope="output")


def of_pointers(count: int, kind: str = "pointers") -> tuple[BlockRef, bytes]:
    """A block of a coinbase and so many transactions that are ours."""
    raws = [COINBASE, *(raw for _, raw in zip(range(count), transactions(kind), strict=False))]
    body = varint(len(raws)) + b"".join(raws)
    header = bytes(36) + block.merkle_root(bytes(80) + body) + bytes(12)
    return BlockRef("demo", 1, bytes(32), bytes(32), 0, header), header + body


def read(ref: BlockRef, data: bytes, store: Store) -> ReadResult:
    reader = BlockReader(ref, data, RULES, "regtest", block.WatchedOutpoints())
    return reader.result(reader.session(RegistrationLookup(store.registrations, "demo"), {}))


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three items are as many as memory may hold."""
    monkeypatch.setattr(spill, "AT_ONCE", 3)


# -- memory


@pytest.mark.parametrize("kind", ["pointers", "registrations", "moves"])
def test_memory_does_not_grow_with_what_a_block_says(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read and stored at once, the objects of an event take 4,500 bytes; 400 are allowed, for what stays in arrays."""
    monkeypatch.setattr(spill, "AT_ONCE", 50)
    monkeypatch.setattr(merkle_tree, "SUBTREE_LEAVES", 64)
    engine = connect(f"sqlite:///{tmp_path}/a2b.db")
    store, writer = Store(engine), Writer(engine)

    def peak() -> int:
        gc.collect()
        tracemalloc.start()
        parsed = read(ref, data, store)
        block_writer.append(writer, "demo", [parsed.reading])
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(parsed.reading.events) == count
        block_writer.forget(writer, "demo", 0)
        return most

    peaks = []
    for count in (1_000, 1_800):  # more than one statement joins with
        ref, data = of_pointers(count, kind)
        peaks.append(min(peak(), peak()))  # what is compiled or imported on the way is not the block's
    writer.close()
    engine.dispose()
    assert (peaks[1] - peaks[0]) / 800 < 400


# -- the same facts


async def test_a_chain_says_the_same_when_little_is_held(
    tmp_path: Path, sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = ChainKit(funds=40)
    created = [kit.inscribe(agent(str(number))) for number in range(12)]
    spent = [kit.move(item) for item in created[:6]]
    kit.mine(*[*spent, *created][::-1], *(kit.point(f"{number}.example") for number in range(9)))
    kit.mine(*(kit.update(item, agent("Again")) for item in spent), kit.burn(created[7]))
    chains = [MemoryChain(*kit.blocks), MemoryChain(*frames((sample / "blk00000.dat").read_bytes()))]
    for number, chain in enumerate(chains):
        facts = []
        for at_once in (2_000, 3):
            monkeypatch.setattr(spill, "AT_ONCE", at_once)
            monkeypatch.setattr(catchup, "MOST_UNWRITTEN", at_once)
            with Indexing(f"sqlite:///{tmp_path}/{number}-{at_once}.db", chain) as indexing:
                await indexing.catch_up()
                assert check_proofs(indexing.store, "demo") > 10
                facts.append(_facts(indexing.store))
        assert facts[0] == facts[1]


def _facts(store: Store) -> list[list[object]]:
    """Every row that hangs from a block, and which ids the outbox names."""
    with store.engine.connect() as connection:
        tables = [[tuple(row) for row in connection.execute(select(item))] for item in (events, proofs_table, cards)]
        noted = connection.execute(select(changes.c.id).distinct()).scalars().all()
    return [*(sorted(rows, key=repr) for rows in tables), sorted(noted)]


@pytest.mark.usefixtures("little")
def test_all_of_a_block_is_written_or_none(tmp_path: Path) -> None:
    """A block that breaks in its last portion leaves nothing behind."""
    engine = connect(f"sqlite:///{tmp_path}/a2b.db")
    writer = Writer(engine)
    ref, data = of_pointers(20)
    reading = read(ref, data, Store(engine)).reading
    assert isinstance(reading.events, Spill)
    reading.events.append(near_miss("a"))  # at a place that is taken
    with pytest.raises(Exception, match="UNIQUE"):
        block_writer.append(writer, "demo", [reading])
    with engine.connect() as connection:
        for table in metadata.sorted_tables:
            if table.name not in ("meta", "outbox_runs"):
                assert connection.execute(select(table)).all() == []
    writer.close()


@pytest.mark.usefixtures("little")
async def test_a_full_disk_is_named_and_the_block_is_read_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = ChainKit(funds=20)
    kit.mine(*(kit.inscribe(agent(str(number))) for number in range(9)))
    with Indexing(f"sqlite:///{tmp_path}/a2b.db", MemoryChain(*kit.blocks)) as indexing:
        with monkeypatch.context() as patched:
            patched.setenv("TMPDIR", str(tmp_path / "nowhere"))
            patched.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
            with pytest.raises(SourceUnavailableError, match=r"cannot be written to .*nowhere: No such file"):
                await indexing.catch_up()
        assert indexing.live() == set()
        await indexing.catch_up()
        assert len(indexing.live()) == 9


def test_near_misses_are_trimmed_in_portions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.store.block_writer.AT_ONCE", 3)
    engine = connect(f"sqlite:///{tmp_path}/a2b.db")
    writer = Writer(engine)
    misses = [near_miss(letter, number) for number, letter in enumerate("abcdefghijk")]
    block_writer.append(writer, "demo", [says("0"), says("1", *misses)])
    block_writer.trim(writer, "demo", 2)
    with engine.connect() as connection:
        left = connection.execute(select(events.c.txid).order_by(events.c.place)).scalars().all()
    assert left == [miss.txid for miss in misses[-2:]]
    writer.close()


@pytest.mark.usefixtures("little")
def test_what_waits_unconfirmed_is_taken_out_by_a_large_block(tmp_path: Path) -> None:
    engine = connect(f"sqlite:///{tmp_path}/a2b.db")
    store, writer = Store(engine), Writer(engine)
    block_writer.append(writer, "demo", [says("0"), says("1", born("a", height=1))])
    replace_pending(writer, "demo", [moved("a", "a", "b", height=2**31 - 1), born("z", height=2**31 - 1)], {})
    message: Spill[object] = Spill()
    for number in range(7):
        message.append(near_miss(str(number), number))
    message.append(moved("a", "a", "c", 7))
    block_writer.append(writer, "demo", [says("2", *message)])  # type: ignore[arg-type]
    assert store.registrations.at_outpoints("demo", [outpoint_of("c")])
    with engine.connect() as connection:
        assert connection.execute(select(pending.c.registration)).scalars().all() == [str(outpoint_of("z"))]
    writer.close()


# -- what is held in a file


@given(st.lists(st.integers()))
def test_a_spill_is_a_list(items: list[int]) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(spill, "AT_ONCE", 3)
        held: Spill[int] = Spill()
        for number, item in enumerate(items):
            held.append(item)
            assert len(held) == number + 1
        assert list(held) == list(held) == items
        assert held.in_memory == (items if len(items) <= 3 else None)
        pieces = list(spill.pieces(held))
    assert [entry for some in pieces for entry in some] == items
    assert all(1 <= len(some) <= 3 for some in pieces)


def test_few_large_items_are_held_at_a_time() -> None:
    held: SpilledPairs[int, bytes] = SpilledPairs()
    for number in range(10):
        held.append((number, bytes(3 << 20)), 3 << 20)
    assert held.settled() is held
    assert [(key, len(value)) for key, value in held.items()] == [(number, 3 << 20) for number in range(10)]
    sizes = [len(some) for some in spill.pieces(held.items(), lambda pair: len(pair[1]))]
    assert sizes == [2] * 5


@pytest.mark.usefixtures("little")
def test_iterations_do_not_disturb_each_other() -> None:
    held: Spill[int] = Spill()
    for number in range(20):
        held.append(number)
    assert list(zip(held, held, strict=True)) == [(number, number) for number in range(20)]


# -- the order of spending, and values


def slow_order(txs: list[Transaction]) -> list[int]:
    """Kahn's algorithm over sets of txids."""
    numbers = {item.txid: number for number, item in enumerate(txs)}
    parents = {
        number: {numbers[spent.prevout.txid] for spent in item.inputs if spent.prevout.txid in numbers}
        for number, item in enumerate(txs)
    }
    ready = [number for number, of in parents.items() if not of]
    heapify(ready)
    order = []
    while ready:
        number = heappop(ready)
        order.append(number)
        for child, of in parents.items():
            if number in of:
                of.discard(number)
                if not of:
                    heappush(ready, child)
    return order


@st.composite
def families(draw: st.DrawFn) -> list[Transaction]:
    """Transactions that spend each other, in any order."""
    txs: list[Transaction] = []
    for number in range(draw(st.integers(0, 12))):
        outpoints = [item.outpoint(vout) for item in txs for vout in range(len(item.outputs))]
        spends = draw(st.lists(st.sampled_from([*outpoints, Outpoint(b"x" * 32, 0)]), max_size=4))
        inputs = (TxInput(Outpoint(b"n" * 32, number), b"", 0), *(TxInput(spend, b"", 0) for spend in spends))
        values = draw(st.lists(st.integers(0, 2**62), min_size=1, max_size=3))
        txs.append(tx.read(serialise(inputs, tuple(TxOutput(value, b"\x51") for value in values))))
    return draw(st.permutations(txs))


@given(families())
def test_parents_are_read_before_their_children(txs: list[Transaction]) -> None:
    assert list(spend_order(txs).positions) == slow_order(txs)
    spent = {item.prevout.txid for child in txs for item in child.inputs}
    assert [bool(item) for item in spend_order(txs).is_parent] == [item.txid in spent for item in txs]


def test_a_chain_of_100000_in_reverse_is_turned_round() -> None:
    def chain() -> Iterator[Transaction]:
        last = b"\0" * 32
        for number in range(100_000):
            txid = (number + 1).to_bytes(32, "big")
            yield Transaction(txid, 1, (TxInput(Outpoint(last, 0), b"", 0),), (), 0, 60)
            last = txid

    txs = list(chain())
    assert list(spend_order(txs).positions) == list(range(100_000))
    assert list(spend_order(txs[::-1]).positions) == list(range(100_000))[::-1]


@given(families(), st.randoms())
def test_values_are_those_of_the_outputs(txs: list[Transaction], order: random.Random) -> None:
    values = OutputValues(txs)
    expected = [(item.outpoint(vout), output.satoshis) for item in txs for vout, output in enumerate(item.outputs)]
    expected += [(item.outpoint(len(item.outputs)), None) for item in txs]  # type: ignore[misc]
    order.shuffle(expected)
    assert [values.get(outpoint) for outpoint, _ in expected] == [value for _, value in expected]
    assert values.get(Outpoint(b"y" * 32, 0)) is None
    assert OutputValues().get(Outpoint(b"y" * 32, 0)) is None
