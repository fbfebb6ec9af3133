"""The logs of one contract as a chain: only blocks that hold some, and the last of each stretch looked through."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Literal, Protocol

from indexer.chains import Follow, Rules, Sayings, Sequel, SourceError, SourceUnavailableError
from indexer.chains.evm.answers import Header, Log
from indexer.chains.evm.bloom import Filter
from indexer.chains.evm.endpoint import Endpoint
from indexer.chains.evm.networks import Wanted
from indexer.chains.evm.ranges import Ranges
from indexer.chains.jsonrpc import RefusedError, SlowError, TooLargeError
from indexer.chains.together import together
from indexer.facts import BlockRef
from indexer.networks import DEFAULT_FINALITY
from parsers.tx import Outpoint

log = logging.getLogger(__name__)

POLL_SECONDS, DEVELOPMENT_SECONDS = 4.0, 0.25
"""Between looks at the tip: endpoints are paid by the question. On a development network nobody pays."""

FINAL_SECONDS = 60.0
"""Between looks at how far below the tip blocks are final."""

NEAR = 32
"""Blocks below the tip within which every header is looked at. Behind many an endpoint stand several nodes, and one
that has not heard of the newest blocks says that they hold no logs; deeper blocks are known to all of them."""

KNOWN = 4_096
"""Final blocks that are remembered, so that they are asked for once."""

Told = tuple[Header, list[Log]]


class LogReader(Protocol):
    """What makes events of a contract's logs: those whose first topic is one of `topics`."""

    @property
    def topics(self) -> Sequence[bytes]: ...

    def first(self, caip2: str, contract: bytes) -> int:
        """The block in which a contract on that network said something first, 0 where that is not known."""
        ...

    async def read(self, caip2: str, ref: BlockRef, logs: Sequence[Log]) -> Sayings | Sequel:
        """What the logs of one block say; `caip2` is the network's name. An empty list is that of a block without."""
        ...


class EvmChain:
    """A `Chain` and `Sparse` over the logs of one contract. Heights are block numbers.

    A log counts when the block it names is the one that the endpoint has at that height. There is no proof of work to
    check: what an endpoint leaves out of a block's logs is noticed by the block's bloom, near the tip.
    """

    sparse: Literal[True] = True
    complete = True
    checked = "nothing but that logs stand in the blocks they name: the endpoint is believed"
    rules = Rules("evm", segwit=False, envelope=None)

    def __init__(
        self, name: str, endpoint: Endpoint, reader: LogReader, wanted: Wanted, options: Mapping[str, str]
    ) -> None:
        self.name, self.caip2, self.network = name, "", ""
        self._endpoint, self._reader, self._wanted = endpoint, reader, wanted
        self.first = int(options.get("from", 0))
        self._must_find = "from" not in options
        self._lost = ""
        self._given = int(options["finality"]) if "finality" in options else None
        self.finality: int | None = self._given
        self.poll_seconds = POLL_SECONDS
        self._ranges, self._filter = Ranges(), Filter(endpoint.address, endpoint.topics)
        self._tip: Header | None = None
        self._asked_tip = self._asked_final = float("-inf")
        self._final = -1
        self._known: dict[int, Header] = {}

    @property
    def warning(self) -> str:
        """What works less well than it could."""
        caught = f"{self._endpoint.caught:,} answers were none that a node gives" if self._endpoint.caught else ""
        return "; ".join(filter(None, (self._lost, caught)))

    # -- the chain of headers

    async def open(self) -> None:
        """See that the endpoint follows the network that is meant, and that the contract is there."""
        found = self._wanted.check(self.name, self._endpoint.shown, await self._endpoint.number())
        await self._endpoint.check_contract()
        self.caip2, self.network = found.caip2, found.kind
        self.first = self.first or self._reader.first(found.caip2, self._endpoint.address)
        if found.kind == "regtest":
            self.poll_seconds = min(self.poll_seconds, DEVELOPMENT_SECONDS)
        await self._refresh()
        if self._must_find and not self.first and found.kind != "regtest" and self._tip is not None:
            await self._find_first(self._tip.number)

    async def _find_first(self, tip: int) -> None:
        """Begin where the contract did, which nobody said."""
        made = await self._endpoint.made(tip)
        self._must_find = made is None
        if made is not None:
            self.first, self._lost = made, ""
            log.info("%s: the contract was made in block %d, where reading begins", self.name, made)
        else:
            self._lost = (
                "the endpoint keeps no archive to find when the contract was made, so that reading starts at block 0; "
                "give ?from= the block in which the contract was made"
            )

    async def tip(self) -> BlockRef | None:
        """The newest block that the endpoint knows, asked for at most every few seconds."""
        if time.monotonic() - self._asked_tip >= self.poll_seconds:
            await self._refresh()
        return self._ref(self._tip) if self._tip else None

    async def _refresh(self) -> None:
        self._tip = await self._endpoint.header("latest")
        now = self._asked_tip = time.monotonic()
        if self._tip is None or self.network == "regtest":
            return
        if now - self._asked_final >= FINAL_SECONDS:
            await self._look_at_finality(self._tip)
            self._asked_final = now
        if self._given is None:
            gap = DEFAULT_FINALITY if self._final < 0 else self._tip.number - self._final
            # it may have been deeper when the newest blocks stored were read
            self.finality = max(gap, self.finality or 0)

    async def _look_at_finality(self, tip: Header) -> None:
        """See which blocks the endpoint calls final; without `?finality=`, all above may change."""
        try:
            final = await self._endpoint.header("finalized")
        except RefusedError as error:
            log.debug("%s: the endpoint has no tag `finalized`: %s", self.name, error)
            return
        if final is not None:
            self._final = min(final.number, tip.number)

    async def ref(self, height: int) -> BlockRef | None:
        """The block at `height`, as the endpoint says now."""
        if self._tip is None or not 0 <= height <= self._tip.number:
            return None
        return self._ref(await self._there(height))

    async def _header(self, height: int) -> Header | None:
        """The block at a height; what is final is asked for once."""
        if height in self._known:
            return self._known[height]
        found = await self._endpoint.header(height)
        if found is not None and height <= self._final:
            if len(self._known) >= KNOWN:
                self._known.clear()
            self._known[height] = found
        return found

    def _ref(self, header: Header) -> BlockRef:
        return BlockRef(self.name, header.number, header.hash, header.parent, header.time, b"")

    # -- what blocks said

    async def blocks(self, first: int, last: int) -> AsyncIterator[tuple[BlockRef, Sayings | Sequel]]:
        """The blocks that said something, and the last of each stretch, with what they said.

        Where the endpoint fails on the way, or the chain changes underneath, it ends early with what is sure.
        """
        at = first
        while self._tip is not None and at <= min(last, self._tip.number):
            try:
                told = await self._stretch(at, min(last, self._tip.number), self._tip.number)
            except SourceUnavailableError as error:
                if at == first:
                    raise
                log.warning("%s: stopped before block %d: %s", self.name, at, error)
                return
            for header, logs in told:
                ref = self._ref(header)
                yield ref, await self._reader.read(self.caip2, ref, logs)
            at = told[-1][0].number + 1

    async def _stretch(self, first: int, last: int, tip: int) -> list[Told]:
        """Some blocks from `first` on, whichever have logs, and at the end the last one looked at."""
        near = first > tip - NEAR
        last = min(last, first + NEAR - 1 if near else tip - NEAR)
        while True:
            end = min(last, first + self._ranges.width - 1)
            try:
                return await (self._near if near else self._far)(first, end)
            except (RefusedError, TooLargeError, SlowError) as error:
                if not self._ranges.too_much(end - first + 1):
                    raise
                log.debug("%s: blocks %d to %d are too much: %s", self.name, first, end, error)

    async def _far(self, first: int, end: int) -> list[Told]:
        """A stretch well below the tip: its logs, and the headers of the blocks that they name."""
        before = await self._there(end)
        logs = await self._endpoint.logs(first, end)
        self._ranges.answered(end - first + 1, len(logs))
        by_block = _by_block(logs)
        headers = await together(self._there(number) for number in by_block if number != end)
        if await self._there(end) != before:
            raise self._changed(end)
        return [(header, self._checked(header, by_block)) for header in sorted([*headers, before])]

    async def _near(self, first: int, last: int) -> list[Told]:
        """A stretch at the tip: all its headers, linked; blocks that should hold logs and seem not to are asked for."""
        headers = await together(self._there(number) for number in range(first, last + 1))
        for lower, upper in pairwise(headers):
            # Hardhat's hardhat_mine makes blocks whose parents are not the blocks before them
            if upper.parent != lower.hash and self.network != "regtest":
                raise self._changed(upper.number)
        logs = await self._endpoint.logs(first, last)
        self._ranges.answered(last - first + 1, len(logs))
        by_block = _by_block(logs)
        for header in headers:
            if header.number not in by_block and self._filter.may_hold(header.bloom):
                by_block[header.number] = await self._logs_of(header)
        told = [(header, self._checked(header, by_block)) for header in headers]
        return [each for each in told if each[1] or each[0].number == last]

    async def _logs_of(self, header: Header) -> list[Log]:
        try:
            return await self._endpoint.logs_of(header)
        except RefusedError as error:
            raise self._changed(header.number) from error

    async def _there(self, height: int) -> Header:
        """The block at a height up to the tip. Raises SourceUnavailableError where it has gone."""
        found = self._tip if self._tip and self._tip.number == height else await self._header(height)
        if found is None:
            raise self._changed(height)
        return found

    def _checked(self, header: Header, by_block: Mapping[int, list[Log]]) -> list[Log]:
        """The logs of a block, when it is the block that they name."""
        found = by_block.get(header.number, [])
        if found and found[0].block_hash != header.hash:
            raise self._changed(header.number)
        return found

    def _changed(self, height: int) -> SourceUnavailableError:
        """Block `height` is not what it was a moment ago: look at the tip anew."""
        self._asked_tip = float("-inf")
        return SourceUnavailableError(
            f"{self.name}: block {height:,} at {self._endpoint.shown} has changed, or is not known to all its nodes yet"
        )

    # -- what this kind of chain has not

    async def values(self, outpoints: Iterable[Outpoint], before: BlockRef) -> dict[Outpoint, int]:  # noqa: ARG002
        """None: there are no outputs."""
        return {}

    async def ancestors(self, before: BlockRef, follow: Follow) -> None:
        """None: there are no outputs."""

    async def heights(self, txids: Iterable[bytes], before: BlockRef) -> dict[bytes, int]:  # noqa: ARG002
        """None: only ancestors of outputs are looked for."""
        return {}

    async def mempool(self) -> frozenset[bytes] | None:
        """None: a log exists once its transaction is in a block."""
        return None

    async def transactions(self, txids: Iterable[bytes]) -> dict[bytes, bytes]:  # noqa: ARG002
        """None: what transactions say is their logs."""
        return {}

    async def refuse(self, ref: BlockRef, why: str) -> None:
        """Nothing is refused: logs that are none are answers that are not believed."""
        raise SourceError(f"{self.name}: block {ref.height:,} cannot be refused: {why}")

    async def wait(self, seconds: float) -> None:
        """Return when it is time to look at the tip again, at the latest after `seconds`."""
        due = self._asked_tip + self.poll_seconds - time.monotonic()
        await asyncio.sleep(max(0.0, min(seconds, due)))

    async def close(self) -> None:
        """Close all connections."""
        await self._endpoint.rpc.close()


def _by_block(logs: Iterable[Log]) -> dict[int, list[Log]]:
    found: dict[int, list[Log]] = {}
    for each in logs:
        found.setdefault(each.block, []).append(each)
    return found
