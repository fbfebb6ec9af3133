"""The sample chain, mined by a real node: all that its oracle states is found, and nothing else."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from indexer.diagnosis.diagnoser import Diagnoser
from indexer.headers.networks import by_caip2
from parsers.bitcoin.block import tx_offsets
from parsers.bitcoin.tx import sha256d
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.oracles.wire import frames, read_block

Record = dict[str, Any]


@pytest.fixture(scope="module")
def expected(sample: Path) -> Record:
    stated: Record = json.loads((sample / "expected.json").read_text())
    return stated


@pytest.fixture(scope="module")
def arrived(sample: Path) -> list[bytes]:
    return frames((sample / "blk00000.dat").read_bytes())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def indexed(arrived: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Indexing]:
    url = f"sqlite:///{tmp_path_factory.mktemp('sample')}/a2b.db"
    with Indexing(url, MemoryChain(*arrived)) as indexing:
        yield await indexing.catch_up()


@pytest.fixture
def diagnoser(indexed: Indexing) -> Diagnoser:
    return Diagnoser(indexed.store, {"demo": by_caip2("bsv:regtest")})


def ids(records: list[Record]) -> list[str]:
    return [record.get("id", record["outpoint"]) for record in records]


def test_every_registration_and_revision_is_exactly_as_stated(indexed: Indexing, expected: Record) -> None:
    registrations = indexed.records()["registrations"]
    assert ids(registrations) == ids(expected["registrations"])
    for mine, theirs in zip(registrations, expected["registrations"], strict=True):
        assert mine == theirs


def test_every_pointer_is_exactly_as_stated(indexed: Indexing, expected: Record) -> None:
    stated = [{name: value for name, value in pointer.items() if name != "served"} for pointer in expected["pointers"]]
    assert indexed.records()["pointers"] == stated


def test_every_rejection_has_its_first_reason(indexed: Indexing, expected: Record) -> None:
    assert indexed.records()["rejected"] == expected["rejected"]


def test_every_state_hash_is_met(indexed: Indexing, expected: Record) -> None:
    stated = {int(height): text for height, text in expected["stateHashes"].items()}
    assert indexed.hashes(stated) == stated


def test_the_tip_is_the_nodes(indexed: Indexing, expected: Record) -> None:
    newest = indexed.store.blocks.newest("demo")
    assert newest is not None
    assert (newest.height, newest.hash[::-1].hex()) == (expected["height"], expected["hash"])


def test_mined_transactions_are_diagnosed_by_txid_and_by_outpoint(diagnoser: Diagnoser, expected: Record) -> None:
    for registration in expected["registrations"]:
        revision = registration["revisions"][-1]
        for name in {revision["txid"], registration["outpoint"] or revision["txid"]}:
            diagnosis = diagnoser.by_name(name)
            assert (diagnosis["found"], diagnosis["where"], diagnosis["height"]) == (True, "block", revision["height"])
            record = next(item for item in diagnosis["records"] if item.get("id") == registration["id"])
            assert record["outcome"] == revision["kind"]
        assert (registration["id"] in diagnosis["listed"]) == (registration["status"] == "live")


def test_rejections_are_diagnosed_with_their_reason(diagnoser: Diagnoser, expected: Record) -> None:
    for stated in expected["rejected"]:
        diagnosis = diagnoser.by_name(stated["outpoint"])
        record = next(item for item in diagnosis["records"] if item["outpoint"] == stated["outpoint"])
        assert (record["kind"], record["reasons"][0]["detail"]) == ("near-miss", stated["reason"])
        failed = [step for step in diagnosis["steps"] if not step["ok"]]
        assert [step["detail"].partition(": ")[0] for step in failed] == [stated["reason"]]
        assert diagnosis["listed"] == []


def raw_of(arrived: list[bytes], txid: str) -> bytes:
    """The bytes of a transaction of a block that arrived."""
    for raw in arrived:
        for tx in read_block(raw):
            if tx.txid == txid:
                return next(piece for piece in pieces(raw) if sha256d(piece)[::-1].hex() == txid)
    raise KeyError(txid)


def pieces(raw: bytes) -> list[bytes]:
    """Each transaction of a block as bytes."""
    return [raw[start:stop] for start, stop in pairwise(tx_offsets(raw).tolist())]


def test_stale_transactions_are_in_no_block_and_raw_they_lost_to_another_or_would_be_listed(
    diagnoser: Diagnoser, expected: Record, arrived: list[bytes]
) -> None:
    outcomes = {}
    for txid in expected["stale"]:
        assert diagnoser.by_name(txid)["found"] is False
        answer = diagnoser.by_raw(raw_of(arrived, txid))
        assert (answer["found"], answer["where"]) == (True, "raw")
        outcomes[txid] = [
            (record["outcome"], record["valid"], [r["code"] for r in record["reasons"]]) for record in answer["records"]
        ]
    assert sorted(outcomes.values()) == [
        [("inscribed", True, [])],
        [("reinscribed", False, ["spent-elsewhere"])],
    ]


def test_transactions_of_stale_blocks_that_were_mined_again_count_where_the_best_chain_has_them(
    diagnoser: Diagnoser, expected: Record
) -> None:
    heights = {revision["txid"]: revision["height"] for r in expected["registrations"] for revision in r["revisions"]}
    again = [txid for stale_block in expected["staleBlocks"] for txid in stale_block["txids"] if txid in heights]
    assert again
    for txid in again:
        diagnosis = diagnoser.by_name(txid)
        assert diagnosis["height"] == heights[txid]
        assert diagnosis["blockHash"] not in {stale_block["hash"] for stale_block in expected["staleBlocks"]}


def test_mempool_transactions_say_what_is_stated(diagnoser: Diagnoser, sample: Path) -> None:
    for stated in json.loads((sample / "mempool.json").read_text()):
        answer = diagnoser.by_raw(bytes.fromhex(stated["hex"]))
        assert answer["txid"] == stated["txid"]
        assert [
            (record["outcome"], record["outpoint"], record["owner"], record["cardSha256"])
            for record in answer["records"]
        ] == [
            (
                "pointed" if change["kind"] == "pointer" else change["kind"],
                change["outpoint"],
                change["owner"],
                change["cardSha256"],
            )
            for change in stated["changes"]
        ]
        for mine, theirs in zip(answer["records"], stated["changes"], strict=True):
            if theirs["registration"]:
                assert mine["id"] == theirs["registration"]
            if theirs["pointer"]:
                assert mine["pointer"]["domain"] == theirs["pointer"]["domain"]
            assert [reason["detail"] for reason in mine["reasons"]][:1] == (
                [theirs["reason"]] if theirs["reason"] else []
            )
