"""A listing that is for sale by an OrdLock contract says at what price, and who may cancel; the state hash does not
change by it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from indexer.state_hash import state_hash
from overlay import verify
from overlay.listings import lookup
from overlay.listings.local_source import LocalSource
from parsers.bitcoin import address
from parsers.bitcoin.script import p2pkh
from parsers.bitcoin.tx import Outpoint
from tests.chainkit import agent
from tests.chainkit_scripts import map_tape
from tests.overlay.test_unconfirmed import UnconfirmedRegistry
from tests.parsers.inscriptions.test_ordlock import PAYEE, SELLER, locks
from tests.running import a2b_here

SELLER_ADDRESS, PAYEE_ADDRESS = (address.owner(p2pkh(digest), "bsv", "regtest") for digest in (SELLER, PAYEE))


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[UnconfirmedRegistry]:
    with UnconfirmedRegistry(tmp_path, "native") as created:
        yield created


@pytest.mark.parametrize("version", [0, 1])
async def test_a_sale_is_shown_until_it_is_cancelled(
    registry: UnconfirmedRegistry, shared: Path, tmp_path: Path, version: int
) -> None:
    template = json.loads((shared / "vectors" / "bsv" / "ordlock-template.json").read_text())
    echo = registry.kit.inscribe(agent("Echo"))
    registry.mine(echo)
    await registry.look()
    assert [item for item in registry.ask() if "sale" in item] == []
    lock = locks(template)[version] + map_tape({"app": "market", "type": "ord"}) * version
    sold = registry.kit.spend([echo], [(1, lock)])
    outpoint = Outpoint(sold.txid, 0)
    registry.mine(sold)
    await registry.look()
    [item] = registry.ask()
    expected = {"satoshis": 1_000, "outpoint": str(outpoint), "payTo": PAYEE_ADDRESS}
    assert (item["id"], item["sale"], item["owner"]) == (str(echo), expected, SELLER_ADDRESS)
    assert registry.ask(for_sale=True) == [item]
    assert registry.ask(for_sale=False) == []
    assert lookup.listing(registry.catalogue, str(echo))["sale"] == expected
    assert [single["id"] for single in registry.ask(owners=(SELLER_ADDRESS,))] == [str(echo)]
    shown = a2b_here("show", str(echo), "--data", str(tmp_path), cwd=tmp_path).stdout
    assert f"for sale  1,000 satoshis to {PAYEE_ADDRESS}, bought by a wallet" in shown
    assert f"owner     {SELLER_ADDRESS}" in shown
    moves = a2b_here("history", str(echo), "--data", str(tmp_path), cwd=tmp_path).stdout
    assert f"owner: {registry.kit.address('alice')} -> none" in moves
    store = registry.catalogue.store
    [chain] = store.chains()
    [state] = store.registrations.states(chain, 3)
    assert state.owner is None
    assert state_hash(store, chain, 3) is not None
    report = verify.verify(LocalSource(registry.catalogue), str(echo), expected="bsv:regtest")
    assert report.missing == []
    assert not {"sale", "owner"} & set(report.not_proved_members)
    registry.mine(registry.kit.spend([outpoint], [(1, p2pkh(SELLER))]))
    await registry.look()
    [item] = registry.ask()
    assert ("sale" in item, item["owner"]) == (False, SELLER_ADDRESS)
    assert ["sale" in item for height in (2, 3, 4) for item in registry.as_of(height)] == [False, True, False]
