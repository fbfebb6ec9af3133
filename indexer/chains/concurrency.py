"""Concurrent requests to one source."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

from indexer.chains.source import AncestorVisitor

_T = TypeVar("_T")


async def gather(work: Iterable[Coroutine[Any, Any, _T]]) -> list[_T]:
    """The results of all coroutines, run concurrently, in order; the first failure cancels the others and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in work]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]


async def fetch_ancestors(
    transactions: Callable[[set[bytes]], Awaitable[dict[bytes, bytes]]], visit: AncestorVisitor
) -> None:
    """Fetch by txid what `visit` requests, round by round, until it requests no txid that was not fetched before."""
    requested: set[bytes] = set()
    missing = await asyncio.to_thread(visit, {})
    while missing := missing - requested:
        requested |= missing
        missing = await asyncio.to_thread(visit, await transactions(missing))
