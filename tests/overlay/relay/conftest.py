"""A relay on each kind of database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from indexer.store import connect
from tests.overlay.relay.kit import AGENTS, World


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    """Four agents are registered, and Alice and Bob have 10,000 each."""
    engine = connect(database_url)
    world = World(engine)
    world.register(*AGENTS)
    for agent in AGENTS[:2]:
        world.fund(agent, 10_000)
    yield world
    engine.dispose()
