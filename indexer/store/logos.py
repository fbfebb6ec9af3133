"""Logos: those that clients requested, their thumbnails, and the reasons for missing ones. Times are milliseconds since
1970.

Serving processes record requests, the indexing process fetches. Only requested logos are fetched, and a bounded number
is stored; the one requested longest ago is deleted first.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from sqlalchemy import Connection, Engine, delete, func, select, update

from indexer.store import checks
from indexer.store.checks import check_kind
from indexer.store.database import writing
from indexer.store.queries import Queries, batches, count, insert_new
from indexer.store.schema import logos

LOGO_CHECK = check_kind("logo", is_rebuilt=True)
"""The check of a logo, by its URL, or `data:` and the SHA-256 of one that holds the picture itself."""

MAX_LOGOS = 5_000
"""Logos stored at once."""

DAY = 86_400_000
REFETCH = 7 * DAY
"""The milliseconds after which a logo is fetched again, if it was requested since the last time."""

MAX_URL, MAX_DATA_URL = 2_048, 8_192

_REQUESTED, _STORED, _FAILED = "wanted", "here", "failed"
_DATA = "data:"


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
        fetchable = sorted({url for url in urls if is_fetchable(url)})
        rows = [
            {"url_sha256": _key(url), "url": url, "state": _REQUESTED, "wanted_at": now, "noted_at": 0}
            for url in fetchable
        ]  # fmt: skip
        if not rows:
            return
        with writing(self._engine) as connection:
            insert_new(connection, logos, rows)
            for batch in batches(row["url_sha256"] for row in rows):
                stale = (logos.c.url_sha256.in_(batch), logos.c.wanted_at < now - DAY)
                connection.execute(update(logos).where(*stale).values(wanted_at=now))
            checks.enlist(connection, LOGO_CHECK, {name: name for name in map(check_name, fetchable)}, now)
            self._trim(connection)

    def remove(self, urls: Iterable[str]) -> None:
        """Delete these logos, until somebody requests them again. Raises StoreError."""
        fetchable = [url for url in urls if is_fetchable(url)]
        with writing(self._engine) as connection:
            for batch in batches(fetchable):
                connection.execute(delete(logos).where(logos.c.url_sha256.in_(map(_key, batch))))
            checks.forget(connection, LOGO_CHECK, map(check_name, fetchable))

    def _trim(self, connection: Connection) -> None:
        over = count(connection, logos) - self._limit
        if over > 0:
            oldest = select(logos.c.url_sha256, logos.c.url).order_by(logos.c.wanted_at, logos.c.url_sha256)
            last = connection.execute(oldest.limit(over)).all()
            connection.execute(delete(logos).where(logos.c.url_sha256.in_([row.url_sha256 for row in last])))
            checks.forget(connection, LOGO_CHECK, [check_name(row.url) for row in last])

    def url_of(self, name: str) -> str:
        """The URL of a logo by the name of its check; "" after it was deleted."""
        if not name.startswith(_DATA):
            return name
        key = bytes.fromhex(name.removeprefix(_DATA))
        return self._scalar(select(logos.c.url).where(logos.c.url_sha256 == key)) or ""

    def store(self, url: str, body: bytes, now: int) -> None:
        """Store the thumbnail (WebP) of a logo. Raises StoreError."""
        thumbnail = {"state": _STORED, "sha256": sha256(body).digest(), "body": body, "noted_at": now}
        with writing(self._engine) as connection:
            connection.execute(update(logos).where(logos.c.url_sha256 == _key(url)).values(**thumbnail))
            checks.record(connection, LOGO_CHECK, [check_name(url)], now, pause=REFETCH)
            _pause_unwanted(connection, url, now)

    def fail(self, url: str, reason: str, now: int) -> None:
        """Record why a logo brought no thumbnail, by a reason code of fetching; an older thumbnail stays. Raises
        StoreError."""
        missing = (logos.c.url_sha256 == _key(url), logos.c.state != _STORED)
        with writing(self._engine) as connection:
            connection.execute(update(logos).where(*missing).values(state=_FAILED))
            checks.fail(connection, LOGO_CHECK, [check_name(url)], reason, now)
            _pause_unwanted(connection, url, now)


def _pause_unwanted(connection: Connection, url: str, now: int) -> None:
    """Stop fetching a logo without recent requests, until the next one."""
    unwanted = (logos.c.url_sha256 == _key(url), logos.c.wanted_at <= now - REFETCH)
    if count(connection, logos, *unwanted):
        checks.pause(connection, LOGO_CHECK, [check_name(url)])


def check_name(url: str) -> str:
    """The name of the check of a logo: its URL, or the hash of one that holds the picture itself."""
    return url if url[:8].lower() == "https://" else f"{_DATA}{_key(url).hex()}"


def _key(url: str) -> bytes:
    return sha256(url.encode("utf-8", "surrogatepass")).digest()
