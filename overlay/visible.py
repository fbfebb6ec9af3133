"""A stranger's text made safe to show: what could hide, reorder or steer is written as an escape (law 17)."""

from __future__ import annotations

import re

# C0, C1 and DEL but tab and line feed; marks, embeddings, overrides and isolates of direction; separators; the byte
# order mark and other invisible formatting; tag characters. ZWJ and ZWNJ stay: emoji and several scripts need them.
_HIDDEN = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff"
    "\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff\ud800-\udfff]"
)


def visible(text: str) -> str:
    """The text with control, bidi and invisible characters as `\\u202e`; tabs and line feeds stay."""
    return _HIDDEN.sub(_escape, text)


def one_line(text: str) -> str:
    """The same for a terminal's or a log's line: tabs and line feeds escaped too."""
    return visible(text).replace("\t", "\\t").replace("\n", "\\n")


def visible_in_json(text: str) -> str:
    """The same for JSON text, in JSON's own escapes: it reads as the same values. Line feeds may lay it out."""
    return _HIDDEN.sub(_escape_in_json, text)


def _escape_in_json(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
