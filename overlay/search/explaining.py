"""Why a listing has its score: the factors of the formula (`rerank`), as they were computed."""

from __future__ import annotations

from typing import Any

from overlay.query import Hit
from overlay.search.planner import Alternative, QueryPlan


def understood(plan: QueryPlan) -> list[dict[str, Any]]:
    """How the words of a question were read: the terms that stand for each, and their weights."""
    return [
        {"word": group.word, "alternatives": [_told(each) | {"weight": each.weight} for each in group.alternatives]}
        for group in plan.groups
    ]


def explained(plan: QueryPlan, hit: Hit) -> dict[str, Any]:
    """The factors of a hit's score. One beyond the candidates of stage two has the engine's score alone, scaled to
    follow theirs; in other orders than relevance there is none."""
    if hit.scored is None:
        return {"score": hit.score, "stage": "engine", "words": []}
    found, row = hit.scored.factors, hit.scored.row
    words = []
    for at, group in enumerate(plan.groups):
        chosen = int(found.terms[row, at])
        told = _told(group.alternatives[chosen]) if chosen >= 0 else {"term": None, "match": None}
        words.append({"word": group.word, "score": float(found.words[row, at])} | told)
    return {
        "score": hit.score,
        "stage": "rerank",
        "words": words,
        "proximity": float(found.proximity[row]),
        "coverage": float(found.coverage[row]),
        "exactName": float(found.exact_name[row]),
        "staticRank": float(found.static_rank[row]),
    }


def _told(each: Alternative) -> dict[str, Any]:
    told: dict[str, Any] = {"term": each.term, "match": each.match}
    return told | {"edits": each.edits} if each.match == "corrected" else told
