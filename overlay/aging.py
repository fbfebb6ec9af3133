"""Warnings that are told for some blocks only: stored items hold them as long as their revision, answers do not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from overlay.compact import encode
from overlay.query import Hit, Hits
from parsers.price_changes import CODES

_MARKS = tuple(f'"code":"{code}"'.encode() for code in sorted(CODES))


def ages(item: bytes) -> bool:
    """Whether a stored item holds such warnings; to look through twenty takes longer than to find them."""
    return any(mark in item for mark in _MARKS)


def aged(item: dict[str, Any], heights: Mapping[str, int], blocks: int) -> dict[str, Any]:
    """An item without the warnings about a change that is `blocks` blocks old. `heights` are those reached, by chain;
    where none is known nothing is left out."""
    since, now = item.get("changedHeight", item.get("updatedHeight")), heights.get(item["chain"])
    if since is None or now is None or now - since < blocks:
        return item
    return {**item, "warnings": [each for each in item["warnings"] if each["code"] not in CODES]}


def is_due(hits: Hits) -> bool:
    """Whether any hit has such a warning, so that heights have to be known."""
    return hits.ages and any(ages(hit.item) for hit in hits.hits)


def aged_hits(hits: Hits, heights: Mapping[str, int], blocks: int) -> Hits:
    """Hits of which the same is true; items without such warnings, nearly all, are not read again."""
    if not hits.ages:
        return hits
    return replace(hits, hits=tuple(_aged(hit, heights, blocks) for hit in hits.hits))


def _aged(hit: Hit, heights: Mapping[str, int], blocks: int) -> Hit:
    if not ages(hit.item):
        return hit
    return hit._replace(item=encode(aged(json.loads(hit.item), heights, blocks)))
