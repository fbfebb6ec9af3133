"""The pages of a subscription: what matches, in order, and up to which height it is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import NamedTuple

from indexer.chains import SourceError, SourceUnavailableError
from indexer.chains.junglebus import answers
from indexer.chains.junglebus.answers import AnswerError, Control, Match
from indexer.chains.junglebus.client import Client
from indexer.chains.junglebus.lies import Lies

MOST_IN_BLOCK = 1_000_000
"""Matches of one block that are believed: a server cannot go on for ever."""


class ReorgError(SourceUnavailableError):
    """The server says that its best chain is changing."""


class Page(NamedTuple):
    """Matches in order of height and place in the block; all up to height `complete` are told with it."""

    matches: list[Match]
    complete: int


class Pages:
    """Asks for one subscription, page by page."""

    def __init__(self, client: Client, name: str, subscription: str, lies: Lies) -> None:
        self._client, self._name, self._subscription, self._lies = client, name, subscription, lies
        self.most_in_block = MOST_IN_BLOCK

    async def between(self, first: int, last: int) -> AsyncGenerator[Page, None]:
        """Pages of what matches in the blocks from `first` to `last`; the last of them is complete up to `last`.

        Raises SourceUnavailableError, LieError for a page that is out of order or does not lead on, and SourceError
        where the server gives the subscription up.
        """
        height, index, counted = first, 0, 0
        begun = False
        while height <= last:
            matches, controls = await self._ask(height, index)
            fresh = self._in_order(matches, height, index, begun=begun)
            done, more = self._control(controls, height)
            if fresh:
                end = fresh[-1]
                counted = (counted if end.height == height else 0) + len(fresh)
                if counted > self.most_in_block:
                    raise self._lies.caught("order", f"more than {self.most_in_block:,} matches around {end.height:,}")
                height, index, begun = end.height, end.tx_index, True
            elif more:
                raise self._lies.caught("order", f"a page after {height:,} is done and empty, and more are to follow")
            if done is not None:
                height, index, begun = done + 1, 0, False
            ended = not fresh and done is None
            complete = last if ended else min(height - 1, last)
            yield Page([match for match in fresh if match.height <= last], complete)
            if ended:
                return

    async def _ask(self, height: int, index: int) -> tuple[list[Match], list[Control]]:
        path = f"/transaction/from_block/{self._subscription}"
        said = await self._client.json(path, height=height, last_idx=index)
        try:
            return await asyncio.to_thread(answers.page, said)
        except AnswerError as error:
            raise self._lies.caught("answer", f"{path}: {error}") from None

    def _in_order(self, matches: list[Match], height: int, index: int, *, begun: bool) -> list[Match]:
        """A page without the match it was asked to go on from, which some servers repeat. Raises LieError."""
        position = (height, index)
        if begun and matches and (matches[0].height, matches[0].tx_index) == position:
            matches = matches[1:]
        for number, match in enumerate(matches):
            at = (match.height, match.tx_index)
            if at < position or (at == position and (begun or number)):
                raise self._lies.caught("order", f"{at} is told after {position} (height, place in the block)")
            position = at
        return matches

    def _control(self, controls: list[Control], height: int) -> tuple[int | None, bool]:
        """The height up to which all is told, None where that is not said, and whether more pages are to follow."""
        done: int | None = None
        more = False
        for control in controls:
            if control.code == answers.BLOCK_DONE:
                done = control.block if done is None else max(done, control.block)
            elif control.code == answers.PAGE_DONE:
                more = True
            elif control.code == answers.REORG:
                raise ReorgError(f"{self._name}: the server is reorganising its chain")
            elif control.code == answers.ERROR:
                raise SourceUnavailableError(f"{self._name}: the server says: {control.message}")
            elif control.code == answers.FATAL:
                raise SourceError(
                    f"{self._name}: the server gives up the subscription {self._subscription}: {control.message!a}; "
                    "look at it in the server's dashboard"
                )
        return done if done is not None and done >= height else None, more
