"""Rules of the official MCP Registry's validators beyond the schema (modelcontextprotocol/registry 1.8.9)."""

from __future__ import annotations

import re
from ipaddress import ip_address
from urllib.parse import urlsplit

from overlay.text.compact_json import encode

MAX_PUBLISHER = 4 << 10
"""The largest size of the publisher's own metadata in bytes, as Go writes it."""

_VERSION = re.compile(r"(?!latest$)[0-9A-Za-z][0-9A-Za-z.+_-]{0,99}")
_WILDCARDS = re.compile(r"(?:v?[0-9]+|[xX])(?:\.(?:[0-9]+|[xX])){1,2}(?:-[0-9A-Za-z.-]+)?")
_URL = re.compile(r"https?://[A-Za-z0-9][A-Za-z0-9.-]{0,252}(?::[0-9]{1,5})?(?:[/?#][\x21\x23-\x3b\x3d\x3f-\x7a~]*)?")
_LOCAL = re.compile(r"(?:.*\.)?(?:localhost|local|internal|[0-9]+|0x[0-9a-f]*)\.?")


def name_part(text: str) -> str:
    """The part of a server's name after its slash that is nearest to a text: at least two letters, digits and `._-`,
    beginning and ending with a letter or digit."""
    text = re.sub(r"[^a-zA-Z0-9._-]+", "-", text).strip("._-")
    return text if len(text) > 1 else f"{text}-server".lstrip("-")


def is_version(text: str) -> bool:
    """Whether a text is one version: neither `latest` nor a range like `1.x`. Two or three numbers with an x anywhere
    count as a range, also `1.0.0-next`."""
    is_range = _WILDCARDS.fullmatch(text) is not None and "x" in text.lower()
    return _VERSION.fullmatch(text) is not None and not is_range


def is_url(text: str) -> bool:
    """Whether a text is an http or https URL that strict readers take."""
    if not _URL.fullmatch(text):
        return False
    try:
        return urlsplit(text).port != 0
    except ValueError:  # a port above 65535
        return False


def is_local(url: str) -> bool:
    """Whether a URL is on this machine or network. The official registry refuses `localhost` and `127.0.0.1`; the
    others are of no use to strangers."""
    host = (urlsplit(url).hostname or "").lower()
    try:
        return not ip_address(host).is_global
    except ValueError:
        return _LOCAL.fullmatch(host) is not None


def size(provided: object) -> int:
    """The size of a JSON value in bytes as Go writes it, which escapes some characters."""
    raw = encode(provided)
    return (
        len(raw)
        + 5 * sum(map(raw.count, (b"<", b">", b"&")))
        + 3 * sum(map(raw.count, (b"\xe2\x80\xa8", b"\xe2\x80\xa9")))
    )
