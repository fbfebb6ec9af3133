"""Logos: which are wanted, the small pictures made of them, and why there are none. Times in milliseconds since 1970.

Who serves notes what was looked for, who indexes fetches it. Only what somebody looked at is ever fetched, and only so
many are kept; the one that was not looked for longest goes first.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, Engine, delete, func, select, update
from sqlalchemy.dialects import postgresql, sqlite

from indexer.fetching.thumbnail import LOGO_BYTES
from indexer.store.batches import batches
from indexer.store.database import writing
from indexer.store.tables import logos

KEPT = 5_000
"""Logos that are known at once: at LOGO_BYTES at most."""

DAY = 86_400_000
AGAIN = 7 * DAY
"""After which a logo is fetched again, if it was looked for within the last two weeks."""

FIRST_RETRY = 3_600_000
LONGEST_URL, LONGEST_DATA = 2_048, 8_192

WANTED, HERE, FAILED = "wanted", "here", "failed"

_SHOWN = (logos.c.state == HERE, func.length(logos.c.body) <= LOGO_BYTES)


def is_fetchable(url: str) -> bool:
    """Whether a logo is worth noting: a URL that may be fetched, or bytes that it holds itself."""
    if url[:8].lower() == "https://":
        return len(url) <= LONGEST_URL and url.isprintable() and url.isascii()
    return url[:11].lower() == "data:image/" and len(url) <= LONGEST_DATA and url.isascii()


class Logos:
    """Safe to use from several threads and processes at once."""

    def __init__(self, engine: Engine, kept: int = KEPT) -> None:
        self._engine, self._kept = engine, kept

    def shown(self, urls: Iterable[str]) -> dict[str, str]:
        """The SHA-256 (hex) of the small picture of each of these logos that there is one of. Larger ones, kept before
        there was that limit, are not shown: they are made anew when they are fetched again."""
        wanted = {_key(url): url for url in urls if is_fetchable(url)}
        statement = select(logos.c.url_sha256, logos.c.sha256).where(*_SHOWN)
        found: dict[str, str] = {}
        with self._engine.connect() as connection:
            for batch in batches(wanted):
                rows = connection.execute(statement.where(logos.c.url_sha256.in_(batch)))
                found |= {wanted[key]: digest.hex() for key, digest in rows}
        return found

    def body(self, digest: bytes) -> bytes | None:
        """The small picture (WebP) with this SHA-256."""
        with self._engine.connect() as connection:
            return connection.execute(select(logos.c.body).where(logos.c.sha256 == digest).limit(1)).scalar()

    def newest(self) -> int:
        """When the newest small picture was made, 0 for never: another number means other pictures."""
        with self._engine.connect() as connection:
            return connection.execute(select(func.max(logos.c.noted_at)).where(logos.c.state == HERE)).scalar() or 0

    def want(self, urls: Iterable[str], now: int) -> None:
        """These were looked for. Raises StoreError when the database refuses."""
        rows = [
            {"url_sha256": _key(url), "url": url, "state": WANTED, "reason": "", "tries": 0, "wanted_at": now,
             "noted_at": 0, "next_at": now}
            for url in sorted({url for url in urls if is_fetchable(url)})
        ]  # fmt: skip
        if not rows:
            return
        with writing(self._engine) as connection:
            dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
            connection.execute(dialect.insert(logos).on_conflict_do_nothing(), rows)
            for batch in batches(row["url_sha256"] for row in rows):
                stale = (logos.c.url_sha256.in_(batch), logos.c.wanted_at < now - DAY)
                connection.execute(update(logos).where(*stale).values(wanted_at=now))
            self._trim(connection)

    def _trim(self, connection: Connection) -> None:
        over = connection.execute(select(func.count()).select_from(logos)).scalar_one() - self._kept
        if over > 0:
            last = select(logos.c.url_sha256).order_by(logos.c.wanted_at, logos.c.url_sha256).limit(over)
            connection.execute(delete(logos).where(logos.c.url_sha256.in_(list(connection.execute(last).scalars()))))

    def due(self, now: int, limit: int, after: tuple[int, str] = (-1, "")) -> list[tuple[int, str]]:
        """Logos to be fetched by `now`, in order, as (when, URL), after such a pair."""
        later = (logos.c.next_at > after[0]) | ((logos.c.next_at == after[0]) & (logos.c.url > after[1]))
        statement = (
            select(logos.c.next_at, logos.c.url)
            .where(logos.c.next_at <= now, logos.c.wanted_at > now - 2 * AGAIN, later)
            .order_by(logos.c.next_at, logos.c.url)
            .limit(limit)
        )
        with self._engine.connect() as connection:
            return [(at, url) for at, url in connection.execute(statement)]

    def keep(self, url: str, body: bytes, now: int) -> None:
        """This small picture was made of a logo. Raises StoreError."""
        made = {"state": HERE, "reason": "", "tries": 0, "sha256": sha256(body).digest(), "body": body}
        self._note(url, {**made, "noted_at": now, "next_at": now + AGAIN})

    def fail(self, url: str, reason: str, now: int) -> None:
        """Nothing came of a logo, by a code of `indexer.fetching.reasons`; a picture that was made before stays. Raises
        StoreError."""
        with self._engine.connect() as connection:
            row = connection.execute(
                select(logos.c.tries, logos.c.state).where(logos.c.url_sha256 == _key(url))
            ).first()
        if row is not None:
            pause = min(FIRST_RETRY * 2 ** min(row.tries, 12), AGAIN)
            state = HERE if row.state == HERE else FAILED
            self._note(url, {"state": state, "reason": reason, "tries": row.tries + 1, "next_at": now + pause})

    def _note(self, url: str, values: dict[str, Any]) -> None:
        with writing(self._engine) as connection:
            connection.execute(update(logos).where(logos.c.url_sha256 == _key(url)).values(**values))


def _key(url: str) -> bytes:
    return sha256(url.encode("utf-8", "surrogatepass")).digest()
