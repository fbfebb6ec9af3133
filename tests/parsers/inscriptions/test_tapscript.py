"""Envelopes in tapscripts (law 3a): built and read back, compared with a slow reader of ord's rules, broken ones."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.bitcoin.script import push, pushes
from parsers.inscriptions.tapscript import TapscriptEnvelope, read
from parsers.reasons import SENTENCES
from tests.oracles import ordinals
from tests.parsers.writers import build_witness

KEY = push(b"\x53" * 32) + b"\xac"
CONTROL = b"\xc0" + bytes(32)
OPENING = b"\x00\x63\x03ord"

names = st.binary(min_size=1, max_size=40).filter(lambda name: name != b"\x01")
fields_ = st.lists(st.tuples(names, st.binary(max_size=90)), max_size=4, unique_by=lambda pair: pair[0])
types = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)

parts = st.sampled_from(
    [
        OPENING, b"\x00\x63", b"\x4c\x00\x63\x03ord", b"\x00\x63\x4c\x03ord", b"\x00", b"\x4c\x00", b"\x01\x00",
        b"\x51", b"\x01\x01", b"\x52", b"\x01\x02", b"\x02\x02\x00", b"\x58", b"\x59", b"\x4f", b"\x50", b"\x61",
        b"\x63", b"\x68",
        push(b"application/json"), push(b"{}"), b"\x02\x10\x27", b"\x09" + b"\xff" * 9, b"\x4e\xff\xff\xff\xff", KEY,
        build_witness("application/json", b"{}"), build_witness("text/plain", b"hi", [(b"\x02", b"\x05")])[:-1],
    ]
)  # fmt: skip


@given(types, st.binary(max_size=2000), fields_, st.integers(1, 520), st.booleans(), st.integers(0, 3))
def test_an_envelope_in_a_tapscript_is_read_back(
    content_type: str, body: bytes, fields: list[tuple[bytes, bytes]], chunk: int, annex: bool, depth: int
) -> None:
    script = KEY + build_witness(content_type, body, fields, chunk=chunk)
    stack = (b"sig", script, CONTROL + bytes(32 * depth), *([b"\x50annex"] if annex else []))
    (result,) = read(stack)
    shown = result.inscription
    assert (shown.content_type, shown.body, result.fault) == (content_type, body, "")
    assert shown.fields == (*fields, (b"\x01", content_type.encode()))
    assert script[shown.start : shown.end] == script[len(KEY) :]


@settings(max_examples=600)
@given(st.lists(parts, max_size=14).map(b"".join) | st.binary(max_size=80).map(lambda rest: OPENING + rest))
def test_any_script_is_read_as_ord_reads_it(script: bytes) -> None:
    ours, slow = list(read((script, CONTROL))), ordinals.envelopes(script)
    assert [SENTENCES.get(one.fault, "") for one in ours] == [result.fault for result in slow]
    assert [(one.pointer, one.unknown_tag) for one in ours] == [
        (result.pointer, next(iter(result.unknown_tags), None)) for result in slow
    ]
    assert [(dict(one.inscription.fields), one.inscription.body) for one in ours] == [
        (result.envelope.fields, result.body) for result in slow
    ]


def reads(*script: bytes) -> list[TapscriptEnvelope]:
    return list(read((KEY + b"".join(script), CONTROL)))


def test_several_envelopes_of_a_tapscript_come_in_order_and_each_by_itself() -> None:
    result = reads(build_witness("a/b", b"1"), OPENING, b"\x61", build_witness("a/b", b"2"))
    assert [(one.inscription.body, one.fault) for one in result] == [
        (b"1", ""),
        (b"", "envelope-opcode"),
        (b"2", ""),
    ]
    assert [one.is_numbered for one in result] == [True, False, True]


def test_an_opening_inside_an_envelope_ends_it_and_opens_none() -> None:
    result = reads(OPENING, build_witness("a/b", b"2"))
    assert [one.fault for one in result] == ["envelope-opcode"]


def test_the_first_value_of_a_repeated_field_counts() -> None:
    (result,) = reads(OPENING, pushes(b"\x01", b"a/b", b"\x01", b"c/d"), b"\0\x68")
    assert result.inscription.content_type == "a/b"
    assert result.inscription.oddities == ("repeated-field",)


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        (b"", 0),
        (b"\x10\x27", 10_000),
        (b"\xff" * 8, 2**64 - 1),
        (b"\1" + bytes(20), 1),
        (b"\1" + bytes(7) + b"\1", None),
    ],
)
def test_a_pointer_is_little_endian_and_has_at_most_64_bits(value: bytes, pointer: int | None) -> None:
    (result,) = reads(OPENING, b"\x52", push(value), b"\0\x68")
    assert (result.pointer, result.unknown_tag) == (pointer, None)


@pytest.mark.parametrize("tag", [b"\x04", b"\x00", b"\x42", b"\x02\x00", b"\x02"])
def test_an_even_tag_without_a_meaning_is_unknown_also_a_second_pointer(tag: bytes) -> None:
    (result,) = reads(OPENING, b"\x52\x51", push(tag) if tag != b"\x00" else b"\x01\x00", push(b"x"), b"\0\x68")
    assert (result.pointer, result.unknown_tag) == (1, tag)


def test_nothing_is_read_of_a_script_with_a_push_that_runs_past_its_end() -> None:
    result = reads(build_witness("a/b", b"1"), b"\x05cut")
    assert [(one.fault, one.is_numbered) for one in result] == [("script-truncated", False)]


@pytest.mark.parametrize(
    "stack",
    [
        (),
        (b"sig",),
        (build_witness("a/b", b"1"),),
        (b"\x30" * 71, b"\x02" * 33),  # P2WPKH: the signature stands where a tapscript would
        (build_witness("a/b", b"1"), bytes(34)),  # no control block has this length
        (build_witness("a/b", b"1"), b"\x50" + bytes(32)),  # an annex, and no script left
    ],
)
def test_a_witness_without_a_tapscript_holds_none(stack: tuple[bytes, ...]) -> None:
    assert list(read(stack)) == []


def test_an_envelope_without_a_body_or_an_end_says_so() -> None:
    assert [one.fault for one in reads(OPENING, pushes(b"\x01", b"a/b"), b"\x68")] == ["envelope-no-body"]
    assert [one.fault for one in reads(OPENING, pushes(b"\x01", b"a/b"), b"\0")] == ["envelope-open"]
