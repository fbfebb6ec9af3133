"""One answer of a feed of exchange rates: fetched within bounds, its signature checked, read into a table.

A feed is the operator's, but its answers may be anything: a body is at most 1 MiB of strict JSON. It is requested
without redirects and without content coding: the signed bytes are the received bytes.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from indexer import http_body
from indexer.model import LATEST_TIME
from indexer.rates.feed_urls import RateFeed
from indexer.rates.rate_services import SERVICES, ServiceAnswer
from parsers.cards import money, strict_json
from parsers.cards.rate_table import LARGEST, SMALLEST
from parsers.errors import ParseError
from parsers.json_records import JsonObject, convert

MAX_BYTES = strict_json.MAX_BYTES
MAX_CURRENCIES = 2_000
MAX_TICKER = 64
WHOLE_SECONDS = 10.0
"""Limit for a whole answer, however slowly it arrives."""

_MILLISECONDS = 10**11  # seconds since 1970 reach this in the year 5138
_ONE = Decimal(1)


class RatesRefusedError(Exception):
    """A feed's answer that is not used; the message gives the reason, without the feed's URL. `code` is unreachable,
    status, too-large, signature, malformed, base or empty; `rates_fetcher` adds stale, future, older and outlier."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class FeedTable(NamedTuple):
    """The table of a feed: units of each currency for one of its base, which is included, and its time (seconds since
    1970; None where it states none)."""

    rates: dict[str, Decimal]
    quoted_at: int | None


class _RatesJson(JsonObject, rename={"quoted_at": "at"}):
    rates: dict[str, Any]
    base: Any = None
    timestamp: Any = None
    quoted_at: Any = None
    time: Any = None
    date: Any = None


class FeedClient:
    """Fetches the operator's feeds, with a separate HTTP client."""

    def __init__(self, seconds: float = WHOLE_SECONDS) -> None:
        self._seconds = seconds
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "a2b-registry"}
        # it logs every URL, and these hold keys
        logging.getLogger("httpx").setLevel(logging.WARNING)
        self._http = httpx.AsyncClient(headers=headers, timeout=seconds, follow_redirects=False)

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def ask(self, feed: RateFeed) -> FeedTable:
        """The current table of a feed. Raises RatesRefusedError."""
        try:
            if feed.path:
                return await asyncio.to_thread(_read_file, feed)
            async with asyncio.timeout(self._seconds):
                body, signature = await self._fetch(feed)
        except TimeoutError:
            raise RatesRefusedError("unreachable", f"no whole answer within {self._seconds:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            # the texts of these errors name the URL, which may hold a key
            raise RatesRefusedError("unreachable", f"cannot be reached ({type(error).__name__})") from None
        if feed.key:
            check_signature(body, signature, feed.key)
        return read(body, feed.base, feed.service)

    async def _fetch(self, feed: RateFeed) -> tuple[bytes, str]:
        async with self._http.stream("GET", feed.url) as response:
            if response.status_code != 200:
                raise RatesRefusedError("status", f"answers with status {response.status_code}")
            bounds = http_body.Bounds(MAX_BYTES, gzip=False)
            try:
                body = await http_body.read(response.aiter_raw(), response.headers.multi_items(), bounds)
            except http_body.BodyError as error:
                raise RatesRefusedError("too-large" if error.code == "size" else "status", f"sends {error}") from None
            return body, response.headers.get("X-Signature", "")


def check_signature(body: bytes, signature: str, key: str) -> None:
    """Hold a body to its Ed25519 signature (64 bytes in hex) by a public key (32 bytes in hex).

    Raises RatesRefusedError when it is missing, malformed or another's.
    """
    if not signature:
        raise RatesRefusedError("signature", "sends no X-Signature, and its key is pinned")
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(bytes.fromhex(signature.strip()), body)
    except (InvalidSignature, ValueError):
        raise RatesRefusedError("signature", "sends a signature that is not of the pinned key over this body") from None


def _read_file(feed: RateFeed) -> FeedTable:
    """The table in a file, of the time at which that was changed, where it states none. Raises RatesRefusedError."""
    try:
        with Path(feed.path).open("rb") as file:
            body, changed_at = file.read(MAX_BYTES + 1), int(os.fstat(file.fileno()).st_mtime)
    except OSError as error:
        raise RatesRefusedError("unreachable", f"cannot be read: {error.strerror or type(error).__name__}") from None
    if len(body) > MAX_BYTES:
        raise RatesRefusedError("too-large", f"has more than {MAX_BYTES:,} bytes")
    table = read(body, feed.base)
    return table if table.quoted_at is not None else table._replace(quoted_at=changed_at)


def read(body: bytes, base: str, service: str = "") -> FeedTable:
    """The table in a feed's body, for one unit of `base`: `{"rates": {"USD": 52.1, …}}`, or the answer of a service.

    A rate that is not a number above 0 is left out, and so is a currency with two different rates. The time in the body
    (`timestamp`, `at`, `time` or `date`: seconds, milliseconds or ISO 8601), if any, is the table's. Raises
    RatesRefusedError for an answer that is not a table of this base, or that holds no usable rate.
    """
    try:
        value, repeated = strict_json.loads(body)
        stated = SERVICES[service].read(value, base) if service else _stated(value)
    except ParseError as error:
        raise RatesRefusedError("malformed", f"answers with what is not a table: {error}") from None
    if repeated:
        raise RatesRefusedError("malformed", f"has {repeated[0].pointer[:80]!a} twice")
    if len(stated.rates) > MAX_CURRENCIES:
        detail = f"quotes {len(stated.rates):,} currencies; at most {MAX_CURRENCIES:,} are read"
        raise RatesRefusedError("too-large", detail)
    table = _table(stated.rates)
    _check_base(stated.base, table, base)
    if not table.keys() - {base}:
        raise RatesRefusedError("empty", "quotes no currency with a rate above 0")
    return FeedTable({**table, base: _ONE}, next(filter(None, map(_moment, stated.times)), None))


def _stated(value: Any) -> ServiceAnswer:
    table = convert(value, _RatesJson)
    return ServiceAnswer(table.base, table.rates, (table.timestamp, table.quoted_at, table.time, table.date))


def _table(rates: Mapping[str, Any]) -> dict[str, Decimal]:
    table: dict[str, Decimal] = {}
    doubtful: set[str] = set()
    for name, amount in rates.items():
        ticker, rate = name.strip().upper(), money.amount(amount)
        if not ticker or len(ticker) > MAX_TICKER or rate is None or not SMALLEST <= rate <= LARGEST:
            continue
        if table.setdefault(ticker, rate) != rate:
            doubtful.add(ticker)
    return {ticker: rate for ticker, rate in table.items() if ticker not in doubtful}


def _check_base(named: Any, table: Mapping[str, Decimal], base: str) -> None:
    """A table for one unit of something else would be taken for prices a thousand times too high or too low."""
    if isinstance(named, str) and named.strip().upper() != base:
        raise RatesRefusedError("base", f"has the base {named[:64]!a}, and {base} is configured")
    if table.get(base, _ONE) != _ONE:
        raise RatesRefusedError("base", f"quotes {table[base]!s:.40} {base} for one {base}")


def _moment(stated: Any) -> int | None:
    """Seconds since 1970 up to `LATEST_TIME`, None for any other value."""
    if isinstance(stated, str):
        try:
            read = datetime.fromisoformat(stated.strip().upper())
            seconds = (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return None
    elif isinstance(stated, bool) or not isinstance(stated, int | Decimal) or not 0 < stated < 10**15:
        return None
    else:
        seconds = float(stated / 1000 if stated >= _MILLISECONDS else stated)
    return int(seconds) if 0 < seconds <= LATEST_TIME else None
