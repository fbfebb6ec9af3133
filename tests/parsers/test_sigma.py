"""SIGMA: signed here with bitcoinx, signed by strangers, and tampered with."""

from __future__ import annotations

from hashlib import sha256

import pytest
from bitcoinx import BitcoinTestnet, PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from parsers import sigma
from parsers.map_protocol import build
from parsers.script import p2pkh, push, pushes
from parsers.tx import Outpoint, Transaction, TxInput, TxOutput

KEY = PrivateKey(bytes(31) + b"\x07")
SIGNER = KEY.public_key.to_address().to_string()
LOCK = p2pkh(bytes(20))
SPENT = Outpoint(sha256(b"a").digest(), 3), Outpoint(sha256(b"b").digest(), 0)


def transaction(script: bytes, vout: int = 0) -> Transaction:
    """A transaction of two inputs with `script` as output `vout`."""
    outputs = tuple(TxOutput(1, script if number == vout else LOCK) for number in range(2))
    return Transaction(bytes(32), 1, tuple(TxInput(spent, b"", 0) for spent in SPENT), outputs, 0, 0)


def signed(script: bytes, spent: Outpoint, vin: str, *, key: PrivateKey = KEY, compressed: bool = True) -> bytes:
    """The script with a SIGMA tape over it, made independently of the reader."""
    outpoint = sha256(spent.txid[::-1] + spent.vout.to_bytes(4, "little")).digest()
    message = sha256(outpoint + sha256(script).digest()).digest()
    signature = key.sign_message(message) if compressed else bytes([0]) + key.sign_message(message)[1:]
    if not compressed:
        signature = bytes([key.sign_message(message)[0] - 4]) + signature[1:]
    address = key.public_key.to_address(compressed=compressed).to_string()
    return script + pushes(b"|", b"SIGMA", b"BSM", address.encode(), signature, vin.encode())


@given(st.binary(max_size=40), st.sampled_from([("0", 0, 0), ("1", 0, 1), ("0", 1, 0), ("-1", 0, 0), ("-1", 1, 1)]))
def test_a_signature_over_any_script_names_its_signer(more: bytes, case: tuple[str, int, int]) -> None:
    vin, vout, number = case
    script = signed(LOCK + b"\x6a" + push(b"x" + more), SPENT[number], vin)
    tx = transaction(script, vout)
    (claim,) = sigma.read(script)
    assert (claim.algorithm, claim.address, claim.vin) == ("BSM", SIGNER, int(vin))
    assert sigma.verify(claim, tx, vout) == sigma.signer(tx, vout) == SIGNER


@given(st.data())
def test_any_changed_byte_of_the_signed_script_unmakes_the_signer(data: st.DataObject) -> None:
    script = signed(LOCK + build({"app": "echo"}), SPENT[0], "0")
    at = data.draw(st.integers(0, len(LOCK) - 1))
    changed = script[:at] + bytes([script[at] ^ data.draw(st.integers(1, 255))]) + script[at + 1 :]
    assert sigma.signer(transaction(changed), 0) is None


def test_the_signature_does_not_hold_in_a_transaction_that_spends_something_else() -> None:
    script = signed(LOCK + build({"app": "echo"}), SPENT[0], "0")
    tx = transaction(script)
    other = tx._replace(inputs=(tx.inputs[1], tx.inputs[0]))
    assert (sigma.signer(tx, 0), sigma.signer(other, 0)) == (SIGNER, None)


def test_a_signature_by_another_key_than_the_address_is_not_valid() -> None:
    stranger = PrivateKey(bytes(31) + b"\x08").public_key.to_address().to_string()
    script = signed(LOCK + b"\x6a" + push(b"x"), SPENT[0], "0").replace(SIGNER.encode(), stranger.encode())
    assert sigma.read(script)[0].address == stranger
    assert sigma.signer(transaction(script), 0) is None


def test_the_address_of_an_uncompressed_key_and_of_a_test_network_are_taken() -> None:
    script = signed(LOCK + b"\x6a" + push(b"x"), SPENT[0], "0", compressed=False)
    address = KEY.public_key.to_address(compressed=False).to_string()
    assert sigma.signer(transaction(script), 0) == address
    testnet = KEY.public_key.to_address(network=BitcoinTestnet).to_string()
    script = signed(LOCK + b"\x6a" + push(b"x"), SPENT[0], "0").replace(SIGNER.encode(), testnet.encode())
    assert sigma.signer(transaction(script), 0) == testnet


def test_a_second_signature_covers_the_first() -> None:
    other = PrivateKey(bytes(31) + b"\x09")
    script = signed(signed(LOCK + b"\x6a" + push(b"x"), SPENT[0], "0"), SPENT[1], "1", key=other)
    tx = transaction(script)
    assert [sigma.verify(claim, tx, 0) for claim in sigma.read(script)] == [
        SIGNER,
        other.public_key.to_address().to_string(),
    ]


def test_the_first_valid_signature_counts() -> None:
    unsigned = LOCK + b"\x6a" + pushes(b"SIGMA", b"BSM", SIGNER.encode(), bytes(65), b"0")
    assert sigma.signer(transaction(signed(unsigned, SPENT[0], "0")), 0) == SIGNER
    assert sigma.signer(transaction(unsigned), 0) is None


def test_an_algorithm_that_is_not_supported_is_read_and_not_called_verified() -> None:
    script = signed(LOCK + b"\x6a" + push(b"x"), SPENT[0], "0").replace(b"\x03BSM", b"\x05BRC88")
    assert sigma.read(script)[0].algorithm == "BRC88"
    assert sigma.signer(transaction(script), 0) is None


@pytest.mark.parametrize(
    "items",
    [
        (b"BSM", SIGNER.encode(), bytes(65)),
        (b"BSM", SIGNER.encode(), bytes(65), b"-2"),
        (b"BSM", SIGNER.encode(), bytes(65), b""),
        (b"BSM", SIGNER.encode(), bytes(65), b"9" * 10),
        (b"BSM", SIGNER.encode(), bytes(65), "٣".encode()),
        (b"BSM", b"\xff" * 30, bytes(65), b"0"),
        (b"BSM", b"1" * 65, bytes(65), b"0"),
    ],
)
def test_a_tape_of_another_shape_is_no_claim(items: tuple[bytes, ...]) -> None:
    assert sigma.read(b"\x6a" + pushes(b"SIGMA", *items)) == ()


@pytest.mark.parametrize(
    ("address", "signature", "vin"),
    [
        (SIGNER, bytes(64), "0"),
        (SIGNER, b"\x1f" + b"\xff" * 64, "0"),
        (SIGNER, b"\x1f" + bytes(64), "0"),
        (SIGNER, b"\x7f" + bytes(64), "0"),
        (SIGNER, bytes(65), "2"),
        (SIGNER[:-1] + "x", bytes(65), "0"),
        ("0OIl", bytes(65), "0"),
        ("", bytes(65), "0"),
        ("3CWFddi6m4ndiGyKqzYvsFYagqDLPVMTzC", bytes(65), "0"),
    ],
)
def test_broken_claims_are_refused_without_an_exception(address: str, signature: bytes, vin: str) -> None:
    script = b"\x6a" + pushes(b"SIGMA", b"BSM", address.encode(), signature, vin.encode())
    (claim,) = sigma.read(script)
    assert sigma.verify(claim, transaction(script), 0) is None


@given(st.binary(min_size=65, max_size=65))
def test_any_signature_bytes_are_refused_without_an_exception(signature: bytes) -> None:
    script = b"\x6a" + pushes(b"SIGMA", b"BSM", SIGNER.encode(), signature, b"0")
    assert sigma.signer(transaction(script), 0) is None


def test_at_most_sixteen_claims_are_read() -> None:
    tape = pushes(b"SIGMA", b"BSM", SIGNER.encode(), bytes(65), b"0")
    assert len(sigma.read(b"\x6a" + push(b"|").join([tape] * 100))) == 16
