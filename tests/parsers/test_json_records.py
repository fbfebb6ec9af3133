"""Strangers' JSON as records: any value is a record of exact types, or is refused in one form."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.json_records import (
    ABSENT,
    EMPTY,
    Absent,
    JsonObject,
    RecordError,
    convert,
    internal,
    matching,
    published,
    schema_of,
    sized,
    unhex,
    whole,
)


class Leaf(JsonObject):
    """A leaf of a tree."""

    kind: Literal["oak", "elm"]
    count: Annotated[int, whole(0, 9)]
    note: str | Absent = ABSENT


class Tree(JsonObject):
    """A tree."""

    name: Annotated[str, matching(r"^[a-z]+\Z")]
    grown_leaves: Annotated[list[Leaf], sized(2)]
    height: Annotated[Any, published(type="number")] = None
    marks: dict[str, Any] = EMPTY


GOOD: dict[str, Any] = {"name": "elm", "grownLeaves": [{"kind": "oak", "count": 1}], "other": [{}]}


def test_members_are_read_by_their_names_in_json_and_others_are_ignored() -> None:
    tree = convert(GOOD, Tree)
    assert (tree.name, tree.grown_leaves[0].count, tree.grown_leaves[0].note) == ("elm", 1, ABSENT)
    assert (tree.height, tree.marks) == (None, {})


def leaf(**members: Any) -> dict[str, Any]:
    return GOOD | {"grownLeaves": [GOOD["grownLeaves"][0] | members]}


@pytest.mark.parametrize(
    ("value", "message", "code", "pointer"),
    [
        ([], "the answer is missing or cannot be read: expected `object`, got `array`", "wrong-type", ""),
        ({}, "the answer's name is missing or cannot be read", "missing", "/name"),
        (GOOD | {"name": "Elm"}, "the answer's name is missing or cannot be read: expected", "wrong-type", "/name"),
        (GOOD | {"name": None}, "the answer's name is missing or cannot be read: expected", "wrong-type", "/name"),
        (GOOD | {"grownLeaves": [{}] * 3}, "grownLeaves is missing or cannot be read: e", "wrong-type", "/grownLeaves"),
        (GOOD | {"grownLeaves": [7]}, "the answer's grownLeaves is missing or", "wrong-type", "/grownLeaves/0"),
        (
            GOOD | {"grownLeaves": [{"kind": "oak"}]},
            "the answer's count is missing or",
            "missing",
            "/grownLeaves/0/count",
        ),
        (leaf(count=True), "the answer's count is missing or", "wrong-type", "/grownLeaves/0/count"),
        (leaf(count=1.0), "the answer's count is missing or", "wrong-type", "/grownLeaves/0/count"),
        (
            leaf(count=10),
            "count is missing or cannot be read: expected `int` <= 9",
            "wrong-type",
            "/grownLeaves/0/count",
        ),
        (leaf(note=None), "the answer's note is missing or", "wrong-type", "/grownLeaves/0/note"),
        (leaf(kind="ash - at `$.x`"), "the answer's kind is missing or", "not-one-of", "/grownLeaves/0/kind"),
    ],
)
def test_the_first_member_that_does_not_fit_is_named(value: Any, message: str, code: str, pointer: str) -> None:
    with pytest.raises(RecordError) as refused:
        convert(value, Tree)
    assert message in str(refused.value)
    assert (refused.value.code, refused.value.pointer) == (code, pointer)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=200),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "grownLeaves", "kind", "count"]) | st.text(), inner, max_size=4)
    ),
    max_leaves=12,
)


def refusal(value: Any) -> str:
    """Why a value is not a tree; "" for one."""
    try:
        convert(value, Tree)
    except RecordError as error:
        return str(error)
    return ""


@given(JSON, JSON, JSON)
def test_any_value_is_a_record_or_is_refused_in_few_plain_characters(tree: Any, leaves: Any, kind: Any) -> None:
    for value in (tree, GOOD | {"grownLeaves": leaves}, leaf(kind=kind), leaf(kind="\ud800" * 300), leaf(count=tree)):
        message = refusal(value)
        assert len(message) < 300
        assert message.isascii()


def test_the_schema_of_a_struct_takes_no_other_members() -> None:
    of_leaf = {
        "type": "object", "required": ["kind", "count"], "additionalProperties": False,
        "properties": {
            "kind": {"enum": ["elm", "oak"]}, "count": {"type": "integer", "minimum": 0, "maximum": 9},
            "note": {"type": "string"},
        },
    }  # fmt: skip
    schema = schema_of(Tree)
    assert schema["properties"]["grownLeaves"] == {"type": "array", "maxItems": 2, "items": of_leaf}
    assert schema["properties"]["height"] == {"type": "number"}
    assert (schema["required"], schema["additionalProperties"]) == (["name", "grownLeaves"], False)
    json.dumps(schema)


@pytest.mark.parametrize("text", ["", "ab" * 31, "ab" * 33, "zz" * 32, "ab " * 21 + "a", "0x" + "ab" * 31, "é" * 64])
def test_a_hash_is_64_hex_digits(text: str) -> None:
    with pytest.raises(RecordError, match="the answer's txid is missing or cannot be read"):
        internal(text, "txid")


@given(st.binary(min_size=32, max_size=32))
def test_hashes_and_hex_are_read_as_written(raw: bytes) -> None:
    assert internal(raw.hex(), "txid") == internal(raw.hex().upper(), "txid") == raw[::-1]
    assert unhex(raw.hex(), "raw") == unhex(raw.hex(), "raw", 32) == raw
    for text, size in ((raw.hex() + "a", None), (f" {raw.hex()}", None), (raw.hex(), 31), ("AB", None)):
        with pytest.raises(RecordError, match="the answer's raw is missing or cannot be read"):
            unhex(text, "raw", size)
