"""Asking a node over HTTP: JSON-RPC, one call or many at a time, and streams of bytes; every answer is bounded.

aiohttp rather than httpx: it streams 2,400 MB/s where httpx streams 470 (256 MiB over loopback, 2026-11-21, two cores).
What may pass (a node that starts, is busy or gone) raises SourceUnavailableError, after a few tries where the call was
cut; what a person must mend raises SourceError and says how.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NoReturn, TypeVar

import aiohttp

from indexer import http_body
from indexer.chains import SourceError, SourceUnavailableError
from indexer.chains.node.address import Address
from parsers import strict_json
from parsers.errors import ParseError

log = logging.getLogger(__name__)

CONNECT_SECONDS, SILENCE_SECONDS = 10.0, 120.0
"""How long a connection, and every next piece of an answer, is waited for."""

WHOLE_SECONDS = 600.0
"""How long a whole answer that is held in memory, and the headers of any, are waited for, however slowly they drip."""

SLOWEST = 16 << 10
"""Bytes a second that a streamed answer brings at least, on the average after the first SILENCE_SECONDS."""

ANSWER_BYTES = 64 << 20
"""What an answer may hold, unless its caller expects more."""

PIECE = 1 << 20
PAUSES = (0.05, 0.5, 2.0)
"""Seconds before each further try of a call that was cut, or that the node was too busy for."""

WARMING_UP, SAFE_MODE = -28, -2
_T = TypeVar("_T")


class RpcError(SourceUnavailableError):
    """What a node answers to a call that it understood and refuses: its code (-5: unknown, -8: out of range, others:
    see the message) and its own words. A caller that expected no refusal may try again later."""

    def __init__(self, name: str, method: str, code: int, message: str) -> None:
        super().__init__(f"{name}: the node refuses {method}: {message} (code {code})")
        self.code, self.message = code, message


class TooLargeError(SourceUnavailableError):
    """An answer larger than its caller allows."""


class _CutError(Exception):
    """A call that did not come to its end, and may when it is tried again."""


class Client:
    """A node at an address. Nothing is connected before the first call, and nothing is left after `close`."""

    def __init__(self, address: Address) -> None:
        self.address, self.name = address, address.name
        self._session: aiohttp.ClientSession | None = None
        self._auth: str | None = None
        self._pauses, self.whole_seconds, self.silence_seconds = PAUSES, WHOLE_SECONDS, SILENCE_SECONDS

    async def close(self) -> None:
        """Give up all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    # -- JSON-RPC

    async def call(self, method: str, *params: Any, limit: int = ANSWER_BYTES) -> Any:
        """The result of one call; amounts are Decimals. Raises RpcError, TooLargeError, SourceError."""
        (answer,) = await self._ask([(method, params)], limit, batch=False)
        if isinstance(answer, RpcError):
            raise answer
        return answer

    async def batch(self, calls: Sequence[tuple[str, tuple[Any, ...]]], limit: int = ANSWER_BYTES) -> list[Any]:
        """The results of several calls in order, asked for at once; an RpcError stands where a call was refused.

        Raises TooLargeError, SourceError.
        """
        return await self._ask(calls, limit, batch=True) if calls else []

    async def _ask(self, calls: Sequence[tuple[str, tuple[Any, ...]]], limit: int, *, batch: bool) -> list[Any]:
        asked = [_request(method, params, number) for number, (method, params) in enumerate(calls)]
        body = json.dumps(asked if batch else asked[0]).encode()

        async def once() -> list[Any]:
            status, raw = await self._whole("POST", "/", limit, body)
            told = await asyncio.to_thread(_parsed, raw) if len(raw) > PIECE else _parsed(raw)
            return self._results(told, status, [method for method, _ in calls], batch=batch)

        return await self._persist(once)

    def _results(self, told: Any, status: int, methods: Sequence[str], *, batch: bool) -> list[Any]:
        """The results in a JSON-RPC answer, in order of what was asked."""
        if not batch or (isinstance(told, dict) and told.get("error")):
            return [self._result(told, status, method) for method in methods]
        answers = [row for row in told if isinstance(row, dict)] if isinstance(told, list) else []
        rows = {number: row for row in answers if isinstance(number := row.get("id"), int)}
        return [self._result(rows.get(number), status, method) for number, method in enumerate(methods)]

    def _result(self, row: Any, status: int, method: str) -> Any:
        if not isinstance(row, dict) or "result" not in row:
            if status >= 500:
                raise _CutError(f"it answers {method} with status {status} and no JSON")
            raise SourceError(
                f"{self.name}: {self.address.base} answers {method} with status {status} and not as a node does; "
                "is that the node's RPC port?"
            )
        error = row.get("error")
        if error is None:
            return row["result"]
        code, message = (error.get("code"), error.get("message")) if isinstance(error, dict) else (0, error)
        code, message = code if isinstance(code, int) else 0, str(message)[:500]
        if code == WARMING_UP:
            raise SourceUnavailableError(f"{self.name}: the node at {self.address.base} is starting: {message}")
        if code == SAFE_MODE:
            raise SourceUnavailableError(f"{self.name}: the node at {self.address.base} is in safe mode: {message}")
        return RpcError(self.name, method, code, message)

    # -- streams

    def body(self, method: str, *params: Any) -> bytes:
        """The body of one call, for `stream`."""
        return json.dumps(_request(method, params, 0)).encode()

    async def refused(self, response: aiohttp.ClientResponse, method: str) -> NoReturn:
        """Raise what a streamed call says instead of its result: RpcError or SourceError."""
        answer = self._result(_parsed(await self._bounded(response, PIECE)), response.status, method)
        raise answer if isinstance(answer, RpcError) else _CutError(f"it answers {method} with {response.status}")

    @asynccontextmanager
    async def stream(self, method: str, path: str, body: bytes | None = None) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer whose status the caller looks at and whose pieces it reads; see `pieces`. Raises SourceError."""
        try:
            async with self._answer(method, path, body) as response:
                http_body.check_uncoded(response.headers.items())
                yield response
        except _CutError as error:
            raise self._gone(error) from error
        except http_body.BodyError as error:
            raise self._unreadable(error) from error

    async def pieces(self, response: aiohttp.ClientResponse, limit: int) -> AsyncIterator[bytes]:
        """The body of a streamed answer as it arrives. Raises TooLargeError beyond `limit` bytes, and
        SourceUnavailableError when it is cut, or comes more slowly than SLOWEST while it is waited for."""
        clock = asyncio.get_running_loop().time
        waited, received = 0.0, 0
        try:
            while True:
                start = clock()
                piece = await response.content.readany()
                if not piece:
                    return
                waited, received = waited + clock() - start, received + len(piece)
                if received > limit:
                    raise TooLargeError(f"{self.name}: an answer of the node is more than {limit:,} bytes")
                if waited > self.silence_seconds + received / SLOWEST:
                    raise _CutError(f"{received:,} bytes took {waited:,.0f} s")
                yield piece
        except (aiohttp.ClientError, OSError, TimeoutError, _CutError) as error:
            raise self._gone(error) from error

    async def get(self, path: str, limit: int = ANSWER_BYTES) -> tuple[int, bytes]:
        """Status and body of a GET. Raises TooLargeError, SourceError."""
        return await self._persist(lambda: self._whole("GET", path, limit))

    # -- what both have in common

    async def _persist(self, once: Callable[[], Awaitable[_T]]) -> _T:
        """Try a call again a few times when it was cut."""
        for pause in self._pauses:
            try:
                return await once()
            except _CutError as error:
                log.debug("%s: %s; trying again in %g s", self.name, error, pause)
                await asyncio.sleep(pause)
        try:
            return await once()
        except _CutError as error:
            raise self._gone(error) from error

    def _gone(self, error: Exception) -> SourceUnavailableError:
        return SourceUnavailableError(f"{self.name}: the node at {self.address.base} does not answer: {_why(error)}")

    @asynccontextmanager
    async def _answer(self, method: str, path: str, body: bytes | None = None) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer to a request; once again with a new login when the node has written another cookie."""
        response = await self._begin(method, path, body)
        if response.status == 401 and self.address.cookie and self._login() != self._auth:
            response.close()
            self._auth = None
            response = await self._begin(method, path, body)
        async with response:
            self._refuse(response.status)
            yield response

    async def _begin(self, method: str, path: str, body: bytes | None) -> aiohttp.ClientResponse:
        session = self._open()
        self._auth = self._auth or self._login()
        login = {"Authorization": self._auth} if self._auth else {}
        where = self.address.base
        try:
            async with asyncio.timeout(self.whole_seconds):
                return await session.request(method, where + path, data=body, headers=login, allow_redirects=False)
        except aiohttp.ClientConnectorCertificateError as error:
            raise SourceError(
                f"{self.name}: the certificate of {where} is not trusted ({error.certificate_error}); "
                "name the file of its authority in SSL_CERT_FILE"
            ) from error
        except aiohttp.ClientConnectorSSLError as error:
            raise SourceError(f"{self.name}: {where} speaks no TLS that is understood: {error}") from error
        except aiohttp.ClientConnectorError as error:
            raise self._gone(error) from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _CutError(_why(error)) from error

    def _refuse(self, status: int) -> None:
        """Raise SourceError where the node does not let us ask."""
        where = self.address.base
        if status == 401:
            given = f"the cookie {self.address.cookie}" if self.address.cookie else "user and password in the URL"
            if not self.address.cookie and not self.address.login:
                given = "it wants a login: add user:password@ to the URL, or ?cookie=PATH"
            raise SourceError(f"{self.name}: {where} refuses the login (401); check {given}, rpcauth and rpcuser")
        if status == 403:
            raise SourceError(
                f"{self.name}: {where} does not let us ask (403); add this machine to rpcallowip, and what this user "
                "calls to rpcwhitelist if there is one, in the node's configuration"
            )

    def _login(self) -> str | None:
        login = self.address.read_login()
        return "Basic " + b64encode(":".join(login).encode()).decode() if login else None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=32, enable_cleanup_closed=False),
                timeout=aiohttp.ClientTimeout(None, sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS),
                headers={"Accept-Encoding": "identity"}, auto_decompress=False, read_bufsize=PIECE,
                cookie_jar=aiohttp.DummyCookieJar(),
            )  # fmt: skip
        return self._session

    async def _whole(self, method: str, path: str, limit: int, body: bytes | None = None) -> tuple[int, bytes]:
        """Status and body of an answer of at most `limit` bytes. Raises TooLargeError, SourceError, _CutError."""
        try:
            async with asyncio.timeout(self.whole_seconds), self._answer(method, path, body) as response:
                return response.status, await self._bounded(response, limit)
        except TimeoutError:
            raise SourceUnavailableError(
                f"{self.name}: an answer of the node at {self.address.base} takes more than {self.whole_seconds:g} s"
            ) from None

    async def _bounded(self, response: aiohttp.ClientResponse, limit: int) -> bytes:
        """The body of an answer. Raises TooLargeError when there is more than `limit` bytes of it, _CutError."""
        bounds = http_body.Bounds(limit, gzip=False)
        try:
            return await http_body.read(response.content.iter_any(), response.headers.items(), bounds)
        except http_body.BodyError as error:
            raise self._unreadable(error) from None
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _CutError("its answer was cut") from error

    def _unreadable(self, error: http_body.BodyError) -> SourceUnavailableError:
        kind = TooLargeError if error.code == "size" else SourceUnavailableError
        return kind(f"{self.name}: an answer of the node is {error}")


def _request(method: str, params: tuple[Any, ...], number: int) -> dict[str, Any]:
    return {"jsonrpc": "1.0", "id": number, "method": method, "params": params}


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it was silent for too long"
    if isinstance(error, aiohttp.ClientConnectorError):
        # aiohttp's own words repeat the address; names that cannot be resolved have negative numbers
        number = error.os_error.errno or 0
        return (os.strerror(number) if number > 0 else str(error.os_error.strerror or error.os_error)).lower()
    return str(error) or type(error).__name__


def _parsed(raw: bytes) -> Any:
    """The JSON of an answer, amounts as Decimals; None for what is none, or not within bounds."""
    try:
        return strict_json.answer(raw, exact=True)
    except ParseError as error:
        log.debug("an answer of a node is refused: %s", error)
        return None
