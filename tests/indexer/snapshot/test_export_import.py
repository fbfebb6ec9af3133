"""Snapshots: the same facts give the same bytes, and importing gives the same facts; all of them or none."""

from __future__ import annotations

import gzip
import io
import json
import os
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from indexer.snapshot import exporter, importer
from indexer.snapshot.codec import SnapshotError
from indexer.snapshot.exporter import export, new_file, read_lines
from indexer.store import StoreError, block_writer, chain_marks, connect, imports
from overlay.systems.payments.store import PaymentStore
from overlay.systems.webhooks.store import StoredWebhooks
from tests.chainkit import ChainKit, agent
from tests.conftest import ROOT
from tests.databases import Cluster, database_url, postgresql
from tests.fakes import MemoryChain
from tests.indexer.store.test_one_database import COIN, PAYMENT, TASK, WEBHOOK
from tests.indexing import Indexing
from tests.oracles.wire import frames
from tests.proved import check_proofs
from tests.snapshots import Empty, empty, exported, parsed, rewritten, snapshot, story

pytestmark = pytest.mark.usefixtures("often_collected")

__all__ = ["Cluster", "database_url", "empty", "postgresql", "snapshot"]


async def test_an_imported_snapshot_holds_the_same_facts(database_url: str, tmp_path: Path) -> None:
    with Indexing(f"sqlite:///{tmp_path}/source.db", MemoryChain(*story().blocks)) as source:
        text = exported((await source.catch_up()).store)
        copy = Empty(database_url)
        report = copy.take(text.splitlines(keepends=True))
        copy.close()
        with Indexing(database_url) as target:
            assert target.facts() == source.facts()
            assert target.store.chains() == source.store.chains()
            assert exported(target.store) == text
            assert check_proofs(target.store, "demo") == 12
        assert (report.blocks, report.events, report.proofs) == (8, 12, 12)
        [chain] = report.chains
        assert (chain.height, chain.newest, chain.gap) == (7, 7, "")
        assert "required bits" in chain.checked


async def test_the_sample_chain_goes_through_a_snapshot_unchanged(sample: Path, tmp_path: Path, empty: Empty) -> None:
    blocks = frames((sample / "blk00000.dat").read_bytes())
    with Indexing(f"sqlite:///{tmp_path}/source.db", MemoryChain(*blocks)) as source:
        text = exported((await source.catch_up()).store)
        empty.take(text.splitlines(keepends=True))
        with Indexing(f"sqlite:///{tmp_path}/other.db", MemoryChain(*reversed(blocks))) as other:
            assert exported((await other.catch_up()).store) == text, "the order of arrival shows"
        assert exported(empty.store) == text
    stated = json.loads((sample / "expected.json").read_text())["stateHashes"]
    assert json.loads(text.splitlines()[0])["chains"][0]["stateHash"] == stated["125"]


async def test_following_goes_on_where_a_snapshot_ends(tmp_path: Path, snapshot: bytes, empty: Empty) -> None:
    empty.take(snapshot.splitlines(keepends=True))
    empty.close()
    kit = story()
    kit.mine(kit.inscribe(agent("Four")))
    with (
        Indexing(empty.url, MemoryChain(*kit.blocks)) as copy,
        Indexing(f"sqlite:///{tmp_path}/whole.db", MemoryChain(*kit.blocks)) as whole,
    ):
        await copy.catch_up()
        await whole.catch_up()
        assert copy.facts() == whole.facts()


async def test_several_chains_stand_in_one_snapshot(tmp_path: Path, empty: Empty) -> None:
    kit = story()
    chains = (MemoryChain(*kit.blocks, name="b"), MemoryChain(*kit.blocks, name="a", coin="bch"))
    with Indexing(f"sqlite:///{tmp_path}/source.db", *chains) as source:
        text = exported((await source.catch_up()).store)
    heads = json.loads(text.splitlines()[0])["chains"]
    assert [(head["name"], head["caip2"]) for head in heads] == [("a", "bch:regtest"), ("b", "bsv:regtest")]
    empty.take(text.splitlines(keepends=True))
    assert exported(empty.store) == text


@pytest.mark.parametrize("trust", [False, True])
async def test_a_snapshot_with_two_names_of_one_network_is_refused(tmp_path: Path, empty: Empty, trust: bool) -> None:
    kit = story()
    chains = (MemoryChain(*kit.blocks, name="b"), MemoryChain(*kit.blocks, name="a", coin="bch"))
    with Indexing(f"sqlite:///{tmp_path}/source.db", *chains) as source:
        answers = parsed(exported((await source.catch_up()).store))
    for head in answers[0]["chains"]:
        head["caip2"] = "bsv:mainnet"
    refusal = empty.refuses(rewritten(answers), trust=trust)
    assert refusal == "line 1: a and b are both bsv:mainnet, and a network has one name"


def test_a_database_without_blocks_is_a_snapshot_too(empty: Empty, tmp_path: Path) -> None:
    text = exported(empty.store)
    assert [*parsed(text)[0]] == ["format", "chains"]
    assert empty.take(text.splitlines(keepends=True)).chains == ()


async def test_a_chain_read_from_excerpts_stays_one(tmp_path: Path, empty: Empty) -> None:
    kit = ChainKit()
    kit.mine(kit.inscribe(agent()))
    with Indexing(f"sqlite:///{tmp_path}/whole.db", MemoryChain(*kit.blocks)) as whole:
        await whole.catch_up()
        chain_marks.mark_partial(whole.writer, "demo")
        answer = exported(whole.store)
    (head,) = parsed(answer)[0]["chains"]
    assert ("stateHash" in head, head["partial"]) == (False, True)
    empty.take(answer.splitlines(keepends=True))
    assert empty.store.is_partial("demo")
    assert exported(empty.store) == answer


def test_compressed_files_hold_neither_name_nor_time(snapshot: bytes, tmp_path: Path) -> None:
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        with new_file(tmp_path / name) as file:
            file.write(snapshot)
    packed = (tmp_path / "a.jsonl.gz").read_bytes()
    assert packed == (tmp_path / "b.jsonl.gz").read_bytes()
    assert packed[3:8] == bytes(5), "flags and time of the gzip header"
    assert b"".join(read_lines(tmp_path / "a.jsonl.gz")) == snapshot


def test_a_snapshot_that_could_not_be_finished_is_not_there(tmp_path: Path) -> None:
    def fill() -> None:
        with new_file(tmp_path / "a.jsonl") as file:
            file.write(b"half")
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk"):
        fill()
    assert not list(tmp_path.iterdir())


def test_a_database_that_holds_blocks_is_left_alone(empty: Empty, snapshot: bytes) -> None:
    source = snapshot.splitlines(keepends=True)
    empty.take(source)
    before = exported(empty.store)
    with pytest.raises(StoreError, match=r"holds blocks, .* already"):
        empty.take(source)
    assert exported(empty.store) == before


async def test_a_reorg_during_an_export_is_noticed(tmp_path: Path) -> None:
    kit = story()
    chain = MemoryChain(*kit.blocks)
    with Indexing(f"sqlite:///{tmp_path}/a2b.db", chain) as indexing:
        await indexing.catch_up()

        class Interrupting(io.BytesIO):
            def write(self, line: Any) -> int:
                if b'"block"' in bytes(line)[:10] and not self.tell() > 10_000_000:
                    block_writer.forget(indexing.writer, "demo", 2)
                return super().write(line)

        with pytest.raises(SnapshotError, match="export again"):
            export(indexing.store, Interrupting())


def test_a_file_that_breaks_off_or_has_endless_lines_is_refused(
    snapshot: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(snapshot)[:-20])
    with pytest.raises(SnapshotError, match="cannot be read to its end"):
        list(read_lines(tmp_path / "cut.jsonl.gz"))
    (tmp_path / "not.jsonl.gz").write_bytes(snapshot)
    with pytest.raises(SnapshotError, match="Not a gzipped file"):
        list(read_lines(tmp_path / "not.jsonl.gz"))
    (tmp_path / "cut.jsonl").write_bytes(snapshot[:-1])
    with pytest.raises(SnapshotError, match="cut off"):
        list(read_lines(tmp_path / "cut.jsonl"))
    monkeypatch.setattr(exporter, "MAX_LINE", 1_000)
    (tmp_path / "long.jsonl").write_bytes(b"x" * 5_000)
    with pytest.raises(SnapshotError, match="longer than 1,000 bytes"):
        list(read_lines(tmp_path / "long.jsonl"))


@pytest.mark.parametrize(
    ("name", "value"), [("BATCH_LINES", 1), ("BATCH_LINES", 4), ("BATCH_BYTES", 1), ("BATCH_BYTES", 999)]
)
def test_batches_of_any_size_give_the_same_facts(
    name: str, value: int, snapshot: bytes, empty: Empty, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importer, name, value)
    empty.take(snapshot.splitlines(keepends=True))
    assert exported(empty.store) == snapshot


# -- interruptions


def test_a_file_that_grows_a_thousandfold_takes_little_memory(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "bomb.jsonl.gz", "wb", 1) as file:
        for _ in range(256):
            file.write(bytes(1 << 20))
    assert (tmp_path / "bomb.jsonl.gz").stat().st_size < 2 << 20
    tracemalloc.start()
    with pytest.raises(SnapshotError, match="longer than 2,097,152 bytes"):
        list(read_lines(tmp_path / "bomb.jsonl.gz"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * exporter.MAX_RAW_LINE


def test_a_database_with_half_a_snapshot_is_refused_until_the_import_is_repeated(
    snapshot: bytes, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/half.db"
    source = snapshot.splitlines(keepends=True)
    (tmp_path / "first.jsonl").write_bytes(b"".join(source[:-2]))
    script = (
        "import os, signal, sys\n"
        "from indexer.snapshot.exporter import read_lines\n"
        "from indexer.snapshot.importer import import_snapshot\n"
        "from indexer.store import Store, Writer, connect\n"
        "import indexer.snapshot.importer as module\n"
        "module.BATCH_LINES = 3\n"
        "def source():\n"
        "    yield from read_lines(__import__('pathlib').Path(sys.argv[2]))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "engine = connect(sys.argv[1], importing=True)\n"
        "import_snapshot(source(), Store(engine), Writer(engine))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, url, f"{tmp_path}/first.jsonl"], cwd=ROOT, env=os.environ)
    assert done.returncode == -signal.SIGKILL
    with pytest.raises(StoreError, match="an import into this database was interrupted"):
        connect(url)
    again = Empty(url)
    assert again.store.blocks.newest("demo") is not None, "nothing was written before the kill: this test shows nothing"
    again.take(source)
    assert exported(again.store) == snapshot
    again.close()
    connect(url).dispose()


def test_an_import_that_fails_gives_the_outbox_a_new_epoch(snapshot: bytes, empty: Empty) -> None:
    before = empty.store.outbox.epoch
    empty.refuses(snapshot.splitlines(keepends=True)[:-1])
    assert empty.store.outbox.epoch != before
    assert empty.take(snapshot.splitlines(keepends=True)).blocks == 8
    imports.empty(empty.engine)
    assert empty.is_empty()


def test_an_import_leaves_what_clients_handed_in_alone_whether_it_fails_or_not(snapshot: bytes, empty: Empty) -> None:
    StoredWebhooks(empty.engine).add(WEBHOOK)
    ledger = PaymentStore(empty.engine)
    ledger.reserve(PAYMENT, [COIN], TASK)
    for complete in (False, True):
        source = snapshot.splitlines(keepends=True)
        if complete:
            assert empty.take(source).blocks == 8
        else:
            empty.refuses(source[:-1])
        assert [one.id for one in StoredWebhooks(empty.engine).active()] == [WEBHOOK.id]
        assert ledger.payments_of(TASK.id) == [PAYMENT]
