"""The application over fakes, with this system."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlay.api.services import AppServices
from overlay.installation import ALWAYS
from tests.overlay.fakes import changed, sample_services


@pytest.fixture
def services(sample: Path) -> AppServices:
    return changed(sample_services(sample), systems=(*ALWAYS, "bsv_overlay"))
