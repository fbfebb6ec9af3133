"""Requests to an endpoint of an EVM chain, with validated responses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from indexer.chains.evm import responses
from indexer.chains.evm.responses import EvmHeader, Log
from indexer.chains.http_client import SMALL_BYTES
from indexer.chains.jsonrpc import METHOD_NOT_FOUND, JsonRpc, RpcError
from indexer.errors import SourceRefusalError, SourceUnavailableError
from parsers.errors import ParseError
from parsers.json_records import convert

log = logging.getLogger(__name__)

RANGE_BYTES, BLOCK_BYTES = 16 << 20, 128 << 20
"""Limits of a response with the logs of several blocks, beyond which fewer are requested, and of one block: a byte of a
log costs 8 gas and takes two characters, so a block of 500 million gas fits."""

THREAD_LOGS = 500
"""Logs from which on they are parsed in a thread."""

_T = TypeVar("_T")


class EvmEndpoint:
    """One endpoint, for the logs of one contract. `violations` counts invalid responses."""

    def __init__(self, rpc: JsonRpc, address: bytes, topics: Sequence[bytes]) -> None:
        self.rpc, self.name, self.shown = rpc, rpc.name, rpc.label
        self.address, self.topics = address, tuple(topics)
        self.violations = 0

    async def number(self) -> int:
        """The chain id (EIP-155)."""
        answer = await self.rpc.call("eth_chainId", limit=SMALL_BYTES)
        return self._validated("eth_chainId", lambda: responses.number(convert(answer, str), 1 << 64))

    async def check_contract(self) -> None:
        """Raise SourceError if the contract has no code, SourceUnavailableError while the node is still syncing."""
        answer = await self.rpc.call("eth_getCode", f"0x{self.address.hex()}", "latest", limit=SMALL_BYTES)
        if self._validated("eth_getCode", lambda: responses.data(convert(answer, str))):
            return
        if await self.rpc.call("eth_syncing", limit=SMALL_BYTES):
            raise SourceUnavailableError(f"{self.name}: the node at {self.shown} is still syncing, and has no contract")
        raise SourceRefusalError(
            f"{self.name}: there is no contract at 0x{self.address.hex()} on the chain of {self.shown}; correct "
            "?contract=, or the endpoint's URL"
        )

    async def deployment_block(self, tip: int) -> int | None:
        """The block in which the contract was deployed, by binary search up to `tip`; None where the node has no
        archive of old states."""
        without, with_code = -1, tip
        while with_code - without > 1:
            middle = (without + with_code) // 2
            try:
                answer = await self.rpc.call("eth_getCode", f"0x{self.address.hex()}", hex(middle), limit=SMALL_BYTES)
                has_code = bool(responses.data(convert(answer, str)))
            except SourceRefusalError:
                raise
            except (SourceUnavailableError, ParseError) as error:
                log.debug("%s: no code of block %d: %s", self.name, middle, error)
                return None
            without, with_code = (without, middle) if has_code else (middle, with_code)
        return with_code

    async def header(self, block: int | str) -> EvmHeader | None:
        """The block at a height or of a tag (`latest`, `finalized`); None without one. Raises RpcError."""
        which = hex(block) if isinstance(block, int) else block
        answer = await self.rpc.call("eth_getBlockByNumber", which, False, limit=SMALL_BYTES)
        if answer is None:
            return None
        header = self._validated("eth_getBlockByNumber", lambda: responses.header(answer))
        if isinstance(block, int) and header.number != block:
            raise self._invalid("eth_getBlockByNumber", f"block {header.number:,} for block {block:,}")
        return header

    async def logs(self, first: int, last: int) -> list[Log]:
        """The contract's logs in blocks `first` to `last`, in order.

        Raises RpcError, TooLargeError or SlowError, after which fewer blocks may succeed, and SourceError.
        """
        return await self._logs({"fromBlock": hex(first), "toBlock": hex(last)}, first, last)

    async def logs_of(self, block: EvmHeader) -> list[Log]:
        """The contract's logs in one block of any branch. Raises RpcError where the node does not have it."""
        logs = await self._logs({"blockHash": f"0x{block.hash[::-1].hex()}"}, block.number, block.number)
        if any(log.block_hash != block.hash for log in logs):
            raise self._invalid("eth_getLogs", "logs of another block than was requested")
        return logs

    async def _logs(self, where: dict[str, str], first: int, last: int) -> list[Log]:
        filters = {"address": f"0x{self.address.hex()}", "topics": [[f"0x{topic.hex()}" for topic in self.topics]]}
        try:
            limit = BLOCK_BYTES if first == last else RANGE_BYTES
            rows = await self.rpc.call("eth_getLogs", {**where, **filters}, limit=limit)
        except RpcError as error:
            if error.code == METHOD_NOT_FOUND:
                raise SourceRefusalError(
                    f"{self.name}: {self.shown} does not offer eth_getLogs; use an endpoint that does"
                ) from error
            raise

        def read() -> list[Log]:
            return responses.logs(rows, self.address, self.topics, first, last)

        if isinstance(rows, list) and len(rows) >= THREAD_LOGS:
            return await asyncio.to_thread(self._validated, "eth_getLogs", read)
        return self._validated("eth_getLogs", read)

    def _validated(self, method: str, read: Callable[[], _T]) -> _T:
        try:
            return read()
        except ParseError as error:
            raise self._invalid(method, str(error)) from None

    def _invalid(self, method: str, what: str) -> SourceUnavailableError:
        self.violations += 1
        return SourceUnavailableError(f"{self.name}: {self.shown} sends an invalid answer to {method}: {what}")


FIRST_WIDTH, MAX_WIDTH = 1_000, 50_000
"""Blocks per request at first, and at most."""

STEADY = 8
"""Successful requests in a row after which a width that once failed is tried again."""

PLENTY = 5_000
"""Logs in one response from which on the next range is not widened: some endpoints allow 10,000."""


class RangeWidth:
    """The width of a range in blocks: halved after a failure, doubled after successes."""

    def __init__(self) -> None:
        self.width = FIRST_WIDTH
        self._ceiling, self._successes = MAX_WIDTH, 0

    def record_success(self, blocks: int, logs: int) -> None:
        """A request for `blocks` blocks returned `logs` logs."""
        self._successes += 1
        if self._successes >= STEADY and self._ceiling < MAX_WIDTH:
            self._ceiling, self._successes = min(self._ceiling * 2, MAX_WIDTH), 0
        if blocks >= self.width and logs < PLENTY:
            self.width = min(self.width * 2, self._ceiling)

    def record_failure(self, blocks: int) -> bool:
        """Record that a request for `blocks` blocks failed; returns whether fewer can be requested."""
        self._successes = 0
        self.width = self._ceiling = max(1, blocks // 2)
        return blocks > 1
