"""`files:` a folder of block files as a node writes it, read without the node and followed while it grows.

`files:/path/to/blocks?chain=bsv&network=mainnet&from=HEIGHT&finality=N&lookback=BYTES`. A `tip.json` in the folder that
says, for instance, `{"chain": "bsv-regtest"}` stands in for `chain` and `network`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote

from indexer.chains import Follow, HeaderRows, Rules, SourceError, options
from indexer.chains.blkfolder import BATCH_BYTES, MAPPED_BYTES, BadBlock, BlkFolder
from indexer.facts import BlockRef
from indexer.networks import COINS, SCRYPT, Network, network
from parsers.tx import Outpoint

log = logging.getLogger(__name__)

LOOKBACK = 2 << 30
"""Bytes of blocks that are searched backwards for the values of a parent's outputs."""

POLL_SECONDS = 0.25

_OPTIONS = ("chain", "network", "from", "finality", "lookback")
_T = TypeVar("_T")
_Blocks = list[tuple[BlockRef, memoryview]]


def create(name: str, url: str, _headers: HeaderRows | None = None) -> FilesChain:
    """The chain that a `files:` URL describes, not looked at yet. Raises SourceError saying what is wrong."""
    path, _, query = url.removeprefix("files:").partition("?")
    if not path:
        raise SourceError(f"{name}: {url!r} names no folder; write files:/path/to/blocks")
    return FilesChain(name, Path(unquote(path)).expanduser(), options.read(name, query, "files", _OPTIONS))


class FilesChain:
    """A chain read from a folder of `blk*.dat`."""

    caip2: str
    network: str
    rules: Rules
    finality: int | None
    first: int
    complete = True
    checked = "linkage, proof of work by own bits"

    def __init__(self, name: str, folder: Path, options: dict[str, str]) -> None:
        self.name, self.folder = name, folder
        self._options = options
        self._lookback = int(options.get("lookback", LOOKBACK))
        self._opened: BlkFolder | None = None

    @property
    def _blocks(self) -> BlkFolder:
        if self._opened is None:
            raise SourceError(f"{self.name}: {self.folder} is not open")
        return self._opened

    @property
    def bad(self) -> deque[BadBlock]:
        """The newest hundred pieces of block files that are not used, and why."""
        return self._blocks.bad

    @property
    def refused(self) -> int:
        """How many pieces of block files are not used."""
        return self._blocks.refused

    @property
    def waiting(self) -> int:
        """How many blocks wait for their parent."""
        return self._blocks.waiting

    async def open(self) -> None:
        """Find out what the folder holds and read its headers. Raises SourceError saying what to do."""
        known = await asyncio.to_thread(self._identify)
        self.caip2, self.network, self.rules = known.caip2, known.kind, known.rules
        self.first = int(self._options.get("from", known.first))
        given = self._options.get("finality")
        self.finality = known.finality if given is None else int(given)
        if known.coin in SCRYPT:
            self.checked = "linkage; proof of work (scrypt, or of the chain mined together with) of the blocks read"
        self._opened = BlkFolder(self.name, self.folder, known)
        await self.refresh()
        log.info("%s: %d blocks of %s in %s", self.name, len(self._opened.tree), known, self.folder)

    async def refresh(self) -> None:
        """Take in what the node has written since. Raises SourceError."""
        await self._work(self._blocks.refresh)

    async def tip(self) -> BlockRef | None:
        """The newest block of the best chain by work, after a look at the files."""
        await self.refresh()
        return await asyncio.to_thread(self._blocks.ref)

    async def ref(self, height: int) -> BlockRef | None:
        """The best chain's block at `height` as the files were last read, None above the tip."""
        return await asyncio.to_thread(self._blocks.ref, height)

    async def blocks(self, first: int, last: int) -> AsyncIterator[tuple[BlockRef, memoryview]]:
        """The best chain's blocks from `first` to `last`, read while those before are used. Views are overwritten."""
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
                ahead[1].exception()  # nobody asks for these any more

    def _has_changed(self, before: int | None, height: int, number: int) -> bool:
        """Whether a block is no longer the one at its height, or does not stand on the one before it."""
        is_best = self._blocks.branch(height, height) == [number]
        return not is_best or (before is not None and self._blocks.tree.parent(number) != before)

    def _begin(
        self, first: int, last: int, buffers: list[bytearray]
    ) -> tuple[list[int], asyncio.Future[_Blocks]] | None:
        """Have as many blocks read as fit into the first buffer, or one that makes it grow."""
        numbers = self._blocks.branch(first, last) if first <= last else []
        if not numbers:
            return None
        size = self._blocks.tree.place(numbers[0]).size
        if len(buffers[0]) < size <= MAPPED_BYTES:
            buffers[0] = bytearray(size + size // 4)
        return numbers, asyncio.ensure_future(asyncio.to_thread(self._blocks.read, numbers, buffers[0]))

    async def values(self, outpoints: Iterable[Outpoint], before: BlockRef) -> dict[Outpoint, int]:
        """Satoshis of outputs made in `before` or earlier, searched backwards for `lookback` bytes of blocks."""
        return await self._work(lambda stop: self._blocks.values(outpoints, before, self._lookback, stop))

    async def ancestors(self, before: BlockRef, follow: Follow) -> None:
        """Ancestors, searched backwards from `before` for `lookback` bytes of blocks."""
        await self._work(
            lambda stop: self._blocks.ancestors(before, self._lookback, lambda _, found: follow(found), stop)
        )

    async def heights(self, txids: Iterable[bytes], before: BlockRef) -> dict[bytes, int]:
        """Heights of transactions, searched backwards from `before` for `lookback` bytes of blocks."""
        left, heights = set(txids), dict[bytes, int]()

        def note(height: int, found: Mapping[bytes, bytes]) -> set[bytes]:
            heights.update(dict.fromkeys(found, height))
            return left - heights.keys()

        await self._work(lambda stop: self._blocks.ancestors(before, self._lookback, note, stop))
        return heights

    async def mempool(self) -> None:
        """Nothing unconfirmed stands in block files."""

    async def transactions(self, _txids: Iterable[bytes]) -> dict[bytes, bytes]:
        """None: block files have no index of transactions."""
        return {}

    async def refuse(self, ref: BlockRef, why: str) -> None:
        """Leave out a block and all on top of it, until another copy of it is written."""
        await asyncio.to_thread(self._blocks.refuse, ref, why)

    async def wait(self, seconds: float) -> None:
        """Return when a file has changed, at the latest after `seconds`."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while (left := end - loop.time()) > 0:
            if await asyncio.to_thread(self._blocks.changed):
                return
            await asyncio.sleep(min(POLL_SECONDS, left))

    async def close(self) -> None:
        """Forget what was read; no file stays open between reads."""
        self._opened = None

    async def _work(self, task: Callable[[threading.Event], _T]) -> _T:
        """Run long work in a thread, which is told to stop when nobody waits for it any more."""
        stop = threading.Event()
        try:
            return await asyncio.to_thread(task, stop)
        except asyncio.CancelledError:
            stop.set()
            raise

    # -- what the folder is

    def _identify(self) -> Network:
        """Coin and network from the options, from `tip.json`, or the coin from the name. Raises SourceError."""
        self._look()
        said_coin, said_network = self._said()
        coin = self._options.get("chain") or said_coin or (self.name if self.name in COINS else "")
        if not coin:
            raise SourceError(f"{self.name}: which chain is in {self.folder}? add ?chain={'|'.join(COINS)}")
        name = self._options.get("network") or said_network
        if not name:
            raise SourceError(f"{self.name}: which network is in {self.folder}? add ?network=mainnet|testnet|regtest")
        return network(coin, name)

    def _look(self) -> None:
        try:
            names = [path.name for path in self.folder.iterdir()]
        except OSError as error:
            raise SourceError(
                f"{self.name}: the folder of blocks {self.folder} cannot be read ({error.strerror}); create or mount "
                "it, let this user read it, or correct the chain's URL"
            ) from error
        inside = sorted(found.parent for found in self.folder.glob("*/blk*.dat"))
        if inside and not any(name.startswith("blk") for name in names):
            raise SourceError(f"{self.name}: {self.folder} holds no blk*.dat, but {inside[0]} does; name that folder")

    def _said(self) -> tuple[str, str]:
        """What `tip.json` says: coin and network, empty when there is none."""
        path = self.folder / "tip.json"
        try:
            said = json.loads(path.read_bytes())["chain"] if path.exists() else ""
            coin, _, name = str(said).partition("-")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SourceError(f"{self.name}: {path} does not say which chain this is ({error!r})") from error
        return coin, name or ("mainnet" if coin else "")
