"""The application over fakes, with this system."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlay.api.services import AppServices
from tests.overlay.fakes import API_SYSTEMS, changed, sample_services


@pytest.fixture
def services(sample: Path) -> AppServices:
    return changed(sample_services(sample), systems=(*API_SYSTEMS, "bsv_overlay"))
