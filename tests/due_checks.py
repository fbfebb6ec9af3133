"""The checks that are due in the queue."""

from __future__ import annotations

from sqlalchemy import Engine

from indexer.store.checks import CheckKind, CheckQueries


def due(engine: Engine, kind: CheckKind, now: int, limit: int = 100) -> list[tuple[int, str]]:
    """Visits for checks of a kind, as (due since, target)."""
    return [(since, target) for since, _, target in CheckQueries(engine).due(now, limit, kind=kind)]
