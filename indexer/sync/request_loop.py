"""Processes publishers' requests: searches for the transaction at every source, repeatedly for an hour.

The times when requests are due are in the database, so a restart continues.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from indexer.chains import Chain
from indexer.failures import is_of_machine
from indexer.retries import Backoff
from indexer.store.requests import Requests, RequestState, TransactionRequest
from parsers.bitcoin import tx
from parsers.errors import ParseError

log = logging.getLogger(__name__)

BACKOFF, TRIED_FOR = Backoff(1, 3_600), 3_600
"""Pauses between tries, and seconds from the request to the last try."""

UNREACHED, UNREACHED_DELAY = 86_400, 10
"""Seconds after which a request is given up when no source was reachable, and between tries meanwhile."""

POLL_SECONDS = 0.5
"""Seconds between two queries for requests of other processes."""

TRIM_SECONDS = 600.0

BATCH, BATCH_SECONDS = 100, 0.5
"""Transactions of one lookup, and the pause after a full one: at most 200 a second from one source."""


class TransactionSource(NamedTuple):
    """A source of transactions: whether it is usable now, and `offer`, which takes the txid (internal byte order) of a
    transaction that it has."""

    chain: Chain
    usable: Callable[[], bool]
    offer: Callable[[bytes], None]


class RequestLoop:
    """Processes due requests."""

    def __init__(
        self,
        requests: Requests,
        sources: Sequence[TransactionSource],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._requests, self._sources, self._clock = requests, sources, clock
        self._not_before: float | None = None

    async def run(self) -> float | None:
        """Process due requests, or return the seconds of the pause after a full batch. Raises StoreError when the
        database fails."""
        if self._not_before is None:
            await asyncio.to_thread(self._requests.hasten, self._now())
        elif (pause := self._not_before - time.monotonic()) > 0:
            return pause
        is_full = await self.step() >= BATCH
        self._not_before = time.monotonic() + (BATCH_SECONDS if is_full else 0.0)
        return None

    async def trim(self) -> None:
        """Delete old requests."""
        await asyncio.to_thread(self._requests.trim, self._now())

    def _now(self) -> int:
        return int(self._clock())

    async def step(self) -> int:
        """Process the requests that are due; their number."""
        now = self._now()
        due = await asyncio.to_thread(self._requests.due, now, BATCH)
        if due:
            left = await asyncio.to_thread(self._settle_indexed, due)
            reached, finders = await self._fetch(left)
            await asyncio.to_thread(self._update, left, reached, finders, now)
        return len(due)

    def _settle_indexed(self, due: Iterable[TransactionRequest]) -> list[TransactionRequest]:
        """End the requests for transactions in an indexed block; returns the others."""
        left = []
        for request in due:
            where = self._requests.mined(request.txid)
            if where is None:
                left.append(request)
                continue
            detail = f"in block {where[1]:,} of {where[0]}"
            self._requests.update(replace(request, state=RequestState.INDEXED, next_at=0, detail=detail))
        return left

    async def _fetch(self, requests: Sequence[TransactionRequest]) -> tuple[list[str], dict[bytes, str]]:
        """The sources that were reachable, and the one that has each transaction, which is offered to its mempool."""
        reached: list[str] = []
        finders: dict[bytes, str] = {}
        for source in self._sources if requests else ():
            missing = [request.txid for request in requests if request.txid not in finders]
            if not missing or not source.usable():
                continue
            try:
                raws = await source.chain.transactions(missing)
            except Exception as error:  # whatever one source provokes, the others are asked
                if is_of_machine(error):
                    raise
                log.warning("%s is not reachable for transactions now: %s", source.chain.name, error)
                continue
            reached.append(source.chain.name)
            for txid in missing:
                if txid in raws and _is(txid, raws[txid], source.chain):
                    source.offer(txid)
                    finders[txid] = source.chain.name
        return reached, finders

    def _update(
        self, looked: Iterable[TransactionRequest], reached: Sequence[str], finders: dict[bytes, str], now: int
    ) -> None:
        for request in looked:
            self._requests.update(_after(request, reached, finders.get(request.txid), now))


def _is(txid: bytes, raw: bytes, chain: Chain) -> bool:
    """Whether these bytes are the requested transaction: sources are not trusted."""
    try:
        actual = tx.read_exactly(raw, segwit=chain.rules.segwit).txid
    except ParseError as error:
        log.error("%s answered %s with bytes that are not a transaction: %s", chain.name, txid[::-1].hex(), error)
        return False
    if actual != txid:
        log.error("%s answered %s with transaction %s", chain.name, txid[::-1].hex(), actual[::-1].hex())
    return actual == txid


def _after(request: TransactionRequest, reached: Sequence[str], finder: str | None, now: int) -> TransactionRequest:
    """A request after a lookup at the sources `reached`, where `finder` has the transaction."""
    if not reached:  # which does not count as a try
        waiting_on = replace(request, next_at=now + UNREACHED_DELAY, detail="no source could be reached")
        if now < request.requested_at + UNREACHED:
            return waiting_on
        waiting = request.state is RequestState.WAITING
        return replace(waiting_on, state=RequestState.GIVEN_UP if waiting else request.state, next_at=0)
    over = now >= request.requested_at + TRIED_FOR
    tries = request.tries + 1
    next_at = min(now + int(BACKOFF.pause(tries)), request.requested_at + TRIED_FOR)  # the last one at the hour's end
    tried = replace(request, tries=tries, next_at=0 if over else next_at)
    if finder is not None:
        return replace(tried, state=RequestState.LOCATED, detail=f"known to {finder}")
    names = ", ".join(reached)
    if request.state is RequestState.LOCATED:
        return replace(tried, detail=f"was found, and is no longer known to {names}")
    return replace(tried, state=RequestState.GIVEN_UP if over else RequestState.WAITING, detail=f"not known to {names}")
