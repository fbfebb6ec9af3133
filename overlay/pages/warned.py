"""Warnings for people: intervals in words, and the listings that they name as links."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from overlay.periods import per

_NAMING = frozenset(("same-name", "same-url", "same-address"))
"""Warnings whose sentences end in the id of another listing."""

_INTERVAL = re.compile(r"\bper (P[0-9TDWMYHS]{2,8})(?![0-9A-Za-z])")


class Told(NamedTuple):
    """A warning's sentence, and the id that it ends in; "" where it names none."""

    text: str
    id: str


def told(warning: Mapping[str, Any]) -> Told:
    """A warning as a page tells it."""
    text = _INTERVAL.sub(lambda found: per(found[1]), warning["detail"])
    if warning["code"] not in _NAMING:
        return Told(text, "")
    sentence, separator, other = text.rpartition(": ")
    return Told(sentence + separator, other) if separator else Told(text, "")
