"""Pulls from one peer periodically: each new output is submitted here with its proof, as a client would."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable

from indexer.admission.admission import Admissions
from indexer.chains.http_client import gather
from indexer.errors import NotAdmittedError, SourceError
from indexer.store.database import DATABASE_ERRORS
from indexer.store.submissions import FullError
from overlay.systems.bsv_overlay.gasp.peer import GaspPeer, RefusedNodeError
from parsers.bitcoin.tx import Outpoint
from parsers.errors import ParseError

log = logging.getLogger(__name__)

PULL_SECONDS = 30.0
"""Pause between two rounds."""

PAGE, MAX_PAGE = 1_000, 16_000
"""Outputs of a page; and where a peer has more outputs of one score than that, at most."""

TRIES = 20
"""Rounds in which an output is retried that the peer does not deliver, or that is proved by a block unknown here."""

RELIST_SECONDS, EMPTY_SECONDS = 86_400.0, 3_600.0
"""The seconds after which the outputs are listed from the start again: the peer may have been restored from a copy,
with lower scores. It is likely where nothing is listed from the score of the last output on."""

FAR = 1_000
"""A score of more than so many times the others is not where the next round begins: it would hide all that follows."""

MAX_LISTED, REST_SECONDS = 200_000, 3_600.0
"""Outputs read from a peer in one round. Then the peer is paused for REST_SECONDS, and the next round continues: the
list of an unknown peer may be endless, and a peer with more outputs is read in several rounds."""

MAX_FAILURES = 10_000
"""Outputs that are not taken in one round. Then the peer is paused for REST_SECONDS, too."""

GRAPHS_AT_ONCE = 4
"""Graphs in memory, at most."""

MAX_SETTLED = 200_000
"""Transactions that need not be fetched again, in memory."""


class GaspPuller:
    """Pulls from one peer while `is_ready`, that is, while our chain is at its tip. The progress is not stored: after a
    start all outputs are listed again, but stored transactions are not fetched again."""

    def __init__(
        self,
        peer: GaspPeer,
        admissions: Admissions,
        is_ready: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._peer, self._admissions, self._is_ready, self._clock = peer, admissions, is_ready, clock
        self._score, self._relist_at, self._rest_until = 0, float("-inf"), float("-inf")
        self._listed_at, self._failures, self._first_failure = float("-inf"), 0, ""
        self._tries: dict[Outpoint, int] = {}
        self._settled: set[bytes] = set()
        self._slots = asyncio.Semaphore(GRAPHS_AT_ONCE)

    async def run(self) -> None:
        """A round, if the chain is ready. Raises SourceError, StoreError."""
        if self._is_ready():
            await self.pull()

    async def pull(self) -> None:
        """One round: what failed before, and then all new outputs, at most about MAX_LISTED; none while the peer is
        paused. Raises SourceError, StoreError."""
        now = self._clock()
        if now < self._rest_until:
            return
        if now >= self._relist_at:
            self._score, self._relist_at, self._listed_at = 0, now + RELIST_SECONDS, now
            self._settled.clear()
        self._failures, self._first_failure = 0, ""
        try:
            await self._take(list(self._tries))
            await self._take_new()
        finally:
            if self._failures:
                log.warning(
                    "%s: %d outputs are not taken, the first %s",
                    self._peer.label, self._failures, self._first_failure,
                )  # fmt: skip

    async def _take_new(self) -> None:
        limit, is_full, count = PAGE, True, 0
        while is_full:
            if count >= MAX_LISTED or self._failures >= MAX_FAILURES:
                self._rest_until = self._clock() + REST_SECONDS
                log.warning(
                    "%s listed %d outputs in one round, of which or of earlier ones %d failed: it is paused for %d s",
                    self._peer.label, count, self._failures, REST_SECONDS,
                )  # fmt: skip
                return
            page = await self._peer.outputs(self._score, limit)
            if not page and self._score:
                self._relist_at = min(self._relist_at, self._listed_at + EMPTY_SECONDS)
            count += len(page)
            await self._take(output.outpoint for output in page)
            is_full, highest = len(page) >= limit, self._highest(output.score for output in page)
            if is_full and highest <= self._score:  # the peer repeats the outputs of this score
                limit *= 2
                if limit > MAX_PAGE:
                    log.warning(
                        "%s has more than %d outputs of one score; some are passed over", self._peer.label, PAGE
                    )
                    highest, limit = self._score + 1, PAGE
            self._score = max(self._score, highest)

    def _highest(self, scores: Iterable[int]) -> int:
        """The highest of these scores that is not far above the others, and above the one reached so far."""
        ordered = sorted(scores)
        usual = max(self._score, ordered[(len(ordered) - 1) // 2] if len(ordered) > 1 else 0)
        return max((score for score in ordered if score <= FAR * usual), default=self._score)

    async def _take(self, outpoints: Iterable[Outpoint]) -> None:
        """Submit the transactions of these outputs that are not here yet."""
        by_txid = {outpoint.txid: outpoint for outpoint in outpoints}
        new_txids = by_txid.keys() - self._settled
        unknown = await asyncio.to_thread(self._admissions.unknown, new_txids)
        for txid in new_txids - unknown:
            self._settle(by_txid[txid])
        await gather(self._take_one(by_txid[txid]) for txid in unknown)

    async def _take_one(self, outpoint: Outpoint) -> None:
        try:
            async with self._slots:
                package = await self._peer.package(outpoint)
                await asyncio.to_thread(self._admissions.submit, package)
        except (RefusedNodeError, FullError) as error:
            self._try_later(outpoint, error)
        except NotAdmittedError as error:
            if error.code == "not-proved":
                self._try_later(outpoint, error)
            else:
                self._give_up(outpoint, error)
        except ParseError as error:
            self._give_up(outpoint, error)
        except (SourceError, *DATABASE_ERRORS):
            raise
        except Exception as error:  # whatever a stranger's graph provokes, the other outputs are pulled
            log.exception("%s: output %s", self._peer.label, outpoint)
            self._give_up(outpoint, error)
        else:
            self._settle(outpoint)

    def _try_later(self, outpoint: Outpoint, error: Exception) -> None:
        self._note_failure(outpoint, error)
        self._tries[outpoint] = self._tries.get(outpoint, 0) + 1
        if self._tries[outpoint] >= TRIES or len(self._tries) > MAX_PAGE:
            self._settle(outpoint)

    def _give_up(self, outpoint: Outpoint, error: Exception) -> None:
        self._note_failure(outpoint, error)
        self._settle(outpoint)

    def _note_failure(self, outpoint: Outpoint, error: Exception) -> None:
        self._failures += 1
        self._first_failure = self._first_failure or f"{outpoint}: {str(error)[:200]}"

    def _settle(self, outpoint: Outpoint) -> None:
        self._tries.pop(outpoint, None)
        if len(self._settled) < MAX_SETTLED:
            self._settled.add(outpoint.txid)
