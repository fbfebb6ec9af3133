"""Warnings about changed prices and addresses: an answer compares the card with the card that was shown so many blocks
ago.

A stored item lists under `recentChanges`, its first member, how the card differs from each earlier card; which of these
differences is recent depends on the height of the query.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from overlay.search.query import Hits
from overlay.text.compact_json import encode

_BEGINS = b'{"recentChanges":['


def prefixed(item: bytes, changes: Sequence[dict[str, Any]]) -> bytes:
    """An item (UTF-8 JSON) with its changes before all other members, the latest first; unchanged without any."""
    return b'{"recentChanges":%b,%b' % (encode(changes), item[1:]) if changes else item


def ages(item: bytes | memoryview) -> bool:
    """Whether a stored item (UTF-8 JSON) lists recent changes: it begins with them."""
    is_likely = len(item) > 2 and item[2] == _BEGINS[2]  # no other member begins so: a slice takes ten times as long
    return is_likely and bytes(item[: len(_BEGINS)]) == _BEGINS  # to compare a view takes 25 µs


def aged(item: dict[str, Any], heights: Mapping[str, int], blocks: int) -> dict[str, Any]:
    """An item with the warnings about its changes since the card shown `blocks` blocks ago, or since the oldest one if
    that is younger. `heights` are the indexed heights by chain; without the chain's, the oldest card is compared.
    """
    if "recentChanges" not in item:
        return item
    answer = {name: value for name, value in item.items() if name != "recentChanges"}
    height = heights.get(item["chain"])
    for change in item["recentChanges"]:
        if height is None or height - change["replacedAt"] < blocks:
            if change["warnings"]:
                answer["warnings"] = [*item["warnings"], *change["warnings"]]
                answer["changedHeight"] = change["replacedAt"]
            break
    return answer


def is_due(hits: Hits) -> bool:
    """Whether any hit lists recent changes: then `aged_hits` needs heights."""
    return any(map(ages, [hit.item for hit in hits.hits]))


def aged_hits(hits: Hits, heights: Mapping[str, int], blocks: int) -> Hits:
    """Hits with `aged` items; those without recent changes, nearly all, are not parsed."""
    if not is_due(hits):
        return hits
    shown = [
        hit._replace(item=encode(aged(json.loads(bytes(hit.item)), heights, blocks))) if ages(hit.item) else hit
        for hit in hits.hits
    ]
    return replace(hits, hits=tuple(shown))
