"""The pages of a stream: matches in order, and the height up to which they are complete."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import NamedTuple

from indexer.chains.junglebus import responses
from indexer.chains.junglebus.client import JungleBusClient
from indexer.chains.junglebus.responses import Control, DeliveredTransaction
from indexer.chains.junglebus.violations import Violations
from indexer.errors import SourceRefusalError, SourceUnavailableError

MATCHES_PER_BLOCK = 1_000_000
"""The limit of matches of one block: a server cannot continue without end."""


class Page(NamedTuple):
    """Matches in order of height and index; all matches up to height `complete` have been delivered with it."""

    matches: list[DeliveredTransaction]
    complete: int


class JungleBusStream:
    """One stream of JungleBus, read page by page."""

    def __init__(self, client: JungleBusClient, name: str, subscription_id: str, violations: Violations) -> None:
        self._client, self._name, self._id, self._violations = client, name, subscription_id, violations
        self.matches_per_block = MATCHES_PER_BLOCK

    async def pages(self, first: int, last: int) -> AsyncGenerator[Page, None]:
        """Pages of the matches in blocks `first` to `last`; the last page is complete up to `last`.

        Raises SourceUnavailableError, ViolationError for a page out of order or that does not lead on, and SourceError
        where the server ends the stream.
        """
        height, index, count = first, 0, 0
        resumes = False
        while height <= last:
            matches, controls = await self._fetch(height, index)
            fresh = self._in_order(matches, height, index, resumes=resumes)
            done, more = self._evaluate(controls, height)
            if fresh:
                end = fresh[-1]
                count = (count if end.height == height else 0) + len(fresh)
                if count > self.matches_per_block:
                    message = f"more than {self.matches_per_block:,} matches around {end.height:,}"
                    raise self._violations.record("order", message)
                height, index, resumes = end.height, end.tx_index, True
            elif more:
                raise self._violations.record("order", f"a page after {height:,} is empty, and more are to follow")
            if done is not None:
                height, index, resumes = done + 1, 0, False
            is_end = not fresh and done is None
            complete = last if is_end else min(height - 1, last)
            yield Page([match for match in fresh if match.height <= last], complete)
            if is_end:
                return

    async def _fetch(self, height: int, index: int) -> tuple[list[DeliveredTransaction], list[Control]]:
        path = f"/transaction/from_block/{self._id}"
        answer = await self._client.json(path, height=height, last_idx=index)
        with self._violations.refusing("answer", f"{path}: "):
            return await asyncio.to_thread(responses.page, answer)

    def _in_order(
        self, matches: list[DeliveredTransaction], height: int, index: int, *, resumes: bool
    ) -> list[DeliveredTransaction]:
        """The matches of a page without the one it resumes from, which some servers repeat. Raises ViolationError."""
        position = (height, index)
        if resumes and matches and (matches[0].height, matches[0].tx_index) == position:
            matches = matches[1:]
        for number, match in enumerate(matches):
            current = (match.height, match.tx_index)
            if current < position or (current == position and (resumes or number)):
                raise self._violations.record("order", f"{current} comes after {position} (height, index in the block)")
            position = current
        return matches

    def _evaluate(self, controls: list[Control], height: int) -> tuple[int | None, bool]:
        """The height up to which everything is delivered, None where no message states it, and whether more pages
        follow. Raises SourceError."""
        done: int | None = None
        more = False
        for control in controls:
            if control.code == responses.BLOCK_DONE:
                done = control.block if done is None else max(done, control.block)
            elif control.code == responses.PAGE_DONE:
                more = True
            elif control.code == responses.REORG:
                raise SourceUnavailableError(f"{self._name}: the server is reorganising its chain")
            elif control.code == responses.ERROR:
                raise SourceUnavailableError(f"{self._name}: the server reports: {control.message}")
            elif control.code == responses.FATAL:
                raise SourceRefusalError(
                    f"{self._name}: the server ends the subscription {self._id}: {control.message!a}; "
                    "check it in the server's dashboard"
                )
        return done if done is not None and done >= height else None, more
