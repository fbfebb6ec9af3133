"""A client's share of costly calls is one for all processes of a group."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from overlay.api.counters import Counters, SharedLoad
from overlay.api.executors import BoundedExecutor
from overlay.api.problems import ProblemError


def executor(load: SharedLoad, kind: str = "check") -> BoundedExecutor:
    return BoundedExecutor(kind, load, workers=2, waiting=3, per_client=2)


async def status(tried: BoundedExecutor, client: str) -> int:
    """The status that a call of this client gets: 200 where it is run."""
    try:
        await tried.run(client, 30.0, lambda: None)
    except ProblemError as error:
        return error.status
    return 200


@contextmanager
def forked(load: SharedLoad, number: int, key: str, calls: int) -> Iterator[None]:
    """Another process of the group, with calls of a key under way."""
    ready, end = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        load.take(number)
        load.add(key, calls)
        os.write(ready[1], b"x")
        os.read(end[0], 1)
        load.add(key, -calls)
        os._exit(0)
    os.read(ready[0], 1)
    yield
    os.write(end[1], b"x")
    assert os.waitpid(child, 0)[1] == 0
    for descriptor in (*ready, *end):
        os.close(descriptor)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # Python 3.12 warns where other tests left threads
async def test_calls_in_another_process_count() -> None:
    counters = Counters(processes=3)
    counters.take(2)
    tried = executor(counters.load)
    with forked(counters.load, 0, "check a", 1), forked(counters.load, 1, "check a", 1):
        assert [await status(tried, client) for client in ("a", "b")] == [429, 200]
        assert await status(executor(counters.load, "other"), "a") == 200
    assert await status(tried, "a") == 200
    assert counters.load.count("check a") == 0


async def test_calls_that_fail_or_are_given_up_leave_no_count() -> None:
    load, may = SharedLoad(), threading.Event()
    tried = executor(load)

    def fail() -> None:
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        await tried.run("a", 30.0, fail)
    with pytest.raises(ProblemError, match="could not be answered within"):
        await tried.run("a", 0.05, may.wait)
    assert load.count("check a") == 0
    may.set()


async def test_a_customer_of_ipv6_has_the_calls_of_sixteen_clients_however_many_addresses_it_uses() -> None:
    load, may = SharedLoad(), threading.Event()
    tried = BoundedExecutor("check", load, workers=1, waiting=99, per_client=1)
    clients = [f"2001:db8:1:{number:x}::/64" for number in range(17)]
    calls = [asyncio.create_task(tried.run(client, 30.0, may.wait)) for client in clients[:16]]
    await asyncio.sleep(0)
    assert await status(tried, clients[16]) == 429
    other = asyncio.create_task(tried.run("2001:db8:2::/64", 30.0, may.wait))
    may.set()
    await asyncio.gather(*calls, other)
    assert await status(tried, clients[16]) == 200


async def test_what_waits_in_all_is_bounded_for_each_process() -> None:
    load, may = SharedLoad(), threading.Event()
    tried, other = executor(load), executor(load)
    held = [asyncio.create_task(tried.run(client, 30.0, may.wait)) for client in "abc"]
    await asyncio.sleep(0.05)
    assert [await status(tried, "d"), await status(other, "d")] == [503, 200]
    may.set()
    await asyncio.gather(*held)
