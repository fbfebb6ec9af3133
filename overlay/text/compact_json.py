"""JSON in the form that is sent and stored: compact UTF-8."""

from __future__ import annotations

import json
from typing import Any

import orjson

_ONLY_JSON = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
"""Options by which values that the standard library's encoder refuses are refused here too, but for NaN and infinity,
which become null."""


def encode(value: Any) -> bytes:
    """Compact UTF-8 JSON. Lone surrogates, which a URL can hold, are written as escapes."""
    try:
        return orjson.dumps(value, option=_ONLY_JSON)
    except TypeError:  # rare: lone surrogates, numbers of more than 64 bits, keys that are not strings
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def decode(data: bytes | memoryview) -> Any:
    """The value of JSON that `encode` wrote; numbers of more than 64 bits become floats."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:  # escaped lone surrogates
        return json.loads(bytes(data))
