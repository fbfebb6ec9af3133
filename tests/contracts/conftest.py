"""Every search engine and every database, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import cache
from pathlib import Path

import pytest

from overlay.engines import ENGINES
from overlay.projection.search_index import SearchIndex
from tests.databases import store, writer
from tests.opensearch_server import index_url

Filled = Callable[[Callable[[SearchIndex], None]], SearchIndex]

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


@pytest.fixture(scope="module", params=list(ENGINES))
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    """Gives an index that a function fills, once for all tests of a file: they only read it."""
    with ExitStack() as opened:

        @cache
        def index(fill: Callable[[SearchIndex], None]) -> SearchIndex:
            url = index_url(request, request.param, tmp_path_factory.mktemp("index"))
            engine = opened.enter_context(closing(SearchIndex(url)))
            fill(engine)
            return engine

        yield index
