"""A stand-in for a node: serves JSON-RPC and REST as a Bitcoin SV node was recorded to, over blocks held in memory.

    async with Node(MemoryChain(*blocks)) as node:
        chain = create("bsv", node.url)
        node.rest = False                 # as without -rest
        node.warming_up = "Loading block index..."
        node.instead[path] = ...          # forged and cut answers, see Answer
        await node.stop(); await node.start()   # the same port

Its answers are held to the recorded ones in `test_node_shapes.py`. What the tip, the branches and the mempool are is
said to its `chain`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections import Counter
from collections.abc import Callable
from typing import Any

import zmq
from aiohttp import web

from indexer.headers import proof_of_work
from indexer.model import BlockRef
from parsers.bitcoin import block, tx
from parsers.bitcoin.tx import Outpoint, sha256d
from tests.fakes import MemoryChain
from tests.oracles.merkle import merkle_block
from tests.ports import free_port
from tests.waiting import stop

NO_BLOCK, OUT_OF_RANGE = (-5, "Block not found"), (-8, "Block height out of range")
NO_TX = (
    -5,
    (
        "No such mempool or blockchain transaction. If using -prune, the transaction may be in a pruned block. "
        "Use gettransaction for wallet transactions."
    ),
)
CHUNKED = frozenset({"getblock", "getblockheader", "getrawtransaction", "getrawmempool"})
"""Calls that are answered in chunks, without a length."""

Answer = Callable[[web.Request], Any]


class RefusalError(Exception):
    """An error as JSON-RPC tells it."""


class Node:
    """Serves a chain in memory. `asked` counts calls by method and requests by the first two parts of their path."""

    def __init__(
        self, chain: MemoryChain, *, login: tuple[str, str] | None = ("user", "pass/word"), auxpow: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:  # fmt: skip
        self.chain, self.login, self.port, self.auxpow, self.tls = chain, login, 0, auxpow, tls
        self.rest, self.txindex, self.forbidden = True, True, False
        self.warming_up = ""
        self.least_fee = 0.0
        self.pruned_below = 0
        self.instead: dict[str, Answer] = {}
        self.refused: dict[str, tuple[int, str]] = {}
        self.requests: Counter[str] = Counter()
        self.open_now = 0
        self._runner: web.AppRunner | None = None

    # -- its life

    async def start(self) -> None:
        """Listen; on the same port as before."""
        app = web.Application(client_max_size=64 << 20)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(
            self._runner, "127.0.0.1", self.port or free_port(), reuse_address=True, ssl_context=self.tls
        )
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Cut all connections and listen no more."""
        if self._runner is not None:
            await stop(self._runner)
            self._runner = None

    async def __aenter__(self) -> Node:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        """Its URL with the login, as a setting has it."""
        if self.login is None:
            return self.bare_url
        user, password = self.login
        return f"http://{user}:{password.replace('/', '%2F')}@127.0.0.1:{self.port}"

    @property
    def bare_url(self) -> str:
        """Its URL without login."""
        return f"http://127.0.0.1:{self.port}"

    # -- answering

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.open_now += 1
        try:
            if request.path.startswith("/rest/"):
                self.requests["/".join(request.path.split("/")[:3])] += 1
                return await self._rest(request)
            return await self._rpc(request)
        finally:
            self.open_now -= 1

    async def _rpc(self, request: web.Request) -> web.StreamResponse:
        if request.method != "POST":
            return web.Response(status=405, text="JSONRPC server handles only POST requests", content_type="text/html")
        if self.forbidden:
            return web.Response(status=403, content_type="text/html")
        if not self._knows(request.headers.get("Authorization", "")):
            return web.Response(
                status=401, headers={"WWW-Authenticate": 'Basic realm="jsonrpc"'}, content_type="text/html"
            )
        try:
            body = json.loads(await request.read())
        except ValueError:
            return self._json({"result": None, "error": {"code": -32700, "message": "Parse error"}, "id": None}, 500)
        if isinstance(body, list):
            rows = [self._row(item)[0] for item in body]
            return await self._chunks(request, json.dumps(rows))
        if body["method"] in self.instead:
            created = self.instead[body["method"]](request)
            return await created if asyncio.iscoroutine(created) else created
        row, status = self._row(body)
        if status == 200 and body["method"] in CHUNKED:
            return await self._chunks(request, json.dumps(row))
        return self._json(row, status)

    def _knows(self, header: str) -> bool:
        if self.login is None:
            return True
        return header == "Basic " + base64.b64encode(":".join(self.login).encode()).decode()

    def _row(self, query: dict[str, Any]) -> tuple[dict[str, Any], int]:
        method = query["method"]
        self.requests[method] += 1
        if self.warming_up:
            return {"result": None, "error": {"code": -28, "message": self.warming_up}, "id": query["id"]}, 500
        answer = getattr(self, f"_do_{method}", None)
        if answer is None:
            return {"result": None, "error": {"code": -32601, "message": "Method not found"}, "id": query["id"]}, 404
        try:
            if method in self.refused:
                raise RefusalError(*self.refused[method])
            return {"result": answer(*query["params"]), "error": None, "id": query["id"]}, 200
        except RefusalError as error:
            code, message = error.args
            return {"result": None, "error": {"code": code, "message": message}, "id": query["id"]}, 500

    def _json(self, row: Any, status: int) -> web.Response:
        text = json.dumps(row, separators=(",", ":")) + "\n"
        return web.Response(status=status, body=text.encode(), headers={"Content-Type": "application/json"})

    async def _chunks(self, request: web.Request, text: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        raw = text.encode()
        for index in range(0, len(raw), 4_001):
            await response.write(raw[index : index + 4_001])
        await response.write_eof()
        return response

    # -- calls

    def _ref_at(self, height: int) -> BlockRef:
        best = self.chain.best
        if not 0 <= height < len(best):
            raise RefusalError(*OUT_OF_RANGE)
        return best[height]

    def _block(self, hex_id: str) -> bytes:
        raw = self.chain._raws.get(bytes.fromhex(hex_id)[::-1])
        if raw is None:
            raise RefusalError(*NO_BLOCK)
        return raw

    def _do_getblockcount(self) -> int:
        return len(self.chain.best) - 1

    def _do_getbestblockhash(self) -> str:
        return self.chain.best[-1].hash[::-1].hex()

    def _do_getblockhash(self, height: int) -> str:
        return self._ref_at(height).hash[::-1].hex()

    def _do_getblockchaininfo(self) -> dict[str, Any]:
        best = self.chain.best
        answers: dict[str, Any] = {"chain": "regtest", "blocks": len(best) - 1, "headers": len(best) - 1}
        answers |= {"bestblockhash": self._do_getbestblockhash(), "pruned": bool(self.pruned_below)}
        return answers | ({"pruneheight": self.pruned_below} if self.pruned_below else {})

    def _do_getblockheader(self, hex_id: str, verbose: bool = True) -> Any:
        raw = self._block(hex_id)
        if verbose:
            return {"hash": hex_id, "height": self.chain.refs[bytes.fromhex(hex_id)[::-1]].height}
        return self._header(raw).hex()

    def _do_getblock(self, hex_id: str, verbosity: int = 1) -> str:
        raw = self._block(hex_id)
        assert verbosity in (0, False), "the stand-in only tells raw blocks"
        if self._is_pruned(hex_id):
            raise RefusalError(-1, "Block not available (pruned data)")
        return raw.hex()

    def _is_pruned(self, hex_id: str) -> bool:
        ref = self.chain.refs[bytes.fromhex(hex_id)[::-1]]
        return ref.height < self.pruned_below

    def _do_getrawtransaction(self, hex_id: str, verbose: int = 0) -> Any:
        txid = bytes.fromhex(hex_id)[::-1]
        raw, where = self.chain.unconfirmed.get(txid), {}
        if raw is None and self.txindex:
            raw = self._confirmed().get(txid)
            where = {"blockhash": self._block_of(txid)} if raw is not None and verbose else {}
        if raw is None:
            raise RefusalError(*NO_TX)
        where |= {"confirmations": 1} if where else {}
        return {"txid": hex_id, "hex": raw.hex(), **where} if verbose else raw.hex()

    def _do_gettxoutproof(self, hex_ids: list[str], block_id: str) -> str:
        raw = self._bare(self._block(block_id))
        txids = list(block.txids(raw, segwit=self.chain.rules.segwit))
        return merkle_block(raw[:80], txids, txids.index(bytes.fromhex(hex_ids[0])[::-1])).hex()

    def _block_of(self, txid: bytes) -> str:
        height, _ = self.chain.mined(self.chain.best[-1]).get(txid, (0, b""))
        return self.chain.best[height].hash[::-1].hex()

    def _confirmed(self) -> dict[bytes, bytes]:
        results = {}
        segwit = self.chain.rules.segwit
        for ref in self.chain.best[1:]:
            raw = self._bare(self.chain.raw(ref))
            starts = block.tx_offsets(raw, segwit=segwit).tolist()
            for txid, start, end in zip(block.txids(raw, segwit=segwit), starts, starts[1:], strict=False):
                results[txid] = raw[start:end]
        return results

    def _do_gettxout(self, hex_id: str, vout: int, include_mempool: bool = True) -> Any:
        outpoint, coins = Outpoint(bytes.fromhex(hex_id)[::-1], vout), self.chain.coins()
        for transaction in map(tx.read, self.chain.unconfirmed.values() if include_mempool else ()):
            coins |= {transaction.outpoint(number) for number in range(len(transaction.outputs))}
            coins -= {spent.prevout for spent in transaction.inputs}
        if outpoint not in coins:
            return None
        txid = outpoint.txid
        output = tx.read(self.chain.unconfirmed.get(txid) or self._confirmed()[txid]).outputs[vout]
        script = {"hex": output.script.hex()}
        return {
            "bestblock": self._do_getbestblockhash(), "value": output.satoshis / 10**8, "scriptPubKey": script,
        }  # fmt: skip

    def _do_getrawmempool(self) -> list[str]:
        return [txid[::-1].hex() for txid in self.chain.unconfirmed]

    def _do_sendrawtransaction(self, raw: str) -> str:
        txid = sha256d(bytes.fromhex(raw))
        if txid in self.chain.unconfirmed:
            raise RefusalError(-27, "txn-already-known")
        self.chain.unconfirmed[txid] = bytes.fromhex(raw)
        self.chain.sent.append(bytes.fromhex(raw))
        return txid[::-1].hex()

    def _do_getsettings(self) -> dict[str, Any]:
        return {"minminingtxfee": self.least_fee}

    def _do_getmempoolentry(self, hex_id: str) -> dict[str, Any]:
        raw = self.chain.unconfirmed.get(bytes.fromhex(hex_id)[::-1])
        if raw is None:
            raise RefusalError(-5, "Transaction not in mempool")
        transaction = tx.read(raw)
        sources = {**self._confirmed(), **self.chain.unconfirmed}
        spent = [item.prevout for item in transaction.inputs]
        paid = sum(tx.read(sources[prevout.txid]).outputs[prevout.vout].satoshis for prevout in spent)
        fee = paid - sum(output.satoshis for output in transaction.outputs)
        depends = [prevout.txid[::-1].hex() for prevout in spent if prevout.txid in self.chain.unconfirmed]
        return {"size": len(raw), "fee": fee / 10**8, "depends": depends}

    def _do_getmempoolinfo(self) -> dict[str, Any]:
        return {"size": len(self.chain.unconfirmed), "bytes": sum(map(len, self.chain.unconfirmed.values()))}

    # -- what coins do differently

    def _header(self, raw: bytes) -> bytes:
        """A block's header, with the work of another chain where there is some."""
        return raw[: proof_of_work.header_end(raw)] if self.auxpow else raw[:80]

    def _bare(self, raw: bytes) -> bytes:
        return raw[:80] + raw[len(self._header(raw)) :]

    # -- REST

    async def _rest(self, request: web.Request) -> web.StreamResponse:
        if self.warming_up:
            return self._text(503, f"Service temporarily unavailable: {self.warming_up}")
        if not self.rest:
            return web.Response(status=404, content_type="text/html")
        if request.path in self.instead:
            created = self.instead[request.path](request)
            return await created if asyncio.iscoroutine(created) else created
        parts = request.path.removeprefix("/rest/").split("/")
        hex_id = parts[-1].removesuffix(".bin")
        if len(hex_id) != 64:
            return self._text(400, f"Invalid hash: {hex_id}")
        if parts[0] == "block":
            return self._rest_block(hex_id)
        return self._rest_headers(int(parts[1]), hex_id)

    def _rest_block(self, hex_id: str) -> web.Response:
        try:
            raw = self._block(hex_id)
        except RefusalError:
            return self._text(404, f"{hex_id} not found")
        if self._is_pruned(hex_id):
            return self._text(404, f"{hex_id} not available (pruned data)")
        return web.Response(body=raw, content_type="application/octet-stream")

    def _rest_headers(self, count: int, hex_id: str) -> web.Response:
        if count > 2000:
            return self._text(400, f"Header count out of range: {count}")
        best = self.chain.best
        heights = {ref.hash[::-1].hex(): ref.height for ref in best}
        start = heights.get(hex_id, len(best))
        joined = b"".join(self._header(self.chain.raw(ref)) for ref in best[start : start + count])
        return web.Response(body=joined, content_type="application/octet-stream")

    def _text(self, status: int, text: str) -> web.Response:
        return web.Response(status=status, body=f"{text}\r\n".encode(), headers={"Content-Type": "text/plain"})


class Publisher:
    """The ZeroMQ messages of a node, on a port of its own."""

    def __init__(self, port: int = 0) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.PUB)
        self._socket.set(zmq.LINGER, 0)
        self._socket.bind(f"tcp://127.0.0.1:{port or '*'}")
        self.port = int(self._socket.get_string(zmq.LAST_ENDPOINT).rpartition(":")[2])
        self._counts: Counter[str] = Counter()

    @property
    def address(self) -> str:
        """Where to subscribe."""
        return f"tcp://127.0.0.1:{self.port}"

    def publish(self, topic: str, body: bytes) -> None:
        """Send a message as a node does: topic, body, a count of its topic."""
        number = self._counts[topic].to_bytes(4, "little")
        self._counts[topic] += 1
        self._socket.send_multipart([topic.encode(), body, number])

    def close(self) -> None:
        """Publish no more."""
        self._context.destroy(linger=0)
