"""Signature hashes: against bitcoinX, a published example, and every kind of damage."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.bitcoin import signatures
from parsers.bitcoin.script import p2pkh, push
from parsers.bitcoin.sighash import (
    ALL,
    ALL_FORKID,
    ANYONE_CAN_PAY,
    FORKID,
    NONE,
    SINGLE,
    SharedHashes,
    forkid_digest,
    legacy_digest,
    p2pkh_error,
    sign_p2pkh,
)
from parsers.bitcoin.tx import Outpoint, Transaction, TxInput, TxOutput, read, serialise

bitcoinx = pytest.importorskip("bitcoinx", reason="bitcoinX has no wheel for this Python")

KEY = sha256(b"a key").digest()
LOCK = p2pkh(signatures.hash160(signatures.public_key(KEY)))
HASH_TYPES = [kind | more for kind in (ALL, NONE, SINGLE) for more in (0, ANYONE_CAN_PAY)]

_satoshis = st.integers(0, 21 * 10**14)
_inputs = st.lists(
    st.builds(
        TxInput, st.builds(Outpoint, st.binary(min_size=32, max_size=32), st.integers(0, 2**32 - 1)),
        st.binary(max_size=40), st.integers(0, 2**32 - 1),
    ),
    min_size=1, max_size=4,
)  # fmt: skip
_outputs = st.lists(st.builds(TxOutput, _satoshis, st.binary(max_size=40)), max_size=4)
_transactions = st.builds(
    lambda inputs, outputs, version, locktime: read(serialise(tuple(inputs), tuple(outputs), version, locktime)),
    _inputs, _outputs, st.integers(1, 2), st.integers(0, 2**32 - 1),
)  # fmt: skip


def raw(tx: Transaction) -> bytes:
    return serialise(tx.inputs, tx.outputs, tx.version, tx.locktime)


@given(_transactions, st.data(), st.sampled_from(HASH_TYPES), _satoshis, st.binary(max_size=60))
def test_digests_with_forkid_are_those_of_bitcoinx(
    tx: Transaction, data: st.DataObject, hash_type: int, satoshis: int, script: bytes
) -> None:
    vin = data.draw(st.integers(0, len(tx.inputs) - 1))
    theirs = bitcoinx.Tx.from_bytes(raw(tx))
    expected = theirs.signature_hash(vin, satoshis, bitcoinx.Script(script), bitcoinx.SigHash(hash_type | FORKID))
    assert forkid_digest(tx, vin, script, satoshis, hash_type | FORKID) == expected


def test_the_original_digest_is_the_one_that_a_published_transaction_signed() -> None:
    """The first input of the example "Native P2WPKH" of BIP 143, which is not a witness input."""
    tx = read(
        bytes.fromhex(
            "0100000002fff7f7881a8099afa6940d42d1e7f6362bec38171ea3edf433541db4e4ad969f0000000000eeffffff"
            "ef51e1b804cc89d182d279655c3aa89e815b1b309fe287d9b2b55d57b90ec68a0100000000ffffffff02202cb206000000001976a914"
            "8280b37df378db99f66f85c95a783a76ac7a6d5988ac9093510d000000001976a9143bde42dbee7e4dbe6a21b2d50ce2f0167faa8159"
            "88ac11000000"
        )
    )
    key = bytes.fromhex("03c9f4836b9a4f77fc0d81f7bcb01b7f1b35916864b9476c241ce9fc198bd25432")
    signature = bytes.fromhex(
        "30450221008b9d1dc26ba6a9cb62127b02742fa9d754cd3bebf337f7a55d114c8e5cdd30be"
        "022040529b194ba3f9281a99f2b1c0a19c0489bc22ede944ccf4ecbab4cc618ef3ed"
    )
    assert signatures.is_signed(key, signature, legacy_digest(tx, 0, push(key) + b"\xac"))


def paid(*, satoshis: int = 1_000) -> tuple[Transaction, TxOutput]:
    """A signed transaction that spends a P2PKH output of KEY with its first input."""
    inputs = (TxInput(Outpoint(b"\x11" * 32, 0), b"", 0xFFFFFFFF), TxInput(Outpoint(b"\x22" * 32, 1), b"", 7))
    outputs = (TxOutput(900, LOCK),)
    unlocking = sign_p2pkh(read(serialise(inputs, outputs)), 0, KEY, satoshis)
    return read(serialise((inputs[0]._replace(script=unlocking), inputs[1]), outputs)), TxOutput(1_000, LOCK)


def test_a_signed_input_is_valid() -> None:
    assert p2pkh_error(*_args(*paid())) is None


def _args(tx: Transaction, spent: TxOutput) -> tuple[Transaction, int, TxOutput]:
    return tx, 0, spent


def test_other_amounts_outputs_and_inputs_are_not_signed() -> None:
    tx, spent = paid()
    assert "not valid" in (p2pkh_error(*_args(*paid(satoshis=1_001))) or "")
    assert "not valid" in (p2pkh_error(tx._replace(outputs=(TxOutput(901, LOCK),)), 0, spent) or "")
    assert "not valid" in (p2pkh_error(tx._replace(inputs=tx.inputs[:1]), 0, spent) or "")


@pytest.mark.parametrize("forkid", [False, True])
def test_uncompressed_keys_and_the_original_digest_are_checked(forkid: bool) -> None:
    import wallycore

    key = bytes(wallycore.ec_public_key_decompress(signatures.public_key(KEY)))
    lock = p2pkh(signatures.hash160(key))
    bare = read(serialise((TxInput(Outpoint(b"\x11" * 32, 0), b"", 0),), (TxOutput(1, LOCK),)))
    digest = forkid_digest(bare, 0, lock, 5) if forkid else legacy_digest(bare, 0, lock)
    hash_type = ALL_FORKID if forkid else ALL
    unlocking = push(signatures.sign(KEY, digest) + bytes((hash_type,))) + push(key)
    tx = bare._replace(inputs=(bare.inputs[0]._replace(script=unlocking),))
    assert p2pkh_error(tx, 0, TxOutput(5, lock), forkid=forkid) is None
    assert "hash type" in (p2pkh_error(tx, 0, TxOutput(5, lock), forkid=not forkid) or "")


@given(_transactions, st.data(), st.lists(st.sampled_from(HASH_TYPES), min_size=1, max_size=6), _satoshis)
def test_shared_hashes_change_no_digest(
    tx: Transaction, data: st.DataObject, hash_types: list[int], satoshis: int
) -> None:
    shared = SharedHashes(tx)
    for hash_type in hash_types:
        vin = data.draw(st.integers(0, len(tx.inputs) - 1))
        alone = forkid_digest(tx, vin, LOCK, satoshis, hash_type | FORKID)
        assert forkid_digest(tx, vin, LOCK, satoshis, hash_type | FORKID, shared) == alone


def test_outputs_are_hashed_once_for_all_inputs() -> None:
    class Counted(tuple[TxOutput, ...]):
        passes = 0

        def __iter__(self) -> Iterator[TxOutput]:
            Counted.passes += 1
            return super().__iter__()

    tx, _ = paid()
    tx = tx._replace(outputs=Counted(tx.outputs))
    shared = SharedHashes(tx)
    assert {len(forkid_digest(tx, vin, LOCK, 1, shared=shared)) for vin in (0, 1)} == {32}
    assert Counted.passes == 1


def test_a_transaction_whose_original_digests_take_too_long_is_an_error() -> None:
    tx, spent = paid()
    signed = tx.inputs[0].script.replace(bytes((ALL_FORKID,)) + push(signatures.public_key(KEY)), b"")
    unlocking = push(signed[1:] + bytes((ALL,))) + push(signatures.public_key(KEY))
    large = tx._replace(inputs=(tx.inputs[0]._replace(script=unlocking), *tx.inputs[1:] * 999), size=100_000)
    assert "too long" in (p2pkh_error(large, 0, spent, forkid=False) or "")
    assert "not valid" in (p2pkh_error(large._replace(size=60_000), 0, spent, forkid=False) or "")


@given(st.binary(max_size=150))
def test_any_bytes_as_unlocking_script_are_refused(script: bytes) -> None:
    tx, spent = paid()
    damaged = tx._replace(inputs=(tx.inputs[0]._replace(script=script), tx.inputs[1]))
    assert p2pkh_error(damaged, 0, spent)


def test_each_changed_byte_of_the_unlocking_script_is_refused() -> None:
    tx, spent = paid()
    script = tx.inputs[0].script
    for index in range(len(script)):
        changed = script[:index] + bytes((script[index] ^ 1,)) + script[index + 1 :]
        damaged = tx._replace(inputs=(tx.inputs[0]._replace(script=changed), tx.inputs[1]))
        assert p2pkh_error(damaged, 0, spent), index
