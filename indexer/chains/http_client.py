"""Bounded HTTP requests: the client of every source over HTTP.

A response is limited in size, content coding, number of pieces, JSON depth and time; redirects and cookies are not
followed. A request that was cut is tried again after growing pauses, one that was refused for its rate not before the
server allows it. What may succeed later raises SourceUnavailableError, what a person must fix SourceError. Credentials
never appear in a message.

aiohttp rather than httpx, which takes four times the processor time for a request, and eight times for a block
(`docs/decisions/http-libraries.md`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import quote

from indexer import http_body
from indexer.chains.silence import AnswerClock
from indexer.errors import SourceError, SourceRefusalError, SourceUnavailableError
from indexer.retries import Backoff, retry_after
from parsers.cards import strict_json

if TYPE_CHECKING or find_spec("aiohttp"):
    import aiohttp
else:
    from indexer.chains import httpx_session as aiohttp

log = logging.getLogger(__name__)

CONNECT_SECONDS, SILENCE_SECONDS, WHOLE_SECONDS = 10.0, 60.0, 60.0
"""How long a connection, the next piece of a response, and a whole response may take."""

COMMAND_SECONDS = 60.0
"""How long a command that ends by itself waits for all its requests with their retries."""

CONNECTIONS = 8
"""Concurrent requests. Endpoints limit requests per second, and many allow no more than this."""

PAUSES = Backoff(0.25, 4.0, factor=4.0).pauses(3)
"""Seconds before each further try of a request that was cut."""

LONGEST_WAIT, LONGEST_WITH_SUBSTITUTE = 600.0, 3_600.0
"""The longest Retry-After that is obeyed, in seconds; and the longest one while another server answers instead."""

RESPONSE_BYTES, SMALL_BYTES = 64 << 20, 1 << 20
"""The default limit of a response, and the limit of a response that is known to be small, in bytes."""

_T = TypeVar("_T")

ClientError = aiohttp.ClientError


class UnreadableError(SourceUnavailableError):
    """A response with a body outside its bounds."""


class TooLargeError(UnreadableError):
    """A response larger than its caller allows."""


class SlowError(SourceUnavailableError):
    """A response that took too long: a smaller request may succeed."""


class CutError(Exception):
    """A request that failed on the way, and may succeed when tried again."""


class Response(NamedTuple):
    """A whole response."""

    status: int
    reason: str
    body: bytes


_SHORTEST_SECRET, _MOST_SECRETS = 6, 64


class HttpClient:
    """A client of one server. Nothing is connected before the first request, nothing is left open after `close`.

    `label` names the server in messages; `secrets` are replaced in them. `gzip`: accept one gzip coding, else none.
    `whole_seconds`, `silence_seconds`, `pauses` and `clock`, of monotonic seconds, may be changed before the first
    request.
    """

    def __init__(
        self,
        name: str,
        label: str,
        *,
        headers: Mapping[str, str] | None = None,
        secrets: Iterable[str] = (),
        gzip: bool = True,
        connections: int = CONNECTIONS,
        whole_seconds: float = WHOLE_SECONDS,
        silence_seconds: float = SILENCE_SECONDS,
        pauses: tuple[float, ...] = PAUSES,
    ) -> None:
        self.name, self.label = name, label
        self.whole_seconds, self.silence_seconds, self.pauses = whole_seconds, silence_seconds, pauses
        self._headers, self._secrets, self._gzip = {**(headers or {})}, tuple(secrets), gzip
        self._connections, self._slots = connections, asyncio.Semaphore(connections)
        self._session: aiohttp.ClientSession | None = None
        self.clock: Callable[[], float] = time.monotonic
        self._limited_at, self._limited_for = float("-inf"), 0.0
        self.has_substitute: Callable[[], bool] = lambda: False
        """Whether another server answers what this one does not."""
        self.answers = AnswerClock()

    async def close(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def request(self, method: str, url: str, limit: int, body: bytes | None = None, what: str = "") -> Response:
        """A response of at most `limit` bytes; `what` names the request in messages.

        Raises TooLargeError, SlowError, CutError, SourceError.
        """
        wait = self._wait()
        if wait > 0:
            raise SourceUnavailableError(f"{self.name}: {self.label} asks to wait for {wait:,.0f} more seconds")
        try:
            with self.answers.waiting():
                async with self._slots, asyncio.timeout(self.whole_seconds), self.send(method, url, body) as response:
                    self.obey_retry_after(response)
                    return Response(response.status, response.reason or "", await self.read(response, limit, what))
        except TimeoutError:
            late = f"{self.name}: {self.label} takes more than {self.whole_seconds:g} s for {what or url}"
            raise SlowError(late) from None

    @asynccontextmanager
    async def for_command(self) -> AsyncIterator[None]:
        """Requests of a command that ends by itself. Raises SourceUnavailableError after COMMAND_SECONDS."""
        try:
            async with asyncio.timeout(COMMAND_SECONDS):
                yield
        except TimeoutError:
            late = f"{self.name}: {self.label} has not answered for {COMMAND_SECONDS:g} s"
            raise SourceUnavailableError(late) from None

    async def retry(self, attempt: Callable[[], Awaitable[_T]]) -> _T:
        """The result of an attempt, tried again after each pause when it raises CutError. Raises SourceError."""
        for pause in self.pauses:
            try:
                return await attempt()
            except CutError as error:
                log.debug("%s: %s; trying again in %g s", self.name, error, pause)
                await asyncio.sleep(max(pause, min(self._wait(), pause * 4)))
        try:
            return await attempt()
        except CutError as error:
            raise self.unreachable(error) from error

    @asynccontextmanager
    async def send(self, method: str, url: str, body: bytes | None = None) -> AsyncIterator[aiohttp.ClientResponse]:
        """The response to one request, with the body not read yet. Raises CutError, SourceError."""
        async with await self.begin(method, url, body) as response:
            yield response

    async def begin(
        self, method: str, url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> aiohttp.ClientResponse:
        """Send a request and wait for the status and headers of its response. Raises CutError, SourceError."""
        try:
            with self.answers.waiting():
                return await self._open().request(
                    method, url, data=body, headers={**self._headers, **(headers or {})}, allow_redirects=False
                )
        except aiohttp.ClientConnectorCertificateError as error:
            raise SourceRefusalError(
                f"{self.name}: the certificate of {self.label} is not trusted ({error.certificate_error}); "
                "name the file of its authority in SSL_CERT_FILE"
            ) from error
        except aiohttp.ClientConnectorSSLError as error:
            raise SourceRefusalError(f"{self.name}: {self.label} supports no known version of TLS: {error}") from error
        except aiohttp.InvalidURL:
            raise SourceError(f"{self.name}: {self.label} has no valid URL; correct it") from None
        except aiohttp.ClientConnectorError as error:
            raise self.unreachable(error) from error
        except (aiohttp.ClientError, OSError) as error:
            raise CutError(self.reason(error)) from error

    async def read(self, response: aiohttp.ClientResponse, limit: int, what: str) -> bytes:
        """The body of a response. Raises TooLargeError beyond `limit` bytes, CutError, SourceUnavailableError."""
        bounds = http_body.Bounds(limit, gzip=self._gzip)
        try:
            with self.answers.waiting():
                body = await http_body.read(self._pieces(response), response.headers.items(), bounds)
            self.answers.answer()
            return body
        except http_body.BodyError as error:
            raise self.body_error(error, what) from None
        except (aiohttp.ClientError, OSError) as error:
            raise CutError(self.reason(error)) from error

    async def _pieces(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        async for piece in response.content.iter_any():
            self.answers.receive(len(piece))
            yield piece

    def body_error(self, error: http_body.BodyError, what: str) -> SourceUnavailableError:
        """The error for a body outside its bounds."""
        kind = TooLargeError if error.code == "size" else UnreadableError
        return kind(f"{self.name}: {self.label} answers {what} with {error}")

    def unreachable(self, error: Exception) -> SourceUnavailableError:
        """The error for a server that does not answer."""
        return SourceUnavailableError(f"{self.name}: {self.label} does not answer: {self.reason(error)}")

    def reason(self, error: Exception) -> str:
        """Why a request failed, without secrets."""
        if isinstance(error, TimeoutError):
            return "it was silent for too long"
        if isinstance(error, aiohttp.ClientConnectorError):
            # aiohttp's own message repeats the address; names that cannot be resolved have negative numbers
            number = error.os_error.errno or 0
            return (os.strerror(number) if number > 0 else str(error.os_error.strerror or error.os_error)).lower()
        return self.redact(str(error)) or type(error).__name__

    def redact(self, text: str) -> str:
        """A text with every secret replaced by `***`."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def hide(self, secrets: Iterable[str]) -> None:
        """Replace these secrets in messages, too, from now on."""
        self._secrets = tuple(dict.fromkeys([*secrets, *self._secrets]))[:_MOST_SECRETS]

    def obey_retry_after(self, response: aiohttp.ClientResponse) -> None:
        if response.status == 200:
            return
        seconds = retry_after(response.headers.get("Retry-After", ""), LONGEST_WITH_SUBSTITUTE)
        if response.status == 429 or seconds:
            self._limited_at, self._limited_for = self.clock(), 1.0 if seconds is None else seconds

    def _wait(self) -> float:
        """The seconds until the next request, by the last Retry-After; not above 0 where there is no wait."""
        longest = LONGEST_WITH_SUBSTITUTE if self.has_substitute() else LONGEST_WAIT
        return self._limited_at + min(self._limited_for, longest) - self.clock()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._connections),
                timeout=aiohttp.ClientTimeout(None, sock_connect=CONNECT_SECONDS, sock_read=self.silence_seconds),
                headers={"Accept-Encoding": "gzip" if self._gzip else "identity"},
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                read_bufsize=SMALL_BYTES,
            )
        return self._session


def basic_login(user: str, password: str) -> str:
    """The header Authorization for a user and password (RFC 7617)."""
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


def login_secrets(user: str, password: str) -> list[str]:
    """The forms in which a server may repeat a login, the longest first: of a short password only those beside the
    name, as other words may hold it."""
    encoded = quote(password, safe="")
    pairs = {f"{user}:{password}", f"{quote(user, safe='')}:{encoded}", basic_login(user, password).split()[1]}
    alone = {password, encoded} if len(password) >= _SHORTEST_SECRET else set[str]()
    return sorted(pairs | alone, key=len, reverse=True)


async def parse_json(raw: bytes, *, exact: bool = False) -> Any:
    """The JSON of a response, bounded in depth and numbers; `exact`: numbers with a fraction become Decimals. Large
    responses are parsed in a thread. Raises ParseError."""
    if len(raw) > SMALL_BYTES:
        return await asyncio.to_thread(strict_json.answer, raw, exact=exact)
    return strict_json.answer(raw, exact=exact)


async def gather(work: Iterable[Coroutine[Any, Any, _T]]) -> list[_T]:
    """The results of all coroutines, run concurrently, in order; the first failure cancels the others and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in work]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]
