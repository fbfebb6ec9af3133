"""Keeps our header chain in step with a server's; every header is checked by proof of work and linkage."""

from __future__ import annotations

import asyncio

from indexer.chains.http_client import SMALL_BYTES
from indexer.chains.junglebus import responses
from indexer.chains.junglebus.client import HEADERS_BYTES, TIP, JungleBusClient
from indexer.chains.junglebus.responses import JsonHeader
from indexer.chains.junglebus.violations import Violations
from indexer.errors import SourceUnavailableError
from indexer.headers.header_chain import HeaderChain

LIMIT = 10_000
"""Headers in one response, as many as servers allow."""


class JungleBusHeaderSync:
    """Fetches headers from height `first` on, or from the checkpoint below it."""

    def __init__(self, client: JungleBusClient, headers: HeaderChain, violations: Violations, first: int) -> None:
        self._client, self._headers, self._violations, self._first = client, headers, violations, first
        self.limit = LIMIT

    async def refresh(self) -> None:
        """Fetch headers up to the server's tip. Raises SourceUnavailableError; ViolationError for refused headers."""
        tip = await self._fetch_one("tip")
        if tip is None:
            raise SourceUnavailableError("the server does not return its tip")
        our_tip = self._headers.tip()
        if our_tip is None:
            await self._begin(tip.height)
            our_tip = self._headers.tip()
        if our_tip is not None and self._headers.find(tip.hash) is None:
            await self._extend(our_tip.height, tip.height)
        await asyncio.to_thread(self._headers.save)

    async def _fetch_one(self, which: str) -> JsonHeader | None:
        path = TIP if which == "tip" else f"/block_header/get/{which}"
        answer = await self._client.json(path, SMALL_BYTES)
        with self._violations.refusing("header", f"{path}: "):
            return None if answer is None else responses.header(answer)

    async def _fetch_list(self, first: int, count: int) -> list[JsonHeader]:
        count = min(count, self.limit)
        answer = await self._client.json(f"/block_header/list/{first}", HEADERS_BYTES, limit=count)
        with self._violations.refusing("header"):
            headers = responses.headers(answer, first, count)
        if not headers:
            raise SourceUnavailableError(f"the server sends no header from {first:,} on, though its tip is above that")
        return headers

    def _link(self, headers: list[JsonHeader], prev: bytes) -> list[bytes] | None:
        with self._violations.refusing("header"):
            return responses.linked(headers, prev)

    async def _begin(self, tip: int) -> None:
        """Start at genesis, or with the headers up to a checkpoint, which commits to them."""
        first, last = self._headers.span(self._first, tip)
        prev = bytes(32)
        if first:
            before = await self._fetch_one(str(first - 1))
            if before is None or before.height != first - 1:
                raise SourceUnavailableError(f"the server does not send header {first - 1:,}")
            prev = before.hash
        raws: list[bytes] = []
        while len(raws) <= last - first:
            headers = await self._fetch_list(first + len(raws), last - first + 1 - len(raws))
            linked = self._link(headers, prev)
            if linked is None:
                message = f"header {headers[0].height:,} does not follow {prev[::-1].hex()}"
                raise self._violations.record("header", message)
            raws += linked
            prev = headers[-1].hash
        with self._violations.refusing("header"):
            await asyncio.to_thread(self._headers.begin, first, raws)

    async def _extend(self, our_tip: int, their_tip: int) -> None:
        """Find the fork of the server's chain from ours by exponential search downwards, and add its headers."""
        lowest = (self._headers.first or 0) + 1
        if their_tip < lowest:
            raise SourceUnavailableError(f"the server's chain ends at {their_tip:,}, below our lowest header")
        height, step = max(lowest, min(our_tip + 1, their_tip)), 1
        while True:
            below = self._headers.ref(height - 1)
            headers = await self._fetch_list(height, their_tip - height + 1)
            raws = self._link(headers, below.hash) if below is not None else None
            if raws is not None:
                break
            if height == lowest:
                raise self._violations.record("header", f"header {height:,} does not follow any known one")
            height, step = max(lowest, height - step), step * 2
        await self._add(raws)
        height, prev = height + len(raws), headers[-1].hash
        while height <= their_tip:
            headers = await self._fetch_list(height, their_tip - height + 1)
            raws = self._link(headers, prev)
            if raws is None:
                return  # another reorganisation meanwhile: the next refresh finds the fork
            await self._add(raws)
            height, prev = height + len(raws), headers[-1].hash

    async def _add(self, raws: list[bytes]) -> None:
        with self._violations.refusing("header"):
            await asyncio.to_thread(self._headers.add, raws)
