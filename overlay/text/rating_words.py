"""A rating in words: how many paid how often, before any number that is computed from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def rating_words(rating: Mapping[str, Any]) -> str:
    """The counts of a rating, and its stars where it has any: `7 paid tasks, 3 customers, 1 failed`. For an overlay of
    an earlier release, which answers neither, the number of all tasks that count."""
    if "paidTasks" not in rating:
        return _count(rating["evidence"], "task")
    words = [_count(rating["paidTasks"], "paid task"), _count(rating["customers"], "customer")]
    if not rating["paidTasks"]:
        words = ["no paid tasks", *([f"{rating['evidence']:,} only signed"] if rating["evidence"] else [])]
    if rating["failed"]:
        words.append(f"{rating['failed']:,} failed")
    if complaints := rating.get("complaints"):
        disputed = rating.get("disputed", 0)
        words.append(_count(complaints, "complaint") + (f" ({disputed:,} disputed)" if disputed else ""))
    if rating["stars"] is not None:
        words.append(f"{rating['stars']:.1f} of 5 stars")
    return ", ".join(words)


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
