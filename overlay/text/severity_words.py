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
