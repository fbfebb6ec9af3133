"""The check of a database after a stop that was not clean."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexer import sqlite_integrity as integrity
from overlay.app import integrity_loop
from overlay.app.integrity_loop import IntegrityCheck
from tests.indexing import Indexing


@pytest.mark.parametrize("put_off", [60.0, 0.0])
async def test_the_check_after_a_kill_waits_for_the_tip_but_not_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, put_off: float
) -> None:
    file = f"{tmp_path}/a2b.db"
    monkeypatch.setattr(integrity_loop, "PUT_OFF_SECONDS", put_off)
    with Indexing(f"sqlite:///{file}") as indexing:
        indexing.writer.lock.was_unclean = True
        is_catching_up = True
        check = IntegrityCheck(file, indexing.writer, lambda: is_catching_up)
        await check.run()
        assert (integrity.read(file) is None) == (put_off > 0)
        is_catching_up = False
        await check.run()
        report = integrity.read(file)
        assert report is not None
        assert report.state == integrity.OK
        assert not indexing.writer.lock.was_unclean


async def test_an_error_that_means_damage_is_checked_at_once(tmp_path: Path) -> None:
    file = f"{tmp_path}/a2b.db"
    with Indexing(f"sqlite:///{file}") as indexing:
        indexing.writer.lock.was_unclean = True
        integrity.guard_of(file).suspected.set()
        await IntegrityCheck(file, indexing.writer, lambda: True).run()
        assert integrity.read(file) is not None
