"""An endpoint of an EVM chain on a local port: blocks held in memory, in the shapes of geth's answers.

async with EvmServer() as server:
    server.mine(); server.mine(says("https://shop.example/card.json", digest))
    server.fork(3, says(...))              # a branch on block 3, one block longer than what it replaces
    server.fail("eth_getLogs", refusal(-32005, "query returned more than 10000 results"))
    server.alter("eth_getLogs", lambda logs: logs[:-1])
    server.most_blocks = 10                # as free plans do
    server.made = 7                        # the block in which the contract was deployed
    server.archive_from = 90               # as a node that has no archive
    server.behind = 2                      # logs come from a node that has not heard of the newest blocks
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from types import TracebackType
from typing import Any

from aiohttp import web
from Cryptodome.Hash import keccak

from indexer.chains import ChainStore
from indexer.chains.evm import EvmChain, create
from indexer.chains.jsonrpc import RpcError
from tests.ports import free_port
from tests.waiting import stop

CONTRACT = "0x" + "c0de" * 10
TOPIC = "0x3be52a8baa7114adc7788f19c3d981d38e1f2fc3efb567608ff61d5b35eff7ce"
GENESIS_TIME = 1_750_000_000

Answer = Callable[[web.Request], Any]


def says(uri: str, digest: bytes = bytes(32), **more: Any) -> dict[str, Any]:
    """The log `A2BPointer(uri, digest)`, without its place."""
    text = uri.encode()
    words = [(64).to_bytes(32, "big"), digest, len(text).to_bytes(32, "big"), text + bytes(-len(text) % 32)]
    return {"address": CONTRACT, "topics": [TOPIC], "data": "0x" + b"".join(words).hex(), **more}


def refusal(code: int, message: str, status: int = 200) -> Answer:
    """An answer that refuses."""
    error = {"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": message}}
    return lambda _: web.json_response(error, status=status)


@dataclass(frozen=True)
class Block:
    """A block in an answer, and its logs."""

    row: dict[str, Any]
    logs: list[dict[str, Any]]

    @property
    def hash(self) -> bytes:
        """In internal byte order."""
        return bytes.fromhex(self.row["hash"][2:])[::-1]


def _bloom(logs: Iterable[Mapping[str, Any]]) -> str:
    held = 0
    for item in {entry for log in logs for entry in (log["address"], *log["topics"])}:
        digest = keccak.new(digest_bits=256, data=bytes.fromhex(item[2:])).digest()
        for number in (0, 2, 4):
            held |= 1 << (int.from_bytes(digest[number : number + 2], "big") % 2048)
    return f"0x{held:0512x}"


class EvmServer:
    """Serves a chain. `asked` counts calls by method, `ranges` holds the first and last block of each getLogs."""

    def __init__(self, number: int = 1, finality: int | None = 64, tls: ssl.SSLContext | None = None) -> None:
        self.number, self.finality, self.port, self.tls = number, finality, 0, tls
        self.blocks: list[Block] = []
        self.blocks_by_hash: dict[str, Block] = {}
        self.contracts = {CONTRACT: "0x6001"}
        self.deployed_at, self.archive_from = 0, 0
        self.syncing: Any = False
        self.most_blocks, self.lag, self.blooms = 10**9, 0, True
        self.requests: Counter[str] = Counter()
        self.ranges: list[tuple[int, int]] = []
        self.failing: dict[str, deque[Answer]] = {}
        self.faults: dict[str, Callable[[Any], Any]] = {}
        self.path = "/v3/0123456789abcdef0123456789abcdef"
        self._salt = 0
        self._runner: web.AppRunner | None = None
        self._add(None, [])

    # -- the chain

    def mine(self, *logs: dict[str, Any]) -> Block:
        """One more block, with these logs of a transaction each."""
        return self._add(self.blocks[-1], list(logs))

    def mine_empty(self, count: int) -> None:
        """So many more blocks that say nothing."""
        for _ in range(count):
            self.mine()

    def fork(self, parent: int, *logs: dict[str, Any]) -> Block:
        """Replace the blocks above `parent` by a branch that is one block longer; the first of it has the logs."""
        count = len(self.blocks) - parent
        self.blocks = self.blocks[: parent + 1]
        self._salt += 1
        self.mine(*logs)
        self.mine_empty(count - 1)
        return self.blocks[parent + 1]

    def _add(self, parent: Block | None, logs: list[dict[str, Any]]) -> Block:
        height = len(self.blocks)
        seed = f"{height}:{self._salt}:{parent.row['hash'] if parent else ''}:{json.dumps(logs)}".encode()
        hash_ = "0x" + sha256(seed).hexdigest()
        placed = [
            {
                **log,
                "blockNumber": hex(height),
                "blockHash": hash_,
                "transactionHash": log.get("transactionHash", "0x" + sha256(seed + bytes([index])).hexdigest()),
                "transactionIndex": hex(index),
                "logIndex": hex(index),
                "removed": False,
            }
            for index, log in enumerate(logs)
        ]
        row: dict[str, Any] = {
            "number": hex(height),
            "hash": hash_,
            "parentHash": parent.row["hash"] if parent else "0x" + "00" * 32,
            "timestamp": hex(GENESIS_TIME + 12 * height),
            "logsBloom": _bloom(logs) if self.blooms else "0x" + "00" * 256,
            "transactions": [],
        }
        block = self.blocks_by_hash[hash_] = Block(row, placed)
        self.blocks.append(block)
        return block

    # -- what a test wants to go wrong

    def fail(self, method: str, *answers: Answer) -> None:
        """Answer the next calls of a method so, one after the other."""
        self.failing.setdefault(method, deque()).extend(answers)

    def alter(self, method: str, change: Callable[[Any], Any]) -> None:
        """From now on, change what a method tells."""
        self.faults[method] = change

    # -- its life

    @property
    def base(self) -> str:
        """Its URL, with the key that endpoints have in it."""
        return f"http://127.0.0.1:{self.port or 1}{self.path}"

    def chain(self, query: str = "", name: str = "demo", store: ChainStore | None = None) -> EvmChain:
        """A chain that follows it, in a hurry."""
        source = create(name, f"{self.base}?contract={CONTRACT}{query}", store)
        source.poll_seconds = 0.0
        source.endpoint.rpc.pauses = (0.0, 0.01, 0.02)
        return source

    def direct(self, query: str = "") -> EvmChain:
        """A chain that follows it without a connection: requests go through a function instead of HTTP."""
        created = self.chain(query)
        created.endpoint.rpc.call = self._call  # type: ignore[method-assign]
        return created

    async def _call(self, method: str, *params: Any, limit: int = 0) -> Any:  # noqa: ARG002
        self.requests[method] += 1
        try:
            answer = self._result(method, json.loads(json.dumps(params)))
        except PermissionError as error:
            raise RpcError("demo", "the endpoint", method, -32000, str(error)) from None
        return self.faults[method](answer) if method in self.faults else answer

    async def start(self) -> None:
        """Listen; on the same port as before."""
        app = web.Application(client_max_size=1 << 20)
        app.router.add_post("/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(
            self._runner, "127.0.0.1", self.port or free_port(), reuse_address=True, ssl_context=self.tls
        ).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Cut all connections and listen no more."""
        if self._runner is not None:
            await stop(self._runner)
            self._runner = None

    async def __aenter__(self) -> EvmServer:
        await self.start()
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        await self.stop()

    # -- what it answers

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        method = body["method"]
        self.requests[method] += 1
        if self.failing.get(method):
            created = self.failing[method].popleft()(request)
            answer: web.StreamResponse = await created if asyncio.iscoroutine(created) else created
            return answer
        try:
            reported = self._result(method, body["params"])
        except PermissionError as error:
            return web.json_response(
                {"jsonrpc": "2.0", "id": body["id"], "error": {"code": -32000, "message": str(error)}}
            )
        if method in self.faults:
            reported = self.faults[method](reported)
        return web.json_response({"jsonrpc": "2.0", "id": body["id"], "result": reported})

    def _result(self, method: str, params: list[Any]) -> Any:
        if method == "eth_chainId":
            return hex(self.number)
        if method == "eth_getCode":
            height = len(self.blocks) - 1 if params[1] == "latest" else int(params[1], 16)
            if height < self.archive_from:
                raise PermissionError("missing trie node d0f3 (path ) state 0xd0f3 is not available")
            return self.contracts.get(params[0], "0x") if height >= self.deployed_at else "0x"
        if method == "eth_syncing":
            return self.syncing
        if method == "eth_getBlockByNumber":
            return self._block(params[0])
        if method == "eth_getLogs":
            return self._logs(params[0])
        raise PermissionError(f"the method {method} does not exist/is not available")

    def _block(self, which: str) -> Any:
        tip = len(self.blocks) - 1
        if which == "finalized" and self.finality is None:
            raise PermissionError("'finalized' tag not supported on pre-merge network")
        named = {"latest": tip, "finalized": max(0, tip - (self.finality or 0))}
        height = named[which] if which in named else int(which, 16)
        return self.blocks[height].row if height <= tip else None

    def _logs(self, query: dict[str, Any]) -> Any:
        if "blockHash" in query:
            if query["blockHash"] not in self.blocks_by_hash:
                raise PermissionError("unknown block")
            logs = self.blocks_by_hash[query["blockHash"]].logs
        else:
            first, last = int(query["fromBlock"], 16), int(query["toBlock"], 16)
            self.ranges.append((first, last))
            if last - first + 1 > self.most_blocks:
                raise PermissionError(f"exceed maximum block range: {self.most_blocks}")
            blocks = self.blocks[: len(self.blocks) - self.lag]
            logs = [log for block in blocks[first : last + 1] for log in block.logs]
        (topics,) = query["topics"]
        return [log for log in logs if log["address"] == query["address"] and log["topics"][0] in topics]
