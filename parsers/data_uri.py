"""`data:` URIs (RFC 2397) as registries hold them: base64 or percent-encoded, plain or compressed with gzip."""

from __future__ import annotations

import base64
import binascii
import zlib
from urllib.parse import unquote_to_bytes

from parsers.reasons import Reason
from parsers.strict_json import MAX_BYTES

MAX_URI = 1_500_000
"""Bytes: base64 of a card of 1 MiB, with its head."""
MAX_HEAD = 200

_GZIP = 31  # what zlib calls a window of 32 kB within the frame of gzip


def is_one(uri: bytes) -> bool:
    """Whether these bytes begin as a `data:` URI."""
    return uri[:5].lower() == b"data:"


def read(uri: bytes) -> bytes | Reason:
    """The bytes that a `data:` URI carries, at most 1 MiB, or the reason why they cannot be told.

    The media type is not asked for. A parameter whose value is `gzip` (`enc=gzip`, as the field writes it) says that
    the bytes are compressed; base64 may lack its filling.
    """
    head, comma, given = uri[5:].partition(b",")
    if not comma or len(head) > MAX_HEAD or len(uri) > MAX_URI:
        return Reason("data-uri", "it has no comma within 200 bytes" if len(uri) <= MAX_URI else "it is too long")
    parameters = head.decode("ascii", "replace").lower().split(";")[1:]
    raw = unquote_to_bytes(given) if b"%" in given else given
    if "base64" in parameters:
        try:
            raw = base64.b64decode(raw + b"=" * (-len(raw) % 4), validate=True)
        except (binascii.Error, ValueError):
            return Reason("data-uri", "its base64 is broken")
    coded = [value for _, mark, value in (each.partition("=") for each in parameters) if mark and value in _CODINGS]
    if coded and coded != ["gzip"]:
        return Reason("data-uri", f"it is compressed with {', '.join(coded)[:50]}; only gzip is read")
    return _unzip(raw) if coded else _sized(raw)


_CODINGS = frozenset({"gzip", "br", "brotli", "deflate", "lz4", "zlib", "zstd"})


def _unzip(raw: bytes) -> bytes | Reason:
    """What one gzip member holds, reading no more than a card may have."""
    machine = zlib.decompressobj(_GZIP)
    try:
        body = machine.decompress(raw, MAX_BYTES + 1)
    except zlib.error:
        return Reason("data-uri", "its gzip is broken")
    if len(body) > MAX_BYTES:
        return Reason("card-size")
    return body if machine.eof and not machine.unused_data else Reason("data-uri", "its gzip is cut short or goes on")


def _sized(raw: bytes) -> bytes | Reason:
    return raw if len(raw) <= MAX_BYTES else Reason("card-size")
