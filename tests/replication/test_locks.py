"""Advisory locks of PostgreSQL are numbers that all of one database share."""

from __future__ import annotations

import re

import pytest

from indexer.store.locks import advisory_lock
from tests.conftest import ROOT


def test_no_two_locks_of_a_database_have_the_same_number() -> None:
    texts = [path.read_text() for room in ("indexer", "overlay") for path in (ROOT / room).rglob("*.py")]
    letters = [letter for text in texts for letter in re.findall(r'\badvisory_lock\("(.?)"\)', text)]
    assert len(letters) >= 8
    assert len(set(letters)) == len(letters)


def test_a_letter_that_another_lock_has_is_refused() -> None:
    with pytest.raises(ValueError, match="the advisory lock 's' is declared twice"):
        advisory_lock("s")
