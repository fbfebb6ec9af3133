"""`explain`: the factors of a listing's score as the re-ranker computed them."""

from __future__ import annotations

from typing import Any

from overlay.search.planner import Alternative, QueryPlan
from overlay.search.query import Hit


def understood(plan: QueryPlan) -> list[dict[str, Any]]:
    """The query plan as JSON: for each word its alternative terms and their weights."""
    return [
        {
            "word": group.word,
            "alternatives": [
                _alternative_json(alternative) | {"weight": alternative.weight} for alternative in group.alternatives
            ],
        }
        for group in plan.groups
    ]


def explained(plan: QueryPlan, hit: Hit) -> dict[str, Any]:
    """The factors of a hit's score as JSON. A hit beyond the re-ranked candidates has the engine's score only, scaled
    below theirs; orders other than relevance have no score."""
    if hit.scored is None:
        return {"score": hit.score, "stage": "engine", "words": []}
    factors, row = hit.scored.factors, hit.scored.row
    words = []
    for column, group in enumerate(plan.groups):
        chosen = int(factors.terms[row, column])
        members = _alternative_json(group.alternatives[chosen]) if chosen >= 0 else {"term": None, "match": None}
        words.append({"word": group.word, "score": float(factors.words[row, column])} | members)
    return {
        "score": hit.score,
        "stage": "rerank",
        "words": words,
        "proximity": float(factors.proximity[row]),
        "exactName": float(factors.exact_name[row]),
        "staticRank": float(factors.static_rank[row]),
    }


def _alternative_json(alternative: Alternative) -> dict[str, Any]:
    members: dict[str, Any] = {"term": alternative.term, "match": alternative.match}
    return members | {"edits": alternative.edits} if alternative.match == "corrected" else members
