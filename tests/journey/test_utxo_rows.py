"""The UTXO chains of A2B §6.4, each from block files to recorded anchors: every form that fits its outputs."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from indexer.chains.files import create
from indexer.headers.networks import network
from parsers.bitcoin.tx import Transaction
from tests.chain_records import anchors as pointer_anchors
from tests.chainkit import COIN, ChainKit, agent
from tests.chainkit_scripts import map_tape, p2pkh, pointer_script
from tests.indexing import Indexing
from tests.parsers.writers import build_split

HASH = hashlib.sha256(b"a card").digest()
SHORT = "agents.example"
LONG = ".".join(["a" * 40, "b" * 40, "c" * 40, "example"])
URI = "https://agents.example/cards/echo.json"

CAIP2 = {
    "btc": "bip122:000000000019d6689c085ae165831e93",
    "ltc": "bip122:12a765e31ffd4059bada1e25190f6e98",
    "doge": "bip122:1a91e3dace36e2be3bf030a65679fe82",
    "bch": "bip122:000000000000000000651ef99cb9fcbe",
}
"""As registered by the Chain Agnostic Standards; on Bitcoin Cash the first block after the fork names the chain."""

ROOM = {"btc": 83, "ltc": 83, "doge": 83, "bch": 223}
"""Bytes of an OP_RETURN output's script that nodes relay: on all but Bitcoin Cash 80 bytes of data, pushed once."""


def expected_rows(
    transaction: Transaction, *messages: tuple[int, str, str | None, str]
) -> list[tuple[str, str, str | None, str]]:
    """The expected rows of a transaction: the outpoint, id, hash and form of each output."""
    return [(str(transaction.outpoint(vout)), id_, digest, form) for vout, id_, digest, form in messages]


def mint(kit: ChainKit, *scripts: bytes) -> Transaction:
    """A transaction that pays somebody and says these things."""
    return kit.spend([kit.fund()], [(COIN // 2, p2pkh("bob")), *((0, script) for script in scripts)])


async def anchors(kit: ChainKit, folder: Path) -> list[tuple[str, str, str | None, str]]:
    """The valid pointers that following the blocks' files records: where, id, hash and form."""
    coin = kit.coin.name
    kit.write(folder)
    chain = create(coin, f"files:{folder}?network=regtest")
    with Indexing(f"sqlite:///{folder}/a2b.db", chain) as indexing:
        await indexing.catch_up()
        assert indexing.store.chains() == {coin: f"{coin}:regtest"}
        messages = [past.event for past in indexing.store.history.select() if past.event.pointer]
        results = []
        for event in messages:
            assert event.pointer is not None
            digest = event.pointer.digest.hex() if event.pointer.digest else None
            if event.valid:
                results.append((str(event.outpoint), event.pointer.id or "", digest, event.pointer.form))
                assert event.pointer.id is not None
                assert str(event.outpoint) in {
                    str(past.event.outpoint) for past in pointer_anchors(indexing.store, event.pointer.id)
                }
        await chain.close()
    return results


def fits(coin: str, *scripts: bytes) -> bool:
    return all(len(script) <= ROOM[coin] for script in scripts)


@pytest.mark.parametrize("coin", CAIP2)
def test_each_chain_has_its_registered_name(coin: str) -> None:
    assert network(coin, "mainnet").caip2 == CAIP2[coin]


@pytest.mark.parametrize("coin", CAIP2)
async def test_pointers_of_a_domain_are_recorded_on_every_chain(coin: str, tmp_path: Path) -> None:
    kit = ChainKit(coin)
    scripts = [
        pointer_script(SHORT, HASH, false=False),
        pointer_script(SHORT, HASH),
        pointer_script(SHORT, false=False),
    ]
    assert fits(coin, *scripts)
    tx = mint(kit, *scripts)
    kit.mine(tx)
    assert await anchors(kit, tmp_path) == expected_rows(
        tx, (1, SHORT, HASH.hex(), "raw32"), (2, SHORT, HASH.hex(), "raw32"), (3, SHORT, None, "none")
    )


@pytest.mark.parametrize("coin", ["btc", "bch", "ltc"])
async def test_what_needs_more_room_than_80_bytes_is_recorded_where_it_is_mined(coin: str, tmp_path: Path) -> None:
    kit = ChainKit(coin)
    scripts = [
        pointer_script(SHORT, HASH.hex(), false=False),
        pointer_script(LONG, HASH, false=False),
        pointer_script("", HASH, uri=URI, false=False),
    ]
    assert fits("bch", *scripts)
    assert not any(fits("btc", script) for script in scripts)
    tx = mint(kit, *scripts)
    kit.mine(tx)
    assert await anchors(kit, tmp_path) == expected_rows(
        tx, (1, SHORT, HASH.hex(), "hex64"), (2, LONG, HASH.hex(), "raw32"), (3, URI, HASH.hex(), "map")
    )


@pytest.mark.parametrize("coin", CAIP2)
async def test_a_domain_too_long_for_one_output_is_split_over_several(coin: str, tmp_path: Path) -> None:
    kit = ChainKit(coin)
    parts = build_split(LONG, HASH)
    assert (len(parts) > 1, fits("doge", *parts)) == (True, True)
    assert not fits("doge", pointer_script(LONG, HASH, false=False))
    tx = mint(kit, *parts)
    kit.mine(tx)
    kit.mine(mint(kit, *parts[:-1]))
    assert await anchors(kit, tmp_path) == expected_rows(tx, (1, LONG, HASH.hex(), "split"))


@pytest.mark.parametrize("coin", ["btc", "ltc"])
async def test_a_card_in_full_and_a_pointer_stand_beside_each_other(coin: str, tmp_path: Path) -> None:
    kit = ChainKit(coin)
    card = kit.reveal(agent("In full"))
    tx = mint(kit, pointer_script(SHORT, HASH, false=False))
    kit.mine(card, tx)
    kit.write(tmp_path)
    with Indexing(f"sqlite:///{tmp_path}/cards.db", create(coin, f"files:{tmp_path}?network=regtest")) as indexing:
        await indexing.catch_up()
        assert indexing.live(coin) == {str(card)}
        await indexing.chains[0].close()
    assert await anchors(kit, tmp_path) == expected_rows(tx, (1, SHORT, HASH.hex(), "raw32"))


@pytest.mark.parametrize("coin", ["bch", "doge"])
async def test_envelopes_are_not_read_where_only_pointers_are(coin: str, tmp_path: Path) -> None:
    kit = ChainKit(coin)
    kit.mine(kit.inscribe(agent()), mint(kit, map_tape({"app": "x", "type": "a2b"})))
    kit.write(tmp_path)
    with Indexing(f"sqlite:///{tmp_path}/cards.db", create(coin, f"files:{tmp_path}?network=regtest")) as indexing:
        await indexing.catch_up()
        assert indexing.live(coin) == set()
        await indexing.chains[0].close()
