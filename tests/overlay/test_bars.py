"""The display of chains that catch up, at a terminal."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from indexer.sync.progress import SyncProgress
from overlay.app import progress_bars
from overlay.app.progress_bars import ProgressBars
from tests.clocks import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    clock = Clock(100)
    monkeypatch.setattr(progress_bars, "monotonic", clock)
    yield clock
    root.handlers[:] = before
    root.setLevel(level)


def shown(bar: ProgressBars) -> list[tuple[str, float, float | None, str]]:
    """Each bar: what it is of, where it is, where it ends, and how fast."""
    return [(task.description, task.completed, task.total, task.fields["speed"]) for task in bar.progress.tasks]


def test_a_chain_that_catches_up_is_shown_with_height_and_speeds(clock: Clock) -> None:
    ltc, bsv = (
        SyncProgress("ltc", state="following", height=9, tip=9),
        SyncProgress("bsv", state="catching-up", tip=900_000),
    )
    bar = ProgressBars({"ltc": ltc, "bsv": bsv})
    for item in (ltc, bsv):
        bar.draw(item)
    assert shown(bar) == [("bsv", 0, 900_000, "")]
    bsv.height, bsv.blocks, bsv.bytes = 800_000, 4_000, 25_000_000
    clock.now += 2
    bar.draw(bsv)
    assert shown(bar) == [("bsv", 800_000, 900_000, "2,000 blocks/s 12.5 MB/s")]
    bar.progress.stop()


@pytest.mark.parametrize(
    ("state", "height", "error", "text"),
    [
        ("following", 900_000, "", "bsv: following at block 900,000"),
        ("unreachable", None, "bsv: the node is gone", "bsv: unreachable before the first block: the node is gone"),
        ("stopped", 7, "bsv: \x1b[31mwrong", "bsv: stopped at block 7: \\x1b[31mwrong"),
    ],
)
def test_when_it_ends_a_line_says_where(
    state: str, height: int | None, error: str, text: str, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    bsv = SyncProgress("bsv", state="catching-up", tip=900_000)
    bar = ProgressBars({"bsv": bsv})
    bar.draw(bsv)
    clock.now += 1
    bsv.state, bsv.height, bsv.error = state, height, error
    bar.draw(bsv)
    assert shown(bar) == []
    assert text in capsys.readouterr().err.splitlines()


def test_a_chain_that_catches_up_between_two_drawings_has_its_line_once(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    bsv = SyncProgress("bsv", state="starting", tip=91)
    bar = ProgressBars({"bsv": bsv})
    bar.draw(bsv)
    bsv.state, bsv.height = "following", 91
    for _ in range(2):
        bar.draw(bsv)
    assert capsys.readouterr().err.splitlines() == ["bsv: following at block 91"]
