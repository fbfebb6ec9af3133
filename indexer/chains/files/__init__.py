"""`files:` a folder of a node's block files, read directly and followed while the node appends to them.

`files:/path/to/blocks?chain=bsv&network=mainnet&from=HEIGHT&finality=N&lookback=BYTES`. A `tip.json` in the folder,
such as `{"chain": "bsv-regtest"}`, can replace `chain` and `network`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Iterable
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote

from indexer.chains import AncestorVisitor, BlockedBranch, Chain, HeaderStore, options
from indexer.chains.files.ancestor_search import AncestorSearch
from indexer.chains.files.block_folder import BATCH_BYTES, MAPPED_BYTES, BlockFolder
from indexer.errors import SourceError
from indexer.headers.networks import COINS, SCRYPT, Network, network
from indexer.model import BlockRef
from parsers.bitcoin.tx import Outpoint

log = logging.getLogger(__name__)

LOOKBACK = 2 << 30
"""Bytes of blocks to search backwards for the values of spent outputs."""

POLL_SECONDS = 0.25

_OPTIONS = ("chain", "network", "from", "finality", "lookback")
_T = TypeVar("_T")
_Blocks = list[tuple[BlockRef, memoryview]]


def create(name: str, url: str, _headers: HeaderStore | None = None) -> FilesChain:
    """The chain of a `files:` URL, not opened yet. Raises SourceError for an invalid URL."""
    path, _, query = url.removeprefix("files:").partition("?")
    if not path:
        raise SourceError(f"{name}: {url!r} names no folder; write files:/path/to/blocks")
    return FilesChain(name, Path(unquote(path)).expanduser(), options.read(name, query, "files", _OPTIONS))


class FilesChain(Chain):
    """A chain read from a folder of `blk*.dat`."""

    checked = "linkage, proof of work by own bits"

    def __init__(self, name: str, folder: Path, options: dict[str, str]) -> None:
        self.name, self.folder = name, folder
        self._options = options
        self._lookback = int(options.get("lookback", LOOKBACK))
        self._opened: BlockFolder | None = None

    @property
    def block_folder(self) -> BlockFolder:
        if self._opened is None:
            raise SourceError(f"{self.name}: {self.folder} is not open")
        return self._opened

    @property
    def violation_count(self) -> int:
        """The number of unusable byte ranges of block files."""
        return self._opened.refused if self._opened is not None else 0

    @property
    def blocked(self) -> BlockedBranch | None:
        """The branch that begins with a block of which every copy is damaged."""
        return self._opened.blocked() if self._opened is not None else None

    async def open(self) -> None:
        """Determine the network of the folder and read its headers. Raises SourceError."""
        network = await asyncio.to_thread(self._identify)
        self.take_network(network, self._options)
        if network.coin in SCRYPT:
            self.checked = "linkage; proof of work (scrypt, or the merge-mined parent chain's) of the blocks read"
        self._opened = BlockFolder(self.name, self.folder, network)
        await self.refresh()
        log.info("%s: %d blocks of %s in %s", self.name, len(self._opened.tree), network, self.folder)

    async def refresh(self) -> None:
        """Read the bytes that the node has appended. Raises SourceError."""
        await self.run_in_thread(self.block_folder.refresh)

    async def tip(self) -> BlockRef | None:
        """The newest block of the best chain by work, after a refresh."""
        await self.refresh()
        return await asyncio.to_thread(self.block_folder.ref)

    async def ref(self, height: int) -> BlockRef | None:
        """The best chain's block at `height` as of the last refresh; None above the tip."""
        return await asyncio.to_thread(self.block_folder.ref, height)

    async def blocks(self, first: int, last: int) -> AsyncGenerator[tuple[BlockRef, memoryview], None]:
        """The best chain's blocks from `first` to `last`, read ahead of the consumer. Views are valid until the next
        batch overwrites them."""
        buffers = [bytearray(BATCH_BYTES), bytearray(BATCH_BYTES)]
        height, before = first, None
        ahead = self._begin(first, last, buffers)
        try:
            while ahead is not None:
                numbers, reading = ahead
                read = await reading
                ahead = None
                if self._has_changed(before, height, numbers[0]):
                    return
                height, before = height + len(numbers), numbers[-1]
                buffers.reverse()
                if len(read) == len(numbers):
                    ahead = self._begin(height, last, buffers)
                for pair in read:
                    yield pair
        finally:
            if ahead is not None:
                await asyncio.wait([ahead[1]])
                ahead[1].exception()  # retrieved, so that asyncio does not log it: the consumer is gone

    def _has_changed(self, before: int | None, height: int, number: int) -> bool:
        """Whether a block is no longer the best chain's at its height, or its parent is not block `before`."""
        is_best = self.block_folder.branch(height, height) == [number]
        return not is_best or (before is not None and self.block_folder.tree.parent(number) != before)

    def _begin(
        self, first: int, last: int, buffers: list[bytearray]
    ) -> tuple[list[int], asyncio.Future[_Blocks]] | None:
        """Start reading as many blocks as fit into the first buffer, which grows if a single block is larger."""
        numbers = self.block_folder.branch(first, last) if first <= last else []
        if not numbers:
            return None
        size = self.block_folder.tree.location(numbers[0]).size
        if len(buffers[0]) < size <= MAPPED_BYTES:
            buffers[0] = bytearray(size + size // 4)
        return numbers, asyncio.ensure_future(asyncio.to_thread(self.block_folder.read, numbers, buffers[0]))

    async def values(self, outpoints: Iterable[Outpoint], before: BlockRef) -> dict[Outpoint, int]:
        """Satoshis of outputs created in `before` or earlier, searched backwards for `lookback` bytes of blocks."""
        return await self._search(before, lambda search: search.values(outpoints))

    async def ancestors(self, before: BlockRef, visit: AncestorVisitor) -> None:
        """Ancestors, searched backwards from `before` for `lookback` bytes of blocks."""
        await self._search(before, lambda search: search.visit(lambda _, raws: visit(raws)))

    async def heights(self, txids: Iterable[bytes], before: BlockRef) -> dict[bytes, int]:
        """Heights of transactions, searched backwards from `before` for `lookback` bytes of blocks."""
        return await self._search(before, lambda search: search.heights(txids))

    async def _search(self, before: BlockRef, search: Callable[[AncestorSearch], _T]) -> _T:
        folder = self.block_folder
        return await self.run_in_thread(lambda stop: search(AncestorSearch(folder, before, self._lookback, stop)))

    async def refuse(self, ref: BlockRef, why: str) -> None:
        """Use another copy of a block; without one, exclude it and its descendants until one is written."""
        await asyncio.to_thread(self.block_folder.refuse, ref, why)

    async def wait(self, seconds: float) -> None:
        """Return when a file has changed, at the latest after `seconds`."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while (left := end - loop.time()) > 0:
            if await asyncio.to_thread(self.block_folder.changed):
                return
            await asyncio.sleep(min(POLL_SECONDS, left))

    async def close(self) -> None:
        """Drop the index of the folder; no file is open between reads."""
        self._opened = None

    async def run_in_thread(self, task: Callable[[threading.Event], _T]) -> _T:
        """Run a long task in a thread; cancellation sets its stop event."""
        stop = threading.Event()
        try:
            return await asyncio.to_thread(task, stop)
        except asyncio.CancelledError:
            stop.set()
            raise

    # -- the network of the folder

    def _identify(self) -> Network:
        """The network by the options, else by `tip.json`; the coin also by the chain's name. Raises SourceError."""
        self._check_folder()
        tip_coin, tip_network = self._tip_file_network()
        coin = self._options.get("chain") or tip_coin or (self.name if self.name in COINS else "")
        if not coin:
            raise SourceError(f"{self.name}: which chain is in {self.folder}? add ?chain={'|'.join(COINS)}")
        name = self._options.get("network") or tip_network
        if not name:
            raise SourceError(f"{self.name}: which network is in {self.folder}? add ?network=mainnet|testnet|regtest")
        return network(coin, name)

    def _check_folder(self) -> None:
        try:
            names = [entry.name for entry in self.folder.iterdir()]
        except OSError as error:
            raise SourceError(
                f"{self.name}: the folder of blocks {self.folder} cannot be read ({error.strerror}); create or mount "
                "it, let this user read it, or correct the chain's URL"
            ) from error
        inside = sorted(path.parent for path in self.folder.glob("*/blk*.dat"))
        if inside and not any(name.startswith("blk") for name in names):
            raise SourceError(f"{self.name}: {self.folder} holds no blk*.dat, but {inside[0]} does; name that folder")

    def _tip_file_network(self) -> tuple[str, str]:
        """Coin and network in `tip.json`; empty without that file."""
        path = self.folder / "tip.json"
        try:
            chain_name = json.loads(path.read_bytes())["chain"] if path.exists() else ""
            coin, _, name = str(chain_name).partition("-")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SourceError(f"{self.name}: {path} does not name the chain ({error!r})") from error
        return coin, name or ("mainnet" if coin else "")
