"""The severity of a warning as a word before its text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parsers.reasons import HIGH, LOW


def severity_words(reason: Mapping[str, Any]) -> str:
    """`(high)` or `(low)` of a warning; "" of one that only informs, of an error and of an overlay of an earlier
    release, which answers no severity."""
    grade = reason.get("severity", "")
    return f"({grade})" if grade in (HIGH, LOW) else ""
