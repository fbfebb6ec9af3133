"""Questions to an endpoint of an EVM chain, and answers that are looked at before anybody believes them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from indexer.chains import SourceError, SourceUnavailableError
from indexer.chains.evm import answers
from indexer.chains.evm.answers import AnswerError, Header, Log
from indexer.chains.jsonrpc import NO_SUCH_METHOD, SMALL_BYTES, JsonRpc, RefusedError

log = logging.getLogger(__name__)

RANGE_BYTES, BLOCK_BYTES = 16 << 20, 128 << 20
"""What the logs of several blocks may take, or fewer are asked for; and those of one block, which has no parts: a byte
of a log takes 8 gas and two letters, so a block of 500 million gas fits."""

MANY = 500
"""Logs from which on a thread takes them to pieces, so that nobody else waits."""

_T = TypeVar("_T")


class Endpoint:
    """Asks for the logs of one contract. `caught` counts answers that no node gives."""

    def __init__(self, rpc: JsonRpc, address: bytes, topics: Sequence[bytes]) -> None:
        self.rpc, self.name, self.shown = rpc, rpc.name, rpc.shown
        self.address, self.topics = address, tuple(topics)
        self.caught = 0

    async def number(self) -> int:
        """The network's number (EIP-155)."""
        told = await self.rpc.call("eth_chainId", limit=SMALL_BYTES)
        return self._looked_at("eth_chainId", lambda: answers.number(told, 1 << 64))

    async def check_contract(self) -> None:
        """Raise SourceError where the contract has no code, SourceUnavailableError while the node is still syncing."""
        told = await self.rpc.call("eth_getCode", f"0x{self.address.hex()}", "latest", limit=SMALL_BYTES)
        if self._looked_at("eth_getCode", lambda: answers.data(told)):
            return
        if await self.rpc.call("eth_syncing", limit=SMALL_BYTES):
            raise SourceUnavailableError(f"{self.name}: the node at {self.shown} is still syncing, and has no contract")
        raise SourceError(
            f"{self.name}: there is no contract at 0x{self.address.hex()} on the chain of {self.shown}; correct "
            "?contract=, or the endpoint's URL"
        )

    async def made(self, tip: int) -> int | None:
        """The block in which the contract got its code, of those up to `tip`, where it has some: found by halving. None
        where the node does not tell the past: only archive nodes keep it, and others refuse or fail."""
        without, with_code = -1, tip
        while with_code - without > 1:
            middle = (without + with_code) // 2
            try:
                told = await self.rpc.call("eth_getCode", f"0x{self.address.hex()}", hex(middle), limit=SMALL_BYTES)
                has_code = bool(answers.data(told))
            except (RefusedError, SourceUnavailableError, AnswerError) as error:
                log.debug("%s: no code of block %d: %s", self.name, middle, error)
                return None
            without, with_code = (without, middle) if has_code else (middle, with_code)
        return with_code

    async def header(self, block: int | str) -> Header | None:
        """The block at a height, or of a tag (`latest`, `finalized`); None where there is none. Raises RefusedError."""
        which = hex(block) if isinstance(block, int) else block
        told = await self.rpc.call("eth_getBlockByNumber", which, False, limit=SMALL_BYTES)
        if told is None:
            return None
        found = self._looked_at("eth_getBlockByNumber", lambda: answers.header(told))
        if isinstance(block, int) and found.number != block:
            raise self._lie("eth_getBlockByNumber", f"block {found.number:,} for block {block:,}")
        return found

    async def logs(self, first: int, last: int) -> list[Log]:
        """The contract's logs in blocks `first` to `last`, in order.

        Raises RefusedError, TooLargeError or SlowError, for which fewer blocks may be the cure, and SourceError.
        """
        return await self._logs({"fromBlock": hex(first), "toBlock": hex(last)}, first, last)

    async def logs_of(self, block: Header) -> list[Log]:
        """The contract's logs in one block of the chain or of a branch. Raises RefusedError where it is not known."""
        found = await self._logs({"blockHash": f"0x{block.hash[::-1].hex()}"}, block.number, block.number)
        if any(log.block_hash != block.hash for log in found):
            raise self._lie("eth_getLogs", "logs of another block than was asked for")
        return found

    async def _logs(self, where: dict[str, str], first: int, last: int) -> list[Log]:
        asked = {"address": f"0x{self.address.hex()}", "topics": [[f"0x{topic.hex()}" for topic in self.topics]]}
        try:
            limit = BLOCK_BYTES if first == last else RANGE_BYTES
            rows = await self.rpc.call("eth_getLogs", {**where, **asked}, limit=limit)
        except RefusedError as error:
            if error.code == NO_SUCH_METHOD:
                raise SourceError(
                    f"{self.name}: {self.shown} does not offer eth_getLogs; use an endpoint that does"
                ) from error
            raise

        def read() -> list[Log]:
            return answers.logs(rows, self.address, self.topics, first, last)

        if isinstance(rows, list) and len(rows) >= MANY:
            return await asyncio.to_thread(self._looked_at, "eth_getLogs", read)
        return self._looked_at("eth_getLogs", read)

    def _looked_at(self, method: str, read: Callable[[], _T]) -> _T:
        try:
            return read()
        except AnswerError as error:
            raise self._lie(method, str(error)) from None

    def _lie(self, method: str, what: str) -> SourceUnavailableError:
        self.caught += 1
        return SourceUnavailableError(f"{self.name}: {self.shown} answers {method} as no node does: {what}")
