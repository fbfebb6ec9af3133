"""Requests to a node: JSON-RPC, one call or a batch, and streams of bytes."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from indexer import http_body
from indexer.chains.http_client import (
    RESPONSE_BYTES,
    SMALL_BYTES,
    ClientError,
    CutError,
    HttpClient,
    TooLargeError,
    basic_login,
    login_secrets,
    parse_json,
)
from indexer.chains.jsonrpc import RpcError, RpcResponse, error_fields
from indexer.chains.node.address import Address
from indexer.chains.silence import SLOWEST
from indexer.errors import RefusedTransactionError, SourceRefusalError, SourceUnavailableError
from indexer.retries import Backoff
from parsers.errors import ParseError
from parsers.json_records import ABSENT, convert

if TYPE_CHECKING:
    import aiohttp

__all__ = ["NodeClient", "RpcCall", "RpcError", "TooLargeError"]

_T = TypeVar("_T")

RpcCall = tuple[str, tuple[Any, ...]]
"""A method and its parameters."""

log = logging.getLogger(__name__)

SILENCE_SECONDS, WHOLE_SECONDS = 120.0, 600.0
"""How long the next piece of a response, and a whole response that is held in memory, may take: nodes are slow."""

CONNECTIONS = 32
PAUSES = Backoff(0.05, 2.0, factor=10.0).pauses(3)
"""Seconds before each further try of a call that was cut, or that the node was too busy for."""

WARMING_UP, SAFE_MODE = -28, -2

_SENT_BEFORE = ("already known", "already in", "txn-already-", "transaction already in block chain")


class NodeClient(HttpClient):
    """The node at an address."""

    def __init__(self, address: Address) -> None:
        super().__init__(
            address.name,
            f"the node at {address.base}",
            gzip=False,
            connections=CONNECTIONS,
            whole_seconds=WHOLE_SECONDS,
            silence_seconds=SILENCE_SECONDS,
            pauses=PAUSES,
        )
        self.address = address
        self._auth: str | None = None

    # -- JSON-RPC

    async def call(self, method: str, *params: Any, limit: int = RESPONSE_BYTES) -> Any:
        """The result of one call, in a response of at most `limit` bytes; amounts are Decimals.

        Raises RpcError (-5: unknown, -8: out of range), TooLargeError, SourceError.
        """
        ((result,), _) = await self._call([(method, params)], limit, batch=False)
        if isinstance(result, RpcError):
            raise result
        return result

    async def fetch(self, kind: type[_T], method: str, *params: Any, limit: int = RESPONSE_BYTES) -> _T:
        """The result of one call as a record. Raises as `call` and `record` do."""
        return self.record(kind, method, await self.call(method, *params, limit=limit))

    def record(self, kind: type[_T], method: str, result: Any) -> _T:
        """A result as a record. Raises SourceRefusalError for one of another form."""
        try:
            return convert(result, kind)
        except ParseError as error:
            raise SourceRefusalError(f"{self.name}: {self.label} answers {method} as no node does: {error}") from None

    async def batch(self, calls: Sequence[RpcCall], limit: int = RESPONSE_BYTES) -> list[Any]:
        """The results of several calls in one request, in order; a failed call has its RpcError as result.

        Raises TooLargeError, SourceError.
        """
        return (await self._call(calls, limit, batch=True))[0] if calls else []

    async def _call(self, calls: Sequence[RpcCall], limit: int, *, batch: bool) -> tuple[list[Any], int]:
        """The results, and how often the node was called for them."""
        requests = [_request(method, params, number) for number, (method, params) in enumerate(calls)]
        body = json.dumps(requests if batch else requests[0]).encode()
        methods = [method for method, _ in calls]

        tries = count(1)

        async def attempt() -> tuple[list[Any], int]:
            number = next(tries)
            status, _, raw = await self.request("POST", self.address.base + "/", limit, body, methods[0])
            return self._results(await _parse(raw), status, methods, batch=batch), number

        return await self.retry(attempt)

    def _results(self, answer: Any, status: int, methods: Sequence[str], *, batch: bool) -> list[Any]:
        """The results in a JSON-RPC response, in the order of the calls."""
        if not batch or (isinstance(answer, dict) and answer.get("error")):
            return [self._result(_response(answer), status, method) for method in methods]
        responses = map(_response, answer if isinstance(answer, list) else ())
        by_id = {response.id: response for response in responses if isinstance(response.id, int)}
        return [self._result(by_id.get(number, _NO_RESPONSE), status, method) for number, method in enumerate(methods)]

    def _result(self, response: RpcResponse, status: int, method: str) -> Any:
        if response.result is ABSENT:
            if status >= 500:
                raise CutError(f"it answers {method} with status {status} and no JSON")
            raise SourceRefusalError(
                f"{self.name}: {self.address.base} answers {method} with status {status} and not as a node does; "
                "is that the node's RPC port?"
            )
        if response.error is None:
            return response.result
        code, message = error_fields(response.error)
        message = self.redact(message)
        if code == WARMING_UP:
            raise SourceUnavailableError(f"{self.name}: {self.label} is starting: {message}")
        if code == SAFE_MODE:
            raise SourceUnavailableError(f"{self.name}: {self.label} is in safe mode: {message}")
        return RpcError(self.name, "the node", method, code, message)

    async def send_transaction(self, raw: bytes) -> bool:
        """Send a transaction; sending it again is not an error. True where the node answers that it had it before the
        first try. Raises RefusedTransactionError, SourceError."""
        ((result,), tries) = await self._call([("sendrawtransaction", (raw.hex(),))], RESPONSE_BYTES, batch=False)
        if not isinstance(result, RpcError):
            return False
        if not any(word in str(result).lower() for word in _SENT_BEFORE):
            raise RefusedTransactionError(f"the node refuses the transaction: {result}")
        return tries == 1

    # -- REST and streams

    async def get(self, path: str, limit: int = RESPONSE_BYTES) -> tuple[int, bytes]:
        """Status and body of a GET. Raises TooLargeError, SourceError."""
        response = await self.retry(lambda: self.request("GET", self.address.base + path, limit, what=path))
        return response.status, response.body

    def rpc_body(self, method: str, *params: Any) -> bytes:
        """The request body of one call, for `stream`."""
        return json.dumps(_request(method, params, 0)).encode()

    async def raise_error(self, response: aiohttp.ClientResponse, method: str) -> NoReturn:
        """Raise the error that a streamed call answers instead of a result: RpcError or SourceError."""
        answer = await _parse(await self.read(response, SMALL_BYTES, method))
        result = self._result(_response(answer), response.status, method)
        raise result if isinstance(result, RpcError) else CutError(f"it answers {method} with {response.status}")

    @asynccontextmanager
    async def stream(self, method: str, path: str, body: bytes | None = None) -> AsyncIterator[aiohttp.ClientResponse]:
        """A response; the caller checks the status and reads the body by `pieces`. Raises SourceError."""
        try:
            async with self.send(method, self.address.base + path, body) as response:
                http_body.check_uncoded(response.headers.items())
                yield response
        except CutError as error:
            raise self.unreachable(error) from error
        except http_body.BodyError as error:
            raise self.body_error(error, path) from error

    async def pieces(self, response: aiohttp.ClientResponse, limit: int) -> AsyncIterator[bytes]:
        """The body of a streamed response as it arrives. Raises TooLargeError beyond `limit` bytes, and
        SourceUnavailableError when it is cut or arrives more slowly than SLOWEST, on average after the first
        SILENCE_SECONDS, while it is waited for."""
        clock = asyncio.get_running_loop().time
        waited, received = 0.0, 0
        try:
            while True:
                start = clock()
                with self.answers.waiting():
                    piece = await response.content.readany()
                if not piece:
                    self.answers.answer()
                    return
                self.answers.receive(len(piece))
                waited, received = waited + clock() - start, received + len(piece)
                if received > limit:
                    raise TooLargeError(f"{self.name}: a response of {self.label} is more than {limit:,} bytes")
                if waited > self.silence_seconds + received / SLOWEST:
                    raise CutError(f"{received:,} bytes took {waited:,.0f} s")
                yield piece
        except (ClientError, OSError, CutError) as error:
            raise self.unreachable(error) from error

    # -- login

    @asynccontextmanager
    async def send(self, method: str, url: str, body: bytes | None = None) -> AsyncIterator[aiohttp.ClientResponse]:
        """The response to a request; sent again with a new login when the node has written another cookie.

        Raises CutError, SourceError.
        """
        response = await self._send_once(method, url, body)
        if response.status == 401 and self.address.cookie and self._read_login() != self._auth:
            response.close()
            self._auth = None
            response = await self._send_once(method, url, body)
        async with response:
            self._check_access(response.status)
            yield response

    async def _send_once(self, method: str, url: str, body: bytes | None) -> aiohttp.ClientResponse:
        self._auth = self._auth or self._read_login()
        try:
            async with asyncio.timeout(self.whole_seconds):
                return await self.begin(method, url, body, {"Authorization": self._auth} if self._auth else None)
        except TimeoutError as error:
            raise CutError(self.reason(error)) from error

    def _check_access(self, status: int) -> None:
        """Raise SourceError for a status that denies access."""
        base = self.address.base
        if status == 401:
            login = f"the cookie {self.address.cookie}" if self.address.cookie else "user and password in the URL"
            if not self.address.cookie and not self.address.login:
                login = "it requires a login: add user:password@ to the URL, or ?cookie=PATH"
            raise SourceRefusalError(f"{self.name}: {base} refuses the login (401); check {login}, rpcauth and rpcuser")
        if status == 403:
            raise SourceRefusalError(
                f"{self.name}: {base} refuses requests (403); add this machine to rpcallowip, and what this user "
                "calls to rpcwhitelist if there is one, in the node's configuration"
            )

    def _read_login(self) -> str | None:
        login = self.address.read_login()
        if login is None:
            return None
        self.hide(login_secrets(*login))
        return basic_login(*login)


_NO_RESPONSE = RpcResponse()


def _response(answer: Any) -> RpcResponse:
    return convert(answer, RpcResponse) if isinstance(answer, dict) else _NO_RESPONSE


def _request(method: str, params: tuple[Any, ...], number: int) -> dict[str, Any]:
    return {"jsonrpc": "1.0", "id": number, "method": method, "params": params}


async def _parse(raw: bytes) -> Any:
    """The JSON of a response, amounts as Decimals; None for other bytes, or beyond its limits."""
    try:
        return await parse_json(raw, exact=True)
    except ParseError as error:
        log.debug("a response of a node is refused: %s", error)
        return None
