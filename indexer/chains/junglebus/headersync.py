"""Keep our own chain of headers in step with a server's: what it tells is checked by work and linkage on arrival."""

from __future__ import annotations

import asyncio

from indexer.chains import SourceUnavailableError
from indexer.chains.junglebus import answers
from indexer.chains.junglebus.answers import AnswerError, ToldHeader
from indexer.chains.junglebus.client import HEADER_BYTES, SMALL_BYTES, Client
from indexer.chains.junglebus.lies import Lies
from indexer.headers import HeaderChain, HeaderError

LIMIT = 10_000
"""Headers in one answer, as many as servers give."""


class HeaderSync:
    """Fetches headers from the height where blocks are read on, or from the checkpoint below it."""

    def __init__(self, client: Client, headers: HeaderChain, lies: Lies, first: int) -> None:
        self._client, self._headers, self._lies, self._first = client, headers, lies, first
        self.limit = LIMIT

    async def refresh(self) -> None:
        """Take what is new up to the server's tip. Raises SourceUnavailableError; LieError for headers refused."""
        tip = await self._one("tip")
        if tip is None:
            raise SourceUnavailableError("the server does not know its own tip")
        ours = self._headers.tip()
        if ours is None:
            await self._begin(tip.height)
            ours = self._headers.tip()
        if ours is not None and self._headers.find(tip.hash) is None:
            await self._extend(ours.height, tip.height)
        await asyncio.to_thread(self._headers.save)

    async def _one(self, what: str) -> ToldHeader | None:
        path = "/block_header/tip" if what == "tip" else f"/block_header/get/{what}"
        said = await self._client.json(path, SMALL_BYTES)
        try:
            return None if said is None else answers.header(said)
        except AnswerError as error:
            raise self._lies.caught("header", f"{path}: {error}") from None

    async def _list(self, first: int, most: int) -> list[ToldHeader]:
        most = min(most, self.limit)
        said = await self._client.json(f"/block_header/list/{first}", HEADER_BYTES, limit=most)
        try:
            told = answers.headers(said, first, most)
        except AnswerError as error:
            raise self._lies.caught("header", str(error)) from None
        if not told:
            raise SourceUnavailableError(f"the server tells no header from {first:,} on, and says that there are some")
        return told

    def _link(self, told: list[ToldHeader], prev: bytes) -> list[bytes] | None:
        try:
            return answers.linked(told, prev)
        except AnswerError as error:
            raise self._lies.caught("header", str(error)) from None

    async def _begin(self, tip: int) -> None:
        """Start at genesis, or with the headers up to a checkpoint, which commits to them."""
        first, last = self._headers.span(self._first, tip)
        prev = bytes(32)
        if first:
            before = await self._one(str(first - 1))
            if before is None or before.height != first - 1:
                raise SourceUnavailableError(f"the server does not tell header {first - 1:,}")
            prev = before.hash
        raws: list[bytes] = []
        while len(raws) <= last - first:
            told = await self._list(first + len(raws), last - first + 1 - len(raws))
            linked = self._link(told, prev)
            if linked is None:
                raise self._lies.caught("header", f"header {told[0].height:,} does not follow {prev[::-1].hex()}")
            raws += linked
            prev = told[-1].hash
        try:
            await asyncio.to_thread(self._headers.begin, first, raws)
        except HeaderError as error:
            raise self._lies.caught("header", str(error)) from None

    async def _extend(self, ours: int, theirs: int) -> None:
        """Find where the server's chain leaves ours, further down step by step, and take its headers from there."""
        lowest = (self._headers.first or 0) + 1
        if theirs < lowest:
            raise SourceUnavailableError(f"the server's chain ends at {theirs:,}, below what is known for certain")
        at, step = max(lowest, min(ours + 1, theirs)), 1
        while True:
            below = self._headers.ref(at - 1)
            told = await self._list(at, theirs - at + 1)
            raws = self._link(told, below.hash) if below is not None else None
            if raws is not None:
                break
            if at == lowest:
                raise self._lies.caught("header", f"header {at:,} does not follow any that is known")
            at, step = max(lowest, at - step), step * 2
        await self._add(raws)
        at, prev = at + len(raws), told[-1].hash
        while at <= theirs:
            told = await self._list(at, theirs - at + 1)
            raws = self._link(told, prev)
            if raws is None:
                return  # another reorganisation meanwhile: the next look finds where it begins
            await self._add(raws)
            at, prev = at + len(raws), told[-1].hash

    async def _add(self, raws: list[bytes]) -> None:
        try:
            await asyncio.to_thread(self._headers.add, raws)
        except HeaderError as error:
            raise self._lies.caught("header", str(error)) from None
