"""Envelopes: built and read back, compared with a slow oracle, and hostile ones."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.bitcoin.script import p2pkh, push
from parsers.inscriptions.envelope import (
    Inscription,
    NearMiss,
    build,
    is_json,
    near_misses,
    read,
)
from tests.oracles import envelope as oracle
from tests.parsers.writers import build_output

LOCK = p2pkh(bytes(range(20)))
OPENING = b"\x00\x63\x03ord"
JSON = b"\x51" + push(b"application/json")
CARD = b'{"name":"Echo"}'

names = st.binary(min_size=1, max_size=40).filter(lambda name: name not in (b"\0", b"\x01"))
extra = st.lists(st.tuples(names, st.binary(max_size=90)), max_size=4)
types = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
bodies = st.one_of(st.binary(max_size=90), st.binary(min_size=250, max_size=300))

fragments = st.sampled_from(
    [
        OPENING, b"\x00\x63", b"\x03ord", b"\x4c\x03ord", b"\x4c\x00", b"\x00", b"\x01\x00", b"\x51", b"\x01\x01",
        b"\x4c\x01\x01", b"\x52", b"\x4f", b"\x61", b"\x63", b"\x67", b"\x68", b"\x6a", b"\xab", LOCK, JSON,
        push(CARD), b"\x02ab", b"\x05abc", b"\x4e\xff\xff\xff\xff", push(OPENING),
        build("application/json", CARD), build("text/plain", b"hi")[:-1],
    ]
)  # fmt: skip


@given(types, bodies, extra, st.booleans(), st.booleans(), st.booleans(), st.binary(max_size=20))
def test_what_is_built_is_read_back_in_every_form(
    content_type: str,
    body: bytes,
    fields: list[tuple[bytes, bytes]],
    first: bool,
    separator: bool,
    pushed: bool,
    more: bytes,
) -> None:
    tail = b"\x6a" + push(more)
    record = build(content_type, body, fields, pushed_tag=pushed)
    script = build_output(LOCK, record, tail, envelope_first=first, separator=separator)
    parsed = read(script)
    assert parsed is not None
    assert (parsed.content_type, parsed.body) == (content_type, body)
    assert parsed.fields == (*fields, (b"\x01", content_type.encode()))
    assert script[parsed.start : parsed.end] == record
    assert ("pushed-tag" in parsed.oddities) == pushed
    assert near_misses(script) == ()


@given(st.lists(fragments, max_size=14).map(b"".join))
def test_the_reader_and_the_slow_oracle_agree(script: bytes) -> None:
    parsed = read(script)
    slow = oracle.first_valid(script)
    if slow is None:
        assert parsed is None
    else:
        assert parsed is not None
        assert (parsed.content_type.encode(), parsed.body, list(parsed.fields)) == slow
    assert (near_misses(script) == ()) or parsed is None


@given(st.binary(max_size=300))
def test_any_bytes_give_an_inscription_or_none(script: bytes) -> None:
    assert isinstance(read(OPENING + script), Inscription | None)
    assert all(isinstance(miss, NearMiss) for miss in near_misses(OPENING + script))


@pytest.mark.parametrize(
    ("type_tag", "body_tag"), list(product([b"\x51", b"\x01\x01", b"\x4c\x01\x01"], [b"\0", b"\x01\0", b"\x4c\0"]))
)
def test_tags_may_be_pushed_or_be_opcodes(type_tag: bytes, body_tag: bytes) -> None:
    parsed = read(OPENING + type_tag + push(b"application/json") + body_tag + push(CARD) + b"\x68")
    assert parsed is not None
    assert (parsed.content_type, parsed.body) == ("application/json", CARD)


@pytest.mark.parametrize("opcode", [b"\x4c\x0f", b"\x4d\x0f\0", b"\x4e\x0f\0\0\0", b"\x0f"])
def test_the_body_may_be_pushed_by_any_push(opcode: bytes) -> None:
    parsed = read(OPENING + JSON + b"\0" + opcode + CARD + b"\x68")
    assert parsed is not None
    assert parsed.body == CARD


def test_an_empty_body_and_a_number_as_body_are_pushes() -> None:
    for pushed, body in ((b"\0", b""), (b"\x55", b"\x05")):
        parsed = read(OPENING + JSON + b"\0" + pushed + b"\x68")
        assert parsed is not None
        assert parsed.body == body


def test_the_last_of_repeated_fields_counts() -> None:
    parsed = read(build("application/json", CARD, [(b"\x01", b"text/plain"), (b"\x05", b"a"), (b"\x05", b"b")]))
    assert parsed is not None
    assert (parsed.content_type, parsed.field(b"\x05"), parsed.field(b"\x09")) == ("application/json", b"b", None)
    assert "repeated-field" in parsed.oddities


def test_the_first_valid_envelope_counts() -> None:
    first, second = build("application/json", b"1"), build("application/json", b"2")
    broken = first[:-1] + b"\x61\x68"
    assert [read(first + second).body, read(broken + second).body] == [b"1", b"2"]  # type: ignore[union-attr]


def test_an_envelope_that_opens_inside_a_broken_one_is_found() -> None:
    whole = build("application/json", CARD)
    for begun in (OPENING, OPENING + JSON, OPENING + JSON + b"\0", OPENING + b"\x51"):
        parsed = read(begun + whole)
        assert parsed is not None
        assert parsed.start == len(begun)


def test_nothing_after_a_complete_envelope_can_unsay_it() -> None:
    script = LOCK + build("application/json", CARD) + b"\x4e\xff\xff\xff\xffrest"
    assert read(script) is not None


@pytest.mark.parametrize(
    "script",
    [
        LOCK + push(build("application/json", CARD)) + b"\x75",  # inside a push
        OPENING + b"\0" + push(CARD) + JSON + b"\x68",  # data before the type
        OPENING + JSON + b"\x68",  # no body
        OPENING + JSON + b"\0" + push(CARD) * 2 + b"\x68",  # a body in two pushes
        OPENING + b"\x50" + push(b"x") + b"\0" + push(CARD) + b"\x68",  # OP_RESERVED pushes nothing
        b"\x4c\0\x63\x03ord" + JSON + b"\0" + push(CARD) + b"\x68",  # an empty push is not OP_FALSE
        b"\x00\x64\x03ord" + JSON + b"\0" + push(CARD) + b"\x68",  # OP_NOTIF
        b"\x00\x63\x03ORD" + JSON + b"\0" + push(CARD) + b"\x68",
    ],
)
def test_what_breaks_the_grammar_is_no_envelope(script: bytes) -> None:
    assert read(script) is None


@pytest.mark.parametrize(
    ("script", "code", "content_type"),
    [
        (LOCK + push(build("application/json", CARD)) + b"\x75", "envelope-in-push", "application/json"),
        (LOCK + push(b"xx" + OPENING), "envelope-in-push", ""),
        (OPENING + JSON + b"\0\x4c\x20" + CARD, "body-truncated", "application/json"),
        (OPENING + JSON + b"\0" + push(CARD), "envelope-open", "application/json"),
        (OPENING + JSON + b"\0" + push(CARD) + b"\x6a", "envelope-open", "application/json"),
        (OPENING + JSON + b"\0", "envelope-open", "application/json"),
        (OPENING + JSON, "envelope-open", "application/json"),
        (OPENING + b"\x51\x20text", "envelope-open", ""),
        (OPENING + JSON + b"\x68", "envelope-no-body", "application/json"),
        (OPENING + JSON + b"\0\x61" + push(CARD), "envelope-opcode", "application/json"),
    ],
)
def test_near_misses_say_what_is_wrong_and_what_was_declared(script: bytes, code: str, content_type: str) -> None:
    assert near_misses(script) == (NearMiss(code, content_type),)


def test_a_script_without_envelope_has_no_near_miss() -> None:
    assert near_misses(LOCK + b"\x6a" + push(b"words about order")) == ()


def test_ten_thousand_broken_envelopes_are_at_most_sixteen_near_misses() -> None:
    script = b"".join(OPENING + b"\x51" + push(str(n).encode()) + b"\x61" for n in range(10_000))
    assert len(near_misses(script)) == 16


@pytest.mark.parametrize(
    "script",
    [
        b"\0\x63" * 1_000_000 + b"\x03ord",
        OPENING * 200_000,
        OPENING + b"\x51\x51" * 500_000,
        OPENING + b"\x4e\xff\xff\xff\xff" + bytes(1000),
        b"\x63" * 1_000_000 + build("a/b", b"")[:-1],
    ],
)
def test_hostile_scripts_of_a_million_opcodes_are_read_and_refused(script: bytes) -> None:
    assert read(script) is None


@pytest.mark.parametrize(
    ("text", "json"),
    [
        ("application/json", True),
        ("Application/JSON; charset=utf-8", True),
        (" application/json ;x=y", True),
        ("application/json5", False),
        ("application/ld+json", False),
        ("text/json", False),
        ("", False),
        ("application/jſon", False),
    ],
)
def test_case_and_parameters_of_the_content_type_do_not_matter(text: str, json: bool) -> None:
    assert is_json(text) is json


def test_a_content_type_that_is_not_utf8_is_kept_readable_and_marked() -> None:
    parsed = read(OPENING + b"\x51" + push(b"application/json\xff") + b"\0" + push(CARD) + b"\x68")
    assert parsed is not None
    assert parsed.content_type == "application/json\ufffd"
    assert parsed.oddities == ("content-type-not-utf8",)


def test_an_envelope_may_lack_a_content_type() -> None:
    parsed = read(build(None, CARD))
    assert parsed is not None
    assert (parsed.content_type, parsed.body, parsed.fields) == ("", CARD, ())


def test_a_field_that_would_be_read_as_the_body_is_not_built() -> None:
    for name in (b"", b"\0"):
        with pytest.raises(ValueError, match="read as the body"):
            build("a/b", b"", [(name, b"x")])


@pytest.mark.parametrize("pair", [b"\x4f" + push(b"x"), b"\x57\x4f"], ids=["name", "value"])
def test_minus_one_is_a_push_in_fields_as_every_reader_has_it(pair: bytes) -> None:
    parsed = read(OPENING + pair + JSON + b"\0" + push(CARD) + b"\x68")
    assert parsed is not None
    assert parsed.body == CARD
    assert b"\x81" in parsed.fields[0]


def test_minus_one_may_be_the_body() -> None:
    parsed = read(OPENING + JSON + b"\0\x4f\x68")
    assert parsed is not None
    assert parsed.body == b"\x81"
