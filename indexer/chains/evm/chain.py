"""The logs of one contract as a chain: the blocks with logs, and the last block of each range searched."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Protocol

from indexer.chains import BlockEvents, Chain, DeferredEvents, NewestEvents
from indexer.chains.evm.chain_ids import AllowedNetworks
from indexer.chains.evm.endpoint import EvmEndpoint, RangeWidth
from indexer.chains.evm.responses import BloomFilter, EvmHeader, Log
from indexer.chains.http_client import SlowError, TooLargeError, gather
from indexer.chains.jsonrpc import RpcError
from indexer.errors import SourceUnavailableError
from indexer.headers.networks import DEFAULT_FINALITY, CoinRules
from indexer.model import BlockRef

log = logging.getLogger(__name__)

POLL_SECONDS, DEVELOPMENT_SECONDS = 4.0, 0.25
"""Seconds between two requests of the tip: endpoints charge per request, development networks do not."""

FINAL_SECONDS = 60.0
"""Seconds between two requests of the newest final block."""

NEAR = 32
"""All headers of so many blocks below the tip are fetched. Many endpoints are served by several nodes, and one without
the newest blocks answers that they have no logs; all of them have deeper blocks."""

HEADER_CACHE = 4_096
"""Headers of final blocks that are cached."""

EvmBlock = tuple[EvmHeader, list[Log]]


class LogReader(Protocol):
    """Turns a contract's logs into events; their first topic is one of `topics`."""

    @property
    def topics(self) -> Sequence[bytes]: ...

    def first(self, caip2: str, contract: bytes) -> int:
        """The block of a contract's first log, 0 where that is unknown; `caip2` is the network's id."""
        ...

    def read(self, caip2: str, ref: BlockRef, logs: Sequence[Log]) -> BlockEvents | DeferredEvents:
        """The events of one block's logs, which may be empty, or those that `resolve` turns into events; `caip2` is the
        network's id."""
        ...

    def resolve(self, caip2: str, deferred: DeferredEvents, newest: NewestEvents) -> BlockEvents:
        """The events of deferred logs, given the newest event of each of their ids before the block."""
        ...


class EvmChain(Chain):
    """A sparse `Chain` over the logs of one contract. Heights are block numbers.

    A log counts when its block is the one that the endpoint has at that height. There is no proof of work to check;
    logs that an endpoint omits near the tip are detected by the block's bloom filter.
    """

    sparse = True
    checked = "only that logs are in the blocks they name: the endpoint is trusted"
    rules = CoinRules("evm", segwit=False, envelope=None)
    warning = ""

    def __init__(
        self, name: str, endpoint: EvmEndpoint, reader: LogReader, networks: AllowedNetworks, options: Mapping[str, str]
    ) -> None:
        self.name, self.caip2, self.network = name, "", ""
        self.endpoint, self._reader, self.allowed_networks = endpoint, reader, networks
        self.first = int(options.get("from", 0))
        self._start_unknown = "from" not in options
        self._configured_finality = int(options["finality"]) if "finality" in options else None
        self.finality: int | None = self._configured_finality
        self.poll_seconds = POLL_SECONDS
        self._ranges, self._filter = RangeWidth(), BloomFilter(endpoint.address, endpoint.topics)
        self._tip: EvmHeader | None = None
        self._tip_time = self._final_time = float("-inf")
        self._final = -1
        self.headers: dict[int, EvmHeader] = {}

    @property
    def violation_count(self) -> int:
        """How many of the endpoint's answers were invalid."""
        return self.endpoint.violations

    # -- the chain of headers

    async def open(self) -> None:
        """Check the endpoint's network and that the contract exists. Raises SourceError."""
        network = self.allowed_networks.check(self.name, self.endpoint.shown, await self.endpoint.number())
        await self.endpoint.check_contract()
        self.caip2, self.network = network.caip2, network.kind
        self.first = self.first or self._reader.first(network.caip2, self.endpoint.address)
        if network.kind == "regtest":
            self.poll_seconds = min(self.poll_seconds, DEVELOPMENT_SECONDS)
        await self._refresh()
        if self._start_unknown and not self.first and network.kind != "regtest" and self._tip is not None:
            await self._find_first(self._tip.number)

    async def _find_first(self, tip: int) -> None:
        """Start at the block in which the contract was deployed."""
        deployed = await self.endpoint.deployment_block(tip)
        self._start_unknown = deployed is None
        if deployed is not None:
            self.first, self.warning = deployed, ""
            log.info("%s: the contract was deployed in block %d, where reading starts", self.name, deployed)
        else:
            self.warning = (
                "the endpoint has no archive to find when the contract was deployed: reading starts at block 0; "
                "set ?from= to the block in which the contract was deployed"
            )

    async def tip(self) -> BlockRef | None:
        """The newest block of the endpoint, requested every `poll_seconds` at most."""
        if time.monotonic() - self._tip_time >= self.poll_seconds:
            await self._refresh()
        return self._ref(self._tip) if self._tip else None

    async def _refresh(self) -> None:
        self._tip = await self.endpoint.header("latest")
        now = self._tip_time = time.monotonic()
        if self._tip is None or self.network == "regtest":
            return
        if now - self._final_time >= FINAL_SECONDS:
            await self._update_final(self._tip)
            self._final_time = now
        if self._configured_finality is None:
            gap = DEFAULT_FINALITY if self._final < 0 else self._tip.number - self._final
            # it may have been deeper when the newest blocks stored were read
            self.finality = max(gap, self.finality or 0)

    async def _update_final(self, tip: EvmHeader) -> None:
        """Update the newest final block; without `?finality=`, all blocks above may change."""
        try:
            final = await self.endpoint.header("finalized")
        except RpcError as error:
            log.debug("%s: the endpoint has no tag `finalized`: %s", self.name, error)
            return
        if final is not None:
            self._final = min(final.number, tip.number)

    async def ref(self, height: int) -> BlockRef | None:
        """The endpoint's current block at `height`."""
        if self._tip is None or not 0 <= height <= self._tip.number:
            return None
        return self._ref(await self._existing(height))

    async def _header(self, height: int) -> EvmHeader | None:
        """The block at a height; final ones are cached."""
        if height in self.headers:
            return self.headers[height]
        header = await self.endpoint.header(height)
        if header is not None and height <= self._final:
            if len(self.headers) >= HEADER_CACHE:
                self.headers.clear()
            self.headers[height] = header
        return header

    def _ref(self, header: EvmHeader) -> BlockRef:
        return BlockRef(self.name, header.number, header.hash, header.parent, header.time, b"")

    # -- blocks

    async def blocks(
        self, first: int, last: int
    ) -> AsyncGenerator[tuple[BlockRef, BlockEvents | DeferredEvents], None]:
        """The blocks with events, and the last block of each range searched, with their events.

        Stops early after an error of the endpoint or a reorganisation; the blocks returned until then are valid.
        """
        start = first
        while self._tip is not None and start <= min(last, self._tip.number):
            try:
                evm_blocks = await self._range(start, min(last, self._tip.number), self._tip.number)
            except SourceUnavailableError as error:
                if start == first:
                    raise
                log.warning("%s: stopped before block %d: %s", self.name, start, error)
                return
            for header, logs in evm_blocks:
                ref = self._ref(header)
                yield ref, self._reader.read(self.caip2, ref, logs)
            start = evm_blocks[-1][0].number + 1

    async def _range(self, first: int, last: int, tip: int) -> list[EvmBlock]:
        """The blocks with logs of one range that starts at `first`, and the last block of the range."""
        near = first > tip - NEAR
        last = min(last, first + NEAR - 1 if near else tip - NEAR)
        while True:
            end = min(last, first + self._ranges.width - 1)
            try:
                return await (self._near if near else self._far)(first, end)
            except (RpcError, TooLargeError, SlowError) as error:
                if not self._ranges.record_failure(end - first + 1):
                    raise
                log.debug("%s: blocks %d to %d are too much: %s", self.name, first, end, error)

    async def _far(self, first: int, end: int) -> list[EvmBlock]:
        """A range well below the tip: its logs, and the headers of the blocks that they name."""
        before = await self._existing(end)
        logs = await self.endpoint.logs(first, end)
        self._ranges.record_success(end - first + 1, len(logs))
        by_block = _by_block(logs)
        headers = await gather(self._existing(number) for number in by_block if number != end)
        if await self._existing(end) != before:
            raise self._changed(end)
        return [(header, self._checked(header, by_block)) for header in sorted([*headers, before])]

    async def _near(self, first: int, last: int) -> list[EvmBlock]:
        """A range at the tip: all its headers, linked. Logs of blocks missed by the range request come separately."""
        headers = await gather(self._existing(number) for number in range(first, last + 1))
        for lower, upper in pairwise(headers):
            # Hardhat's hardhat_mine makes blocks that do not link to the blocks before them
            if upper.parent != lower.hash and self.network != "regtest":
                raise self._changed(upper.number)
        logs = await self.endpoint.logs(first, last)
        self._ranges.record_success(last - first + 1, len(logs))
        by_block = _by_block(logs)
        for header in headers:
            if header.number not in by_block and self._filter.may_hold(header.bloom):
                by_block[header.number] = await self._logs_of(header)
        evm_blocks = [(header, self._checked(header, by_block)) for header in headers]
        return [(header, logs) for header, logs in evm_blocks if logs or header.number == last]

    async def _logs_of(self, header: EvmHeader) -> list[Log]:
        try:
            return await self.endpoint.logs_of(header)
        except RpcError as error:
            raise self._changed(header.number) from error

    async def _existing(self, height: int) -> EvmHeader:
        """The block at a height up to the tip. Raises SourceUnavailableError when it disappeared."""
        header = self._tip if self._tip and self._tip.number == height else await self._header(height)
        if header is None:
            raise self._changed(height)
        return header

    def _checked(self, header: EvmHeader, by_block: Mapping[int, list[Log]]) -> list[Log]:
        """The logs of a block. Raises SourceUnavailableError when they name another block."""
        logs = by_block.get(header.number, [])
        if logs and logs[0].block_hash != header.hash:
            raise self._changed(header.number)
        return logs

    def _changed(self, height: int) -> SourceUnavailableError:
        """The error for block `height`, which changed meanwhile; the tip is requested again."""
        self._tip_time = float("-inf")
        return SourceUnavailableError(
            f"{self.name}: block {height:,} at {self.endpoint.shown} has changed, or is not known to all its nodes yet"
        )

    def resolve(self, deferred: DeferredEvents, newest: NewestEvents) -> BlockEvents:
        """As the reader of the logs."""
        return self._reader.resolve(self.caip2, deferred, newest)

    async def wait(self, seconds: float) -> None:
        """Return when the tip may be requested again, at the latest after `seconds`."""
        due = self._tip_time + self.poll_seconds - time.monotonic()
        await asyncio.sleep(max(0.0, min(seconds, due)))

    async def close(self) -> None:
        """Close all connections."""
        await self.endpoint.rpc.close()


def _by_block(logs: Iterable[Log]) -> dict[int, list[Log]]:
    by_block: dict[int, list[Log]] = {}
    for entry in logs:
        by_block.setdefault(entry.block, []).append(entry)
    return by_block
