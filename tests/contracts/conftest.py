"""Every search engine and every database, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from overlay.engines import ENGINES
from overlay.projection.search_index import SearchIndex
from tests.databases import store, writer

__all__ = ["store", "writer"]


@pytest.fixture(params=list(ENGINES))
def engine_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a new index."""
    if request.param == "opensearch":
        url: str = request.getfixturevalue("opensearch_url")
        return url
    return f"{request.param}:{tmp_path}/index"


@pytest.fixture
def engine(engine_url: str) -> Iterator[SearchIndex]:
    """A new index."""
    opened = SearchIndex(engine_url)
    yield opened
    opened.close()
