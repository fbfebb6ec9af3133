"""The proofs of witnesses go through a snapshot, and a snapshot with another witness is refused."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indexer.snapshot.codec import SnapshotError
from indexer.snapshot.importer import import_snapshot
from indexer.store import Store, Writer, connect
from tests.chainkit import ChainKit, agent
from tests.chainkit_scripts import p2pkh
from tests.databases import database_url, postgresql
from tests.fakes import MemoryChain
from tests.indexer.resolution.test_witnesses import Follow, follow
from tests.indexing import Indexing
from tests.proved import check_proofs
from tests.snapshots import exported, parsed, rewritten

__all__ = ["database_url", "follow", "postgresql"]


@pytest.fixture(params=["ltc", "btc"])
def kit(request: pytest.FixtureRequest) -> ChainKit:
    return ChainKit(request.param)


async def snapshot(kit: ChainKit, follow: Follow) -> tuple[Indexing, list[dict[str, Any]]]:
    first = kit.reveal(agent("One"))
    kit.mine(first, kit.reveal(agent("Two")))
    kit.mine(kit.spend([first], [(9_000, p2pkh("bob"))]).outpoint(0))
    indexing = await follow(MemoryChain(*kit.blocks, coin=kit.chain))
    return indexing, parsed(exported(indexing.store))


def imported(url: str, answers: list[dict[str, Any]]) -> Store:
    engine = connect(url, importing=True)
    writer_ = Writer(engine)
    try:
        import_snapshot(rewritten(answers), Store(engine), writer_)
    finally:
        writer_.close()
    return Store(engine)


async def test_the_proof_of_a_witness_goes_through_a_snapshot(kit: ChainKit, follow: Follow, database_url: str) -> None:
    _, answer = await snapshot(kit, follow)
    assert [list(line) for line in answer[5:]] == [
        ["block"], ["coinbase"], ["proof"], ["proof"], ["event"], ["event"],
        ["block"], ["coinbase"], ["proof"], ["event"], ["end"],
    ]  # fmt: skip
    copy = imported(database_url, answer)
    assert check_proofs(copy, "demo", segwit=True) == 3
    assert parsed(exported(copy)) == answer
    copy.engine.dispose()


def swap_card(answers: list[dict[str, Any]]) -> None:
    (proof,) = [line["proof"] for line in answers if "proof" in line and b"Two" in b64decode(line["proof"]["raw"])]
    proof["raw"] = b64encode(b64decode(proof["raw"]).replace(b'"Two"', b'"Bad"')).decode()


def lines_of(answers: list[dict[str, Any]], key: str) -> list[Any]:
    return [line[key] for line in answers if key in line]


TAMPERED: dict[str, tuple[Callable[[list[dict[str, Any]]], object], str]] = {
    "another tapscript": (swap_card, "its witness is not the one that was mined"),
    "no path": (lambda answer: lines_of(answer, "proof")[0].pop("witness"), "no merkle path for its wtxid"),
    "a path that is not base64": (lambda answer: lines_of(answer, "proof")[0].update(witness="x"), "Invalid base64"),
    "no coinbase": (
        lambda answer: answer.remove(next(line for line in answer if "coinbase" in line)),
        "no coinbase that commits",
    ),
    "two coinbases": (
        lambda answer: answer.insert(7, answer[6]),
        "a coinbase follows its block",
    ),
    "a coinbase behind the proofs": (lambda answer: answer.insert(13, answer.pop(12)), "a coinbase follows its block"),
    "a coinbase that is not base64": (
        lambda answer: lines_of(answer, "coinbase")[0].update(raw="x"),
        "Invalid base64",
    ),
    "the coinbase of another block": (
        lambda answer: lines_of(answer, "coinbase")[0].update(lines_of(answer, "coinbase")[1]),
        "is of another block",
    ),
    "another reserved value": (
        lambda answer: lines_of(answer, "coinbase")[0].update(reserved="ERERERERERERERERERERERERERERERERERERERERERE="),
        "not those that its coinbase commits to",
    ),
}


@pytest.mark.parametrize("change", TAMPERED)
async def test_a_snapshot_with_another_witness_is_refused(change: str, follow: Follow, tmp_path: Path) -> None:
    _, answer = await snapshot(ChainKit("btc"), follow)
    edit, message = TAMPERED[change]
    edit(answer)
    with pytest.raises(SnapshotError, match=message):
        imported(f"sqlite:///{tmp_path}/copy.db", answer)
