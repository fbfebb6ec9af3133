"""The whole program over the sample chain, for foreign clients: one process for all tests of a worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.running import Running


@pytest.fixture(scope="session")
def overlay_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of `a2b up` over the packaged sample chain, ready, without rate limits. Tests only read from it."""
    with Running("up", "--port", "0", "--limits", "off", cwd=tmp_path_factory.mktemp("overlay")) as running:
        running.until_ready()
        yield running.url
