"""Base58, by wallycore. Texts are exact: a space or U+0000 at the end is not ignored."""

from __future__ import annotations

MAX_TEXT = 128
"""Characters of the longest text that is decoded, which takes time with their square; an address has at most 44."""


def encode(data: bytes, *, checksum: bool = False) -> str:
    """Bytes as text, with `checksum` followed by the four bytes of base58check."""
    import wallycore

    if not (data or checksum):
        return ""  # which wallycore refuses
    return str(wallycore.base58_from_bytes(data, wallycore.BASE58_FLAG_CHECKSUM if checksum else 0))


def decode(text: str, *, checksum: bool = False) -> bytes | None:
    """The bytes of a text, with `checksum` those before a valid one of base58check; None for any other text."""
    import wallycore

    if not (len(text) <= MAX_TEXT and text.isascii()):
        return None
    try:
        flags = wallycore.BASE58_FLAG_CHECKSUM if checksum else 0
        return bytes(wallycore.base58_n_to_bytes(text, len(text), flags))
    except ValueError:
        return None
