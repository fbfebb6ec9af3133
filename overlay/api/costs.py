"""What a search may cost: long ones are answered in threads of their own, few at a time, and never hold up the others.

Most searches take a millisecond or two, less than handing them to a thread would delay them. What can take a hundred
times as long (measured at 100,000 offers: orders by name and price, facets, cursors and pages far down, many words or
values) waits for one of a few places, and is given up after a while.
"""

from __future__ import annotations

from operator import attrgetter

from overlay.api.executor import BoundedExecutor
from overlay.index import SearchIndex
from overlay.query import Hits, Query

SECONDS = 5.0
"""What a long search gets, waiting included."""

LONG_AT_ONCE, SLOW_AT_ONCE = 2, 16
"""Places for long searches; places for all searches of an engine that says it is slow: it may only be waiting."""

MOST_WAITING, A_CLIENT = 64, 8
"""Searches that wait or are under way in all, and of these long ones for one client."""

_FAR, _MANY_LETTERS, _MANY_VALUES = 500, 120, 12
_filters = attrgetter("skills", "currencies", "intervals", "tags", "chains", "domains", "owners")


def is_long(query: Query) -> bool:
    """Whether a search can take much longer than most."""
    return (
        bool(query.facets)
        or query.after is not None
        or query.sort in ("name", "price")
        or query.descending is not None
        or query.as_of is not None
        or query.operators is not None
        or query.offset + query.limit > _FAR
        or len(query.text) > _MANY_LETTERS
        or sum(map(len, _filters(query))) > _MANY_VALUES
    )


class Costs:
    """The places of one process. Make it in an event loop; `close` it when nothing is asked any more."""

    def __init__(self, engine: SearchIndex) -> None:
        self._engine, self._slow = engine, engine.slow
        self._executor = BoundedExecutor(
            "search",
            workers=SLOW_AT_ONCE if self._slow else LONG_AT_ONCE,
            waiting=MOST_WAITING,
            per_client=MOST_WAITING if self._slow else A_CLIENT,
        )

    def close(self) -> None:
        """Let the threads end when they can."""
        self._executor.close()

    def are_low(self, query: Query) -> bool:
        """Whether a search may be answered at once, by `search`; else `wait` for its answer."""
        return not (self._slow or is_long(query))

    def search(self, query: Query) -> Hits:
        """The engine's answer, at once."""
        return self._engine.search(query)

    async def wait(self, query: Query, client: str) -> Hits:
        """The engine's answer, from a thread. Raises ProblemError as `BoundedExecutor.run`."""
        return await self._executor.run(client, SECONDS, self._engine.search, query)
