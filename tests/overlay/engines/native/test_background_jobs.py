"""Jobs beside the commits of a writer run one after the other."""

from __future__ import annotations

import threading
from types import FrameType

import pytest

from overlay.engines.native.background_jobs import BackgroundJobs, Job
from tests.waiting import PATIENCE


def test_no_job_begins_before_the_last_one_has_ended_though_an_earlier_thread_ends_late() -> None:
    """The first thread has nothing more to do and is slow to end; the second one has a job, and a third job is due."""
    idle, may_end, may_finish = threading.Event(), threading.Event(), threading.Event()
    begun: list[str] = []

    def slow_to_end(frame: FrameType, event: str, result: object) -> None:
        if event == "return" and frame.f_code.co_name == "_following" and result is None and not idle.is_set():
            idle.set()
            may_end.wait(PATIENCE)

    def second() -> None:
        begun.append("second")
        may_finish.wait(PATIENCE)

    waiting: list[Job] = [lambda: begun.append("first")]
    jobs = BackgroundJobs(lambda: waiting.pop(0) if waiting else None)
    threading.setprofile(slow_to_end)
    try:
        jobs.start()
        first_thread = jobs.thread
        assert idle.wait(PATIENCE)
    finally:
        threading.setprofile(None)
    waiting.append(second)
    jobs.start()
    may_end.set()
    assert first_thread is not None
    first_thread.join(PATIENCE)
    waiting.append(lambda: begun.append("third"))
    jobs.start()
    assert "third" not in begun
    may_finish.set()
    jobs.wait(PATIENCE)
    assert begun == ["first", "second", "third"]


def test_after_a_job_that_raised_an_exception_another_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    raised, done = threading.Event(), threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda _: raised.set())

    def fail() -> None:
        raise RuntimeError("a job")

    waiting: list[Job] = [fail, done.set]
    jobs = BackgroundJobs(lambda: waiting.pop(0) if waiting else None)
    jobs.start()
    assert raised.wait(PATIENCE)
    jobs.wait()
    jobs.start()
    assert done.wait(PATIENCE)
