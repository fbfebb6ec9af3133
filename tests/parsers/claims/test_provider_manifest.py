"""Manifests of MRP providers: what generators in use write is read, all else is refused with a reason."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.claims.canonical_json import DocumentError
from parsers.claims.mrp.provider_manifest import ProviderManifest, read_manifest

URL = "https://a.example/mrp/manifest"
LEAST: dict[str, Any] = {"capability": "sum", "endpoints": {"execute": "/mrp/execute"}}


def read(content: Any) -> ProviderManifest:
    return read_manifest(json.dumps(content).encode(), URL)


def test_relative_endpoints_are_those_of_the_manifests_host() -> None:
    manifest = read(LEAST | {"metadata": {"name": "Adder", "description": "adds"}, "tags": ["math"]})
    assert manifest.endpoints == {"execute": "https://a.example/mrp/execute"}
    assert (manifest.name, manifest.description, manifest.tags) == ("Adder", "adds", ("math",))
    assert read(LEAST).name == "sum"


@pytest.mark.parametrize(
    "change",
    [
        {"capability": ""}, {"capability": 7}, {"capability": "x" * 257}, {"capability": "a\nb"}, {"capability": None},
        {"endpoints": {}}, {"endpoints": []}, {"endpoints": {"negotiate": "/x"}}, {"endpoints": {"execute": 1}},
        {"endpoints": {"execute": "javascript:alert(1)"}}, {"endpoints": {"execute": "https://a.example/ü"}},
        {"endpoints": {"execute": "http://["}}, {"endpoints": {"execute": "http://127.0.0.1:6379/"}},
        {"endpoints": {"execute": "/x", "discover": "http://169.254.169.254/latest"}},
        {"tags": "x"}, {"tags": ["x"] * 65}, {"tags": [1]},
        {"endpoints": {"execute": "/<b>"}}, {"endpoints": {"execute": "/ x"}}, {"endpoints": {"execute": "/\x1b[31m"}},
        {"constraints": {"policy": [None, {}]}},
        {"description": "x" * 3_000},
    ],
)  # fmt: skip
def test_what_cannot_be_shown_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(DocumentError) as refused:
        read(LEAST | change)
    assert refused.value.code == "bad-manifest"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"[]", "bad-manifest"), (b"{", "truncated"), (b'{"capability": "a", "capability": "b"}', "duplicate-key"),
        (b" " * 65_537, "too-large"), (b"[" * 100 + b"]" * 100, "too-deep"), (b'{"a": NaN}', "not-a-number"),
    ],
)  # fmt: skip
def test_bad_json_is_refused(body: bytes, code: str) -> None:
    with pytest.raises(DocumentError) as refused:
        read_manifest(body, URL)
    assert refused.value.code == code


@given(st.binary(max_size=200) | st.recursive(st.none() | st.text(), lambda v: st.lists(v) | st.dictionaries(
    st.sampled_from(["capability", "endpoints", "execute", "constraints", "policy", "tags", "metadata", "name"]), v
)).map(lambda value: json.dumps(value).encode()))  # fmt: skip
def test_any_bytes_are_a_manifest_or_refused(body: bytes) -> None:
    with suppress(DocumentError):
        assert read_manifest(body, URL).endpoints
