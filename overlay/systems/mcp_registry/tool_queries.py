"""Queries of the store for the tools that have names, and for burned tools."""

from __future__ import annotations

from collections.abc import Iterable

from indexer.store import Store
from indexer.store.rows import event_position
from parsers.cards import Kind

MOST_ALIKE = 16
"""Ids that one prefix may name, at most."""

BACKWARDS = 4 * 3_600
"""Seconds by which a block's time may be before that of an earlier block, at most: twice what nodes accept."""


def tools_with_prefixes(source: Store, prefixes: Iterable[str]) -> dict[str, list[str]]:
    """The tools in a block by the hex digits that their ids begin with, the oldest first; a few at most."""
    return source.history.with_prefixes(prefixes, Kind.TOOL, MOST_ALIKE)


def burned_tools(source: Store, since: int, after: tuple[str, int], limit: int) -> list[tuple[str, tuple[str, int]]]:
    """The tools that were burned at or after a time (seconds since 1970) and the positions of these events, which
    are a chain and a place; in this order, from the first position after `after` on."""
    first_places = {
        chain: event_position(source.blocks.height_at(chain, 1000 * (since - BACKWARDS)) or 0)
        for chain in source.chains()
        if chain >= after[0]
    }
    if after[0] in first_places:
        first_places[after[0]] = max(first_places[after[0]], after[1] + 1)
    return [
        (past.event.state.id, (past.chain, event_position(past.height, past.event.position)))
        for past in source.history.burned(Kind.TOOL, since, first_places, limit)
        if past.event.state is not None
    ]
