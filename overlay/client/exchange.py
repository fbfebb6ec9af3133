"""Requests and their answers, without input or output: bounds, base URL, redirects, retries, parsing."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import SplitResult, urlsplit

from indexer.retries import Backoff, retry_after
from overlay.client.calls import Call
from overlay.client.errors import RemoteError, UrlError, problem_error
from parsers.cards import strict_json
from parsers.errors import ParseError
from parsers.json_records import RecordError

T = TypeVar("T")

_HEADERS = {"Accept": "application/json", "Accept-Encoding": "gzip", "User-Agent": "a2b-registry"}

_RETRIED = frozenset((429, 502, 503, 504))
_TOKEN = re.compile(r"a2b_[A-Za-z0-9_-]{43}")
_BACKOFF = Backoff(0.5, math.inf)
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """Bounds of a client. `silence_seconds`: how long a connection, and every next piece of an answer, is waited for;
    `whole_seconds`: for a whole answer, redirects included, however slowly it drips; `answer_bytes`: of an answer,
    decoded (a history of ten thousand revisions is 8 MB); `redirects`: followed, within the origin only; `attempts`:
    how often a request is sent in all while the overlay is busy or breaks the connection; `pause_seconds`: the longest
    Retry-After that is waited for, beyond which the answer is an error at once."""

    silence_seconds: float = 30.0
    whole_seconds: float = 120.0
    answer_bytes: int = 64 << 20
    redirects: int = 5
    attempts: int = 3
    pause_seconds: float = 60.0


def base_url(url: str) -> str:
    """The base below which the routes are, from a user's text: with a trailing `/` or `/v1`, too. Raises UrlError for
    any other text than an HTTP URL."""
    base = url.strip().rstrip("/").removesuffix("/v1").rstrip("/")
    try:
        parts = urlsplit(base)
        is_usable = parts.scheme in _PORTS and bool(parts.hostname) and not (parts.query or parts.fragment)
        is_usable = is_usable and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise UrlError(f"{url[:200]!a} is not the URL of an overlay, for example https://overlay.example")
    return base


def headers(token: str = "") -> dict[str, str]:
    """The headers of every request, with the token of a client. Raises UrlError for another text, which it does not
    repeat."""
    if token and not _TOKEN.fullmatch(token):
        raise UrlError("the token of a client is a2b_ and 43 letters, as `a2b clients add` prints it once")
    return _HEADERS | ({"A2B-Client": token} if token else {})


def check_redirect(url: str, target: str) -> None:
    """Raise RemoteError for a redirect to another origin (scheme, host and port)."""
    if _origin(urlsplit(url)) != _origin(urlsplit(target)):
        raise RemoteError(f"{url} redirects to another origin, which is not followed: {target[:200]!a}")


def _origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)


def wait_of(headers: Mapping[str, str]) -> float | None:
    """The seconds that an answer requires to wait, however many; None without them."""
    return retry_after(headers.get("retry-after", ""), math.inf)


def pause(limits: ClientLimits, attempt: int, status: int | None, wait: float | None) -> float | None:
    """The seconds to wait before a retry, None for no retry. `attempt` counts from 1; `status` is None for a broken
    connection; `wait` is what the answer requires. Every request may be sent twice: the second has no further
    effect."""
    if attempt >= limits.attempts or not (status is None or status in _RETRIED):
        return None
    seconds = _BACKOFF.pause(attempt) if wait is None else wait
    return seconds if seconds <= limits.pause_seconds else None


def parse(call: Call[Any], url: str, status: int, headers: Mapping[str, str], body: bytes) -> Any:
    """The JSON of a good answer, or its bytes. Raises RemoteProblemError, RemoteError."""
    if not call.is_json and status == 200:
        return body
    try:
        value = strict_json.answer(body)
    except ParseError as error:
        raise RemoteError(f"{url} answers {status}, and not with JSON: is it an overlay? ({error})") from None
    if status >= 400:
        raise problem_error(url, status, value, wait_of(headers))
    return value


def typed(url: str, call: Call[T], value: Any) -> T:
    """The answer to a call as its model. Raises RemoteError naming a member of another type."""
    try:
        return call.read(value)
    except RecordError as error:
        raise RemoteError(f"{url} answers otherwise than an overlay does: {error.detail[:500]}") from None
