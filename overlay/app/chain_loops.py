"""Follow each chain in a separate loop: compile, connect with retries, follow until it stops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from itertools import count
from typing import Any

from indexer.errors import SourceError, SourceUnavailableError
from indexer.store.database import OtherChainError
from indexer.sync.follower import BACKOFF, Follower
from indexer.sync.request_loop import TransactionSource
from overlay.app.compilation import BLOCK_LOOPS, compile_in_subprocess
from parsers.bitcoin.tx import Outpoint

log = logging.getLogger(__name__)

Loop = Callable[[], Coroutine[Any, Any, None]]
"""Starts work that runs until it is cancelled."""

OWNER_SECONDS = 5.0
"""How long a source may take to report whether an outpoint is unspent, before a proof is served without that."""


class ChainLoops:
    """The loops of the followed chains. With `ends_process`, where nothing is served, the last chain that stops raises
    its error."""

    def __init__(self, followers: Sequence[Follower], *, ends_process: bool) -> None:
        self._followers, self._ends_process = followers, ends_process
        self._compiling = asyncio.Lock()

    def loops(self) -> list[Loop]:
        """A loop for each chain."""
        return [partial(self._follow, follower) for follower in self._followers]

    async def is_unspent(self, chain: str, outpoint: Outpoint) -> bool | None:
        """Whether an outpoint is unspent, as the source of a chain answers within OWNER_SECONDS; None without an
        answer."""
        monitor = next(
            (follower.outpoint_monitor for follower in self._followers if follower.progress.name == chain), None
        )
        if monitor is None:
            return None
        try:
            async with asyncio.timeout(OWNER_SECONDS):
                return await monitor.still_unspent(outpoint)
        except TimeoutError:
            return None

    async def _follow(self, follower: Follower) -> None:
        """One chain. Raises SourceError when it cannot be used at the start and no other chain can."""
        if not follower.chain.sparse:  # a sparse source has no blocks to walk
            async with self._compiling:
                await compile_in_subprocess(BLOCK_LOOPS)
        try:
            await _open(follower)
        except SourceError as error:
            if self._is_last(follower):
                raise
            follower.give_up(str(error))
            return
        await follower.run()
        if self._ends_process and self._is_last(follower):
            raise SourceError(follower.progress.error)

    def _is_last(self, follower: Follower) -> bool:
        """Whether all other chains have stopped."""
        return all(other.progress.state == "stopped" for other in self._followers if other is not follower)


def transaction_source(follower: Follower) -> TransactionSource:
    """A followed chain as a source of requested transactions: while it is open, and not stopped."""
    progress = follower.progress
    return TransactionSource(
        follower.chain, lambda: bool(progress.caip2) and progress.state not in ("starting", "stopped"), follower.offer
    )


async def _open(follower: Follower) -> None:
    """Open the source of a chain, again and again while it is unreachable. Raises SourceError, also where the database
    holds another chain under this name."""
    progress = follower.progress
    for failures in count(1):
        try:
            await follower.open()
        except OtherChainError as error:
            raise SourceError(str(error)) from None
        except SourceUnavailableError as error:
            pause, reason = BACKOFF.pause(failures), str(error).removeprefix(f"{progress.name}: ")
            log.warning("%s is unreachable: %s; trying again in %d s", progress.name, reason, pause)
            progress.state, progress.error = "unreachable", str(error)
            await asyncio.sleep(pause)
        else:
            return
