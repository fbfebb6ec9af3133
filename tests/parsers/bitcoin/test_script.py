"""The tokenizer against bitcoinx, and against bytes nobody meant as a script."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.bitcoin import script
from parsers.bitcoin.script import Op, ops, push, pushes

REASON = "bitcoinX has no wheels for this Python"


def test_opcodes_have_the_numbers_that_bitcoinx_gives_them() -> None:
    bitcoinx = pytest.importorskip("bitcoinx", reason=REASON)
    ours = {name: value for name, value in vars(script).items() if name.startswith("OP_")}
    assert len(ours) > 10
    assert {name: int(getattr(bitcoinx, name)) for name in ours} == ours


@given(st.binary(max_size=400))
def test_any_bytes_are_walked_end_to_end_in_order(raw: bytes) -> None:
    walked = list(ops(raw))
    assert [op.start for op in walked] == [0, *(op.end for op in walked)][: len(walked)]
    assert (walked[-1].end if walked else 0) == len(raw)
    assert not any(op.truncated for op in walked[:-1])
    for op in walked:
        if op.data is not None and 0 < op.opcode <= script.OP_PUSHDATA4:
            assert raw[op.start : op.end].endswith(op.data)


@given(st.binary(max_size=400))
def test_walks_agree_with_bitcoinx_on_any_bytes(raw: bytes) -> None:
    bitcoinx = pytest.importorskip("bitcoinx", reason=REASON)
    theirs = []
    cut = False
    try:
        theirs.extend(bitcoinx.Script(raw).ops_and_items())
    except bitcoinx.TruncatedScriptError:
        cut = True
    walked = list(ops(raw))
    assert bool(walked and walked[-1].truncated) == cut
    ours = [op for op in walked if not op.truncated]
    assert [op.opcode for op in ours][: len(theirs)] == [int(code) for code, _ in theirs]
    for op, (code, item) in zip(ours, theirs, strict=False):
        assert op.data == item, code


@given(st.lists(st.one_of(st.binary(max_size=80), st.binary(min_size=254, max_size=258))))
def test_what_is_pushed_is_read_back(items: list[bytes]) -> None:
    assert [op.data for op in ops(pushes(*items))] == items


@pytest.mark.parametrize("size", [0, 1, 75, 76, 255, 256, 65535, 65536])
def test_pushes_are_as_short_as_those_of_bitcoinx(size: int) -> None:
    bitcoinx = pytest.importorskip("bitcoinx", reason=REASON)
    item = b"\x99" * size
    assert push(item) == bitcoinx.push_item(item)


def test_a_push_of_more_than_four_gigabytes_is_refused() -> None:
    class Huge(bytes):
        def __len__(self) -> int:
            return 1 << 32

    with pytest.raises(ValueError, match="not 4,294,967,296"):
        push(Huge())


def test_small_numbers_are_pushed_by_their_opcodes_and_0x81_by_itself() -> None:
    bitcoinx = pytest.importorskip("bitcoinx", reason=REASON)
    assert [push(bytes([n])) for n in range(1, 17)] == [bitcoinx.push_item(bytes([n])) for n in range(1, 17)]
    assert push(b"\x81") == b"\x01\x81"


def test_a_claimed_push_of_four_gigabytes_ends_the_walk() -> None:
    raw = b"\x76\x4e\xff\xff\xff\xffabc"
    assert list(ops(raw)) == [Op(0x76, None, 0, 1), Op(0x4E, None, 1, len(raw))]
    assert list(ops(raw))[-1].truncated


@pytest.mark.parametrize("raw", [b"\x4c", b"\x4d\x01", b"\x4e\0\0\0", b"\x05abcd"])
def test_a_push_without_its_length_or_bytes_is_truncated(raw: bytes) -> None:
    assert list(ops(raw)) == [Op(raw[0], None, 0, len(raw))]


def test_a_million_opcodes_are_walked_one_by_one() -> None:
    raw = b"\x63" * 1_000_000
    assert sum(1 for _ in ops(raw)) == 1_000_000


def test_a_key_hash_must_have_twenty_bytes() -> None:
    assert script.p2pkh(bytes(20)) == bytes.fromhex("76a914" + "00" * 20 + "88ac")
    with pytest.raises(ValueError, match="20 bytes, not 19"):
        script.p2pkh(bytes(19))
