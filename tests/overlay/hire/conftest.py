"""A world to hire in, shared by the tests of a session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.overlay.hire.world import World, hiring_world


@pytest.fixture(scope="session")
def shared_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with hiring_world(tmp_path_factory.mktemp("hire")) as world:
        yield world


@pytest.fixture
def world(shared_world: World) -> World:
    shared_world.agent.reset()
    return shared_world
