"""Sales by OrdLock: real bytes of both contracts are read, and nothing that only looks like one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.bitcoin import tx
from parsers.bitcoin.script import p2pkh, push
from parsers.bitcoin.tx import TxOutput
from parsers.inscriptions.ordlock import Sale, read
from tests.chainkit_scripts import envelope, map_tape

SELLER, PAYEE = bytes(range(20)), bytes(range(20, 40))


@pytest.fixture(scope="module")
def template(shared: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((shared / "vectors" / "bsv" / "ordlock-template.json").read_text())
    return value


def payout(satoshis: int = 1_000, script: bytes = p2pkh(PAYEE)) -> bytes:
    return satoshis.to_bytes(8, "little") + bytes((len(script),)) + script


def locks(template: dict[str, Any], output: bytes | None = None, seller: bytes = SELLER) -> list[bytes]:
    """The locking scripts of both contracts."""
    output, second = payout() if output is None else output, template["v2"]
    parts = {name: bytes.fromhex(template[name]) for name in ("prefix", "suffix")}
    later = {name: bytes.fromhex(second[name]) for name in ("prefix", "middle", "suffix")}
    return [
        parts["prefix"] + push(seller) + push(output) + parts["suffix"],
        later["prefix"] + push(output) + later["middle"] + push(seller) + later["suffix"],
    ]


def test_a_real_sale_is_read(shared: Path) -> None:
    real = tx.read(bytes.fromhex((shared / "vectors" / "bsv" / "ordlock-690b2131.hex").read_text()))
    sale = read(real.outputs[0])
    assert sale is not None
    assert sale.satoshis == 1_000_000
    assert sale.payout == p2pkh(bytes.fromhex("f9e2d7875cbe322ef4c50a87611df3e9de566fbc"))
    assert sale.seller.hex() == "316fb992f5905533732f05e941023f4ecc73cd89"
    assert [read(output) for output in real.outputs[1:]] == [None, None]


def test_the_vector_of_the_second_contract_is_read(template: dict[str, Any]) -> None:
    vector = template["v2"]["vector"]
    output = bytes.fromhex(vector["payout"])
    assert read(TxOutput(1, bytes.fromhex(vector["script"]))) == Sale(
        int.from_bytes(output[:8], "little"), output[9:], bytes.fromhex(vector["seller"])
    )


@pytest.mark.parametrize("version", [0, 1])
def test_an_envelope_before_and_a_map_after_are_not_executed(template: dict[str, Any], version: int) -> None:
    lock = locks(template)[version]
    expected = Sale(1_000, p2pkh(PAYEE), SELLER)
    inscribed = envelope(b"{}") + lock + map_tape({"app": "a", "type": "a2b-agent"})
    assert read(TxOutput(1, lock)) == read(TxOutput(1, inscribed)) == expected


@pytest.mark.parametrize("version", [0, 1])
def test_what_only_looks_like_a_sale_is_none(template: dict[str, Any], version: int) -> None:
    lock = locks(template)[version]
    not_executed = [envelope(lock) + p2pkh(SELLER), p2pkh(SELLER) + b"\x6a" + lock, b"\x00\x63" + push(lock) + b"\x68"]
    changed = [lock + b"\x51", b"\x51" + lock, lock[:-1], lock[:50] + b"\x51" + lock[51:]]
    outputs = [payout() + b"\x00", payout()[:-1], payout()[:8], b""]
    broken = [locks(template, output)[version] for output in outputs]
    short = locks(template, seller=SELLER[:19])[version]
    for script in (*not_executed, *changed, *broken, short):
        assert read(TxOutput(1, script)) is None
    assert read(TxOutput(2, lock)) is None


@pytest.mark.parametrize("version", [0, 1])
def test_a_payout_may_have_any_script(template: dict[str, Any], version: int) -> None:
    script = b"\x51" * 300
    output = (7).to_bytes(8, "little") + b"\xfd\x2c\x01" + script
    assert read(TxOutput(1, locks(template, output)[version])) == Sale(7, script, SELLER)


@given(st.binary(max_size=2_000), st.integers(0, 3))
def test_any_bytes_are_a_sale_or_none(script: bytes, satoshis: int) -> None:
    assert read(TxOutput(satoshis, script)) is None
