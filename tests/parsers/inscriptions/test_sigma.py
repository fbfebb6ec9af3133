"""SIGMA: signed here, signed by strangers, and tampered with."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.bitcoin.script import p2pkh, push, pushes
from parsers.bitcoin.tx import Outpoint, Transaction, TxInput, TxOutput, read_exactly
from parsers.inscriptions import sigma
from parsers.inscriptions.map_protocol import build
from tests.message_keys import MessageKey

KEY = MessageKey(7)
SIGNER = KEY.address()
LOCK = p2pkh(bytes(20))
SPENT = Outpoint(sha256(b"a").digest(), 3), Outpoint(sha256(b"b").digest(), 0)


def transaction(script: bytes, vout: int = 0) -> Transaction:
    """A transaction of two inputs with `script` as output `vout`."""
    outputs = tuple(TxOutput(1, script if number == vout else LOCK) for number in range(2))
    return Transaction(bytes(32), 1, tuple(TxInput(spent, b"", 0) for spent in SPENT), outputs, 0, 0)


def signed(script: bytes, spent: Outpoint, vin: str, *, key: MessageKey = KEY, compressed: bool = True) -> bytes:
    """The script with a SIGMA tape over it, made independently of the reader."""
    outpoint = sha256(spent.txid[::-1] + spent.vout.to_bytes(4, "little")).digest()
    message = sha256(outpoint + sha256(script).digest()).digest()
    signature = key.sign_message(message, compressed=compressed)
    address = key.address(compressed=compressed)
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
    drawn = data.draw(st.integers(0, len(LOCK) - 1))
    changed = script[:drawn] + bytes([script[drawn] ^ data.draw(st.integers(1, 255))]) + script[drawn + 1 :]
    assert sigma.signer(transaction(changed), 0) is None


def test_the_signature_does_not_hold_in_a_transaction_that_spends_something_else() -> None:
    script = signed(LOCK + build({"app": "echo"}), SPENT[0], "0")
    tx = transaction(script)
    other = tx._replace(inputs=(tx.inputs[1], tx.inputs[0]))
    assert (sigma.signer(tx, 0), sigma.signer(other, 0)) == (SIGNER, None)


def test_a_signature_by_another_key_than_the_address_is_not_valid() -> None:
    stranger = MessageKey(8).address()
    script = signed(LOCK + b"\x6a" + push(b"x"), SPENT[0], "0").replace(SIGNER.encode(), stranger.encode())
    assert sigma.read(script)[0].address == stranger
    assert sigma.signer(transaction(script), 0) is None


def test_the_address_of_an_uncompressed_key_and_of_a_test_network_are_taken() -> None:
    script = signed(LOCK + b"\x6a" + push(b"x"), SPENT[0], "0", compressed=False)
    address = KEY.address(compressed=False)
    assert sigma.signer(transaction(script), 0) == address
    testnet = KEY.address(version=0x6F)
    script = signed(LOCK + b"\x6a" + push(b"x"), SPENT[0], "0").replace(SIGNER.encode(), testnet.encode())
    assert sigma.signer(transaction(script), 0) == testnet


def test_a_second_signature_covers_the_first() -> None:
    other = MessageKey(9)
    script = signed(signed(LOCK + b"\x6a" + push(b"x"), SPENT[0], "0"), SPENT[1], "1", key=other)
    tx = transaction(script)
    assert [sigma.verify(claim, tx, 0) for claim in sigma.read(script)] == [
        SIGNER,
        other.address(),
    ]


def test_the_first_valid_signature_counts() -> None:
    unsigned = LOCK + b"\x6a" + pushes(b"SIGMA", b"BSM", SIGNER.encode(), bytes(65), b"0")
    assert sigma.signer(transaction(signed(unsigned, SPENT[0], "0")), 0) == SIGNER
    assert sigma.signer(transaction(unsigned), 0) is None


# made with sigma-protocol 0.1.9 and @bsv/sdk from npm: the private key 7 signs output 0, bound to input 0
HEAD = "0100000001abababababababababababababababab010101010101010101010101010101010300000000ffffffff010100000000000000"
SCRIPT = (
    "76a914000000000000000000000000000000000000000088ac6a223150755161374b36324d694b43747373534c4b79316b683536575755374d"
    "74555235035345540474797065096132622d6167656e74017c055349474d41"
)
NAMED = "2231395a657748384b6b31504462534e644a39374650344569436a5452615a4d5a5141"
BSM = (
    f"{HEAD}c3{SCRIPT}0342534d{NAMED}41200e9b0d9c3b19d951263247009a15640b20ef2495f9278d323d154316dd88f7466cdcdcf29e84a3"
    "528141274d1690d5a9baf3765f80a33cbb891675b786c8fbc9013000000000"
)
BRC77 = (
    f"{HEAD}fd1201{SCRIPT}054252433737{NAMED}4c8d42423301025cbdf0646e5db4eaa398f365f2ea7a0e3d419b7e0330e39ce92bddedcac4"
    "f9bc00aca4441377258bad46ada6366b86b492f5fd7d209012b0b0b4282a4cda2d84b1304502210095e0fb4259793a0d54412ca57c1c845bdd"
    "c89f8b5eb1a6a2d2d4c0f04a0c059d02207a7b66be9133b2f23d405dd9e3d3a57546d1a89faeedf5e437257a643a41c353013000000000"
)
BRC77_FOR_ONE = (
    f"{HEAD}fd3201{SCRIPT}054252433737{NAMED}4cad42423301025cbdf0646e5db4eaa398f365f2ea7a0e3d419b7e0330e39ce92bddedcac4"
    "f9bc02352bbf4a4cdd12564f93fa332ce333301d9ad40271f8107181340aef25be59d55504415b6699a912c42ae39a9c31a1d73ea39bce45ce"
    "87f2d5761f6771ae48343045022100ba57c7900c847d158319770af9717606ad9f2b0b335310819cd2eac19ebb5dc9022000ada98591220cca"
    "7a989cdba722fb86df4e9ff28119ee69ea9f4d24f979cbef013000000000"
)


@pytest.mark.parametrize(("raw", "signer"), [(BSM, SIGNER), (BRC77, SIGNER), (BRC77_FOR_ONE, None)])
def test_signatures_of_the_publishers_library_are_verified_unless_they_are_for_one_reader(
    raw: str, signer: str | None
) -> None:
    tx = read_exactly(bytes.fromhex(raw))
    (claim,) = sigma.read(tx.outputs[0].script)
    assert claim.address == SIGNER
    assert sigma.signer(tx, 0) == signer


@given(st.data())
def test_a_brc77_signature_with_any_byte_changed_names_nobody(data: st.DataObject) -> None:
    tx = read_exactly(bytes.fromhex(BRC77))
    (claim,) = sigma.read(tx.outputs[0].script)
    drawn = data.draw(st.integers(0, len(claim.signature) - 1))
    changed = bytearray(claim.signature)
    changed[drawn] ^= data.draw(st.integers(1, 255))
    assert sigma.verify(claim._replace(signature=bytes(changed)), tx, 0) is None
    assert sigma.verify(claim._replace(signature=claim.signature[:drawn]), tx, 0) is None
    assert (
        sigma.verify(claim._replace(signature=claim.signature[:38] + data.draw(st.binary(max_size=150))), tx, 0) is None
    )


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
