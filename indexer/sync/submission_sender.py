"""Sends submitted transactions to the source of their chain, where the operator has configured it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from indexer.chains import Chain
from indexer.errors import RefusedTransactionError
from indexer.store.submissions import MAX_SUBMISSIONS, Submissions

log = logging.getLogger(__name__)

SEND_SECONDS = 1.0
"""Pause between two queries for transactions to send."""

BATCH = 100
REFUSED_SECONDS = 60.0
"""Seconds after which a transaction that the source refused is sent again: its parents may be late."""


class SubmissionSender:
    """Sends the pending transactions of one chain while `is_ready`. A transaction that the source refuses stays
    pending: it is sent again until its time is over."""

    def __init__(self, chain: Chain, submissions: Submissions, is_ready: Callable[[], bool] = lambda: True) -> None:
        self._chain, self._submissions, self._is_ready = chain, submissions, is_ready
        self._refused: dict[bytes, float] = {}

    async def run(self) -> None:
        """Send what waits, if the chain is ready. Raises SourceError, StoreError."""
        if self._is_ready():
            await self.send()

    async def send(self) -> None:
        """Send the transactions that were not sent yet, parents before their children. Raises SourceError,
        StoreError."""
        now = time.monotonic()
        later = {txid for txid, until in self._refused.items() if until > now}
        waiting = await asyncio.to_thread(self._submissions.unsent, self._chain.name, BATCH, later)
        sent: list[bytes] = []
        try:
            while waiting:  # their order is not known: a child is refused until its parent is sent
                refused = [pair for pair in waiting if not await self._is_sent(*pair, sent)]
                if len(refused) == len(waiting):
                    break
                waiting = refused
        finally:
            await asyncio.to_thread(self._submissions.mark_sent, self._chain.name, sent)

    async def _is_sent(self, txid: bytes, raw: bytes, sent: list[bytes]) -> bool:
        """Send a transaction, and add it to those sent; returns whether the source took it."""
        try:
            await self._chain.send(raw)
        except RefusedTransactionError as error:
            if txid not in self._refused:
                log.warning("%s: transaction %s is not taken: %s", self._chain.name, txid[::-1].hex(), error)
            if len(self._refused) > MAX_SUBMISSIONS:
                self._refused.clear()
            self._refused[txid] = time.monotonic() + REFUSED_SECONDS
            return False
        self._refused.pop(txid, None)
        sent.append(txid)
        return True
