"""The application over fakes, with this door open."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from overlay.api.services import AppServices
from overlay.installation import ALWAYS
from tests.overlay.fakes import sample_services


@pytest.fixture
def services(sample: Path) -> AppServices:
    return replace(sample_services(sample), systems=(*ALWAYS, "bsv_overlay"))
