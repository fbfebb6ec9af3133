"""Ask the sources, now, for a transaction of which nothing is stored: what diagnosis tells of it then."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import CancelledError
from typing import NamedTuple

from indexer.chains import SourceError
from indexer.requests import Source
from parsers import tx
from parsers.errors import ParseError

log = logging.getLogger(__name__)

SECONDS = 3.0
"""A diagnosis waits no longer for the sources."""


class Known(NamedTuple):
    """A transaction that the sources of the chain of this name know: its bytes, and whether it is unconfirmed."""

    chain: str
    raw: bytes
    unconfirmed: bool


async def ask_for(sources: Sequence[Source], txid: bytes) -> Known | None:
    """What the first of these sources knows of a transaction, None where none of them does, or none in time."""
    tasks = [asyncio.create_task(_known(source, txid)) for source in sources if source.usable()]
    if not tasks:
        return None
    try:
        await asyncio.wait(tasks, timeout=SECONDS)
    finally:
        for task in tasks:
            task.cancel()
    answers = [task.result() for task in tasks if task.done() and not task.cancelled()]
    return next((answer for answer in answers if answer is not None), None)


async def _known(source: Source, txid: bytes) -> Known | None:
    """What one source knows; nothing where it does not answer, or with something else."""
    chain = source.chain
    try:
        raw = (await chain.transactions([txid])).get(txid)
        if raw is None or tx.read_exactly(raw, segwit=chain.rules.segwit).txid != txid:
            return None
        unconfirmed = await chain.mempool()
    except (SourceError, ParseError) as error:
        log.info("%s cannot tell of %s: %s", chain.name, txid[::-1].hex(), error)
        return None
    return Known(chain.name, raw, unconfirmed is not None and txid in unconfirmed)


class Asking:
    """Asks from another thread the sources that live in this event loop."""

    def __init__(self, sources: Sequence[Source], loop: asyncio.AbstractEventLoop) -> None:
        self._sources, self._loop = sources, loop

    def __call__(self, txid: bytes) -> Known | None:
        """What the sources know of a transaction. Not to be called in the loop's own thread."""
        future = asyncio.run_coroutine_threadsafe(ask_for(self._sources, txid), self._loop)
        try:
            return future.result(SECONDS + 1)
        except (TimeoutError, CancelledError):
            future.cancel()  # the loop is busy with something else, or at its end
            return None
