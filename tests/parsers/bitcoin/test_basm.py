"""Anchors of topics (BRC-136): what the vectors of two other implementations say, and a slow judge beside them."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.bitcoin import basm
from parsers.errors import BlockError
from tests.oracles import merkle


def internal(text: str) -> bytes:
    return bytes.fromhex(text)[::-1]


def shown(digest: bytes) -> str:
    return digest[::-1].hex()


def vectors(shared: Path, name: str) -> Any:
    return json.loads((shared / f"vectors/overlay/basm/{name}.json").read_text())


def test_roots_and_chain_are_those_of_ts_stack(shared: Path) -> None:
    by_channel = {
        vector["input"].get("channel"): vector for vector in vectors(shared, "brc136-basm.ts-stack")["vectors"]
    }
    roots = by_channel["basm/root"]
    cases = {case["name"]: shown(basm.root([*map(internal, case["txids"])])) for case in roots["input"]["cases"]}
    assert len(cases) == 4
    assert cases == roots["expected"]["roots"]
    tac = by_channel["basm/tac"]
    link = [internal(tac["input"][name]) for name in ("prevTac", "blockHash", "basmRoot")]
    assert shown(basm.chained(*link)) == tac["expected"]["tac"]


def test_roots_are_those_of_go_overlay_services_and_a_list_with_copies_has_none(shared: Path) -> None:
    cases = vectors(shared, "go-overlay-services.basm.vectors")["merkle"]
    assert len(cases) == 10
    for case in cases:
        txids = [*map(internal, case["txids"])]
        if case["admissionListValid"]:
            assert shown(basm.root(txids)) == case["root"], case["name"]
        else:
            with pytest.raises(BlockError):
                basm.root(txids)


def test_chains_are_those_of_go_overlay_services(shared: Path) -> None:
    chains = vectors(shared, "go-overlay-services.basm.vectors")["tac"]
    assert sum(len(chain["anchors"]) for chain in chains) == 6
    for chain in chains:
        tac = basm.NO_HASH
        for anchor in chain["anchors"]:
            tac = basm.chained(tac, internal(anchor["blockHash"]), internal(anchor["basmRoot"]))
            assert shown(tac) == anchor["expectedTac"], anchor


@given(st.integers(1, 200))
def test_the_root_is_that_of_a_block_of_just_these(count: int) -> None:
    txids = [sha256(b"%d" % number).digest() for number in range(count)]
    assert basm.root(txids) == merkle.root(txids)
