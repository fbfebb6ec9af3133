"""Compact JSON: whatever the standard library reads back as the same, and no more than it writes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.text.compact_json import decode, encode

TEXTS = st.text(st.characters(), max_size=20)  # with lone surrogates
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=12)


@given(VALUES)
def test_what_is_written_reads_as_what_it_was(value: Any) -> None:
    assert json.loads(encode(value)) == value


@given(st.dictionaries(st.text(), st.text() | st.booleans() | st.none() | st.integers(-(2**63), 2**64 - 1)))
def test_it_is_written_as_the_standard_library_does(value: Any) -> None:
    assert encode(value) == json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


@dataclass
class Opaque:
    """No JSON."""

    secret: str = "s"


@pytest.mark.parametrize("value", [Opaque(), datetime(2026, 1, 1, tzinfo=UTC), b"bytes", object(), {1j: 2}])
def test_what_is_no_json_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        encode({"a": value} if not isinstance(value, dict) else value)


@pytest.mark.parametrize("value", [{"a": [1, None, "é"]}, {"name": "\ud800 lone"}, {}])
def test_what_was_encoded_is_decoded(value: object) -> None:
    assert decode(encode(value)) == value
