"""An endpoint of Solana on a local port: a ledger of accounts, in the shapes of validators' answers.

    async with SolanaServer() as server:
        server.put("agent", card)                # an account whose data are `a2b`, 0x00 and these bytes
        server.advance()                         # a later slot is final
        server.fail("getProgramAccounts", 429)   # the next call of a method is answered so
        server.alter("getGenesisHash", lambda answer: ...)

Addresses, accounts and answers are those of `solders`, the Python binding of Solana's own types.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any

import pytest
from aiohttp import web
from solders.account import Account
from solders.hash import Hash
from solders.pubkey import Pubkey
from solders.rpc import errors
from solders.rpc.responses import (
    GetBlockResp,
    GetBlockTimeResp,
    GetGenesisHashResp,
    GetMultipleAccountsResp,
    GetProgramAccountsWithContextResp,
    RpcKeyedAccount,
    RpcResponseContext,
)
from solders.transaction_status import UiConfirmedBlock

from indexer.chains import ChainStore, create
from indexer.chains.solana.chain import SolanaChain
from parsers.pointers.pointer import SOLANA_MARK
from tests.chainkit import agent
from tests.waiting import stop

Respond = Callable[[web.Request], Awaitable[web.StreamResponse]]
NEVER = 2**64 - 1
"""Rent epoch of accounts that are exempt from rent."""


def named(text: str) -> Pubkey:
    """The address that a test calls so."""
    return Pubkey(hashlib.sha256(text.encode()).digest())


PROGRAM = named("program")


def hurry(chain: SolanaChain) -> None:
    """Let a chain not wait between looks or tries."""
    chain.poll_seconds = 0
    for rpc in chain.endpoint.rpc.all:
        rpc.pauses = ()  # type: ignore[assignment]


class SolanaServer:
    """Serves a ledger. `asked` holds the calls, in order; `blockless` slots without a block and time in answers."""

    def __init__(self, cluster: str = "a test's own cluster") -> None:
        self.genesis = Hash(hashlib.sha256(cluster.encode()).digest())
        self.slot, self.time = 300_000_000, 1_750_000_000
        self.accounts: dict[Pubkey, Account] = {}
        self.requests: list[dict[str, Any]] = []
        self.blockless: set[int] = set()
        self.filters = True
        self._faults: dict[str, deque[Respond]] = {}
        self._forgeries: dict[str, Callable[[Any], Any]] = {}
        self.url = ""

    # -- what a test says

    @property
    def caip2(self) -> str:
        """The cluster's CAIP-2 id."""
        return f"solana:{str(self.genesis)[:32]}"

    def id(self, name: str) -> str:
        """The id of what the account of that name registers."""
        return f"{self.caip2}:{named(name)}"

    def put(self, name: str, body: bytes | dict[str, Any], room: int = 0, mark: bytes = SOLANA_MARK) -> None:
        """An account holds these bytes or this JSON after the mark, and `room` zero bytes after that, in a new slot."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.hold(name, mark + raw + bytes(room))

    def hold(self, name: str, data: bytes, program: Pubkey = PROGRAM) -> None:
        """An account holds these data, in a new slot."""
        self.accounts[named(name)] = Account(890_880 + 6_960 * len(data), data, program, rent_epoch=NEVER)
        self.advance()

    def shut(self, name: str) -> None:
        """An account is closed, in a new slot."""
        del self.accounts[named(name)]
        self.advance()

    def advance(self, slots: int = 1) -> None:
        """Later slots are final, of 0.4 seconds each."""
        self.slot += slots
        self.time += max(1, slots * 2 // 5)

    def block(self, slot: int) -> Hash:
        """The hash of a slot's block."""
        return Hash(hashlib.sha256(f"{self.genesis} {slot}".encode()).digest())

    def fail(self, method: str, *statuses: int, **headers: str) -> None:
        """The next calls of a method are answered with these statuses and no JSON."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        for status in statuses:
            self.break_off(method, _fault(web.Response, status=status, text="no", headers=sent))

    def refuse(self, method: str, code: int, message: str, times: int = 1) -> None:
        """The next calls of a method are refused as JSON-RPC refuses."""
        error = {"jsonrpc": "2.0", "error": {"code": code, "message": message}, "id": 1}
        for _ in range(times):
            self.break_off(method, _fault(web.json_response, error))

    def break_off(self, method: str, respond: Respond) -> None:
        """The next call of a method is answered by this."""
        self._faults.setdefault(method, deque()).append(respond)

    def alter(self, method: str, change: Callable[[Any], Any]) -> None:
        """Every result of a method is changed, until `honest`."""
        self._forgeries[method] = change

    def honest(self) -> None:
        """End all forged answers and faults."""
        self._forgeries.clear()
        self._faults.clear()

    def chain(self, rows: ChainStore | None = None, name: str = "sol", more: str = "") -> SolanaChain:
        """A chain that follows this server, and never waits between looks or tries."""
        source = create(name, f"{self.url}?program={PROGRAM}&chain=solana{more}", rows)
        assert isinstance(source, SolanaChain)
        hurry(source)
        return source

    def calls(self) -> Counter[str]:
        """How often each method was called."""
        return Counter(call["method"] for call in self.requests)

    # -- the server

    async def __aenter__(self) -> SolanaServer:
        application = web.Application(client_max_size=1 << 20)
        application.router.add_post("/{path:.*}", self._answer)
        self._runner = web.AppRunner(application)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}/"
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        await stop(self._runner)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        call = await request.json()
        method = call["method"]
        self.requests.append({**call, "path": request.path_qs})
        if self._faults.get(method):
            return await self._faults[method].popleft()(request)
        answer = getattr(self, f"_{method}")(*call.get("params", ()))
        if method in self._forgeries and "result" in answer:
            answer["result"] = self._forgeries[method](answer["result"])
        return web.json_response({**answer, "id": call["id"]})

    def _getGenesisHash(self) -> Any:  # noqa: N802 - the method's name
        return _body_of(GetGenesisHashResp(self.genesis))

    def _getProgramAccounts(self, program: str, query: dict[str, Any]) -> Any:  # noqa: N802
        assert (query["commitment"], query["encoding"], query["withContext"]) == ("finalized", "base64", True)
        if query["minContextSlot"] > self.slot:
            late = errors.MinContextSlotNotReached(self.slot)
            message = errors.MinContextSlotNotReachedMessage("Minimum context slot has not been reached", late)
            return {"jsonrpc": "2.0", "error": {"code": -32016, **json.loads(message.to_json())}}
        begins = [(item["memcmp"]["offset"], base58(item["memcmp"]["bytes"])) for item in query["filters"]]
        results = [
            RpcKeyedAccount(address, account)
            for address, account in self.accounts.items()
            if str(account.owner) == program
            and (
                not self.filters or all(account.data[position : position + len(raw)] == raw for position, raw in begins)
            )
        ]
        answer = _body_of(GetProgramAccountsWithContextResp(results, RpcResponseContext(self.slot)))
        answer["result"]["context"]["apiVersion"] = "3.1.8"
        for row in answer["result"]["value"]:
            row["account"]["space"] = len(self.accounts[Pubkey.from_string(row["pubkey"])].data)
        return answer

    def _getMultipleAccounts(self, names: list[str], query: dict[str, Any]) -> Any:  # noqa: N802
        assert (query["commitment"], query["encoding"], len(names) <= 100) == ("finalized", "base64", True)
        start, size = query["dataSlice"]["offset"], query["dataSlice"]["length"]
        results = [self.accounts.get(Pubkey.from_string(name)) for name in names]
        cut = [
            item and Account(item.lamports, item.data[start : start + size], item.owner, rent_epoch=NEVER)
            for item in results
        ]
        return _body_of(GetMultipleAccountsResp(cut, RpcResponseContext(self.slot)))

    def _getBlock(self, slot: int, query: dict[str, Any]) -> Any:  # noqa: N802
        assert (query["transactionDetails"], query["commitment"]) == ("none", "finalized")
        if slot in self.blockless or slot > self.slot:
            return {"jsonrpc": "2.0", "error": {"code": -32004, "message": f"Block not available for slot {slot}"}}
        block = UiConfirmedBlock(self.block(slot - 1), self.block(slot), slot - 1, block_time=self._time(slot))
        return _body_of(GetBlockResp(block))

    def _getBlockTime(self, slot: int) -> Any:  # noqa: N802
        if slot in self.blockless:
            return {"jsonrpc": "2.0", "error": {"code": -32004, "message": f"Block not available for slot {slot}"}}
        return _body_of(GetBlockTimeResp(self._time(slot)))

    def _time(self, slot: int) -> int:
        return self.time - (self.slot - slot) * 2 // 5


def _body_of(response: Any) -> Any:
    return json.loads(response.to_json())


def base58(text: str) -> bytes:
    """The few bytes of a filter, the slow way."""
    number = 0
    for letter in text:
        number = 58 * number + "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz".index(letter)
    zeros = len(text) - len(text.lstrip("1"))
    return bytes(zeros) + number.to_bytes((number.bit_length() + 7) // 8, "big")


def _fault(make: Callable[..., web.Response], *arguments: Any, **named_: Any) -> Respond:
    async def respond(_: web.Request) -> web.Response:
        await asyncio.sleep(0)
        return make(*arguments, **named_)

    return respond


@pytest.fixture
async def server() -> AsyncIterator[SolanaServer]:
    """The server, with an agent in the account `a`."""
    async with SolanaServer() as solana_server:
        solana_server.put("a", agent())
        yield solana_server
