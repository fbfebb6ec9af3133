"""Works off publishers' requests: asks every source for the transaction, again and again for an hour.

A plain loop: what is due, and when, stands in the database, where a restart finds it; a scheduler beside it would be a
second truth.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from indexer.chains import Chain, SourceError
from indexer.store.requests import Request, Requests, RequestState
from parsers import tx
from parsers.errors import ParseError

log = logging.getLogger(__name__)

FIRST_DELAY, TRIED_FOR = 1, 3_600
"""Seconds until the second try, doubled for each one after it; the last is this long after the request."""

UNREACHED, UNREACHED_DELAY = 86_400, 10
"""Seconds after which a request is given up though no source could be asked, and between looks meanwhile."""

POLL_SECONDS = 0.5
"""How often requests of other processes are looked for."""

TRIM_SECONDS = 600.0

BATCH, BATCH_SECONDS = 100, 0.5
"""Transactions asked for at once, and the pause after so many: a source is not asked for more than 200 a second."""


class Source(NamedTuple):
    """Where transactions are asked for, whether it can be asked now, and who is told of one that is unconfirmed:
    `offer` takes its txid (internal byte order)."""

    chain: Chain
    usable: Callable[[], bool]
    offer: Callable[[bytes], None]


class RequestLoop:
    """Looks for what was asked for. `news`, when set, ends the pause between two looks."""

    def __init__(
        self,
        requests: Requests,
        sources: Sequence[Source],
        news: asyncio.Event,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._requests, self._sources, self._news, self._clock = requests, sources, news, clock
        self._trimmed = 0.0

    async def run(self) -> None:
        """Work until cancelled. Raises StoreError when the database refuses."""
        await asyncio.to_thread(self._requests.hasten, self._now())
        while True:
            self._news.clear()
            if await self.step() >= BATCH:
                await asyncio.sleep(BATCH_SECONDS)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._news.wait()

    def _now(self) -> int:
        return int(self._clock())

    async def step(self) -> int:
        """Look once for what is due; the number of requests looked at."""
        now = self._now()
        due = await asyncio.to_thread(self._requests.due, now, BATCH)
        if due:
            left = await asyncio.to_thread(self._settle_indexed, due)
            asked, found = await self._fetch(left)
            await asyncio.to_thread(self._note, left, asked, found, now)
        if now - self._trimmed >= TRIM_SECONDS:
            self._trimmed = now
            await asyncio.to_thread(self._requests.trim, now)
        return len(due)

    def _settle_indexed(self, due: Iterable[Request]) -> list[Request]:
        """End the requests for what stands in an indexed block; the others."""
        left = []
        for request in due:
            where = self._requests.mined(request.txid)
            if where is None:
                left.append(request)
                continue
            detail = f"in block {where[1]:,} of {where[0]}"
            self._requests.note(replace(request, state=RequestState.INDEXED, next_at=0, detail=detail))
        return left

    async def _fetch(self, wanted: Sequence[Request]) -> tuple[list[str], dict[bytes, str]]:
        """Which sources could be asked, and which one knew each transaction; that is offered to its mempool."""
        asked: list[str] = []
        found: dict[bytes, str] = {}
        for source in self._sources if wanted else ():
            missing = [request.txid for request in wanted if request.txid not in found]
            if not missing or not source.usable():
                continue
            try:
                raws = await source.chain.transactions(missing)
            except SourceError as error:
                log.warning("%s cannot be asked for transactions now: %s", source.chain.name, error)
                continue
            asked.append(source.chain.name)
            for txid in missing:
                if txid in raws and _is(txid, raws[txid], source.chain):
                    source.offer(txid)
                    found[txid] = source.chain.name
        return asked, found

    def _note(self, looked: Iterable[Request], asked: Sequence[str], found: dict[bytes, str], now: int) -> None:
        for request in looked:
            self._requests.note(_after(request, asked, found.get(request.txid), now))


def _is(txid: bytes, raw: bytes, chain: Chain) -> bool:
    """Whether these bytes are the transaction asked for: sources are strangers too."""
    try:
        told = tx.read_exactly(raw, segwit=chain.rules.segwit).txid
    except ParseError as error:
        log.error("%s answered %s with bytes that are no transaction: %s", chain.name, txid[::-1].hex(), error)
        return False
    if told != txid:
        log.error("%s answered %s with transaction %s", chain.name, txid[::-1].hex(), told[::-1].hex())
    return told == txid


def _after(request: Request, asked: Sequence[str], found: str | None, now: int) -> Request:
    """How far a request has come after a look: which sources were asked, and which one knew the transaction."""
    if not asked:
        return _unreached(request, now)
    over = now >= request.asked_at + TRIED_FOR
    tries = request.tries + 1
    told = replace(request, tries=tries, next_at=0 if over else _next(request, tries, now))
    if found is not None:
        return replace(told, state=RequestState.FOUND, detail=f"known to {found}")
    names = ", ".join(asked)
    if request.state is RequestState.FOUND:
        return replace(told, detail=f"was found, and is no longer known to {names}")
    return replace(told, state=RequestState.GIVEN_UP if over else RequestState.WAITING, detail=f"not known to {names}")


def _unreached(request: Request, now: int) -> Request:
    """A look that does not count as a try."""
    told = replace(request, next_at=now + UNREACHED_DELAY, detail="no source could be asked")
    if now < request.asked_at + UNREACHED:
        return told
    waiting = request.state is RequestState.WAITING
    return replace(told, state=RequestState.GIVEN_UP if waiting else request.state, next_at=0)


def _next(request: Request, tries: int, now: int) -> int:
    """Doubling, and the last time just when the hour is over. Called within it."""
    return min(now + (FIRST_DELAY << min(tries - 1, 12)), request.asked_at + TRIED_FOR)
