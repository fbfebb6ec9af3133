"""Mask the secrets of URLs before they are logged or shown."""

from __future__ import annotations

import re

_PASSWORD = re.compile(r"(://[^:/@\s]*):\S*@")
_TOKEN = re.compile(r"([?&][^=&#\s]*(?:token|key|secret|passw|auth)[^=&#\s]*=)[^&#\s]+", re.IGNORECASE)
_WEB_PATH = re.compile(r"(https?://[^/?#\s]*)(/[^?#\s]*)", re.IGNORECASE)
_PATH_KEY = re.compile(r"(?<=/)[A-Za-z0-9_-]{20,}(?![^/])")


def masked(url: str) -> str:
    """A URL without its secrets: the password, tokens in the query, and what looks like a key in the path of a web
    address, where many endpoints expect it."""
    shown = _TOKEN.sub(r"\1***", _PASSWORD.sub(r"\1:***@", url))
    return _WEB_PATH.sub(lambda match: match[1] + _PATH_KEY.sub("***", match[2]), shown)
