"""JSON as it is sent and stored: compact UTF-8."""

from __future__ import annotations

import json
from typing import Any

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def encode(value: Any) -> bytes:
    """Compact UTF-8 JSON. Lone surrogates, which a URL can hold, are written as escapes."""
    try:
        return _encode(value).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
