"""Asking a running overlay over HTTP, for the commands that take `--url`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from indexer import http_body
from parsers import strict_json
from parsers.errors import ParseError

if TYPE_CHECKING:
    import httpx

_HEADERS = {"Accept": "application/json", "Accept-Encoding": "gzip", "User-Agent": "a2b-registry"}

TIMEOUT_SECONDS = 30.0
"""How long a connection, and every next piece of an answer, is waited for."""

WHOLE_SECONDS = 120.0
"""How long a whole answer is waited for, redirects included, however slowly it drips."""

MAX_REDIRECTS = 5
MAX_ANSWER = 64 << 20
"""Bytes of an answer that are read: a history of ten thousand revisions is 8 MB."""

MAX_DETAIL = 2_000
"""Characters of an overlay's complaint that are passed on."""


class RemoteError(Exception):
    """The overlay could not be asked, or did not answer as one: the message says which."""


class RefusedError(Exception):
    """The overlay says that the question is wrong (a 4xx but 404)."""


class NotThereError(Exception):
    """The overlay says that there is no such thing (404)."""


class Remote:
    """A running overlay at a base URL. Every method raises RemoteError, RefusedError or NotThereError. Answers are any
    JSON where `checks_shape` is False: for a caller that judges each member by itself."""

    def __init__(self, base: str, *, checks_shape: bool = True) -> None:
        self._base, self._checks_shape = base.rstrip("/"), checks_shape

    def search(self, asked: Sequence[tuple[str, str]]) -> Any:
        """A page of items."""
        return self._ask("Page", "GET", "/v1/search", params=list(asked))

    def listing(self, id_: str) -> Any:
        """One item."""
        return self._ask("Listing", "GET", f"/v1/listings/{quote(id_, safe='')}")

    def history(self, id_: str) -> Any:
        """Every revision of a registration."""
        return self._ask("History", "GET", f"/v1/listings/{quote(id_, safe='')}/history")

    def diagnose(self, what: str) -> Any:
        """The step trace of a txid or outpoint."""
        return self._ask("Diagnosis", "GET", f"/v1/diagnose/{quote(what, safe='')}")

    def diagnose_raw(self, raw: bytes) -> Any:
        """The step trace of a raw transaction."""
        return self._ask("Diagnosis", "POST", "/v1/diagnose", json={"rawTx": raw.hex()})

    def check(self, body: bytes, kind: str | None) -> Any:
        """Errors, warnings and preview of a card, config or price list."""
        return self._ask("Check", "POST", "/v1/check", content=body, params=[("type", kind)] if kind else [])

    def status(self) -> Any:
        """Where everything stands."""
        return self._ask("Status", "GET", "/v1/status")

    def card(self, id_: str) -> bytes:
        """A card's exact bytes."""
        url, status, body = self._send("GET", f"/v1/listings/{quote(id_, safe='')}/card")
        if status != 200:
            _value(url, status, body)
        return body

    def proof(self, id_: str, first: int | None = None) -> Any:
        """What proves a listing, with headers from height `first` on."""
        asked = [] if first is None else [("from", str(first))]
        return self._ask("Proof", "GET", f"/v1/listings/{quote(id_, safe='')}/proof", params=asked)

    def _ask(self, schema: str, method: str, path: str, **more: Any) -> Any:
        """The answer, of the shape that the OpenAPI document names so."""
        from overlay.answer_shape import fault
        from overlay.api.schemas import SCHEMAS

        url, status, body = self._send(method, path, **more)
        value = _value(url, status, body)
        if self._checks_shape and (wrong := fault(value, schema, SCHEMAS)) is not None:
            raise RemoteError(f"{url} answers otherwise than an overlay does: {wrong}")
        return value

    def _send(self, method: str, path: str, **more: Any) -> tuple[str, int, bytes]:
        """URL, status and body of an answer within bounds."""
        import httpx

        url = f"{self._base}{path}"
        try:
            status, body = asyncio.run(_fetch(httpx.Request(method, url, headers=_HEADERS, **more)))
        except http_body.BodyError as error:
            raise RemoteError(f"{url} answers with {error}") from None
        except TimeoutError:
            raise RemoteError(f"{url} does not answer within {WHOLE_SECONDS:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise RemoteError(f"cannot ask {url}: {error}") from None
        return url, status, body


async def _fetch(request: httpx.Request) -> tuple[int, bytes]:
    """Status and body. Redirects are followed here: httpx would read, and decode, their bodies without a bound."""
    import httpx

    async with asyncio.timeout(WHOLE_SECONDS), httpx.AsyncClient(timeout=TIMEOUT_SECONDS) as client:
        for _ in range(MAX_REDIRECTS + 1):
            response = await client.send(request, stream=True)
            try:
                if response.next_request is None:
                    bounds = http_body.Bounds(MAX_ANSWER)
                    headers = response.headers.multi_items()
                    return response.status_code, await http_body.read(response.aiter_raw(), headers, bounds)
                request = response.next_request
            finally:
                await response.aclose()
        raise httpx.TooManyRedirects(f"more than {MAX_REDIRECTS} redirects", request=request)


def _value(url: str, status: int, body: bytes) -> Any:
    """The JSON of a good answer."""
    try:
        value = strict_json.answer(body)
    except ParseError as error:
        raise RemoteError(f"{url} answers {status}, and not with JSON: is it an overlay? ({error})") from None
    if status < 400:
        return value
    told = (value.get("detail") or value.get("error")) if isinstance(value, dict) else None
    detail = str(told or f"status {status}")[:MAX_DETAIL]
    if status == 404:
        raise NotThereError(detail)
    if 400 <= status < 500 and status != 429:
        raise RefusedError(detail)
    raise RemoteError(f"{url} answers {status}: {detail}")
