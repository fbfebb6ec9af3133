"""Requests to a JungleBus server."""

from __future__ import annotations

from collections import Counter
from typing import Any

from indexer import http_body
from indexer.chains.http_client import (
    RESPONSE_BYTES,
    SMALL_BYTES,
    CutError,
    HttpClient,
    Response,
    SlowError,
    parse_json,
)
from indexer.chains.junglebus.violations import ViolationError, Violations
from indexer.errors import SourceRefusalError, SourceUnavailableError

TIP = "/block_header/tip"

HEADERS_BYTES = 8 << 20
"""The limit of a list of headers: 10,000 of them take 4 MB."""

MOST_REFUSED = 100
"""Routes of single transactions that may fail while the server answers others. With more failures the server counts as
unavailable: a long fault of its proofs must not fill the queue of unproved transactions."""

SLOW_TRIES = 3
"""Times in a row that a route takes too long before it counts as failing."""

WHOLE_SECONDS, SILENCE_SECONDS = 120.0, 20.0


class JungleBusClient(HttpClient):
    """The server at `base`. `token` is sent as the header of that name and is a secret; `page_bytes` is the limit of a
    page of transactions. Malformed responses are counted in `violations`."""

    def __init__(self, name: str, base: str, violations: Violations, token: str = "") -> None:
        headers = {"Accept": "application/json, application/octet-stream", **({"token": token} if token else {})}
        super().__init__(
            name,
            base,
            headers=headers,
            secrets=[token] if token else [],
            whole_seconds=WHOLE_SECONDS,
            silence_seconds=SILENCE_SECONDS,
        )
        self._base, self._violations = base, violations
        self._failures: Counter[str] = Counter()
        self.page_bytes = RESPONSE_BYTES

    async def json(self, path: str, limit: int | None = None, /, **query: int) -> Any:
        """The JSON of a route, in a response of at most `limit` bytes (default: `page_bytes`); None for 404.

        Raises SourceUnavailableError, ViolationError for a response that is too large or not JSON, SourceError for
        refused access.
        """
        body = await self.fetch(path, limit, **query)
        if not body:
            return None
        with self._violations.refusing("answer", f"{path} answers with "):
            return await parse_json(body)

    async def fetch(self, path: str, limit: int | None = None, /, **query: int) -> bytes | None:
        """The body of a route, empty for 204, None for 404. Limits and errors as for `json`."""
        parameters = "&".join(f"{key}={value}" for key, value in query.items())
        url = self._base + path + (f"?{parameters}" if parameters else "")
        return self._body(path, await self.retry(lambda: self.request("GET", url, limit or self.page_bytes, what=path)))

    async def fetch_item(self, path: str, limit: int | None = None) -> bytes | None:
        """As `fetch`, for a route of a single transaction or output; an answer of status 5xx is requested again.

        Raises ViolationError where only this route fails: the server answers others, and this may never end.
        Raises SourceUnavailableError where the server as a whole fails, or more than MOST_REFUSED routes.
        """
        try:
            body = await self.retry(lambda: self._fetch_once(path, limit))
        except ViolationError:
            raise
        except SourceUnavailableError as error:
            await self.fetch(TIP, SMALL_BYTES)
            if path not in self._failures and len(self._failures) >= MOST_REFUSED:
                raise SourceUnavailableError(
                    f"{error}; {MOST_REFUSED} requests of other transactions fail, too"
                ) from error
            self._failures[path] += 1
            if isinstance(error, SlowError) and self._failures[path] < SLOW_TRIES:
                raise
            why = self.reason(error.__cause__) if isinstance(error.__cause__, CutError) else str(error)
            raise self._violations.record("item", f"other requests succeed, and {why}") from error
        self._failures.pop(path, None)
        return body

    async def _fetch_once(self, path: str, limit: int | None) -> bytes | None:
        response = await self.request("GET", self._base + path, limit or self.page_bytes, what=path)
        if response.status >= 500:
            raise CutError(f"{path} answers {response.status} {response.reason}".rstrip())
        return self._body(path, response)

    def _body(self, path: str, response: Response) -> bytes | None:
        if response.status == 200:
            return response.body
        self._check_status(path, response)
        return b"" if response.status == 204 else None

    def body_error(self, error: http_body.BodyError, what: str) -> SourceUnavailableError:
        """The error for a body outside its bounds, which is counted."""
        return self._violations.record("answer", f"{what} answers with {error}")

    def _check_status(self, path: str, response: Response) -> None:
        """Raise the error of a status that is neither a result nor "not found"."""
        status = response.status
        if status in (204, 404):
            return
        if status in (401, 403):
            raise SourceRefusalError(
                f"{self.name}: {self.label} refuses access ({status}): set A2B_JUNGLEBUS_TOKEN to the token that the "
                "server's dashboard gives, or correct it"
            )
        raise SourceUnavailableError(f"{self.name}: {path} answers {status} {response.reason}".rstrip())
