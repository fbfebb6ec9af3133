"""Logos: which ones clients requested, their thumbnails, and why there are none. Times in milliseconds since 1970.

Serving processes record requests, the indexing process fetches. Only logos that somebody looked at are ever fetched,
and a bounded number is stored; the one requested longest ago is deleted first.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, Engine, delete, func, select, update

from indexer.store.badges import BACKOFF
from indexer.store.database import writing
from indexer.store.queries import Queries, batches, count, insert_new
from indexer.store.schema import logos

MAX_LOGOS = 5_000
"""Logos stored at once."""

DAY = 86_400_000
REFETCH = 7 * DAY
"""After which a logo is fetched again, if it was requested within the last two weeks."""

MAX_URL, MAX_DATA_URL = 2_048, 8_192

_WANTED, _STORED, _FAILED = "wanted", "here", "failed"


def is_fetchable(url: str) -> bool:
    """Whether a logo can be fetched: an https URL, or a data URL that holds the image itself."""
    if url[:8].lower() == "https://":
        return len(url) <= MAX_URL and url.isprintable() and url.isascii()
    return url[:11].lower() == "data:image/" and len(url) <= MAX_DATA_URL and url.isascii()


class Logos(Queries):
    """The logos in one database, at most `limit`; several threads and processes may use it at once."""

    def __init__(self, engine: Engine, limit: int = MAX_LOGOS) -> None:
        super().__init__(engine)
        self._limit = limit

    def thumbnails(self, urls: Iterable[str]) -> dict[str, str]:
        """The SHA-256 (hex) of the thumbnails of these logos by URL; logos without one are left out."""
        url_by_key = {_key(url): url for url in urls if is_fetchable(url)}
        statement = select(logos.c.url_sha256, logos.c.sha256).where(logos.c.state == _STORED)
        stored = self._rows_in(statement, logos.c.url_sha256, url_by_key)
        return {url_by_key[row["url_sha256"]]: row["sha256"].hex() for row in stored}

    def body(self, digest: bytes) -> bytes | None:
        """The thumbnail (WebP) with this SHA-256."""
        body: bytes | None = self._scalar(select(logos.c.body).where(logos.c.sha256 == digest).limit(1))
        return body

    def newest(self) -> int:
        """When the newest thumbnail was stored, 0 for never: changes with every new one."""
        return self._scalar(select(func.max(logos.c.noted_at)).where(logos.c.state == _STORED)) or 0

    def request(self, urls: Iterable[str], now: int) -> None:
        """Record that clients looked for these logos. Raises StoreError when the database refuses."""
        rows = [
            {"url_sha256": _key(url), "url": url, "state": _WANTED, "reason": "", "tries": 0, "wanted_at": now,
             "noted_at": 0, "next_at": now}
            for url in sorted({url for url in urls if is_fetchable(url)})
        ]  # fmt: skip
        if not rows:
            return
        with writing(self._engine) as connection:
            insert_new(connection, logos, rows)
            for batch in batches(row["url_sha256"] for row in rows):
                stale = (logos.c.url_sha256.in_(batch), logos.c.wanted_at < now - DAY)
                connection.execute(update(logos).where(*stale).values(wanted_at=now))
            self._trim(connection)

    def _trim(self, connection: Connection) -> None:
        over = count(connection, logos) - self._limit
        if over > 0:
            last = select(logos.c.url_sha256).order_by(logos.c.wanted_at, logos.c.url_sha256).limit(over)
            connection.execute(delete(logos).where(logos.c.url_sha256.in_(list(connection.execute(last).scalars()))))

    def due(self, now: int, limit: int, after: tuple[int, str] = (-1, "")) -> list[tuple[int, str]]:
        """At most `limit` logos to fetch at `now`, in order, as (due since, URL), after such a pair."""
        return self._due(logos.c.next_at, logos.c.url, now, limit, after, logos.c.wanted_at > now - 2 * REFETCH)

    def store(self, url: str, body: bytes, now: int) -> None:
        """Store the thumbnail (WebP) of a logo. Raises StoreError."""
        thumbnail = {"state": _STORED, "reason": "", "tries": 0, "sha256": sha256(body).digest(), "body": body}
        self._update(url, {**thumbnail, "noted_at": now, "next_at": now + REFETCH})

    def fail(self, url: str, reason: str, now: int) -> None:
        """Record why a logo brought no thumbnail, by a reason code of fetching; an older thumbnail stays. Raises
        StoreError."""
        for row in self._rows(select(logos.c.tries, logos.c.state).where(logos.c.url_sha256 == _key(url))):
            pause = BACKOFF.pause_ms(row["tries"] + 1)
            state = _STORED if row["state"] == _STORED else _FAILED
            self._update(url, {"state": state, "reason": reason, "tries": row["tries"] + 1, "next_at": now + pause})

    def _update(self, url: str, values: dict[str, Any]) -> None:
        with writing(self._engine) as connection:
            connection.execute(update(logos).where(logos.c.url_sha256 == _key(url)).values(**values))


def _key(url: str) -> bytes:
    return sha256(url.encode("utf-8", "surrogatepass")).digest()
