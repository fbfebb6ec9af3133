"""The slow oracle must itself meet the sample chain's oracle, which a second independent reader agreed with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.oracles.registry import Registry, read_chain
from tests.oracles.wire import block_hash, frames, heaviest, read_block


@pytest.fixture(scope="module")
def expected(sample: Path) -> dict[str, Any]:
    stated: dict[str, Any] = json.loads((sample / "expected.json").read_text())
    return stated


@pytest.fixture(scope="module")
def arrived(sample: Path) -> list[bytes]:
    return frames((sample / "blk00000.dat").read_bytes())


@pytest.fixture(scope="module")
def registry(arrived: list[bytes]) -> Registry:
    return read_chain(heaviest(arrived))


def _without(records: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    return [{name: value for name, value in record.items() if name not in names} for record in records]


def test_the_heaviest_chain_is_the_nodes(arrived: list[bytes], sample: Path) -> None:
    tip = json.loads((sample / "tip.json").read_text())
    chain = heaviest(arrived)
    assert (len(chain) - 1, block_hash(chain[-1])) == (tip["height"], tip["hash"])
    assert block_hash(chain[0]) == tip["genesis"]


def test_every_registration_and_revision_is_found(registry: Registry, expected: dict[str, Any]) -> None:
    for mine, theirs in zip(registry.registrations, expected["registrations"], strict=True):
        assert mine == {**theirs, "revisions": _without(theirs["revisions"], "signer")}


def test_every_pointer_is_found(registry: Registry, expected: dict[str, Any]) -> None:
    assert registry.pointers == _without(expected["pointers"], "served")


def test_every_rejection_has_its_reason(registry: Registry, expected: dict[str, Any]) -> None:
    assert registry.rejected == expected["rejected"]


def test_every_state_hash_is_met(registry: Registry, expected: dict[str, Any]) -> None:
    assert {str(height): registry.state_hashes[height] for height in map(int, expected["stateHashes"])} == expected[
        "stateHashes"
    ]


def test_stale_transactions_are_those_of_stale_blocks_only(arrived: list[bytes], expected: dict[str, Any]) -> None:
    active = heaviest(arrived)
    stale = [raw for raw in arrived if raw not in active]
    assert [block_hash(raw) for raw in stale] == [stale_block["hash"] for stale_block in expected["staleBlocks"]]
    mined = {tx.txid for raw in active for tx in read_block(raw)}
    lost = [tx.txid for raw in stale for tx in read_block(raw) if tx.txid not in mined and not tx.is_coinbase]
    assert sorted(lost) == sorted(expected["stale"])


def test_the_mempool_would_change_the_records(registry: Registry, sample: Path) -> None:
    waiting = json.loads((sample / "mempool.json").read_text())
    changes = registry.unconfirmed(bytes.fromhex(item["hex"]) for item in waiting)
    stated = [(item["txid"], change) for item in waiting for change in item["changes"]]
    for _, change in stated:
        if change["pointer"]:
            del change["pointer"]["served"]
    assert changes == stated
