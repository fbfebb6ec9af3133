"""`data:` URIs (RFC 2397), in base64 or percent-encoded, plain or compressed with gzip; and the types of images."""

from __future__ import annotations

import base64
import binascii
import zlib
from urllib.parse import unquote_to_bytes

from parsers.cards.strict_json import MAX_BYTES
from parsers.reasons import Reason

MAX_URI = 1_500_000
"""Bytes: base64 of a card of 1 MiB, with its head."""
MAX_HEAD = 200

_GZIP = 31  # what zlib calls a window of 32 kB within the frame of gzip


def is_data_uri(uri: bytes) -> bool:
    """Whether the bytes begin with `data:`, in any letter case."""
    return uri[:5].lower() == b"data:"


def media_type(uri: bytes) -> str:
    """The media type of a `data:` URI in lower case, without its parameters; "" without one."""
    return uri[5 : 5 + MAX_HEAD].partition(b",")[0].partition(b";")[0].decode("ascii", "replace").strip().lower()


def read(uri: bytes) -> bytes | Reason:
    """The content of a `data:` URI, at most 1 MiB, or the reason why it cannot be decoded.

    The media type is ignored. A parameter with the value `gzip` (publishers write `enc=gzip`) means that the content is
    compressed. Base64 is read as browsers do (WHATWG Infra, forgiving-base64 decode), and in the letters of base64url.
    """
    head, comma, encoded = uri[5:].partition(b",")
    if not comma or len(head) > MAX_HEAD or len(uri) > MAX_URI:
        return Reason("data-uri", "it has no comma within 200 bytes" if len(uri) <= MAX_URI else "it is too long")
    parameters = [part.strip() for part in head.decode("ascii", "replace").lower().split(";")[1:]]
    raw = unquote_to_bytes(encoded) if b"%" in encoded else encoded
    if "base64" in parameters:
        try:
            bare = raw.translate(_STANDARD_LETTERS, b" \t\n\f\r")
            raw = base64.b64decode(bare + b"=" * (-len(bare) % 4), validate=True)
        except binascii.Error:
            return Reason("data-uri", "its base64 is broken")
    codings = [
        value for _, mark, value in (parameter.partition("=") for parameter in parameters) if mark and value in _CODINGS
    ]
    if codings and codings != ["gzip"]:
        return Reason("data-uri", f"it is compressed with {', '.join(codings)[:50]}; only gzip is read")
    if codings:
        return _unzip(raw)
    return raw if len(raw) <= MAX_BYTES else Reason("card-size")


_STANDARD_LETTERS = bytes.maketrans(b"-_", b"+/")

_CODINGS = frozenset({"gzip", "br", "brotli", "deflate", "lz4", "zlib", "zstd"})


def _unzip(raw: bytes) -> bytes | Reason:
    """The content of a single gzip member, decompressing no more than a card may have."""
    decompressor = zlib.decompressobj(_GZIP)
    try:
        body = decompressor.decompress(raw, MAX_BYTES + 1)
    except zlib.error:
        return Reason("data-uri", "its gzip is broken")
    if len(body) > MAX_BYTES:
        return Reason("card-size")
    return (
        body
        if decompressor.eof and not decompressor.unused_data
        else Reason("data-uri", "its gzip is cut short or continues")
    )


_BEGINNINGS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


def image_type(body: bytes) -> str | None:
    """The media type of a PNG, JPEG, GIF or WebP picture, None for other bytes. Nothing is decoded."""
    if body[:4] == b"RIFF" and body[8:12] == b"WEBP":
        return "image/webp"
    return next((media for start, media in _BEGINNINGS.items() if body.startswith(start)), None)
