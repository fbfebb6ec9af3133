"""Looks up a transaction of which nothing is stored at the sources, for its diagnosis."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import CancelledError
from typing import NamedTuple

from indexer.errors import SourceError
from indexer.sync.request_loop import TransactionSource
from parsers.bitcoin import tx
from parsers.errors import ParseError

log = logging.getLogger(__name__)

SECONDS = 3.0
"""A diagnosis waits at most this long for the sources."""

MOST_PARTS = 2_000
"""Inputs, and outputs, of a transaction that a diagnosis reads, at most: strangers send any number."""


class SourceTransaction(NamedTuple):
    """A transaction that a source has: its chain's name, its raw bytes, and whether it is unconfirmed."""

    chain: str
    raw: bytes
    unconfirmed: bool


async def find_transaction(sources: Sequence[TransactionSource], txid: bytes) -> SourceTransaction | None:
    """The transaction (txid in internal byte order) from the first of these sources that has it, None where none has it
    in time."""
    tasks = [asyncio.create_task(_lookup(source, txid)) for source in sources if source.usable()]
    if not tasks:
        return None
    try:
        await asyncio.wait(tasks, timeout=SECONDS)
    finally:
        for task in tasks:
            task.cancel()
    answers = [task.result() for task in tasks if task.done() and not task.cancelled()]
    return next((answer for answer in answers if answer is not None), None)


async def _lookup(source: TransactionSource, txid: bytes) -> SourceTransaction | None:
    """The transaction from one source; None where it fails, answers with something else, or with more than
    MOST_PARTS."""
    chain = source.chain
    try:
        raw = (await chain.transactions([txid])).get(txid)
        if raw is None or tx.read_exactly(raw, segwit=chain.rules.segwit, max_items=MOST_PARTS).txid != txid:
            return None
        unconfirmed = await chain.mempool()
    except (SourceError, ParseError) as error:
        log.info("%s failed to look up %s: %s", chain.name, txid[::-1].hex(), error)
        return None
    return SourceTransaction(chain.name, raw, unconfirmed is not None and txid in unconfirmed)


class SourceLookup:
    """Looks up transactions from other threads at sources that live in an event loop."""

    def __init__(self, sources: Sequence[TransactionSource], loop: asyncio.AbstractEventLoop) -> None:
        self._sources, self._loop = sources, loop

    def __call__(self, txid: bytes) -> SourceTransaction | None:
        """The transaction from the sources, None without one. Must not be called in the loop's own thread."""
        future = asyncio.run_coroutine_threadsafe(find_transaction(self._sources, txid), self._loop)
        try:
            return future.result(SECONDS + 1)
        except (TimeoutError, CancelledError):
            future.cancel()  # the loop is busy, or closed
            return None
