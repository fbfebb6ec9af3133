"""Overlays on several machines: one feeds the index that they share, and all are ready and tell the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.databases import Cluster
from tests.replication.living import Town, house, running, settings, shown, until


@pytest.fixture
def town() -> Town:
    """A registry in which listings have something in common: everybody there is a router."""
    made = Town()
    made.mine(12)
    return made


async def test_who_does_not_feed_a_shared_index_is_ready_and_says_how_far_it_reaches(
    postgresql: Cluster, tmp_path: Path, town: Town
) -> None:
    url = postgresql.new()
    feeder = house(settings(tmp_path / "a", url, "postgres:"), town.chain)
    serving = house(settings(tmp_path / "b", url, "postgres:"))
    other = serving.engine
    assert other is not None
    async with running(feeder) as first:
        await until(lambda: first.standing.ready() is None)
        async with running(serving) as second:
            await until(lambda: second.standing.ready() is None)
            for _ in range(3):
                town.mine()
                await until(lambda: shown(other) == town.names)
                tip = {"live": len(town.chain.best) - 1}
                await until(lambda tip=tip: first.standing.heights() == second.standing.heights() == tip)
