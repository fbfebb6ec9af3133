"""The severity of a warning as a word before its text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parsers.reasons import HIGH, LOW


def severity_words(reason: Mapping[str, Any]) -> str:
    """`(high)` or `(low)` for a warning; "" for a warning that only informs, for an error, and for an overlay of an
    earlier release, which answers no severity."""
    grade = reason.get("severity", "")
    return f"({grade})" if grade in (HIGH, LOW) else ""


SAME_OWNER = ", of the same owner; in your name?"
"""The end of a warning that names a listing of the same owner: anybody can register for an address."""
