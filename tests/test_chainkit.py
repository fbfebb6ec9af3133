"""The mint must make what a node would accept as a chain: checked with a reader of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parsers.bitcoin.tx import Outpoint, read_exactly, sha256d
from tests.chainkit import ChainKit, agent
from tests.chainkit_blocks import frame, merkle_root
from tests.chainkit_coins import COINS, TARGET
from tests.oracles.wire import block_hash, block_prev, frames, heaviest, read_block

GENESIS = {
    "bsv": "0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206",
    "bch": "0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206",
    "btc": "0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206",
    "ltc": "530827f38f93b43ed12af0b3ad25a288dc02ed74d6d7857862df51fc56c416f9",
    "doge": "3d2160a3b5dc4a9d62e7e66a295f70313ac808440ef7400d6c0772171ce973a5",
}


@pytest.mark.parametrize("chain", list(COINS))
def test_each_coin_begins_with_its_real_genesis_and_mines_with_its_proof_of_work(chain: str) -> None:
    kit = ChainKit(chain, funds=2)
    kit.mine_empty(3)
    assert kit.blocks[0].hex == GENESIS[chain]
    for before, block in zip(kit.blocks, kit.blocks[1:], strict=False):
        assert int.from_bytes(kit.coin.pow(block.header), "little") <= TARGET
        assert (block.prev, block.height) == (before.hash, before.height + 1)


def test_a_block_holds_its_transactions_under_its_merkle_root() -> None:
    kit = ChainKit()
    first = kit.inscribe(agent())
    block = kit.mine(first, kit.move(first), kit.pay())
    txids = [bytes.fromhex(tx.txid)[::-1] for tx in read_block(block.raw)]
    assert tuple(txids) == block.txids
    assert len(txids) == 4
    assert merkle_root(txids) == block.header[36:68]


def test_the_same_story_gives_the_same_bytes() -> None:
    def tell() -> list[bytes]:
        kit = ChainKit()
        kit.mine(kit.inscribe(agent()), kit.point("agents.example"))
        return [block.raw for block in kit.blocks]

    assert tell() == tell()


def test_labels_name_height_and_fork() -> None:
    kit = ChainKit(funds=1)
    kit.mine_empty(2)
    kit.mine(parent=kit["2"])
    kit.mine()
    kit.mine(parent=kit["1"])
    assert [block.label for block in kit.blocks] == ["0", "1", "2", "3", "3a", "4a", "2b"]
    assert repr(kit.tip) == "<block 4a>"


def test_files_hold_the_blocks_in_order_of_arrival(tmp_path: Path) -> None:
    kit = ChainKit(funds=1)
    kit.mine_empty(3)
    kit.mine(parent=kit["2"])
    paths = kit.write(tmp_path, per_file=4, zeros=100)
    assert [path.name for path in paths] == ["blk00000.dat", "blk00001.dat"]
    arrived = [raw for path in paths for raw in frames(path.read_bytes())]
    assert arrived == [block.raw for block in kit.blocks]
    assert [block_hash(raw) for raw in heaviest(arrived)] == [block.hex for block in kit.branch()]
    assert block_prev(arrived[-1]) == kit["2"].hex
    assert json.loads((tmp_path / "tip.json").read_text())["height"] == 4


def test_a_file_can_grow_and_hold_the_long_form(tmp_path: Path) -> None:
    kit = ChainKit(funds=1)
    path = kit.write(tmp_path)[0]
    kit.append(path, kit.mine())
    assert len(frames(path.read_bytes())) == 3
    raw = kit.tip.raw
    assert frame(raw, long=True) == bytes.fromhex("fabfb5daffffffff") + len(raw).to_bytes(8, "little") + raw


def test_a_reveal_has_a_witness_that_its_txid_does_not_cover_and_the_coinbase_commits_to_it() -> None:
    kit = ChainKit("ltc", funds=1)
    revealed = kit.reveal(agent(description="x" * 2000))
    block = kit.mine(revealed)
    raw = kit.raw(revealed)
    assert raw[4:6] == b"\x00\x01"
    assert sha256d(raw) != revealed.txid
    tx = read_exactly(raw, segwit=True)
    assert tx.txid == revealed.txid
    assert len(tx.inputs[0].witness) == 3
    coinbase = kit.tx(Outpoint(block.txids[0], 0))
    root = merkle_root([bytes(32), sha256d(raw)])
    assert coinbase.outputs[-1].script[-32:] == sha256d(root + bytes(32))


def test_spent_funds_are_reported() -> None:
    kit = ChainKit(funds=1)
    kit.pay()
    with pytest.raises(ValueError, match=r"all 1 funds are spent"):
        kit.pay()


def test_a_forgotten_block_leaves_its_header_and_what_is_spent_later() -> None:
    kit, other = ChainKit(), ChainKit()
    for one in (kit, other):
        agents = [one.inscribe(agent(name), owner=name) for name in ("Ann", "Bob")]
        block = one.mine(*agents)
        if one is kit:
            one.forget(block, agents[:1])
            assert one.blocks[-1].raw == block.header
            with pytest.raises(KeyError):
                one.satoshis(agents[1])
        one.mine(one.update(agents[0], agent("Ann 2")))
    assert kit.tip.raw == other.tip.raw
