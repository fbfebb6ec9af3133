"""Submissions: transactions that prove nothing are refused, quickly; admitted ones are unconfirmed until a block has
them."""

from __future__ import annotations

import resource
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from indexer.admission.admission import Admission, Admissions
from indexer.admission.script_interpreter import CPU_SECONDS
from indexer.errors import NotAdmittedError
from indexer.store import submissions
from indexer.store.submissions import MAX_LISTINGS, FullError
from parsers.bitcoin.beef import ATOMIC, V2, write
from parsers.bitcoin.bump import MerklePath
from parsers.bitcoin.script import push
from parsers.bitcoin.sighash import sign_p2pkh
from parsers.bitcoin.tx import TxInput, TxOutput, read, serialise
from tests.bitcoind import Coin, Key, pay
from tests.chainkit_scripts import body_of, envelope, map_tape
from tests.indexing import Indexing, empty, fresh, unconfirmed_ids
from tests.minting import FUND, Mint, forged, path_in

__all__ = ["empty"]


class AdmittingRegistry:
    """An indexer of a mint's chain, and what takes submissions into its database."""

    def __init__(self, mint: Mint, indexing: Indexing) -> None:
        self.mint, self.indexing = mint, indexing
        self.admissions = Admissions(indexing.store)

    def submit(self, beef: bytes) -> tuple[list[int], list[int]]:
        admission: Admission = self.admissions.submit(beef)
        return list(admission.outputs), list(admission.retained)

    def refuse(self, code: str, beef: bytes) -> str:
        with pytest.raises(NotAdmittedError) as refused:
            self.admissions.submit(beef)
        assert refused.value.code == code, refused.value
        return str(refused.value)

    def pending(self) -> set[str]:
        return set(unconfirmed_ids(self.indexing.store))


@pytest.fixture
async def registry(empty: Path) -> AsyncIterator[AdmittingRegistry]:
    mint = Mint()
    with fresh(empty, mint.chain) as indexing:
        await indexing.catch_up()
        yield AdmittingRegistry(mint, indexing)


def test_every_form_of_beef_is_taken_and_answered_alike(registry: AdmittingRegistry) -> None:
    raw = registry.mint.inscribed("Echo")
    for form in ({}, {"version": 2}, {"subject": read(raw).txid}, {"version": 2, "subject": read(raw).txid}):
        assert registry.submit(registry.mint.package(raw, **form)) == ([0], [])


def test_an_update_of_an_unmined_inscription_is_admitted_with_it(registry: AdmittingRegistry) -> None:
    """The spent output is an inscription beside its P2PKH lock."""
    first = registry.mint.inscribed("Chain")
    update = registry.mint.inscribed("Chain 2", 1, registry.mint.coin_of(first, 0))
    assert registry.submit(registry.mint.package(first, update)) == ([0], [0])


def test_a_payment_is_not_admitted_and_not_stored(registry: AdmittingRegistry) -> None:
    payment = pay([registry.mint.coins[0]], [(FUND - 100, registry.mint.key.lock)])
    assert registry.submit(registry.mint.package(payment)) == ([], [])
    assert registry.indexing.store.submissions.pending("live") == frozenset()
    assert registry.submit(registry.mint.package(registry.mint.inscribed("Instead"))) == ([0], [])


def test_a_forged_merkle_path_is_refused(registry: AdmittingRegistry) -> None:
    mint, raw = registry.mint, registry.mint.inscribed("Forged")
    assert "merkle root" in registry.refuse("not-proved", write([(mint.funding, forged(mint.path)), (raw, None)]))
    high = MerklePath(mint.path.height + 1_000, mint.path.levels)
    registry.refuse("not-proved", write([(mint.funding, high), (raw, None)]))
    assert "missing" in registry.refuse("not-proved", write([(raw, None)]))


def test_a_forged_signature_is_refused_also_of_an_ancestor(registry: AdmittingRegistry) -> None:
    mint = registry.mint
    other = [mint.coins[0]._replace(key=Key(9))]
    stolen = pay(other, [(1, mint.inscription("Stolen")), (FUND - 501, mint.key.lock)])
    assert "public key" in registry.refuse("script-failed", mint.package(stolen))
    altered = bytearray(mint.inscribed("Stolen"))
    altered[60] ^= 1
    assert "signature" in registry.refuse("script-failed", mint.package(bytes(altered)))
    after = pay([mint.coin_of(bytes(altered), 1)], [(1, mint.inscription("After")), (90_000, mint.key.lock)])
    registry.refuse("script-failed", mint.package(bytes(altered), after))


def test_more_satoshis_out_than_in_and_too_small_a_fee_are_refused(registry: AdmittingRegistry) -> None:
    mint = registry.mint
    assert "sends" in registry.refuse("not-proved", mint.package(mint.inscribed("Rich", fee=-5_000)))
    assert "due" in registry.refuse("fee-too-low", mint.package(mint.inscribed("Free", fee=0)))


def test_a_bare_txid_is_refused(registry: AdmittingRegistry) -> None:
    funding = read(registry.mint.funding)
    bare = b"".join([V2, b"\0", b"\2", b"\2", funding.txid, b"\0", registry.mint.inscribed("Bare")])
    assert funding.hex_id in registry.refuse("txid-only", bare)


def test_an_unrelated_transaction_in_an_atomic_beef_is_refused(registry: AdmittingRegistry) -> None:
    other, raw = registry.mint.inscribed("Other"), registry.mint.inscribed("Atomic", 1)
    beef = ATOMIC + read(raw).txid + registry.mint.package(other, raw)
    assert "descend" in registry.refuse("not-a-beef", beef)


@pytest.mark.parametrize(
    "body", [b"", bytes(100), V2, V2 + b"\0\0", V2 + b"\0\xfe\xff\xff\xff\x7f", b"\1\0\xbe\xef\xff"]
)
def test_other_bytes_are_refused(body: bytes, registry: AdmittingRegistry) -> None:
    registry.refuse("not-a-beef", body)


def test_a_merkle_path_of_too_many_nodes_is_refused_unread(registry: AdmittingRegistry) -> None:
    nodes = (300_000).to_bytes(4, "little")
    assert "more than" in registry.refuse("not-a-beef", V2 + b"\1\1\x20\xfe" + nodes + b"\0\1" * 300_000)


def test_a_diamond_of_ancestors_is_verified_once_each(registry: AdmittingRegistry) -> None:
    """Every level spends both outputs of the one before: 2^200 paths, and 200 transactions."""
    mint = registry.mint
    coins, raws = [mint.coins[0]], list[bytes]()
    for level in range(200):
        held = sum(coin.satoshis for coin in coins) - 10
        raws.append(pay(coins, [(held // 2, mint.key.lock), (held - held // 2, mint.key.lock)]))
        coins = [mint.coin_of(raws[level], vout) for vout in (0, 1)]
    held = sum(coin.satoshis for coin in coins)
    raws.append(pay(coins, [(1, mint.inscription("Diamond")), (held - 100, mint.key.lock)]))
    assert registry.submit(mint.package(*raws)) == ([0], [])


def unsigned(coin: Coin) -> bytes:
    return serialise((TxInput(coin.outpoint, b"", 0),), (TxOutput(coin.satoshis - 1, coin.script),))


def test_too_many_ancestors_are_refused_before_their_signatures_are_checked(registry: AdmittingRegistry) -> None:
    coin, raws = registry.mint.coins[0], list[bytes]()
    for _ in range(2_001):
        raws.append(unsigned(coin))
        coin = registry.mint.coin_of(raws[-1], 0)
    registry.refuse("too-many-ancestors", registry.mint.package(*raws))


async def test_scripts_other_than_p2pkh_are_checked_by_bitcoinx_or_refused(
    empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = Key(7)
    mint = Mint(script=push(key.public) + b"\xac")
    with fresh(empty, mint.chain) as indexing:
        registry = AdmittingRegistry(mint, await indexing.catch_up())
        signed = mint.inscribed("Bare key")
        tx = read(signed)
        signature = signed[4 + 1 + 36 + 2 :][: signed[4 + 1 + 36 + 1]]
        script = push(signature)
        raw = serialise((tx.inputs[0]._replace(script=script),), tx.outputs, tx.version, tx.locktime)
        monkeypatch.setitem(sys.modules, "bitcoinx", None)
        registry.refuse("script-not-checkable", mint.package(raw))
        monkeypatch.undo()
        pytest.importorskip("bitcoinx", reason="bitcoinX has no wheels for this Python")
        assert registry.submit(mint.package(raw)) == ([0], [])
        wrong = serialise((tx.inputs[0]._replace(script=push(b"\x30" + signature[1:-2] + b"\0A")),), tx.outputs, 1, 0)
        registry.refuse("script-failed", mint.package(wrong))


def locked(mint: Mint, locktime: int, sequence: int) -> bytes:
    """A package of an inscription with a lock time."""
    outputs = (TxOutput(1, mint.inscription("Locked")), TxOutput(FUND - 2_000, mint.key.lock))
    bare = TxInput(mint.coins[0].outpoint, b"", sequence)
    tx = read(serialise((bare,), outputs, 1, locktime))
    script = sign_p2pkh(tx, 0, mint.key.secret.to_bytes(32, "big"), FUND)
    return mint.package(serialise((bare._replace(script=script),), outputs, 1, locktime))


def test_a_transaction_that_the_next_block_cannot_hold_is_refused(registry: AdmittingRegistry) -> None:
    mint, headers = registry.mint, registry.indexing.store.headers.run("live", 0, 3)
    time = sorted(int.from_bytes(header[68:72], "little") for header in headers)[1]
    for locktime in (3, 499_999_999, time, 0xFFFFFFFF):
        assert "not final" in registry.refuse("not-final", locked(mint, locktime, 0))
    assert registry.submit(locked(mint, 2, 0)) == ([0], [])


@pytest.mark.parametrize(("is_time", "sequence"), [(True, 0), (False, 0xFFFFFFFF)])
def test_a_final_transaction_with_a_lock_time_is_admitted(
    is_time: bool, sequence: int, registry: AdmittingRegistry
) -> None:
    header = registry.indexing.store.headers.run("live", 0, 1)[0]
    locktime = int.from_bytes(header[68:72], "little") - 1 if is_time else 100
    assert registry.submit(locked(registry.mint, locktime, sequence)) == ([0], [])


def spent_by(mint: Mint, *scripts: bytes) -> bytes:
    """A package that spends a coin with each of these unlocking scripts."""
    inputs = tuple(
        TxInput(coin.outpoint, script, 0xFFFFFFFF) for coin, script in zip(mint.coins, scripts, strict=False)
    )
    outputs = (TxOutput(1, mint.inscription("Odd")), TxOutput(FUND - 2_000, mint.key.lock))
    return mint.package(serialise(inputs, outputs))


OP_NUM2BIN = b"\x80"
GIB, PART_OF_A_MIB = b"\x04\xff\xff\xff\x3f", b"\x03\x00\x00\x06"


@pytest.mark.parametrize(
    ("lock", "unlock", "code"),
    [
        (b"\x51\x05\x01", b"", "script-failed"),
        (b"\x51", b"\x05\x01", "script-failed"),
        (b"\x51\x4d\xff\xff", b"", "script-failed"),
        (b"\x00", b"", "script-failed"),
        (OP_NUM2BIN, b"\x51" + GIB, "script-not-checkable"),
    ],
)
async def test_scripts_that_are_cut_or_allocate_too_much_are_refused(
    lock: bytes, unlock: bytes, code: str, empty: Path
) -> None:
    pytest.importorskip("bitcoinx", reason="bitcoinX has no wheels for this Python")
    mint = Mint(script=lock)
    with fresh(empty, mint.chain) as indexing:
        registry = AdmittingRegistry(mint, await indexing.catch_up())
        assert "input 0" in registry.refuse(code, spent_by(mint, unlock))


async def test_scripts_that_take_too_long_are_refused_together(empty: Path) -> None:
    pytest.importorskip("bitcoinx", reason="bitcoinX has no wheels for this Python")
    dup_ripemd160_drop = b"\x76\xa6\x75"
    mint = Mint(coins=64, script=b"\x51" + PART_OF_A_MIB + OP_NUM2BIN + dup_ripemd160_drop * 320 + b"\x75\x51")
    with fresh(empty, mint.chain) as indexing:
        registry = AdmittingRegistry(mint, await indexing.catch_up())
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        registry.refuse("script-not-checkable", spent_by(mint, *[b""] * 64))
        assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 2 * CPU_SECONDS


async def test_outputs_are_counted_before_they_are_parsed(registry: AdmittingRegistry) -> None:
    tx = serialise((TxInput(registry.mint.coins[0].outpoint, b"", 0),), (TxOutput(0, b""),) * 250_000)
    assert "outputs" in registry.refuse("not-a-beef", V2 + b"\0\1\0" + tx)


def test_a_second_spend_of_a_coin_is_refused(registry: AdmittingRegistry) -> None:
    first = registry.mint.inscribed("First")
    assert registry.submit(registry.mint.package(first)) == ([0], [])
    detail = registry.refuse("double-spend", registry.mint.package(registry.mint.inscribed("Second")))
    assert read(first).hex_id in detail


async def test_a_submission_is_pending_until_it_is_mined_and_again_after_a_reorganisation(
    registry: AdmittingRegistry,
) -> None:
    mint, indexing = registry.mint, registry.indexing
    raw = mint.inscribed("Echo")
    id_ = f"{read(raw).hex_id}_0"
    registry.submit(mint.package(raw))
    await indexing.refresh()
    assert registry.pending() == {id_}
    mint.mine(raw)
    await indexing.refresh()
    assert (registry.pending(), indexing.live("live")) == (set(), {id_})
    assert registry.submit(mint.package(raw)) == ([0], [])
    fork = mint.mine(parent=mint.block)
    mint.mine(parent=fork)
    await indexing.refresh()
    assert (registry.pending(), indexing.live("live")) == ({id_}, set())


async def test_what_was_answered_is_there_after_a_restart_and_answered_again(registry: AdmittingRegistry) -> None:
    first = registry.mint.inscribed("Lasting")
    update = registry.mint.inscribed("Lasting 2", 1, registry.mint.coin_of(first, 0))
    package = registry.mint.package(first, update)
    assert registry.submit(package) == ([0], [0])
    registry.indexing.restart()
    registry.admissions = Admissions(registry.indexing.store)
    await registry.indexing.refresh()
    assert registry.pending() == {f"{read(first).hex_id}_0"}
    assert registry.submit(package) == ([0], [0])


async def test_a_block_with_another_spend_of_a_coin_wins_over_a_submission_and_what_descends_from_it(
    registry: AdmittingRegistry,
) -> None:
    """No registration was at the coin, and no mempool showed the rival."""
    mint, indexing = registry.mint, registry.indexing
    mine, other, rival = mint.inscribed("Mine"), mint.inscribed("Other", 1), mint.inscribed("Rival")
    child = mint.inscribed("Child", 2, mint.coin_of(mine, 1))
    registry.submit(mint.package(mine, child))
    registry.submit(mint.package(other))
    await indexing.refresh()
    mint.mine(rival, mint.payment(3))
    await indexing.refresh()
    assert indexing.live("live") == {f"{read(rival).hex_id}_0"}
    assert registry.pending() == {f"{read(other).hex_id}_0"}
    assert indexing.store.submissions.pending("live") == {read(other).txid}
    mint.mine(other)
    await indexing.refresh()
    assert indexing.live("live") == {f"{read(raw).hex_id}_0" for raw in (rival, other)}


async def test_a_mined_transaction_that_nobody_submitted_is_answered_from_its_block(
    registry: AdmittingRegistry,
) -> None:
    raw = registry.mint.inscribed("Mined")
    block = registry.mint.mine(raw)
    await registry.indexing.refresh()
    assert registry.submit(write([(raw, path_in(block, read(raw).txid))])) == ([0], [])
    assert registry.indexing.store.submissions.pending("live") == frozenset()


async def test_a_submission_is_evicted_after_144_blocks(registry: AdmittingRegistry) -> None:
    mint = registry.mint
    registry.submit(mint.package(mint.inscribed("Never")))
    mint.chain.arrive(*(mint.kit.mine_empty(1) for _ in range(143)))
    await registry.indexing.refresh()
    assert len(registry.pending()) == 1
    mint.mine()
    await registry.indexing.refresh()
    assert registry.pending() == set()
    assert registry.submit(mint.package(mint.inscribed("Instead"))) == ([0], [])


async def test_the_mempool_of_the_source_wins_over_a_submission_and_what_descends_from_it(
    registry: AdmittingRegistry,
) -> None:
    mint, indexing = registry.mint, registry.indexing
    first = mint.inscribed("Mine")
    second = mint.inscribed("Mine 2", 1, mint.coin_of(first, 0))
    registry.submit(mint.package(first, second))
    rival = mint.inscribed("Rival")
    mint.chain.unconfirmed[read(rival).txid] = rival
    for _ in range(2):  # the rival is read, and then compared
        await indexing.refresh()
    assert registry.pending() == {f"{read(rival).hex_id}_0"}
    assert indexing.store.submissions.pending("live") == frozenset()
    registry.submit(mint.package(mint.inscribed("Third")))  # what no registration is at is compared by the indexer
    await indexing.refresh()
    assert indexing.store.submissions.pending("live") == frozenset()


async def test_a_spend_of_a_registration_that_has_moved_on_in_a_block_is_refused(registry: AdmittingRegistry) -> None:
    mint = registry.mint
    raw = mint.inscribed("Mover")
    block, coin = mint.mine(raw), mint.coin_of(raw, 0)
    mint.mine(mint.inscribed("Mover 2", 1, coin))
    await registry.indexing.refresh()
    late = mint.inscribed("Mover 3", 2, coin)
    beef = write([(mint.funding, mint.path), (raw, path_in(block, read(raw).txid)), (late, None)])
    registry.refuse("double-spend", beef)


def test_there_is_room_for_so_many_and_a_newer_one_takes_that_of_the_oldest(
    registry: AdmittingRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submissions, "MAX_SUBMISSIONS", 2)
    raws = [registry.mint.inscribed(f"Number {number}", number) for number in range(3)]
    for raw in raws:
        registry.submit(registry.mint.package(raw))
    assert registry.indexing.store.submissions.pending("live") == {read(raw).txid for raw in raws[1:]}


def test_a_transaction_of_many_records_costs_as_much_as_many_transactions(registry: AdmittingRegistry) -> None:
    """A transaction of thousands of listings is as free as one, until it is broadcast."""
    mint = registry.mint
    outputs = [(1, mint.inscription(f"Number {number}")) for number in range(MAX_LISTINGS + 1)]
    many = pay([mint.coins[0]], [*outputs, (50_000, mint.key.lock)])
    with pytest.raises(FullError, match="21 listings of the owner of this coin: at most 20 are stored that no source"):
        registry.submit(mint.package(many))
    few = pay([mint.coins[0]], [*outputs[:10], (50_000, mint.key.lock)])
    child = pay([mint.coin_of(few, 10)], [*outputs[10:], (9_000, mint.key.lock)])
    with pytest.raises(FullError, match="21 listings"):  # an ancestor's count as its own
        registry.submit(mint.package(few, child))
    assert registry.submit(mint.package(few)) == ([*range(10)], [])


async def test_what_the_source_has_is_no_charge(registry: AdmittingRegistry) -> None:
    mint = registry.mint
    outputs = [(1, mint.inscription(f"Number {number}")) for number in range(MAX_LISTINGS + 1)]
    many = pay([mint.coins[0]], [*outputs, (50_000, mint.key.lock)])
    mint.chain.unconfirmed[read(many).txid] = many
    await registry.indexing.refresh()
    assert registry.submit(mint.package(many)) == ([*range(MAX_LISTINGS + 1)], [])
    assert registry.submit(mint.package(mint.inscribed("One more", 1))) == ([0], [])


def test_servers_of_a_config_count_as_listings(registry: AdmittingRegistry) -> None:
    mint = registry.mint
    config = {"mcpServers": {f"s{number}": {"command": "npx"} for number in range(64)}}
    record = mint.key.lock + envelope(body_of(config)) + map_tape({"app": "test", "type": "a2b-mcp"})
    raw = pay([mint.coins[0]], [(1, record), (50_000, mint.key.lock)])
    assert registry.submit(mint.package(raw)) == ([0], [])  # a single record is taken whatever its size
    with pytest.raises(FullError, match="65 listings"):
        registry.submit(mint.package(mint.inscribed("One more", 1)))
    two = pay([mint.coin_of(raw, 1)], [(1, record), (1, record), (20_000, mint.key.lock)])
    with pytest.raises(FullError, match="192 listings"):
        registry.submit(mint.package(raw, two))
