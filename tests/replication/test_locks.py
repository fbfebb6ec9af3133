"""Advisory locks of PostgreSQL are numbers that all of one database share."""

from __future__ import annotations

import re

from tests.conftest import ROOT


def test_no_two_locks_of_a_database_have_the_same_number() -> None:
    texts = [path.read_text() for room in ("indexer", "overlay") for path in (ROOT / room).rglob("*.py")]
    numbers = [number for text in texts for number in re.findall(r"\b0x6132[0-9A-Fa-f]+", text)]
    assert len(numbers) >= 4
    assert len({int(number, 16) for number in numbers}) == len(numbers)
