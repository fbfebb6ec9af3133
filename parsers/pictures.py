"""What kind of picture bytes are, by how they begin: the raster formats that may be decoded. SVG, which is a document
that may hold scripts, is none of them."""

from __future__ import annotations

_BEGINNINGS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


def kind(body: bytes) -> str | None:
    """The media type of a PNG, JPEG, GIF or WebP picture, None for anything else. Nothing is decoded."""
    if body[:4] == b"RIFF" and body[8:12] == b"WEBP":
        return "image/webp"
    return next((media for start, media in _BEGINNINGS.items() if body.startswith(start)), None)
