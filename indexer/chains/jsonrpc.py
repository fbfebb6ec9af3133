"""JSON-RPC 2.0 over HTTP, as the endpoints of EVM and Solana chains speak it: one call at a time, every answer bounded.

What may pass (an endpoint that is busy, gone, or out of its mind for a moment) raises SourceUnavailableError, after a
few tries with growing pauses; what a person must mend raises SourceError and says how. The key that most endpoints
have in their URL is never shown.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from base64 import b64encode
from typing import Any
from urllib.parse import unquote, urlsplit

import aiohttp

from indexer import http_body
from indexer.chains import SourceError, SourceUnavailableError
from indexer.settings import masked
from parsers import strict_json
from parsers.errors import ParseError

log = logging.getLogger(__name__)

CONNECT_SECONDS, WHOLE_SECONDS = 10.0, 60.0
"""How long a connection, and a whole answer, however slowly it drips, is waited for."""

ANSWER_BYTES = 64 << 20
"""What an answer may hold, unless its caller expects less."""

SMALL_BYTES = 1 << 20
AT_ONCE = 8
"""Calls under way at the same time: endpoints count calls a second, and many allow no more."""

PAUSES = (0.25, 1.0, 4.0)
"""Seconds before each further try of a call that was cut, or that the endpoint was too busy for."""

LONGEST_WAIT = 3_600.0
"""Seconds that a Retry-After may ask for; more is cut."""

NO_SUCH_METHOD = -32601

_TOO_OFTEN = re.compile(
    r"rate limit|request rate|too many requests|requests per|per second|throughput|credits|quota|daily|try again later",
    re.IGNORECASE,
)
"""What endpoints say, each in its own words and codes, to who asks too often."""

_SLOW = frozenset({408, 504, 522, 524})


class RefusedError(SourceUnavailableError):
    """What an endpoint answers to a call that it understood and refuses: its code, and its own words."""

    def __init__(self, name: str, method: str, code: int, message: str) -> None:
        super().__init__(f"{name}: the endpoint refuses {method}: {message} (code {code})")
        self.code, self.message = code, message


class TooLargeError(SourceUnavailableError):
    """An answer larger than its caller allows."""


class SlowError(SourceUnavailableError):
    """An answer that did not come in time: a smaller question may be answered."""


class _CutError(Exception):
    """A call that did not come to its end, and may when it is tried again."""


class JsonRpc:
    """An endpoint at a URL, which may hold a login. Nothing is connected before the first call, and nothing is left
    after `close`. `shown` is the URL with its secrets masked. Raises SourceError when it is no URL."""

    def __init__(self, name: str, url: str) -> None:
        self.name, self.shown = name, masked(url)
        try:
            parts = urlsplit(url)
            usable = bool(parts.hostname) and parts.port != 0 and not any(ord(letter) <= 32 for letter in url)
        except ValueError:
            usable = False
        if not usable or parts.fragment:
            raise SourceError(
                f"{name}: its URL is not that of an endpoint; write https://host/path, and in a password @ as %40, "
                ": as %3A, / as %2F, ? as %3F, # as %23, % as %25"
            )
        self._url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        login = _login(parts.username, parts.password)
        self._headers = {"Content-Type": "application/json", "Accept-Encoding": "gzip", **login}
        self._secrets = [word for word in re.split(r"[/?&=:@]", url) if len(word) >= 8 and word not in self.shown]
        self._session: aiohttp.ClientSession | None = None
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._not_before = 0.0
        self.pauses, self.whole_seconds = PAUSES, WHOLE_SECONDS

    async def close(self) -> None:
        """Give up all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def call(self, method: str, *params: Any, limit: int = ANSWER_BYTES) -> Any:
        """The result of one call. Raises RefusedError, TooLargeError, SlowError, SourceError."""
        for pause in self.pauses:
            try:
                return await self._once(method, params, limit)
            except _CutError as error:
                log.debug("%s: %s; trying again in %g s", self.name, error, pause)
                await asyncio.sleep(max(pause, min(self._not_before - time.monotonic(), pause * 4)))
        try:
            return await self._once(method, params, limit)
        except _CutError as error:
            raise SourceUnavailableError(f"{self.name}: {self.shown} does not answer: {error}") from error

    async def _once(self, method: str, params: tuple[Any, ...], limit: int) -> Any:
        left = self._not_before - time.monotonic()
        if left > 0:
            raise SourceUnavailableError(f"{self.name}: {self.shown} asks to wait for {left:,.0f} more seconds")
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        async with self._turn:
            try:
                async with asyncio.timeout(self.whole_seconds):
                    status, raw = await self._ask(method, body, limit)
            except TimeoutError:
                late = f"{self.name}: {self.shown} takes more than {self.whole_seconds:g} s for {method}"
                raise SlowError(late) from None
        told = await asyncio.to_thread(_parsed, raw) if len(raw) > SMALL_BYTES else _parsed(raw)
        return self._result(method, status, told)

    async def _ask(self, method: str, body: bytes, limit: int) -> tuple[int, bytes]:
        """Status and body of an answer."""
        try:
            async with self._open().post(self._url, data=body, headers=self._headers, allow_redirects=False) as answer:
                if answer.status == 429:
                    self._wait(answer.headers.get("Retry-After", ""))
                bounds = http_body.Bounds(limit)
                return answer.status, await http_body.read(answer.content.iter_any(), answer.headers.items(), bounds)
        except http_body.BodyError as error:
            kind = TooLargeError if error.code == "size" else SourceUnavailableError
            raise kind(f"{self.name}: {self.shown} answers {method} with {error}") from None
        except aiohttp.ClientConnectorCertificateError as error:
            raise SourceError(
                f"{self.name}: the certificate of {self.shown} is not trusted ({error.certificate_error}); "
                "name the file of its authority in SSL_CERT_FILE"
            ) from error
        except aiohttp.InvalidURL:
            raise SourceError(f"{self.name}: {self.shown} is no URL that can be asked; correct it") from None
        except TimeoutError:
            raise
        except (aiohttp.ClientError, OSError) as error:
            raise _CutError(self._hide(str(error)) or type(error).__name__) from error

    def _wait(self, text: str) -> None:
        """Ask nothing more for the seconds that a Retry-After names, or one."""
        seconds = float(text) if text.isascii() and text.isdigit() and len(text) < 10 else 1.0
        self._not_before = time.monotonic() + min(seconds, LONGEST_WAIT)

    def _result(self, method: str, status: int, told: Any) -> Any:
        """The result in an answer, whatever its status: many endpoints refuse with one of their own."""
        if isinstance(told, dict) and told.get("error") is not None:
            raise self._refusal(method, status, told["error"])
        if status == 200 and isinstance(told, dict) and told.get("id") == 1 and "result" in told:
            return told["result"]
        if status in (401, 403):
            raise self._no_access(status, "")
        if status == 413:
            raise TooLargeError(f"{self.name}: {self.shown} finds the answer to {method} too large ({status})")
        if status in _SLOW:
            raise SlowError(f"{self.name}: {self.shown} answers {method} with status {status}")
        if status == 429 or status >= 500:
            raise _CutError(f"it answers {method} with status {status}")
        words = f"{self.name}: {self.shown} answers {method} with status {status} and not as JSON-RPC does"
        if isinstance(told, ParseError):
            words += f" ({told})"
        if 300 <= status < 500:
            raise SourceError(f"{words}; is that the endpoint's whole URL, with its path and key?")
        raise SourceUnavailableError(words)

    def _refusal(self, method: str, status: int, error: Any) -> Exception:
        code, message = (error.get("code"), error.get("message")) if isinstance(error, dict) else (0, error)
        code, message = code if isinstance(code, int) else 0, self._hide(str(message)[:500])
        if status == 429 or code == 429 or _TOO_OFTEN.search(message):
            return _CutError(f"it is asked too often: {message}")
        if status in (401, 403):
            return self._no_access(status, message)
        if status >= 500 and code == 0:
            return _CutError(f"it answers {method} with status {status}: {message}")
        return RefusedError(self.name, method, code, message)

    def _no_access(self, status: int, message: str) -> SourceError:
        said = f": {message}" if message else ""
        return SourceError(f"{self.name}: {self.shown} refuses access ({status}{said}); correct the key in its URL")

    def _hide(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=AT_ONCE),
                timeout=aiohttp.ClientTimeout(None, sock_connect=CONNECT_SECONDS),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        return self._session


def _login(user: str | None, password: str | None) -> dict[str, str]:
    if user is None:
        return {}
    return {"Authorization": "Basic " + b64encode(f"{unquote(user)}:{unquote(password or '')}".encode()).decode()}


def _parsed(raw: bytes) -> Any:
    """The JSON of an answer; for what is none, or not within bounds, the error that says why."""
    try:
        return strict_json.answer(raw)
    except ParseError as error:
        return error
