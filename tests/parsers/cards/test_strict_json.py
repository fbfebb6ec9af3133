"""Card bytes are JSON within limits that are law (law 12)."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic_core import from_json

from parsers.cards import strict_json
from parsers.cards.strict_json import MAX_ANSWER_DEPTH, MAX_BYTES, Outline, answer, loads, outline, step
from parsers.errors import CardError, ParseError

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=20,
)


def refusal(body: bytes) -> str:
    with pytest.raises(CardError) as caught:
        loads(body)
    (reason,) = caught.value.reasons
    assert not re.search(r"\bat at\b|: at\b|  ", reason.sentence), reason.sentence
    return reason.code


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "card-json"),
        (b"not json", "card-json"),
        (b'{"a":1', "card-json"),
        (b'{"a":1}{"b":2}', "card-json"),
        (b'{"a":1} x', "card-json"),
        (b"{'a':1}", "card-json"),
        (b'{"a":01}', "card-json"),
        (b'{"a":.5}', "card-json"),
        (b'{"a":5.}', "card-json"),
        (b'{"a":+5}', "card-json"),
        (b'{"a":1,}', "card-json"),
        (b"[1,]", "card-json"),
        (b'{"a":"tab\there"}', "card-json"),
        (b'{"a":"nul\0"}', "card-json"),
        (b'{"a":"\\x41"}', "card-json"),
        (b"// comment\n{}", "card-json"),
        (b"\xc2\xa0{}", "card-json"),
        (b'\xef\xbb\xbf{"a":1}', "card-bom"),
        ('{"a":1}'.encode("utf-16"), "card-utf8"),
        (b'{"a":"\xff"}', "card-utf8"),
        (b'{"a":"\xed\xa0\x80"}', "card-utf8"),
        (b'{"a":"\xc0\x80"}', "card-utf8"),
        (b'{"a":NaN}', "card-constant"),
        (b'{"a":Infinity}', "card-constant"),
        (b"[-Infinity]", "card-constant"),
        (b'{"a":"\\ud800"}', "card-surrogate"),
        (b'{"a":"\\uDC00x"}', "card-surrogate"),
        (b'{"\\ud83d":1}', "card-surrogate"),
        (b'{"a":"\\ude00\\ud83d"}', "card-surrogate"),
        (b'{"a":"\\ud83d\\\\ude00"}', "card-surrogate"),
        (b'{"a":"\\ud83d\\ude00\\ude00"}', "card-surrogate"),
        (b'{"a":"\\ud800","a":"hidden by this"}', "card-surrogate"),
        (b"[" * 65 + b"]" * 65, "card-nesting"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "card-nesting"),
        (b"[" * 100_000 + b"]" * 100_000, "card-nesting"),
        (b"[" * 100_000, "card-nesting"),
        (b'{"a":' * 100_000, "card-nesting"),
        (b"[" + b"1" * 101 + b"]", "card-number"),
        (b"[-" + b"1" * 101 + b"]", "card-number"),
        (b"[0." + b"0" * 100 + b"1]", "card-number"),
        (b"[1e401]", "card-number"),
        (b"[1E-401]", "card-number"),
        (b"[1e" + b"9" * 5000 + b"]", "card-number"),
        (b"[" + b"9" * 5000 + b"]", "card-number"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_is_not_a_card_is_refused_for_its_reason(body: bytes, code: str) -> None:
    assert refusal(body) == code


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b" \t\r\n{} \n", {}),
        (b'"text"', "text"),
        (b"null", None),
        (b'{"a":"\\ud83d\\ude00"}', {"a": "😀"}),
        (b'{"a":"\\\\ud800"}', {"a": "\\ud800"}),
        (b'{"a":"\\u0000\x7f"}', {"a": "\0\x7f"}),
        (b"[" * 64 + b"]" * 64, json.loads("[" * 64 + "]" * 64)),
        (b'["' + b"[" * 500 + b'\\"[\\\\"]', ["[" * 500 + '"[\\']),
        (b"[1e400]", [Decimal("1e400")]),
        (b"[1e0000000000000000000000400]", [Decimal("1e400")]),
        (b"[" + b"9" * 100 + b"]", [int("9" * 100)]),
        (b"[-" + b"9" * 100 + b"]", [-int("9" * 100)]),
        (b"[0." + b"1" * 99 + b"e-400]", [Decimal("0." + "1" * 99 + "e-400")]),
    ],
    ids=range(13),
)
def test_what_is_within_the_limits_is_read(body: bytes, value: Any) -> None:
    assert loads(body) == (value, ())


def test_the_size_limit_is_one_mebibyte_to_the_byte() -> None:
    frame = b'{"a":""}'
    fits = frame.replace(b'""', b'"' + b"x" * (MAX_BYTES - len(frame)) + b'"')
    assert len(fits) == 1 << 20
    assert loads(fits)[1] == ()
    assert refusal(fits + b" ") == "card-size"


def test_fifty_megabytes_are_refused_unread() -> None:
    assert refusal(b"[" * 50_000_000) == "card-size"


def test_plain_garbage_is_not_json_in_those_words() -> None:
    with pytest.raises(CardError, match=r"^the card is not JSON: .* at line 1, column 14$") as caught:
        loads(b'{"name": "x" "y"}')
    assert caught.value.reasons[0].sentence == "the card is not JSON"


@pytest.mark.parametrize(
    ("body", "location"),
    [
        (b'{"a":\n "\xc3\xa9" 1}', "line 2, column 6"),
        (b'{\n\n "\xc3\xa9": "\xff"}', "line 3, column 8"),
        (b'{\n"\xc3\xa9": "\\ud800"}', "line 2, column 7"),
    ],
)
def test_what_is_wrong_is_named_by_line_and_column(body: bytes, location: str) -> None:
    with pytest.raises(CardError) as caught:
        loads(body)
    (reason,) = caught.value.reasons
    assert reason.detail.endswith(f" at {location}")
    assert reason.explanation == f"{reason.sentence}: {reason.detail}"


def test_numbers_are_exact() -> None:
    value, _ = loads(b"[0.1, 123456789012345678901234567890, 0.30000000000000000000000000000001, 1.50, -0, 1E-2]")
    assert value[0] == Decimal("0.1")
    assert value[1] == 123456789012345678901234567890
    assert value[2] == Decimal("0.30000000000000000000000000000001")
    assert not any(isinstance(number, float) for number in value)


def test_of_a_repeated_key_the_last_value_counts_and_each_is_warned_of_with_its_pointer() -> None:
    value, warnings = loads(b'{"a/b":[{"~":1,"~":2,"~":3}],"n":{"x":{"k":0,"k":0}},"n":{"k":5,"k":6},"ok":1}')
    assert value == {"a/b": [{"~": 3}], "n": {"k": 6}, "ok": 1}
    assert [(warning.code, warning.pointer) for warning in warnings] == [
        ("duplicate-key", "/a~1b/0/~0"),
        ("duplicate-key", "/n"),
        ("duplicate-key", "/n/k"),
    ]


def test_a_hundred_thousand_repeated_keys_give_a_bounded_answer() -> None:
    body = b"{" + b",".join(b'"%d":1,"%d":2' % (n, n) for n in range(40_000)) + b"}"
    value, warnings = loads(body)
    assert len(value) == 40_000
    assert len(warnings) == 64
    key = b"k" * 200_000
    _, warnings = loads(b'{"%s":{"%s":[{"a":1,"a":2}],"%s":0}}' % (key, key, key))
    assert warnings
    assert max(len(warning.pointer) for warning in warnings) <= 512


@given(json_values)
def test_what_the_standard_library_writes_is_read_back(value: Any) -> None:
    for ascii_only in (True, False):
        text = json.dumps(value, ensure_ascii=ascii_only)
        try:
            body = text.encode()
        except UnicodeEncodeError:
            continue
        read, warnings = loads(body)
        assert warnings == ()
        assert read == json.loads(text, parse_float=Decimal)


@settings(max_examples=300)
@given(st.binary(max_size=200) | st.text(alphabet='{}[]":,\\ud8dc0123.eE+-NaInfty \n', max_size=60).map(str.encode))
@example(b'{"\\ud800":1}')
def test_any_bytes_are_read_or_refused_as_the_standard_library_would(body: bytes) -> None:
    """The oracle is the plain library plus the rules it does not know, each asked of the value or of the text."""
    refused = None
    value = None
    try:
        value, _ = loads(body)
    except CardError as error:
        refused = error.reasons[0]
    if refused:
        assert refused.sentence
        assert refused.code != "card-json" or not is_json(body)
        return
    assert value == json.loads(body.decode("utf-8"), parse_float=Decimal)
    json.dumps(value, ensure_ascii=False, default=str).encode("utf-8")


@given(st.lists(st.sampled_from([b"[", b"]", b"{", b"}", b'"', b"\\", b'\\"', b"\\\\", b"a", b",", b":"]), max_size=60))
def test_depth_is_that_of_a_character_by_character_reader(parts: list[bytes]) -> None:
    body = b"".join(parts)
    try:
        json.loads(body)
    except ValueError:
        return
    assert outline(body).depth == slow_depth(body.decode())


@given(json_values, st.integers(1, 12))
def test_an_outline_does_not_depend_on_the_windows_it_is_taken_in(value: Any, size: int) -> None:
    body = json.dumps(value).encode()
    tokens = re.findall(r'"(?:\\.|[^"\\])*"|[\[\]{},]', body.decode())
    expected = Outline(slow_depth(body.decode()), sum(token in "[]{}," for token in tokens))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strict_json, "_WINDOW", size)
        assert outline(body) == expected


@given(json_values)
def test_an_answer_is_what_json_says(value: Any) -> None:
    body = json.dumps(value).encode()
    assert answer(body) == json.loads(body)
    assert answer(body, exact=True) == json.loads(body, parse_float=Decimal)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "no JSON: expecting value"),
        (b'{"a":1} x', "no JSON: extra data (at byte 8)"),
        (b"\xff", "not UTF-8"),
        ("\ufeff{}".encode(), "no JSON"),
        ('"a"'.encode("utf-16"), "not UTF-8"),
        (b"[" * (MAX_ANSWER_DEPTH + 1) + b"]" * (MAX_ANSWER_DEPTH + 1), "nested deeper than 128 levels"),
        (b"[" * 10**6, "nested deeper than 128 levels"),
        (b"[" + b"[]," * 200_000 + b"[]]", "JSON of 600,004 values in 600,004 bytes"),
        (b"9" * 101, "a number of more than 100 digits"),
        (b"1e401", "a number of more than 100 digits"),
        (b"-1e309", "a number of more than 100 digits"),
        (b"[NaN]", "a number of more than 100 digits"),
        (b"-Infinity", "a number of more than 100 digits"),
    ],
    ids=lambda item: repr(item[:12]),
)
def test_an_answer_out_of_bounds_is_refused_with_the_reason(body: bytes, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        answer(body)
    assert message in str(caught.value)


def test_text_full_of_commas_and_brackets_is_no_flood_of_values() -> None:
    text = ",[]{}" * 100_000
    assert answer(json.dumps([text]).encode()) == [text]


@given(json_values)
def test_depth_of_json_is_that_of_its_value(value: Any) -> None:
    assert outline(json.dumps(value).encode()).depth == depth_of_value(value)


def is_json(body: bytes) -> bool:
    try:
        json.loads(body.decode())
    except ValueError:
        return False
    return True


def slow_depth(text: str) -> int:
    deep = deepest = 0
    for token in re.findall(r'"(?:\\.|[^"\\])*"|[\[\]{}]', text):
        deep += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token, 0)
        deepest = max(deepest, deep)
    return deepest


def depth_of_value(value: Any) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(depth_of_value, value), default=0) if isinstance(value, list) else 0


@given(st.text(max_size=40))
def test_a_pointer_step_is_escaped_as_rfc_6901_says(key: str) -> None:
    last = step("/x", key).removeprefix("/x/")
    assert "/" not in last
    assert last.replace("~1", "/").replace("~0", "~") == key.replace("\0", "\N{REPLACEMENT CHARACTER}")


def test_a_request_is_refused_where_readers_differ() -> None:
    for body in (
        b'{"a":1,"a":1}', b'[{"a":1,"\\u0061":2}]', b'"\\ud800"', b'{"\\udc00":1}', b'"\\ud800\\ud800\\udc00"', b"NaN",
        b"-Infinity", b"1e500", b"7" * 101, b"[" * 200, b"\xef\xbb\xbf1", b"\xff\xfe1\0", b"", b"1 2", b"01", b"'a'",
    ):  # fmt: skip
        with pytest.raises(ParseError):
            strict_json.request(body)
    assert strict_json.request(b'["\\\\ud800", "\\ud83d\\ude00", 1.5, 1E2]') == [
        "\\ud800",
        "\N{GRINNING FACE}",
        1.5,
        100.0,
    ]


PIECES = [
    b"{", b"}", b"[", b"]", b",", b":", b'"a"', b'"\\u0061"', b'"b"', b'"\\ud800"', b'"\\ud83d\\ude00"', b"1", b"-0",
    b"1e400", b"2.50", b"9007199254740993", b"NaN", b"null", b"true", b" ", b'"\xc3\xa9"', b"\xff",
]  # fmt: skip


@settings(max_examples=2_000, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join))
@example(b'{"a":1,"b":[2.50,-0]}')
def test_what_a_request_is_read_as_other_parsers_read_too(body: bytes) -> None:
    try:
        value = strict_json.request(body)
    except ParseError:
        return
    assert json.loads(body) == from_json(body) == value


@settings(max_examples=300, deadline=None)
@given(json_values, st.booleans())
def test_a_request_without_repeated_keys_is_read(value: Any, is_ascii: bool) -> None:
    body = json.dumps(value, ensure_ascii=is_ascii).encode()
    assert strict_json.request(body) == from_json(body) == value
