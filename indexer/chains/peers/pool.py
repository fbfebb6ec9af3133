"""The peers that are connected: each is replaced when its connection ends, and blocks are requested of several."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from indexer.chains.peers import block_check
from indexer.chains.peers.address_book import group_of
from indexer.chains.peers.header_sync import PeerHeaderSync
from indexer.chains.peers.messages import PeerAddress, WireHeader
from indexer.chains.peers.peer import LackingBlockError, Peer, PeerError
from indexer.chains.peers.peer_mempool import PeerMempool
from indexer.chains.peers.wire_networks import WireNetwork
from indexer.chains.prefetch import Room
from indexer.chains.silence import AnswerClock
from indexer.chains.spool import Spool
from indexer.errors import SourceUnavailableError
from indexer.model import BlockRef
from indexer.spill import folder
from parsers.errors import ParseError

log = logging.getLogger(__name__)

WINDOW = 16
"""Blocks that are requested of a peer at a time: as many as Bitcoin Core requests."""

ROUNDS, ROUND_SECONDS = 3, 2.0
"""How often all peers are asked for a block, and the seconds between two rounds."""

SYNC_SECONDS = 60.0
"""Seconds after which a peer is asked for new headers, though it announced none: an announcement may be lost."""

CONNECT_PAUSE = 0.1
"""Seconds before each attempt to connect, so that addresses that refuse at once take no processor."""

MAX_LACKING = 3
"""Blocks of the best chain that a peer may lack before it is replaced."""


class Addresses(Protocol):
    """Where the addresses of peers come from, and what becomes of them. `keeps_learning`: peers are asked for more."""

    keeps_learning: bool

    async def take(self) -> PeerAddress:
        """The next address to connect to; waits until there is one."""
        ...

    def succeed(self, address: PeerAddress) -> None:
        """The peer at this address sent what was requested of it."""
        ...

    def give_back(self, address: PeerAddress, error: PeerError | None) -> None:
        """The connection to this address ended."""
        ...

    def learn(self, addresses: Sequence[PeerAddress], source: PeerAddress | None = None) -> None:
        """A peer named these addresses."""
        ...

    async def close(self) -> None:
        """Write what changed."""
        ...


class PeerPool:
    """The connected peers, `count` at most. `changed` is called when there may be something new."""

    def __init__(
        self,
        name: str,
        wire: WireNetwork,
        addresses: Addresses,
        count: int,
        sync: PeerHeaderSync,
        tip_height: Callable[[], int],
        changed: Callable[[], None],
        mempool: PeerMempool | None,
    ) -> None:
        self.name, self._wire, self._addresses, self._count = name, wire, addresses, count
        self._sync, self._tip_height, self._changed = sync, tip_height, changed
        self.mempool = mempool
        self.peers: list[Peer] = []
        self.answers = AnswerClock()
        self.violation_count = 0
        self.last_error = "none has been connected to yet"
        self._slots: list[asyncio.Task[None]] = []
        self._updates: dict[Peer, asyncio.Event] = {}
        self._moved = asyncio.Condition()

    # -- connections

    def start(self) -> None:
        """Connect to peers until `close`."""
        self._slots = [asyncio.create_task(self._keep_connected()) for _ in range(self._count)]
        if self.mempool is not None:
            self._slots.append(asyncio.create_task(self.mempool.run()))

    async def close(self) -> None:
        """End all connections."""
        slots, self._slots = self._slots, []
        for slot in slots:
            slot.cancel()
        await asyncio.gather(*slots, return_exceptions=True)
        await self._addresses.close()

    async def _keep_connected(self) -> None:
        while True:
            address = await self._addresses.take()
            error: PeerError | None = None
            await asyncio.sleep(CONNECT_PAUSE)
            try:
                await self._serve(address)
            except PeerError as ended:
                error = ended
                self.violation_count += ended.is_violation
                self.last_error = f"{address}: {ended}"
                log.log(
                    logging.WARNING if ended.is_violation else logging.DEBUG,
                    "%s: the peer %s is left: %s", self.name, address, ended,
                )  # fmt: skip
            finally:
                self._addresses.give_back(address, error)

    async def _serve(self, address: PeerAddress) -> None:
        """Use a peer until its connection ends. Raises PeerError."""
        relay = self.mempool is not None
        peer = await Peer.connect(address, self._wire, self, self._tip_height(), relay=relay)
        self._updates[peer] = asyncio.Event()
        self.peers.append(peer)
        if self._addresses.keeps_learning:
            peer.request_addresses()
        works = [asyncio.create_task(work) for work in (peer.run(), self._update(peer))]
        try:
            await asyncio.wait(works, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.peers.remove(peer)
            del self._updates[peer]
            peer.close()
            if self.mempool is not None:
                self.mempool.leave(peer)
            for work in works:
                work.cancel()
            results = await asyncio.gather(*works, return_exceptions=True)
            await self._notify()
        errors = [result for result in results if isinstance(result, Exception)]
        violations = [error for error in errors if isinstance(error, PeerError) and error.is_violation]
        raise next(iter(violations + errors), PeerError("the connection is closed"))

    async def _update(self, peer: Peer) -> None:
        """Add the headers of a peer: all it has, then those that it announces."""
        update = self._updates[peer]
        while True:
            update.clear()
            await self._sync.reach(peer)
            if not peer.is_synced:
                peer.is_synced = True
                self._addresses.succeed(peer.address)
                log.info("%s: the peer %s (%a) is connected", self.name, peer.address, peer.version.user_agent)
            await self._notify()
            try:
                async with asyncio.timeout(SYNC_SECONDS):
                    await update.wait()
            except TimeoutError:
                continue

    async def _notify(self) -> None:
        self._changed()
        async with self._moved:
            self._moved.notify_all()

    @property
    def networks(self) -> int:
        """The number of networks of addresses (/16, of IPv6 /32) that peers with all their headers are in."""
        return len({group_of(peer.address) for peer in self.peers if peer.is_synced})

    @property
    def is_synced(self) -> bool:
        """Whether a peer has sent all its headers."""
        return any(peer.is_synced for peer in self.peers)

    # -- announcements

    def headers_announced(self, peer: Peer, headers: Sequence[WireHeader]) -> None:
        """Have the peer's headers requested: those announced may follow some that are missing here."""
        if headers:
            self.blocks_announced(peer)

    def blocks_announced(self, peer: Peer) -> None:
        """Have the peer's headers requested."""
        if peer in self._updates:
            self._updates[peer].set()

    def transactions_announced(self, peer: Peer, txids: Sequence[bytes]) -> None:
        """Have transactions requested."""
        if self.mempool is not None:
            self.mempool.announce(peer, txids)

    def transactions_missing(self, peer: Peer, txids: Sequence[bytes]) -> None:
        """Have transactions requested of another peer."""
        if self.mempool is not None:
            self.mempool.missing(peer, txids)

    def transaction_arrived(self, raw: bytes) -> bool:
        """Keep a transaction; False where it was not requested."""
        return self.mempool is not None and self.mempool.take(raw)

    def addresses_announced(self, peer: Peer, addresses: Sequence[PeerAddress]) -> None:
        """Note addresses of other peers."""
        self._addresses.learn(addresses, peer.address)

    # -- blocks

    async def fetch(self, ref: BlockRef, spool: Spool, room: Room) -> memoryview:
        """A block's bytes, held by `spool`, that match its header. Raises SourceUnavailableError."""
        reason = "no peer is connected"
        with self.answers.waiting():
            for round_ in range(ROUNDS):
                if round_:
                    await asyncio.sleep(ROUND_SECONDS)
                tried: set[Peer] = set()
                while (peer := await self._next_peer(tried)) is not None:
                    tried.add(peer)
                    try:
                        return await self._fetch_from(peer, ref, spool, room)
                    except (PeerError, LackingBlockError) as error:
                        spool.clear()
                        reason = str(error)
        raise SourceUnavailableError(
            f"{self.name}: no peer sends block {ref.height:,} ({ref.hash[::-1].hex()}): {reason}"
        )

    async def _next_peer(self, tried: set[Peer]) -> Peer | None:
        """A peer that was not tried yet and has room in its window; waits for one that has none. None without any."""
        async with self._moved:
            while True:
                left = [peer for peer in self.peers if peer.is_synced and peer not in tried]
                free = [peer for peer in left if peer.pending < WINDOW]
                if free or not left:
                    return min(free, key=lambda peer: peer.pending, default=None)
                await self._moved.wait()

    async def _fetch_from(self, peer: Peer, ref: BlockRef, spool: Spool, room: Room) -> memoryview:
        """Raises PeerError, LackingBlockError, and SourceUnavailableError where the block cannot be stored."""
        try:
            await peer.block(ref.hash, spool, room)
            view = await spool.view()
        except LackingBlockError:
            peer.lacking.add(ref.hash)
            if len(peer.lacking) >= MAX_LACKING:
                peer.end(PeerError("it does not send blocks of the best chain"))
            raise
        except OSError as error:
            raise SourceUnavailableError(
                f"{self.name}: block {ref.height:,} cannot be stored in {folder()}: {error.strerror}; make room there, "
                "or name another folder in TMPDIR"
            ) from error
        finally:
            await self._notify()
        try:
            checked = await asyncio.to_thread(block_check.checked, view, ref, self._wire)
        except ParseError as error:
            lie = PeerError(f"its block {ref.height:,} is not that of its header: {error}", is_violation=True)
            peer.end(lie)
            raise lie from None
        if self.mempool is not None and self.mempool.is_active:
            self.mempool.confirm(ref.hash, await asyncio.to_thread(block_check.txids, checked, self._wire))
        self.answers.receive(len(checked))
        self.answers.answer()
        return checked
