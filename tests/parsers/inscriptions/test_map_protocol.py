"""Bitcom tapes and MAP: built and read back, merged, limited, and any bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.bitcoin.script import p2pkh, push, pushes
from parsers.inscriptions import envelope, map_protocol
from parsers.inscriptions.map_protocol import PREFIX, Map, build, build_field, read, tapes

LOCK = p2pkh(bytes(20))
AGENT = {"app": "echo", "type": "a2b-agent"}


def tape(*items: str | bytes, command: str = "SET") -> bytes:
    """A MAP tape without OP_RETURN."""
    return pushes(PREFIX, command.encode(), *(item.encode() if isinstance(item, str) else item for item in items))


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0|\\"), max_size=40)


@given(st.dictionaries(texts, texts, max_size=8), st.lists(st.binary(min_size=2, max_size=30), min_size=1, max_size=3))
def test_what_is_built_is_read_back(fields: dict[str, str], other: list[bytes]) -> None:
    script = LOCK + build(fields, tuple(other))
    assert read(script) == Map(fields, ("SET",))
    assert [result.pushes for result in tapes(script)][1:] == [tuple(other)]


@given(st.dictionaries(texts, texts, max_size=8))
def test_map_inside_an_envelope_is_read_back(fields: dict[str, str]) -> None:
    script = envelope.build("a/b", b"", [(PREFIX, build_field(fields))]) + LOCK
    parsed = envelope.read(script)
    assert parsed is not None
    assert read(script, parsed) == map_protocol.read_field(parsed) == Map(fields, ("SET",))


@given(st.lists(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz")), max_size=4), max_size=4))
def test_all_tapes_merge_and_a_later_key_wins(sets: list[list[tuple[str, str]]]) -> None:
    script = b"\x6a" + push(b"|").join(tape(*(word for pair in pairs for word in pair)) for pairs in sets)
    expected: dict[str, str] = {}
    for pairs in sets:
        expected.update(pairs)
    parsed = read(script)
    assert (parsed.fields if parsed else {}) == expected
    assert (parsed is None) == (not sets)


@given(st.binary(max_size=300))
def test_any_bytes_give_a_map_or_none(raw: bytes) -> None:
    assert isinstance(read(b"\x6a" + push(PREFIX) + raw), Map | None)
    assert read(b"\x6a" + push(PREFIX) + push(b"SET") + raw) is not None
    for result in tapes(b"\x6a" + raw):
        assert result.pushes


def test_map_of_the_envelope_and_of_a_tape_merge_in_script_order() -> None:
    record = envelope.build("a/b", b"", [(PREFIX, build_field({"k": "envelope", "type": "a2b"}))])
    before, after = record + LOCK + build({"k": "tape"}), LOCK + build({"k": "tape"}) + record
    assert read(before, envelope.read(before)).fields == {"k": "tape", "type": "a2b"}  # type: ignore[union-attr]
    assert read(after, envelope.read(after)).fields == {"k": "envelope", "type": "a2b"}  # type: ignore[union-attr]


def test_a_bar_separates_only_as_its_own_push() -> None:
    assert [result.pushes for result in tapes(b"\x6a" + pushes(b"a|b", b"|", b"c", b"||"))] == [
        (b"a|b",),
        (b"c", b"||"),
    ]
    # a real transaction has the opcode 0x7c between its tapes, where it meant to push it
    assert [
        result.pushes for result in tapes(b"\x6a" + push(b"a") + b"\x7c" + push(b"b") + push(b"|") + push(b"c"))
    ] == [
        (b"a",),
        (b"c",),
    ]


def test_map_before_the_first_op_return_or_without_one_is_none() -> None:
    assert read(tape("type", "a2b")) is None
    assert read(tape("type", "a2b") + b"\x6a" + push(b"x")) is None


def test_map_may_stand_in_any_tape() -> None:
    assert read(b"\x6a" + pushes(b"other", b"|") + tape(*sum(AGENT.items(), ()))) == Map(AGENT, ("SET",))
    # the prefix must open its tape: a real transaction pushes nothing before it
    assert read(b"\x6a\x00" + tape("type", "post")) is None


def test_only_set_sets_and_other_commands_are_named() -> None:
    script = b"\x6a" + tape("type", "a2b", command="GET") + push(b"|") + tape("app", "x") + push(b"|") + push(PREFIX)
    assert read(script) == Map({"app": "x"}, ("GET", "SET", ""))
    assert read(b"\x6a" + tape("type", "a2b", command="set")) == Map({}, ("set",))


def test_an_odd_trailing_key_is_dropped() -> None:
    assert read(b"\x6a" + tape("type", "a2b", "name")) == Map({"type": "a2b"}, ("SET",), ("odd-key",))


def test_a_push_cut_short_takes_nothing_back() -> None:
    assert read(b"\x6a" + tape("type", "a2b") + b"\x4d\xff\xffend") == Map({"type": "a2b"}, ("SET",))


@pytest.mark.parametrize(
    ("key", "value", "oddity"),
    [
        (b"k" * 257, b"v", "key-size"),
        (b"k", b"v" * 1025, "value-size"),
        (b"k", b"\xff", "not-utf8"),
        (b"\xc3", b"v", "not-utf8"),
        (b"k", b"\xed\xa0\x80", "not-utf8"),
    ],
)
def test_a_pair_that_is_too_long_or_no_text_is_skipped_alone(key: bytes, value: bytes, oddity: str) -> None:
    assert read(b"\x6a" + tape("a", "1", key, value, "b", "2")) == Map({"a": "1", "b": "2"}, ("SET",), (oddity,))


def test_keys_and_values_of_the_greatest_size_are_kept() -> None:
    assert read(b"\x6a" + tape("k" * 256, "v" * 1024)) == Map({"k" * 256: "v" * 1024}, ("SET",))


def test_nul_and_its_escape_become_spaces() -> None:
    assert read(b"\x6a" + tape("a\0b", "c\\u0000d")) == Map({"a b": "c d"}, ("SET",))


def test_keys_beyond_256_are_left_out_but_known_ones_still_change() -> None:
    words = [word for number in range(300) for word in (str(number), "x")]
    parsed = read(b"\x6a" + tape(*words, "0", "last"))
    assert parsed is not None
    assert (len(parsed.fields), parsed.fields["0"], parsed.oddities) == (256, "last", ("keys",))


def test_small_numbers_are_pushes_of_one_byte() -> None:
    assert read(b"\x6a" + tape("n") + b"\x55") == Map({"n": "\x05"}, ("SET",))


def test_the_field_of_an_envelope_ends_at_what_is_no_push() -> None:
    value = pushes(b"SET", b"a", b"1") + b"\x61" + pushes(b"b", b"2")
    parsed = envelope.read(envelope.build("a/b", b"", [(PREFIX, value)]))
    assert parsed is not None
    assert map_protocol.read_field(parsed) == Map({"a": "1"}, ("SET",))
    assert map_protocol.read_field(envelope.Inscription("a/b", b"")) is None


@pytest.mark.parametrize(
    "fields", [{"|": "x"}, {"x": "|"}, {"k" * 257: ""}, {"k": "v" * 1025}, {"a\0": ""}, {"k": "\\u0000"}]
)
def test_what_a_reader_would_change_is_not_built(fields: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="cannot be written as MAP"):
        build(fields)


def test_a_million_tapes_are_walked() -> None:
    assert tapes(b"\x6a" + b"\x01|" * 500_000 + b"\x01x")[0].pushes == (b"x",)
