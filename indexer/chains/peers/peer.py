"""A connection to a peer: the handshake, its messages one by one, and the answers to what is requested of it.

Nothing that a peer sends is believed or unlimited: sizes, counts, times and the rate of messages are bounded, and what
is not used is skipped by its length. A peer that breaks a rule ends its own connection with a PeerError.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from typing import Protocol, TypeVar

from indexer.chains.peers import messages
from indexer.chains.peers.messages import FrameHeader, Inventory, PeerAddress, PeerVersion, WireHeader
from indexer.chains.peers.wire_networks import WireNetwork
from indexer.chains.prefetch import Room
from indexer.chains.spool import Spool
from indexer.headers.proof_of_work import HEADER_BYTES
from parsers.bitcoin.tx import sha256d
from parsers.errors import ParseError

CONNECT_SECONDS, HANDSHAKE_SECONDS = 10.0, 20.0

MESSAGE_BYTES = 4_000_000
"""The limit of a payload that is not a block: that of Bitcoin Core."""

HEADERS_SECONDS = 30.0
"""Seconds within which a request for headers is answered. A node that is still loading its chain does not answer."""

STALL_SECONDS = 20.0
"""Seconds without a byte of a requested block, after which the peer does not have it, or does not send it."""

PING_SECONDS, PINGS = 60.0, 2
"""Seconds without a message after which a peer is pinged, and pings without an answer after which it is gone."""

SLOWEST = 16 << 10
"""Bytes per second of a message at least, on average."""

ROOM_SECONDS = 60.0
"""Seconds that a block waits for room; then the connection ends, so that blocks before it can come over another."""

MESSAGES_PER_SECOND, MESSAGES_AT_ONCE = 100.0, 3_000.0
"""Messages that a peer may send unasked, on average and at once."""

COUNTED_BYTES = 10_000
"""Bytes of a message that count as a further message: reading lists takes processor time."""

MAX_UNREQUESTED = 4
"""Blocks that a peer may send without a request."""

_PIECE = 1 << 18
_T = TypeVar("_T")
_HANDSHAKE_MESSAGES = 32
_MIN_PROTOCOL = 31_800


def user_agent() -> str:
    """The name and version of this program, as peers see it."""
    try:
        return f"/a2b-registry:{installed('a2b-registry')}/"
    except PackageNotFoundError:
        return "/a2b-registry:0/"


class PeerError(Exception):
    """A connection ended. `is_violation`: the peer broke a rule of the protocol, or sent what cannot be true."""

    def __init__(self, reason: str, *, is_violation: bool = False) -> None:
        super().__init__(reason)
        self.is_violation = is_violation


class LackingBlockError(Exception):
    """A peer does not send a block that it was asked for: it is pruned, or on another branch."""


class PeerEvents(Protocol):
    """The receiver of messages that answer no request."""

    def headers_announced(self, peer: Peer, headers: Sequence[WireHeader]) -> None:
        """Headers of new blocks."""

    def blocks_announced(self, peer: Peer) -> None:
        """Hashes of new blocks."""

    def transactions_announced(self, peer: Peer, txids: Sequence[bytes]) -> None:
        """Txids of unconfirmed transactions."""

    def transactions_missing(self, peer: Peer, txids: Sequence[bytes]) -> None:
        """Txids of transactions that the peer was asked for and does not have."""

    def transaction_arrived(self, raw: bytes) -> bool:
        """A transaction; False where it was not requested."""

    def addresses_announced(self, peer: Peer, addresses: Sequence[PeerAddress]) -> None:
        """Addresses of other peers."""


class _BlockRequest:
    """A block that was requested, and the future that its arrival ends."""

    def __init__(self, digest: bytes, spool: Spool, room: Room) -> None:
        self.digest, self.spool, self.room = digest, spool, room
        self.arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.began = time.monotonic()


class Peer:
    """A peer after the handshake. `run` reads its messages; the other methods wait for answers meanwhile."""

    def __init__(
        self,
        address: PeerAddress,
        wire: WireNetwork,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        events: PeerEvents,
    ) -> None:
        self.address, self._wire, self._reader, self._writer, self._events = address, wire, reader, writer, events
        self.version = PeerVersion(0, 0, b"", "", 0)
        self.is_synced = False
        self.lacking: set[bytes] = set()
        self._headers: asyncio.Future[list[WireHeader]] | None = None
        self._blocks: list[_BlockRequest] = []
        self._progress = time.monotonic()
        self._is_waiting_for_room = False
        self._unrequested = 0
        self._allowance, self._counted = MESSAGES_AT_ONCE, time.monotonic()
        self._error: PeerError | None = None
        self._handlers: dict[str, Callable[[bytes], None]] = {
            "ping": self._pong, "headers": self._take_headers, "inv": self._take_inventory,
            "notfound": self._take_not_found, "tx": self._take_transaction, "addr": self._take_addresses,
            "reject": self._take_reject,
        }  # fmt: skip

    @property
    def pending(self) -> int:
        """The number of blocks that are requested and have not arrived."""
        return sum(not request.arrived.done() for request in self._blocks)

    # -- the connection

    @classmethod
    async def connect(
        cls, address: PeerAddress, wire: WireNetwork, events: PeerEvents, height: int, *, relay: bool
    ) -> Peer:
        """Connect and greet. `height` is that of our tip; with `relay`, transactions are announced. Raises
        PeerError."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                reader, writer = await asyncio.open_connection(str(address.ip), address.port, limit=1 << 20)
        except (OSError, TimeoutError) as error:
            raise PeerError(f"it cannot be connected to: {type(error).__name__}") from None
        peer = cls(address, wire, reader, writer, events)
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                await peer._greet(height, relay=relay)
        except TimeoutError:
            peer.close()
            raise PeerError(f"it does not greet within {HANDSHAKE_SECONDS:g} s") from None
        except BaseException:
            peer.close()
            raise
        return peer

    async def _greet(self, height: int, *, relay: bool) -> None:
        """Exchange `version` and `verack`."""
        nonce, now = secrets.token_bytes(8), int(time.time())
        self._send(
            "version", messages.version(self._wire.protocol, user_agent(), nonce, now, max(height, 0), relay=relay)
        )
        waiting = {"version", "verack"}
        for _ in range(_HANDSHAKE_MESSAGES):
            frame = await self._next_frame()
            payload = await self._payload(frame)
            if frame.command == "version" and "version" in waiting:
                self.version = _parsed(messages.read_version, payload)
                self._check_version()
                self._send("verack")
            waiting.discard(frame.command)
            if not waiting:
                if self._wire.extended:
                    self._send("protoconf", messages.protocol_configuration(MESSAGE_BYTES))
                self._send("sendheaders")
                return
        raise PeerError(f"it does not greet in its first {_HANDSHAKE_MESSAGES} messages", is_violation=True)

    def _check_version(self) -> None:
        if self.version.version < _MIN_PROTOCOL:
            raise PeerError(f"its protocol version is {self.version.version}", is_violation=True)
        if not self.version.services & 1:
            raise PeerError("it does not serve all blocks (pruned)")

    def close(self) -> None:
        """End the connection; what waits for an answer fails."""
        self._fail(PeerError("the connection is closed"))
        self._writer.transport.abort()

    def _fail(self, error: PeerError) -> None:
        if self._error is not None:
            return
        self._error = error
        if self._headers is not None and not self._headers.done():
            self._headers.set_exception(error)
            self._headers.exception()
        for request in self._blocks:
            if not request.arrived.done():
                request.arrived.set_exception(error)
                request.arrived.exception()
        self._blocks.clear()

    def end(self, error: PeerError) -> None:
        """End the connection for a reason, which `run` raises."""
        self._fail(error)
        self._writer.transport.abort()

    def _send(self, command: str, payload: bytes = b"") -> None:
        if self._error is not None:
            raise self._error
        self._writer.write(messages.frame(self._wire.magic, command, payload))
        if self._writer.transport.get_write_buffer_size() > MESSAGE_BYTES:
            raise PeerError("it does not read what is sent to it", is_violation=True)

    # -- reading

    async def run(self) -> None:
        """Read and handle messages until the connection ends. Raises PeerError."""
        try:
            while True:
                await self._handle(await self._next_frame())
        except PeerError as error:
            self._fail(error)
        finally:
            self.close()
        raise self._error or PeerError("the connection is closed")

    async def _next_frame(self) -> FrameHeader:
        """The next frame header. A silent peer is pinged."""
        for number in range(PINGS + 1):
            try:
                async with asyncio.timeout(PING_SECONDS):
                    raw = await self._exactly(messages.FRAME_BYTES)
                break
            except TimeoutError:
                if number == PINGS:
                    raise PeerError("it is silent, also after a ping") from None
                self._send("ping", secrets.token_bytes(8))
        frame = _parsed(lambda raw: messages.read_frame(raw, self._wire.magic), raw)
        if frame.command == messages.EXTENDED and self._wire.extended and frame.size == messages.EXTENDED_SIZE:
            async with self._timeout(messages.EXTENSION_BYTES):
                frame = _parsed(messages.read_extension, await self._exactly(messages.EXTENSION_BYTES))
        limit = self._wire.block_bytes if frame.command in ("block", "tx") else MESSAGE_BYTES
        if frame.size > limit:
            raise PeerError(f"a message {frame.command} of {frame.size:,} bytes", is_violation=True)
        return frame

    async def _handle(self, frame: FrameHeader) -> None:
        if frame.command == "block":
            await self._take_block(frame.size)
            return
        is_requested = frame.command == "tx" or (frame.command == "headers" and self._headers is not None)
        if not is_requested:
            self._count_message(frame.size)
        payload = await self._payload(frame)
        handler = self._handlers.get(frame.command)
        if handler is None or len(payload) < frame.size:
            return
        try:
            messages.check(frame, payload)
            handler(payload)
        except ParseError as error:
            raise PeerError(f"a message {frame.command} cannot be read: {error}", is_violation=True) from None

    def _count_message(self, size: int) -> None:
        """Count a message that was not requested, and a large one for several."""
        now = time.monotonic()
        self._allowance = min(MESSAGES_AT_ONCE, self._allowance + (now - self._counted) * MESSAGES_PER_SECOND)
        self._allowance -= 1 + size / COUNTED_BYTES
        self._counted = now
        if self._allowance < 0:
            raise PeerError(f"more than {MESSAGES_PER_SECOND:g} messages a second", is_violation=True)

    async def _payload(self, frame: FrameHeader) -> bytes:
        """The whole payload of a message that is used, else an empty one: it is skipped, as is a transaction above
        MESSAGE_BYTES."""
        try:
            async with self._timeout(frame.size):
                is_used = frame.command in self._handlers or frame.command == "version"
                if is_used and frame.size <= MESSAGE_BYTES:
                    return await self._exactly(frame.size)
                await self._skip(frame.size)
                return b""
        except TimeoutError:
            raise PeerError(f"a message {frame.command} comes slower than {SLOWEST >> 10} kB/s") from None

    @staticmethod
    def _timeout(size: int) -> asyncio.Timeout:
        return asyncio.timeout(STALL_SECONDS + size / SLOWEST)

    async def _exactly(self, size: int) -> bytes:
        try:
            return await self._reader.readexactly(size)
        except (asyncio.IncompleteReadError, OSError):
            raise self._error or PeerError("it closed the connection") from None

    async def _piece(self, size: int) -> bytes:
        """The next bytes, at most `size`."""
        try:
            piece = await self._reader.read(min(size, _PIECE))
        except OSError:
            piece = b""
        if not piece:
            raise self._error or PeerError("it closed the connection within a message")
        return piece

    async def _skip(self, size: int) -> None:
        while size:
            size -= len(await self._piece(size))

    # -- answers

    def request_addresses(self) -> None:
        """Have the peer announce addresses of others."""
        self._send("getaddr")

    async def headers(self, locator: Sequence[bytes], stop: bytes = bytes(32)) -> list[WireHeader]:
        """Headers after the newest hash of the locator that the peer's best chain has, 2,000 at most; fewer where they
        end in its tip. With an empty locator, the header of the block `stop`. Raises PeerError."""
        answered = self._headers = asyncio.get_running_loop().create_future()
        self._send("getheaders", messages.get_headers(self._wire.protocol, locator, stop))
        try:
            async with asyncio.timeout(HEADERS_SECONDS):
                return await asyncio.shield(answered)
        except TimeoutError:
            raise PeerError(
                f"it sends no headers within {HEADERS_SECONDS:g} s; a node that is still loading its chain, or whose "
                "newest block is a day old, sends none"
            ) from None
        finally:
            answered.cancel()
            self._headers = None

    def request_transactions(self, txids: Iterable[bytes]) -> None:
        """Have the peer send transactions. Raises PeerError."""
        self._send("getdata", messages.inventory(Inventory(self._wire.tx_kind, txid) for txid in txids))

    async def block(self, digest: bytes, spool: Spool, room: Room) -> None:
        """Have a block written to `spool`: bytes that begin with its header. Raises LackingBlockError, PeerError, and
        OSError where they cannot be written."""
        request = _BlockRequest(digest, spool, room)
        self._blocks.append(request)
        try:
            self._send("getdata", messages.inventory([Inventory(self._wire.block_kind, digest)]))
            while not request.arrived.done():
                since = max(request.began, self._progress)
                left = STALL_SECONDS if self._is_waiting_for_room else since + STALL_SECONDS - time.monotonic()
                if left <= 0:
                    raise LackingBlockError(f"no byte of a block within {STALL_SECONDS:g} s")
                await asyncio.wait([request.arrived], timeout=left)
            request.arrived.result()
        finally:
            request.arrived.cancel()

    def _request_of(self, digest: bytes) -> _BlockRequest | None:
        """The request that a block answers. Blocks come in the order in which they were requested: the peer does not
        have those before it."""
        for number, request in enumerate(self._blocks):
            if request.digest == digest:
                for earlier in self._blocks[:number]:
                    self._fail_request(earlier, "it sends a later one")
                del self._blocks[: number + 1]
                return request
        return None

    @staticmethod
    def _fail_request(request: _BlockRequest, reason: str) -> None:
        if not request.arrived.done():
            request.arrived.set_exception(LackingBlockError(reason))

    async def _take_block(self, size: int) -> None:
        if size <= HEADER_BYTES:
            raise PeerError(f"a block of {size} bytes", is_violation=True)
        async with self._timeout(HEADER_BYTES):
            header = await self._exactly(HEADER_BYTES)
        request = self._request_of(sha256d(header))
        if request is None:
            self._unrequested += 1
            if self._unrequested > MAX_UNREQUESTED:
                raise PeerError("it sends blocks that nobody requested", is_violation=True)
        elif not request.arrived.done():
            await self._wait_for_room(request, size)
        try:
            async with self._timeout(size):
                await self._write(request, header, size)
        except TimeoutError:
            raise PeerError(f"a block comes slower than {SLOWEST >> 10} kB/s") from None

    async def _wait_for_room(self, request: _BlockRequest, size: int) -> None:
        self._is_waiting_for_room = True
        self._blocks.insert(0, request)  # fails with the connection
        try:
            async with asyncio.timeout(ROOM_SECONDS):
                await request.room(size)
        except TimeoutError:
            raise PeerError("its blocks wait for an earlier one, which comes from another peer") from None
        finally:
            self._is_waiting_for_room, self._progress = False, time.monotonic()
            if self._blocks:
                self._blocks.remove(request)

    async def _write(self, request: _BlockRequest | None, header: bytes, size: int) -> None:
        """Write the bytes of a block to the spool of its request, as long as it is waited for."""
        piece, left = header, size - len(header)
        while True:
            if request is not None:
                self._progress = time.monotonic()
            if request is not None and not request.arrived.done():
                try:
                    await request.spool.add(piece)
                except (OSError, ValueError) as error:
                    request.arrived.set_exception(error)
            if not left:
                break
            piece = await self._piece(left)
            left -= len(piece)
        if request is not None and not request.arrived.done():
            request.arrived.set_result(None)

    # -- single messages

    def _pong(self, payload: bytes) -> None:
        if len(payload) <= 8:
            self._send("pong", payload)

    def _take_headers(self, payload: bytes) -> None:
        headers = messages.read_headers(payload, auxpow=self._wire.auxpow)
        if self._headers is not None and not self._headers.done():
            self._headers.set_result(headers)
        else:
            self._events.headers_announced(self, headers)

    def _take_inventory(self, payload: bytes) -> None:
        entries = messages.read_inventory(payload)
        if any(entry.kind == messages.BLOCK for entry in entries):
            self._events.blocks_announced(self)
        if txids := [entry.hash for entry in entries if entry.kind == messages.TX]:
            self._events.transactions_announced(self, txids)

    def _take_transaction(self, payload: bytes) -> None:
        if not self._events.transaction_arrived(payload):
            self._count_message(len(payload))

    def _take_not_found(self, payload: bytes) -> None:
        missing = {entry.hash for entry in messages.read_inventory(payload)}
        self._events.transactions_missing(self, list(missing))
        for request in self._blocks:
            if request.digest in missing:
                self._fail_request(request, "it answers notfound")
        self._blocks = [request for request in self._blocks if request.digest not in missing]

    def _take_addresses(self, payload: bytes) -> None:
        self._events.addresses_announced(self, messages.read_addresses(payload))

    def _take_reject(self, payload: bytes) -> None:
        if payload.startswith(b"\x07getdata"):
            raise PeerError("it is overloaded, and rejects requests")


def _parsed(read: Callable[[bytes], _T], raw: bytes) -> _T:
    """The record that `read` makes of bytes. Raises PeerError."""
    try:
        return read(raw)
    except ParseError as error:
        raise PeerError(str(error), is_violation=True) from None
