"""The logs of one contract as a chain: the blocks with logs, and the last block of each range searched."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise
from typing import Protocol

from indexer.chains import BlockEvents, Chain, ChainStore, DeferredEvents, LogsAgain, NewestEvents
from indexer.chains.evm.chain_ids import AllowedNetworks, EvmNetwork
from indexer.chains.evm.endpoint import EvmEndpoint, RangeWidth
from indexer.chains.evm.responses import BloomFilter, EvmHeader, Log
from indexer.chains.http_client import HttpClient, SlowError, TooLargeError, gather
from indexer.chains.jsonrpc import RpcError
from indexer.errors import OtherNetworkError, SourceUnavailableError
from indexer.headers.networks import CoinRules
from indexer.model import BlockLogs, BlockRef

log = logging.getLogger(__name__)

POLL_SECONDS, DEVELOPMENT_SECONDS = 4.0, 0.25
"""Seconds between two requests of the tip: endpoints charge per request, development networks do not."""

FINAL_SECONDS = 60.0
"""Seconds between two requests of the newest final block."""

NEAR = 32
"""All headers of so many blocks below the tip are fetched. Many endpoints are served by several nodes, and one without
the newest blocks answers that they have no logs; all of them have deeper blocks."""

NETWORK_SECONDS = 3_600.0
"""Seconds between two requests of the chain id: an endpoint may become another network's. It is requested again after
a contradiction, too."""

HEADER_CACHE = 4_096
"""Headers that are cached: those of final blocks, and those above until the tip is another one."""

AHEAD_SECONDS = 120
"""How far a tip may be ahead of this machine's clock."""

MOST_PER_SECOND, SLACK_SECONDS = 20, 15
"""Blocks that a chain can add in a second, five times as many as the fastest does, and seconds that are added to the
time between two blocks."""

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

    A log counts when its block is the one that the endpoint has at that height, and each block names the one before as
    its parent. There is no proof of work to check, but a tip that time does not allow is not read; logs that an
    endpoint omits are detected near the tip by the block's bloom filter, and anywhere when blocks are read twice.

    `is_free`: a development network, whose blocks have any time and do not link (`hardhat_mine`). `now` is the clock in
    seconds since 1970.
    """

    sparse = True
    has_work = False
    is_read_twice = True
    names_network = True
    checked = "only that logs are in the blocks they name: the endpoint is trusted"
    rules = CoinRules("evm", segwit=False, envelope=None)
    warning = ""

    def __init__(
        self,
        name: str,
        endpoint: EvmEndpoint,
        reader: LogReader,
        networks: AllowedNetworks,
        options: Mapping[str, str],
        store: ChainStore | None = None,
    ) -> None:
        self.name, self.caip2, self.network = name, "", ""
        self.contract = f"contract 0x{endpoint.address.hex()}"
        self.endpoint, self._reader, self.allowed_networks = endpoint, reader, networks
        self.first = self._configured_first = int(options.get("from", 0))
        self._has_start = "from" in options
        self._start_unknown = not self._has_start
        self._configured_finality = int(options["finality"]) if "finality" in options else None
        self.finality: int | None = self._configured_finality
        self.poll_seconds = POLL_SECONDS
        self.is_free, self._store, self.now = "clock" in options, store, time.time
        self._ranges, self._ranges_again = RangeWidth(), RangeWidth()
        self._filter = BloomFilter(endpoint.address, endpoint.topics)
        self._added: Mapping[int, tuple[Log, ...]] = {}
        self._tip: EvmHeader | None = None
        self._tip_time = self._final_time = self._network_time = float("-inf")
        self._final = -1
        self.headers: dict[int, EvmHeader] = {}

    @property
    def clients(self) -> Sequence[HttpClient]:
        """The HTTP client of its server."""
        return (self.endpoint.rpc,)

    @property
    def violation_count(self) -> int:
        """How many of the endpoint's answers were invalid."""
        return self.endpoint.violations

    # -- the chain of headers

    async def open(self) -> None:
        """Check the endpoint's network and that the contract exists. Raises SourceError."""
        self._forget_network()
        network = await self._check_network()
        await self.endpoint.check_contract()
        self.caip2, self.network = network.caip2, network.kind
        self.first = self.first or self._reader.first(network.caip2, self.endpoint.address)
        if network.kind == "regtest":
            self.is_free = True
            self.poll_seconds = min(self.poll_seconds, DEVELOPMENT_SECONDS)
        await self._refresh()
        if self._start_unknown and not self.first and network.kind != "regtest" and self._tip is not None:
            await self._find_first(self._tip.number)

    def _forget_network(self) -> None:
        """Forget what an earlier opening learned: the endpoint may have been another network's."""
        self.caip2, self.first, self.finality = "", self._configured_first, self._configured_finality
        self._start_unknown, self._final, self._final_time = not self._has_start, -1, float("-inf")
        self.headers.clear()

    async def identify(self) -> str:
        """The network by the endpoint's chain id now. Raises OtherNetworkError for a network that is not configured."""
        return (await self._network_now()).caip2

    async def _network_now(self) -> EvmNetwork:
        return self.allowed_networks.check(self.name, self.endpoint.shown, await self.endpoint.number())

    async def _check_network(self) -> EvmNetwork:
        """The endpoint's network. Raises OtherNetworkError for another network than the configured one, or the one
        before."""
        network = await self._network_now()
        if self.caip2 not in ("", network.caip2):
            raise OtherNetworkError(
                f"{self.name}: {self.endpoint.shown} follows {network.caip2} now, and followed {self.caip2}: correct "
                "its URL"
            )
        self._network_time = time.monotonic()
        return network

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
        if time.monotonic() - self._network_time >= NETWORK_SECONDS:
            await self._check_network()
        if time.monotonic() - self._tip_time >= self.poll_seconds:
            await self._refresh()
        return self._ref(self._tip) if self._tip else None

    async def _refresh(self) -> None:
        tip = await self.endpoint.header("latest")
        if tip is None:
            raise SourceUnavailableError(f"{self.name}: {self.endpoint.shown} has no newest block")
        if not self.is_free:
            await self._check_time(tip)
        if tip != self._tip:
            self.headers = {number: header for number, header in self.headers.items() if number <= self._final}
        self._tip, self._tip_time = tip, time.monotonic()
        if self.network == "regtest":
            return
        if self._tip_time - self._final_time >= FINAL_SECONDS:
            await self._update_final(tip)
            self._final_time = self._tip_time
        if self._configured_finality is None and self._final >= 0:
            # it may have been deeper when the newest blocks stored were read
            self.finality = max(tip.number - self._final, self.finality or 0)

    async def _check_time(self, tip: EvmHeader) -> None:
        """Raise SourceUnavailableError for a tip that is ahead of the clock, or more blocks above the newest stored
        one than the time between allows: nothing else contradicts invented blocks."""
        ahead = tip.time - self.now()
        if ahead > AHEAD_SECONDS:
            raise SourceUnavailableError(
                f"{self.name}: block {tip.number:,}, the newest at {self.endpoint.shown}, is {ahead:,.0f} s ahead of "
                "this machine's clock: the clock or the source is wrong; nothing is read from it meanwhile"
            )
        stored = await asyncio.to_thread(self._store.newest_block, self.name) if self._store else None
        if stored is None:
            return
        blocks, seconds = tip.number - stored.height, max(0, tip.time - stored.time)
        if blocks > MOST_PER_SECOND * (seconds + SLACK_SECONDS):
            raise SourceUnavailableError(
                f"{self.name}: block {tip.number:,}, the newest at {self.endpoint.shown}, is {blocks:,} blocks above "
                f"the newest stored one and {seconds:,} s later: the clock or the source is wrong; nothing is "
                "read from it meanwhile"
            )

    async def _update_final(self, tip: EvmHeader) -> None:
        """Update the newest final block; without `?finality=`, all blocks above may change, and all blocks where the
        endpoint does not know the tag."""
        try:
            final = await self.endpoint.header("finalized")
        except RpcError as error:
            log.debug("%s: the endpoint has no tag `finalized`: %s", self.name, error)
            return
        if final is not None:
            self._final = min(final.number, tip.number)

    async def ref(self, height: int) -> BlockRef | None:
        """The endpoint's current block at `height`; with the hash that the next block names as its parent, whatever
        the endpoint, or a cache before it, answers for the height."""
        if self._tip is None or not 0 <= height <= self._tip.number:
            return None
        header = await self._existing(height)
        if height < self._tip.number and not self.is_free:
            parent = (await self._existing(height + 1)).parent
            if parent != header.hash:
                self._forget_headers()
                header = header._replace(hash=parent)
        return self._ref(header)

    def _ref(self, header: EvmHeader) -> BlockRef:
        return BlockRef(self.name, header.number, header.hash, header.parent, header.time, b"")

    # -- blocks

    async def blocks(
        self, first: int, last: int
    ) -> AsyncGenerator[tuple[BlockRef, BlockEvents | DeferredEvents], None]:
        """The blocks with events, and the last block of each range searched, with their events.

        Stops early after an error of the endpoint or a reorganisation; the blocks returned until then are valid.
        """
        start, below = first, None
        while self._tip is not None and start <= min(last, self._tip.number):
            try:
                if below is not None:
                    self._check_links(below, await self._existing(start))
                evm_blocks = await self._range(start, min(last, self._tip.number), self._tip.number)
            except SourceUnavailableError as error:
                if start == first:
                    raise
                log.warning("%s: stopped before block %d: %s", self.name, start, error)
                return
            for header, logs in evm_blocks:
                ref = self._ref(header)
                yield ref, replace(self._reader.read(self.caip2, ref, logs), logs=_compared(logs))
            below = evm_blocks[-1][0]
            start = below.number + 1

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
        """A range well below the tip: its logs, the headers of the blocks that they name, and the last one, which the
        next range must name as its parent."""
        logs = await self.endpoint.logs(first, end)
        self._ranges.record_success(end - first + 1, len(logs))
        by_block = _by_block(logs)
        added = {number for number in self._added if first <= number <= end}
        headers = await gather(self._existing(number) for number in {*by_block, *added, end})
        return [(header, self._checked(header, by_block)) for header in sorted(headers)]

    async def _near(self, first: int, last: int) -> list[EvmBlock]:
        """A range at the tip: all its headers, linked. Logs of blocks missed by the range request come separately."""
        headers = await gather(self._existing(number) for number in range(first, last + 1))
        for lower, upper in pairwise(headers):
            self._check_links(lower, upper)
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
        """The block at a height up to the tip, cached. Raises SourceUnavailableError when it disappeared."""
        if self._tip and self._tip.number == height:
            return self._tip
        if height not in self.headers:
            header = await self.endpoint.header(height)
            if header is None:
                raise self._changed(height)
            if len(self.headers) >= HEADER_CACHE:
                self.headers.clear()
            self.headers[height] = header
        return self.headers[height]

    def _check_links(self, lower: EvmHeader, upper: EvmHeader) -> None:
        """Raise SourceUnavailableError where a block does not name the one below as its parent."""
        if upper.parent != lower.hash and not self.is_free:
            raise self._changed(upper.number)

    def _checked(self, header: EvmHeader, by_block: Mapping[int, list[Log]]) -> list[Log]:
        """The logs of a block, with the added logs of the same block. Raises SourceUnavailableError when the logs name
        another block."""
        logs = by_block.get(header.number, [])
        if logs and logs[0].block_hash != header.hash:
            raise self._changed(header.number)
        added = [log for log in self._added.get(header.number, ()) if log.block_hash == header.hash]
        by_index = {entry.log_index: entry for entry in (*added, *logs)}
        return [by_index[index] for index in sorted(by_index)] if added else logs

    async def logs_again(self, first: int, last: int, attempt: int) -> LogsAgain | None:  # noqa: ARG002
        """One request of logs, in ranges of a width of their own."""
        if self._tip is None or self._tip.number < first:
            return None
        end = min(last, self._tip.number, first + self._ranges_again.width - 1)
        try:
            logs = await self.endpoint.logs(first, end)
        except (RpcError, TooLargeError, SlowError):
            self._ranges_again.record_failure(end - first + 1)
            raise
        self._ranges_again.record_success(end - first + 1, len(logs))
        by_block = _by_block(logs)
        compared = {number: (of[0].block_hash, _compared(of)) for number, of in by_block.items()}
        return LogsAgain(end, compared, {number: tuple(of) for number, of in by_block.items()})

    def add_logs(self, again: LogsAgain) -> None:
        """Set the records of the last call as added: blocks are read again at once."""
        self._added = again.records

    def _changed(self, height: int) -> SourceUnavailableError:
        """The error for block `height`, which changed meanwhile; the tip and all headers are requested again."""
        self._tip_time = float("-inf")
        self._forget_headers()
        return SourceUnavailableError(
            f"{self.name}: block {height:,} at {self.endpoint.shown} has changed, or is not known to all its nodes yet"
        )

    def _forget_headers(self) -> None:
        """Request all headers again, and the chain id: one of them was contradicted."""
        self.headers.clear()
        self._network_time = float("-inf")

    def resolve(self, deferred: DeferredEvents, newest: NewestEvents) -> BlockEvents:
        """The events of deferred logs, resolved by the reader of the logs."""
        return self._reader.resolve(self.caip2, deferred, newest)

    async def wait(self, seconds: float) -> None:
        """Return when the tip may be requested again, at the latest after `seconds`."""
        due = self._tip_time + self.poll_seconds - time.monotonic()
        await asyncio.sleep(max(0.0, min(seconds, due)))

    async def close(self) -> None:
        """Close all connections."""
        await self.endpoint.rpc.close()


def _compared(logs: Sequence[Log]) -> BlockLogs:
    """The number and hash of the logs of a block, which are compared when a block is read twice."""
    sha = sha256()
    for entry in logs:
        sha.update(f"{entry.txid.hex()} {entry.log_index} {len(entry.topics)} {len(entry.data)} ".encode())
        sha.update(b"".join(entry.topics) + entry.data)
    return BlockLogs(len(logs), sha.digest())


def _by_block(logs: Iterable[Log]) -> dict[int, list[Log]]:
    by_block: dict[int, list[Log]] = {}
    for entry in logs:
        by_block.setdefault(entry.block, []).append(entry)
    return by_block
