"""Reads beside the event loop: few at a time where the store is here, and in the name of the request."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

import pytest

from overlay.api.executors import ReadExecutor, report
from tests.waiting import PATIENCE, until

NAMED: ContextVar[str] = ContextVar("NAMED", default="")


@pytest.mark.parametrize(("here", "most"), [(True, 2), (False, 4)], ids=["here", "elsewhere"])
async def test_only_of_what_is_elsewhere_many_reads_wait_at_a_time(*, here: bool, most: int) -> None:
    waiting, go = [], threading.Event()

    def read(number: int) -> int:
        waiting.append(number)
        assert go.wait(PATIENCE)
        return number

    readers = ReadExecutor(here=here)
    reads = [asyncio.create_task(readers.read(read, number)) for number in range(4)]
    await until(lambda: len(waiting) >= most)
    await asyncio.sleep(0.05)
    assert len(waiting) == most
    go.set()
    assert await asyncio.gather(*reads) == [0, 1, 2, 3]
    readers.close()


async def test_a_read_knows_what_it_is_for_and_fails_as_itself() -> None:
    readers = ReadExecutor(here=True)
    NAMED.set("request 7")
    assert await readers.read(NAMED.get) == "request 7"
    with pytest.raises(KeyError, match="gone"):
        await readers.read({}.__getitem__, "gone")
    readers.close()


async def test_reports_are_made_one_at_a_time_and_know_what_they_are_for() -> None:
    started, go = [], threading.Event()

    def work(number: int) -> str:
        started.append(number)
        assert go.wait(PATIENCE)
        return f"{NAMED.get()}: {number}"

    NAMED.set("request 8")
    reports = [asyncio.create_task(report(work, number)) for number in range(3)]
    await until(lambda: started)
    await asyncio.sleep(0.05)
    assert started == [0]
    go.set()
    assert await asyncio.gather(*reports) == [f"request 8: {number}" for number in range(3)]
