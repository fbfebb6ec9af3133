"""Follow each chain in a separate loop: compile, connect with retries, follow until it stops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from itertools import takewhile
from typing import Any

from indexer.errors import SourceError
from indexer.store.database import OtherChainError
from indexer.sync.follower import Follower
from indexer.sync.request_loop import TransactionSource
from overlay.app.compilation import BLOCK_LOOPS, compile_in_subprocess, prepare
from parsers.bitcoin.tx import Outpoint
from parsers.interpretation import is_interpreting

log = logging.getLogger(__name__)

Loop = Callable[[], Coroutine[Any, Any, None]]
"""Starts work that runs until it is cancelled."""

EARLIER_SECONDS = 10.0
"""How long the first attempts to open the chains that are configured before are waited for."""

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
        """Follow one chain; any error that ends it is noted in its progress. Raises SourceError when it cannot be used
        at the start and no other chain can, and the error that ends it otherwise."""
        try:
            await self._open_and_run(follower)
        except Exception as error:
            follower.fail(error)
            if not isinstance(error, SourceError) or self._is_last(follower):
                raise
        if self._ends_process and self._is_last(follower):
            raise SourceError(follower.progress.error)

    async def _open_and_run(self, follower: Follower) -> None:
        if follower.chain.sparse:  # it has no blocks to walk
            await self._start_and_run(follower)
        elif not is_interpreting():
            await self._compile()
            await self._start_and_run(follower)
        else:
            compiling = asyncio.create_task(self._compile())
            try:
                await self._start_and_run(follower)
            finally:
                compiling.cancel()
                await asyncio.wait({compiling})

    async def _compile(self) -> None:
        """Compile the walk over blocks, once for all chains, and load it where kernels are interpreted meanwhile."""
        async with self._compiling:
            await compile_in_subprocess(BLOCK_LOOPS)
            if is_interpreting():
                await asyncio.to_thread(prepare, BLOCK_LOOPS)

    async def _start_and_run(self, follower: Follower) -> None:
        await self._wait_for_earlier(follower)
        try:
            await follower.start()
        except OtherChainError as error:
            raise SourceError(str(error)) from None
        await follower.run()

    async def _wait_for_earlier(self, follower: Follower) -> None:
        """Let the chains that are configured before a new one open first, so that the first one holds a network of
        several names; for EARLIER_SECONDS at most."""
        if await asyncio.to_thread(lambda: follower.is_stored):
            return
        earlier = takewhile(lambda other: other is not follower, self._followers)
        kin = [other.attempted.wait() for other in earlier if other.chain.sparse == follower.chain.sparse]
        with suppress(TimeoutError):
            async with asyncio.timeout(EARLIER_SECONDS):
                await asyncio.gather(*kin)

    def _is_last(self, follower: Follower) -> bool:
        """Whether all other chains have stopped."""
        return all(other.progress.state == "stopped" for other in self._followers if other is not follower)


def transaction_source(follower: Follower) -> TransactionSource:
    """A followed chain as a source of requested transactions: while it is open, and not stopped."""
    progress = follower.progress
    return TransactionSource(
        follower.chain, lambda: bool(progress.caip2) and progress.state not in ("starting", "stopped"), follower.offer
    )
