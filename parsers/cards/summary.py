"""The first sentence of a description, for result lists."""

from __future__ import annotations

import re
import unicodedata

LIMIT = 160
ELLIPSIS = "…"

_CLOSING = r"[\"'\u2019\u201d)\]\u00bb\u203a\u300d\u300f\uff09]*"
# Full stops of scripts that write no space after them end a sentence anywhere; Western ones only before a space.
_ANYWHERE, _BEFORE_SPACE = r"\u3002\uff01\uff1f\uff61", r".!?\u2026\u061f\u06d4\u0964"
_END = re.compile(  # beginning with a class of characters it is searched for three times as fast
    rf"[{_ANYWHERE}{_BEFORE_SPACE}\n](?:(?<=[{_ANYWHERE}])[{_ANYWHERE}]*{_CLOSING}"
    rf"|(?<=[{_BEFORE_SPACE}])[{_BEFORE_SPACE}]*{_CLOSING}(?=\s|$)|(?<=\n)(?=\s*\n))"
)
_ABBREVIATIONS = frozenset(
    re.split(
        r"\s+",
        "approx ca cf corp dept dr e.g ed eg esp est etc fig i.e ie inc incl jr ltd max min mr mrs ms no nr prof resp"
        " sr st u.k u.s vs z.b",
    )
)


def summary(description: str) -> str:
    """The first sentence of a description, with white space collapsed, at most 160 characters.

    A longer sentence is cut after a word and gets an ellipsis. A full stop before a lower-case letter, after an initial
    or a common abbreviation does not end a sentence; a blank line does.
    """
    text = description.strip()[: 4 * LIMIT]
    for match in _END.finditer(text):
        if _ends(text, match):
            text = text[: match.end()]
            break
    text = " ".join(text.split())
    return text if len(text) <= LIMIT else _shorten(text)


def _ends(text: str, match: re.Match[str]) -> bool:
    if match[0][:1] != ".":
        return True
    following = text[match.end() :].lstrip()[:1]
    if following.islower():
        return False
    word = text[: match.start()].rpartition(" ")[2].lstrip("(").lower()
    return word not in _ABBREVIATIONS and not (len(word) == 1 and word.isalpha() and word.isascii())


def _shorten(text: str) -> str:
    """Cut at the last space after two thirds of the limit, else between characters that do not combine."""
    room = LIMIT - len(ELLIPSIS)
    space = text.rfind(" ", 2 * LIMIT // 3, room + 1)
    if space < 0:
        space = room
        while space > room - 20 and _continues(text[space], text[space - 1]):
            space -= 1
    return text[:space].rstrip(" ,;:-–—") + ELLIPSIS


def _continues(character: str, before: str) -> bool:
    """Whether a character combines with the one before it: a mark, a joiner, or a joined character."""
    return unicodedata.category(character)[0] == "M" or "\u200d" in (character, before)
