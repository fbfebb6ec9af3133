"""A stranger's text made safe to show: what could hide, reorder or steer is written as an escape (law 17)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

MOST_MARKS = 5
"""Marks on one letter, as a vocalised and accented Hebrew one may have; more of them pile up over other lines."""

_JOINERS = "\u200c\u200d"

# England, Scotland and Wales: the flags that are written in tag characters and drawn. Another such sequence is drawn as
# a black flag, whatever it says.
_REGIONS = ("gbeng", "gbsct", "gbwls")
_FLAGS = "|".join("".join(chr(0xE0000 + ord(letter)) for letter in region) for region in _REGIONS)

# C0, C1 and DEL but tab and line feed; marks, embeddings, overrides and isolates of direction; separators; the byte
# order mark and other invisible formatting; tag characters. ZWJ and ZWNJ stay: emoji and several scripts need them.
_HIDDEN = re.compile(
    f"(\U0001f3f4(?:{_FLAGS})\U000e007f)|"
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff"
    "\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\ud800-\udfff]"
)
_PILE = re.compile(rf"[^\w\s\0-\x7f]{{{MOST_MARKS + 1},}}")  # there may be marks: they are not part of words to `re`


def visible(text: str) -> str:
    """The text with control, bidi and invisible characters as `\\u202e`, and an ellipsis for marks that pile up; tabs
    and line feeds stay."""
    return _shown(text, _escape, lambda _: "…")


def one_line(text: str) -> str:
    """The text, made visible for a terminal's or a log's line: tabs and line feeds are escaped too."""
    return visible(text).replace("\t", "\\t").replace("\n", "\\n")


def on_one_line(text: object, longest: int | None = None) -> str:
    """Text on one line: white space becomes single spaces; cut to `longest` characters. Not escaped."""
    line = " ".join(str(text).split())
    return line if longest is None or len(line) <= longest else f"{line[: longest - 1]}…"


def visible_in_json(text: str) -> str:
    """JSON text, made visible by JSON's own escapes: it reads as the same values. Line feeds may lay it out."""
    return _shown(text, _escape_in_json, _escape_in_json)


def _shown(text: str, escape: Callable[[str], str], instead: Callable[[str], str]) -> str:
    text = _HIDDEN.sub(lambda match: match[1] or escape(match[0]), text)
    return text if text.isascii() else _PILE.sub(lambda match: _held(match[0], instead), text)


def _held(letters: str, instead: Callable[[str], str]) -> str:
    """Some letters with the usual marks on each, and a text `instead` of the marks after these. Marks with a width of
    their own (Mc) do not pile up."""
    held, more, marks = [], "", 0
    for letter in letters:
        category = unicodedata.category(letter)
        piles = category in ("Mn", "Me") or letter in _JOINERS
        marks = marks + piles if piles or category == "Mc" else 0
        if marks > MOST_MARKS:
            more += letter
            continue
        if more:
            held.append(instead(more))
            more = ""
        held.append(letter)
    return "".join([*held, instead(more) if more else ""])


def _escape_in_json(letters: str) -> str:
    units = letters.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[index] << 8 | units[index + 1]:04x}" for index in range(0, len(units), 2))


def _escape(letter: str) -> str:
    code = ord(letter)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
