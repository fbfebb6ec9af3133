"""Running overlays for the client: over the sample chain, and over one with prices that can be paid."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.overlay.client.world import PaidRegistry, paid_registry
from tests.overlay.protocols.conftest import overlay_url

__all__ = ["overlay_url"]


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PaidRegistry]:
    with paid_registry(tmp_path_factory.mktemp("paid")) as registry:
        yield registry
