"""A JungleBus server of a minted chain, on a local port: recorded shapes, faults and forged answers that a test sets.

    server = JungleBus(kit)
    async with server:
        chain = server.chain(tmp_path)           # what an indexer follows
        server.best = kit.branch(kit["3a"])      # the server has reorganised
        server.fail("proof", 500)                # the next answer of such a route
        server.alter("spend", lambda body: ...)    # every answer of such a route, changed

Nothing here uses the code under test but the reader of transactions: proofs are written by hand, as BRC-74 says.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any

from aiohttp import web

from indexer.chains import ChainStore, create
from indexer.chains.junglebus.chain import JungleBusChain
from indexer.retries import Backoff
from parsers.bitcoin.tx import Outpoint, Transaction
from tests.chainkit import ChainKit
from tests.chainkit_blocks import Block
from tests.oracles import merkle
from tests.waiting import stop

SUBSCRIPTION = "9efa781363dcdd470fdd2664c9ad75ff"

Respond = Callable[[web.Request], Awaitable[web.StreamResponse]]


def varint(number: int) -> bytes:
    if number < 0xFD:
        return bytes((number,))
    return b"\xfd" + number.to_bytes(2, "little") if number < 1 << 16 else b"\xfe" + number.to_bytes(4, "little")


def bump_of(block: Block, txid: bytes) -> bytes:
    """The merkle path of one transaction of a block, in the binary form of BRC-74."""
    index = block.txids.index(txid)
    beside = merkle.branch(list(block.txids), index)
    leaves: list[list[tuple[int, int, bytes]]] = [[(index, 2, txid)]]
    for level, node in enumerate(beside):
        leaf = ((index >> level) ^ 1, 0 if node else 1, node or b"")
        if level:
            leaves.append([leaf])
        else:
            leaves[0].append(leaf)
            leaves[0].sort()
    rows = [
        varint(len(row)) + b"".join(varint(position) + bytes((flag,)) + digest for position, flag, digest in row)
        for row in leaves
    ]
    return varint(block.height) + bytes((len(rows),)) + b"".join(rows)


def speaks(transaction: Transaction) -> bool:
    """True for a transaction that a stream of inscriptions and MAP delivers: never a bare move."""
    return any(b"ord" in output.script or b"1PuQa7K62MiKCtssSLKy1kh56WWU7MtUR5" in output.script for output in
               transaction.outputs)  # fmt: skip


class JungleBus:
    """Serves the blocks of `best`, genesis first; `matches` decides what the subscription delivers.

    `asked` holds the paths of all requests, in order. `bare` are txids whose `transaction` is left out of pages,
    `broken` holds txids and outpoints for which a route answers 500, `unmatched` are never delivered, `unproved` have
    no proof (yet), `unspent` are outpoints whose spender is hidden.
    """

    def __init__(self, kit: ChainKit, matches: Callable[[Transaction], bool] = speaks, page: int = 3) -> None:
        self.kit, self.matches, self.page = kit, matches, page
        self.best = kit.branch()
        self.requests: list[str] = []
        self.tokens: set[str] = set()
        self.bare: set[bytes] = set()
        self.broken: dict[str, set[str]] = {}
        self.unmatched: set[bytes] = set()
        self.unproved: set[bytes] = set()
        self.unspent: set[Outpoint] = set()
        self.controls: list[dict[str, Any]] = []
        self._faults: dict[str, deque[Respond]] = {}
        self._forgeries: dict[str, Callable[[Any], Any]] = {}
        self.url = ""

    # -- what a test says

    def follow(self) -> None:
        """The best chain is the mint's now."""
        self.best = self.kit.branch()

    def fail(self, route: str, *statuses: int, **headers: str) -> None:
        """The next requests of a route (tip, get_header, list, page, get, proof, spend) are answered so."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}

        def respond(status: int) -> Respond:
            async def fault(_: web.Request) -> web.Response:
                return web.Response(status=status, text="no", headers=sent)

            return fault

        self._faults.setdefault(route, deque()).extend(respond(status) for status in statuses)

    def break_off(self, route: str, respond: Respond) -> None:
        """The next request of a route is answered by this."""
        self._faults.setdefault(route, deque()).append(respond)

    def alter(self, route: str, change: Callable[[Any], Any]) -> None:
        """Every answer of a route is changed, until `honest`: JSON as decoded, bytes as they are."""
        self._forgeries[route] = change

    def honest(self) -> None:
        """End all forged answers and faults."""
        self._forgeries.clear()
        self._faults.clear()

    def chain(self, rows: ChainStore | None = None, name: str = "demo", more: str = "") -> JungleBusChain:
        """A chain that follows this server, and never waits between looks."""
        source = create(name, f"junglebus:{SUBSCRIPTION}?url={self.url}&network=regtest&chain=bsv{more}", rows)
        assert isinstance(source, JungleBusChain)
        source.poll_seconds = 0
        source.retries.backoff = Backoff(0, 0)
        return source

    # -- the server

    async def __aenter__(self) -> JungleBus:
        application = web.Application()
        for path, name, handler in (
            ("/block_header/tip", "tip", self._tip),
            ("/block_header/get/{what}", "get_header", self._header),
            ("/block_header/list/{first}", "list", self._headers),
            (f"/transaction/from_block/{SUBSCRIPTION}", "page", self._page),
            ("/transaction/get/{txid}/bin", "get", self._raw),
            ("/transaction/proof/{txid}/bin", "proof", self._proof),
            ("/txo/spend/{outpoint}", "spend", self._spend),
        ):
            application.router.add_get(f"/v1{path}", self._route(name, handler))
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        await stop(self._runner)

    def _route(self, name: str, handler: Callable[[web.Request], Any]) -> Respond:
        async def respond(request: web.Request) -> web.StreamResponse:
            self.requests.append(request.path_qs.removeprefix("/v1"))
            self.tokens.add(request.headers.get("token", ""))
            if self._faults.get(name):
                return await self._faults[name].popleft()(request)
            if self.broken.get(name, set()) & set(request.match_info.values()):
                return web.Response(status=500, text="no")
            result = handler(request)
            if name in self._forgeries:
                result = self._forgeries[name](result)
            if result is None:
                return web.Response(status=404, text="not found")
            if isinstance(result, bytes):
                return web.Response(body=result)
            return web.Response(text=json.dumps(result), content_type="application/json")

        return respond

    # -- its answers

    def _tip(self, _: web.Request) -> Any:
        return header_json(self.best[-1])

    def _header(self, request: web.Request) -> Any:
        what = request.match_info["what"]
        return next((header_json(item) for item in self.best if what in (str(item.height), item.hex)), None)

    def _headers(self, request: web.Request) -> Any:
        first, limit = int(request.match_info["first"]), min(int(request.query["limit"]), 10_000)
        return [header_json(item) for item in self.best[first : first + limit]]

    def _page(self, request: web.Request) -> Any:
        position = (int(request.query["height"]), int(request.query["last_idx"]))
        results = [
            self.entry_json(block, index)
            for block in self.best[position[0] :]
            for index, txid in enumerate(block.txids)
            if (block.height, index) > position
            and txid not in self.unmatched
            and self.matches(self.kit.tx(txid_out(txid)))
        ]
        return [*results[: self.page], *self.controls]

    def _delivers(self, txid: bytes) -> bool:
        return txid not in self.unmatched and self.matches(self.kit.tx(txid_out(txid)))

    def entry_json(self, block: Block, index: int) -> dict[str, Any]:
        """A transaction in the recorded shape."""
        txid = block.txids[index]
        raw = "" if txid in self.bare else base64.b64encode(self.kit.raw(txid_out(txid))).decode()
        return {
            "id": txid[::-1].hex(), "transaction": raw, "block_hash": block.hex, "block_height": block.height,
            "block_time": block.time, "block_index": index, "addresses": [], "inputs": [], "outputs": [],
            "input_types": [], "output_types": ["ord"], "contexts": [], "sub_contexts": [], "data": [],
            "merkle_proof": "",
        }  # fmt: skip

    def block_of(self, txid: bytes) -> Block | None:
        """The block of the best chain that holds a transaction."""
        return next((block for block in self.best if txid in block.txids), None)

    def _raw(self, request: web.Request) -> bytes | None:
        txid = bytes.fromhex(request.match_info["txid"])[::-1]
        try:
            return self.kit.raw(txid_out(txid))
        except KeyError:
            return None

    def _proof(self, request: web.Request) -> bytes | None:
        txid = bytes.fromhex(request.match_info["txid"])[::-1]
        block = self.block_of(txid)
        return bump_of(block, txid) if block and txid not in self.unproved else None

    def _spend(self, request: web.Request) -> bytes:
        outpoint = Outpoint.parse(request.match_info["outpoint"])
        for block in self.best if outpoint not in self.unspent else ():
            for txid in block.txids:
                if any(spent.prevout == outpoint for spent in self.kit.tx(txid_out(txid)).inputs):
                    return txid[::-1]
        return b""


def txid_out(txid: bytes) -> Outpoint:
    return Outpoint(txid, 0)


def header_json(block: Block) -> dict[str, Any]:
    """A header in the recorded shape, which leaves out the block before."""
    raw = block.header
    version, time, _, nonce = (int.from_bytes(raw[number : number + 4], "little") for number in (0, 68, 72, 76))
    return {
        "hash": block.hex, "coin": 1, "height": block.height, "time": time, "nonce": nonce, "version": version,
        "merkleroot": raw[67:35:-1].hex(), "bits": raw[75:71:-1].hex(), "synced": 1,
    }  # fmt: skip


async def silence(_: web.Request) -> web.StreamResponse:
    """Never answer."""
    await asyncio.Event().wait()
    raise AssertionError


async def cut(request: web.Request) -> web.StreamResponse:
    """Begin an answer, and break the connection off."""
    answer = web.StreamResponse(headers={"Content-Length": "1000"})
    await answer.prepare(request)
    await answer.write(b"[{")
    assert request.transport is not None
    request.transport.abort()
    return answer
