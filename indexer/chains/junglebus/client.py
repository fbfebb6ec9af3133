"""Requests to a JungleBus server: bounded in size, time and number, and every failure said in words."""

from __future__ import annotations

import asyncio
import time
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from indexer import http_body
from indexer.chains import SourceError, SourceUnavailableError
from indexer.chains.junglebus.lies import Lies
from parsers import strict_json
from parsers.errors import ParseError

PAGE_BYTES = 64 << 20
"""The largest answer that is read: a page of transactions in JSON."""

HEADER_BYTES = 8 << 20
"""The largest list of headers: 10,000 of them take 4 MB."""

SMALL_BYTES = 1 << 20

WHOLE_SECONDS = 120.0
"""A whole answer takes no longer, however slowly a server drips."""

SILENT_SECONDS = 20.0

AT_ONCE = 8
"""Requests under way at the same time."""

LONGEST_WAIT = 3_600.0
"""Seconds that a Retry-After may ask for; more is cut."""


class Client:
    """Asks one server. `token` is sent as the header of that name, and never shown."""

    def __init__(self, name: str, base: str, lies: Lies) -> None:
        self._name, self._base, self._lies = name, base, lies
        self._http: httpx.AsyncClient | None = None
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._not_before = 0.0
        self.page_bytes, self.whole_seconds, self.silent_seconds = PAGE_BYTES, WHOLE_SECONDS, SILENT_SECONDS

    def open(self, token: str) -> None:
        """Prepare; nothing is sent yet. Once is enough."""
        if self._http is not None:
            return
        headers = {
            "Accept": "application/json, application/octet-stream",
            "Accept-Encoding": "gzip",
            **({"token": token} if token else {}),
        }
        self._http = httpx.AsyncClient(headers=headers, timeout=self.silent_seconds, follow_redirects=False)

    async def close(self) -> None:
        """Close all connections."""
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    async def json(self, path: str, most: int | None = None, **query: int) -> Any:
        """The JSON that a route answers with, None where it knows nothing.

        Raises SourceUnavailableError, LieError for what is no JSON or too large, SourceError where access is refused.
        """
        body = await self.fetch(path, most, **query)
        if not body:
            return None
        try:
            if len(body) > SMALL_BYTES:
                return await asyncio.to_thread(strict_json.answer, body)
            return strict_json.answer(body)
        except ParseError as error:
            raise self._lies.caught("answer", f"{path} answers with {error}") from None

    async def fetch(self, path: str, most: int | None = None, **query: int) -> bytes | None:
        """The bytes that a route answers with, at most so many; None where it knows nothing. Raises like `json`."""
        if self._http is None:
            raise SourceError(f"{self._name}: not open")
        left = self._not_before - time.monotonic()
        if left > 0:
            raise SourceUnavailableError(f"{self._name}: the server asks to wait for {left:,.0f} more seconds")
        try:
            async with (
                self._turn,
                asyncio.timeout(self.whole_seconds),
                self._http.stream("GET", self._base + path, params=query or None) as answer,
            ):
                if answer.status_code == 200:
                    return await self._read(path, answer, most or self.page_bytes)
                self._check_status(path, answer)
                return b"" if answer.status_code == 204 else None
        except TimeoutError:
            raise SourceUnavailableError(f"{self._name}: {path} takes more than {self.whole_seconds:g} s") from None
        except httpx.InvalidURL as error:
            raise SourceError(f"{self._name}: {self._base} is no server ({error}); correct url=") from None
        except httpx.HTTPError as error:
            words = str(error) or type(error).__name__
            raise SourceUnavailableError(f"{self._name}: {self._base} does not answer: {words}") from None

    async def _read(self, path: str, answer: httpx.Response, limit: int) -> bytes:
        try:
            return await http_body.read(answer.aiter_raw(), answer.headers.multi_items(), http_body.Bounds(limit))
        except http_body.BodyError as error:
            raise self._lies.caught("answer", f"{path} answers with {error}") from None

    def _check_status(self, path: str, answer: httpx.Response) -> None:
        """Raise what to do about a refusal; to know nothing of something is none."""
        status = answer.status_code
        if status in (204, 404):
            return
        if status in (401, 403):
            raise SourceError(
                f"{self._name}: {self._base} refuses access ({status}): set A2B_JUNGLEBUS_TOKEN to the token that the "
                "server's dashboard gives, or correct it"
            )
        wait = _seconds(answer.headers.get("retry-after", ""))
        if status == 429 or wait:
            self._not_before = time.monotonic() + (wait or 1.0)
        raise SourceUnavailableError(f"{self._name}: {path} answers {status} {answer.reason_phrase}".rstrip())


def _seconds(text: str) -> float:
    """What a Retry-After says, in seconds from now; 0 where it says nothing that can be understood."""
    if text.isascii() and text.isdigit() and len(text) < 10:
        return min(float(text), LONGEST_WAIT)
    try:
        return min(max(parsedate_to_datetime(text).timestamp() - time.time(), 0.0), LONGEST_WAIT)
    except (ValueError, OverflowError):
        return 0.0
