"""Addresses: against bitcoinx for BSV, against the specifications' own examples elsewhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.bitcoin import address
from parsers.bitcoin.address import PREFIXES, Prefixes, key_hash, lock, owner
from parsers.bitcoin.script import p2pkh, push
from parsers.inscriptions import envelope

HASH = bytes.fromhex("751e76e8199196d454941c45d1b3a323f1433bd6")
LOCK = p2pkh(HASH)
HOME = "1BgGZ9tcN4rm9KBzDn7KprQz87SZ26SAMH"
RECORD = envelope.build("application/json", b"{}")
BROKEN = RECORD[:-1] + b"\x61\x68"
OPEN = RECORD[:-1]
PLAIN = Prefixes(0)


def p2sh(digest: bytes) -> bytes:
    return b"\xa9\x14" + digest + b"\x87"


@given(st.binary(min_size=20, max_size=20))
def test_bsv_addresses_are_those_of_bitcoinx(digest: bytes) -> None:
    bitcoinx = pytest.importorskip("bitcoinx", reason="bitcoinX has no wheels for this Python")
    for network, theirs in (("mainnet", bitcoinx.Bitcoin), ("regtest", bitcoinx.BitcoinRegtest)):
        expected = bitcoinx.P2PKH_Address(digest, theirs).to_string()
        assert owner(p2pkh(digest), "bsv", network) == expected
        assert key_hash(expected) == digest


@pytest.mark.parametrize(
    "script",
    [
        LOCK,
        RECORD + LOCK,
        LOCK + RECORD,
        RECORD + b"\xab" + LOCK,
        LOCK + b"\xab" + RECORD,
        LOCK + RECORD + RECORD,
        LOCK + BROKEN + RECORD,
        BROKEN + LOCK + RECORD,
        LOCK + OPEN,
        b"\0\x63" * 1000 + b"\x68" * 1000 + LOCK,
        b"\0\x63\x64\x67\x68\x6a\x68" + LOCK,
        LOCK + b"\x6a" + push(b"anything") + b"\xac",
        RECORD + LOCK + b"\x6a\x4e\xff\xff\xff\xff",
    ],
)
def test_what_cannot_run_does_not_hide_the_owner(script: bytes) -> None:
    assert owner(script) == HOME


@pytest.mark.parametrize(
    "script",
    [
        b"",
        b"\x6a" + LOCK,
        b"\0\x6a" + LOCK,
        OPEN + LOCK,
        b"\x51\x63" + LOCK + b"\x68",
        b"\0" + LOCK,
        LOCK + b"\x61",
        LOCK[:-1],
        LOCK[:-1] + b"\xad" + push(bytes(33)) + b"\xac",
        push(b"\x02" * 33) + b"\xac",
        p2sh(HASH),
        b"\0\x14" + HASH,
        b"\x76\xa9\x4c\x14" + HASH + b"\x88\xac",
        b"\x61" * 1_000_000,
        b"\0\x63" * 1_000_000,
        b"\x4e\xff\xff\xff\xff",
    ],
)
def test_other_locks_have_no_owner_on_bsv(script: bytes) -> None:
    assert owner(script) is None


@given(st.binary(max_size=200))
def test_any_script_has_an_owner_or_none_on_every_chain(script: bytes) -> None:
    for coin, networks in PREFIXES.items():
        for network in networks:
            assert isinstance(owner(script, coin, network), str | None)


@given(st.binary(max_size=120))
def test_the_lock_of_a_script_without_conditions_ends_at_op_return(tail: bytes) -> None:
    assert lock(LOCK + b"\x6a" + tail) == LOCK


def test_a_long_lock_is_cut_and_fits_no_form() -> None:
    assert len(lock(push(bytes(500_000)) + LOCK)) < 100


# examples of the specifications: BIP 173, BIP 350, cashaddr; `ltc1…` of Litecoin Core's tests
@pytest.mark.parametrize(
    ("coin", "network", "script", "expected"),
    [
        ("btc", "mainnet", b"\0\x14" + HASH, "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"),
        ("ltc", "mainnet", b"\0\x14" + HASH, "ltc1qw508d6qejxtdg4y5r3zarvary0c5xw7kgmn4n9"),
        (
            "btc",
            "testnet",
            bytes.fromhex("00201863143c14c5166804bd19203356da136c985678cd4d27a1b8c6329604903262"),
            "tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3q0sl5k7",
        ),
        (
            "btc",
            "mainnet",
            bytes.fromhex("512079be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"),
            "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0",
        ),
        (
            "btc",
            "testnet",
            bytes.fromhex("5120000000c4a5cad46221b2a187905e5266362b99d5e91c6ce24d165dab93e86433"),
            "tb1pqqqqp399et2xygdj5xreqhjjvcmzhxw4aywxecjdzew6hylgvsesf3hn0c",
        ),
        (
            "bch",
            "mainnet",
            p2pkh(bytes.fromhex("f5bf48b397dae70be82b3cca4793f8eb2b6cdac9")),
            "bitcoincash:qr6m7j9njldwwzlg9v7v53unlr4jkmx6eylep8ekg2",
        ),
        (
            "bch",
            "testnet",
            p2sh(bytes.fromhex("f5bf48b397dae70be82b3cca4793f8eb2b6cdac9")),
            "bchtest:pr6m7j9njldwwzlg9v7v53unlr4jkmx6eyvwc0uz5t",
        ),
        (
            "bch",
            "testnet",
            bytes.fromhex("aa203173ef6623c6b48ffd1a3dcc0cc6489b0a07bb47a37f47cfef4fe69de825c06087"),
            "bchtest:pvch8mmxy0rtfrlarg7ucrxxfzds5pamg73h7370aa87d80gyhqxq7fqng6m6",
        ),
        ("btc", "mainnet", LOCK, HOME),
    ],
)
def test_addresses_of_other_chains_are_those_of_the_specifications(
    coin: str, network: str, script: bytes, expected: str
) -> None:
    assert owner(script, coin, network) == expected


def test_cashaddr_and_base58_name_the_same_hash() -> None:
    digest = key_hash("1BpEi6DfDAUFd7GtittLSdBeYJvcoaVggu")
    assert digest is not None
    assert owner(p2pkh(digest), "bch") == "bitcoincash:qpm2qsznhks23z7629mms6s4cwef74vcwvy22gdx6a"


@pytest.mark.parametrize(
    ("coin", "network", "first", "script_first"),
    [
        ("ltc", "mainnet", "L", "M"),
        ("doge", "mainnet", "D", "A9"),
        ("doge", "testnet", "n", "2"),
        ("btc", "regtest", "mn", "2"),
    ],
)
def test_base58_addresses_begin_as_their_chain_has_it(coin: str, network: str, first: str, script_first: str) -> None:
    for digest in (bytes(20), b"\xff" * 20, HASH):
        pays_key, pays_script = owner(p2pkh(digest), coin, network), owner(p2sh(digest), coin, network)
        assert pays_key is not None
        assert pays_key[0] in first
        assert pays_script is not None
        assert pays_script[0] in script_first


def test_an_envelope_is_not_looked_for_on_other_chains() -> None:
    assert owner(RECORD + LOCK, "btc") is None


def test_a_chain_or_network_that_is_not_known_is_refused_by_name() -> None:
    for coin, network in (("xyz", "mainnet"), ("bsv", "moonnet")):
        with pytest.raises(ValueError, match=f"'{coin}' on '{network}'"):
            owner(LOCK, coin, network)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        f"{HOME[:-1]}J",
        f"{HOME} ",
        f"{HOME}\0",
        f"{HOME}1",
        "3CWFddi6m4ndiGyKqzYvsFYagqDLPVMTzC",
        "ü",
        "\ud800",
    ],
)
def test_what_is_no_p2pkh_address_has_no_key_hash(text: str) -> None:
    assert key_hash(text) is None


# invalid addresses and other versions of BIP 173 and BIP 350, and what is around a valid one
@pytest.mark.parametrize(
    "text",
    [
        "bc1pw508d6qejxtdg4y5r3zarvary0c5xw7kw508d6qejxtdg4y5r3zarvary0c5xw7kt5nd6y",
        "bc1zw508d6qejxtdg4y5r3zarvaryvaxxpcs",
        "BC1SW50QGDZ25J",
        "tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3q0sl5k7",
        "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqh2y7hd",
        "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kemeawh",
        "BC1QR508D6QEJXTDG4Y5R3ZARVARYV98GJ9P",
        "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8F3T4",
        "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4\0",
        " bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",
        "bc1\ud800",
        "bc1gmk9yu",
        "",
    ],
)
def test_other_texts_pay_to_no_witness_program(text: str) -> None:
    assert address.script_of(text, PREFIXES["btc"]["mainnet"]) is None


def test_a_witness_address_in_capitals_is_the_same() -> None:
    text = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"
    for form in (text, text.upper()):
        assert address.script_of(form, PREFIXES["btc"]["mainnet"]) == b"\0\x14" + HASH


def test_a_script_of_no_known_form_has_no_address() -> None:
    assert address.address(b"\x51", PLAIN) is None
