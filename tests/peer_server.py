"""A stand-in for a peer: serves the blocks of a chain in memory over the peer-to-peer protocol, as litecoind does.

    async with PeerServer(MemoryChain(*blocks)) as server:
        chain = server.chain()
        server.arrive(block)              # a new block, announced to whoever is connected
        server.instead["getdata"] = ...   # another answer, see Answer

It encodes messages by itself, and shares no code with what it tests.
"""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress

from indexer.chains.peers import create
from indexer.chains.peers.chain import PeersChain
from indexer.headers import proof_of_work
from parsers.bitcoin.tx import sha256d
from tests.chainkit_blocks import Block, count_bytes, read_count
from tests.fakes import MemoryChain

MAGICS = {"bsv": "dab5bffa", "bch": "dab5bffa", "btc": "fabfb5da", "ltc": "fabfb5da", "doge": "fabfb5da"}

Answer = Callable[["Connection", bytes], Awaitable[None]]


class Connection:
    """A client of the server."""

    def __init__(self, server: PeerServer, writer: asyncio.StreamWriter) -> None:
        self.server, self.writer = server, writer
        self.wants_headers = False

    def send(self, command: str, payload: bytes = b"", *, checksum: bytes | None = None) -> None:
        """Send a message."""
        self.writer.write(self.server.frame(command, payload, checksum))

    def headers(self, raws: list[bytes]) -> None:
        """Send headers, each of 80 bytes and perhaps merge-mined work."""
        self.send("headers", count_bytes(len(raws)) + b"".join(raw + b"\0" for raw in raws))


class PeerServer:
    """Serves a chain in memory. `requests` counts messages by command, `payloads` has the last of each; `blocks`
    are the hashes of blocks requested, which come in an `extmsg` where it `is_extended`."""

    def __init__(self, chain: MemoryChain, *, services: int = 0x21, host: str = "127.0.0.1", port: int = 0) -> None:
        self.source, self.services = chain, services
        self.magic = bytes.fromhex(MAGICS[chain.rules.coin])
        self.instead: dict[str, Answer] = {}
        self.withheld: set[bytes] = set()
        self.altered: Callable[[bytes], bytes] = bytes
        self.is_extended = False
        self.payloads: dict[str, bytes] = {}
        self.requests: Counter[str] = Counter()
        self.blocks: list[bytes] = []
        self.connections: list[Connection] = []
        self.host, self.port = host, port
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # -- its life

    async def start(self) -> None:
        """Listen; on the same port as before."""
        self._server = await asyncio.start_server(self._serve, self.host, self.port, limit=1 << 20)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Listen no more, and cut all connections."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def __aenter__(self) -> PeerServer:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"{self.host}:{self.port}"

    def chain(self, *others: PeerServer, name: str = "demo", mempool: str = "500000") -> PeersChain:
        """A chain that follows this peer, and others."""
        hosts = ",".join(server.address for server in (self, *others))
        return create(name, f"peers:?chain={self.source.rules.coin}&network=regtest&mempool={mempool}&connect={hosts}")

    def arrive(self, *blocks: Block) -> None:
        """New blocks, announced to all clients."""
        for block in blocks:
            self.source.arrive(block)
            for connection in self.connections:
                if connection.wants_headers:
                    connection.headers([self.header(block.raw)])
                else:
                    connection.send("inv", b"\1" + struct.pack("<I", 2) + block.hash)

    def announce(self, txid: bytes, raw: bytes) -> None:
        """A new unconfirmed transaction, announced to all clients."""
        self.source.unconfirmed[txid] = raw
        for connection in self.connections:
            connection.send("inv", b"\1" + struct.pack("<I", 1) + txid)

    # -- messages

    def frame(self, command: str, payload: bytes, checksum: bytes | None = None) -> bytes:
        """A message."""
        if command == "block" and self.is_extended:
            long = b"extmsg".ljust(12, b"\0") + b"\xff" * 4 + bytes(4)
            return self.magic + long + command.encode().ljust(12, b"\0") + struct.pack("<Q", len(payload)) + payload
        start = self.magic + command.encode().ljust(12, b"\0") + struct.pack("<I", len(payload))
        return start + (sha256d(payload)[:4] if checksum is None else checksum) + payload

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        connection = Connection(self, writer)
        self.connections.append(connection)
        try:
            with suppress(asyncio.IncompleteReadError, OSError):
                while True:
                    head = await reader.readexactly(24)
                    command = head[4:16].rstrip(b"\0").decode()
                    payload = await reader.readexactly(struct.unpack("<I", head[16:20])[0])
                    assert head[:4] == self.magic
                    assert head[20:] == sha256d(payload)[:4]
                    self.requests[command] += 1
                    self.payloads[command] = payload
                    answer = self.instead.get(command) or getattr(type(self), f"do_{command}", None)
                    if answer is not None:
                        await answer(
                            *([connection, payload] if command in self.instead else [self, connection, payload])
                        )
                    await writer.drain()
        except asyncio.CancelledError:
            pass
        finally:
            self._tasks.discard(task)
            self.connections.remove(connection)
            writer.transport.abort()

    async def do_version(self, connection: Connection, _payload: bytes) -> None:
        height = len(self.source.best) - 1
        start = struct.pack("<iQq", 70016, self.services, 1_700_000_000) + bytes(52) + b"nonce..."
        connection.send("version", start + b"\x06/peer/" + struct.pack("<iB", height, 1))
        connection.send("sendcmpct", b"\0" + bytes(8))
        connection.send("verack")

    async def do_sendheaders(self, connection: Connection, _payload: bytes) -> None:
        connection.wants_headers = True

    async def do_ping(self, connection: Connection, payload: bytes) -> None:
        connection.send("pong", payload)

    async def do_getheaders(self, connection: Connection, payload: bytes) -> None:
        count, offset = read_count(payload, 4)
        locator = [payload[offset + 32 * number :][:32] for number in range(count)]
        stop = payload[offset + 32 * count :][:32]
        best = self.source.best
        heights = {ref.hash: ref.height for ref in best}
        if not locator:
            connection.headers([self.header(self.source.raw(best[heights[stop]]))] if stop in heights else [])
            return
        start = next((heights[digest] + 1 for digest in locator if digest in heights), 1)
        connection.headers([self.header(self.source.raw(ref)) for ref in best[start : start + 2_000]])

    def header(self, raw: bytes) -> bytes:
        """The header of a block, with its merge-mined work."""
        is_merged = self.source.rules.coin == "doge" and raw[1] & 1
        return raw[: proof_of_work.header_end(raw)] if is_merged else raw[:80]

    async def do_getdata(self, connection: Connection, payload: bytes) -> None:
        count, offset = read_count(payload, 0)
        for number in range(count):
            kind, digest = struct.unpack_from("<I32s", payload, offset + 36 * number)
            if kind & 0xFFFF == 2:
                self.blocks.append(digest)
                if digest in self.source.refs and digest not in self.withheld:
                    connection.send("block", self.altered(self.source.raw(self.source.refs[digest])))
            elif digest in self.source.unconfirmed:
                connection.send("tx", self.source.unconfirmed[digest])
            else:
                connection.send("notfound", b"\1" + payload[offset + 36 * number :][:36])
            await connection.writer.drain()
