"""Logos that cards name: fetched by the rules and budgets of cards, and stored as thumbnails."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

from indexer.fetcher import thumbnail
from indexer.fetcher.connections import Admit
from indexer.fetcher.http_fetcher import HttpFetcher, open_admit
from indexer.fetcher.reasons import FetchError
from indexer.fetcher.schedule import Priority
from indexer.model import LOGO_BYTES
from indexer.store.logos import LOGO_CHECK, Logos
from parsers.cards import data_uri

AT_ONCE = 2
"""Concurrent decoder processes."""

SECONDS = 30.0
"""Wall-clock limit of a decoder; its CPU time is limited by `thumbnail.CPU_SECONDS`."""


class LogoFetcher:
    """Fetches requested logos, and stores the result."""

    kind, priority = LOGO_CHECK, Priority.LOGO

    def __init__(self, fetcher: HttpFetcher, logos: Logos) -> None:
        self.logos = logos
        self._fetcher = fetcher
        self._decoding = asyncio.Semaphore(AT_ONCE)

    async def check(self, name: str, now: int, admit: Admit = open_admit) -> tuple[int, FetchError | None]:
        """Fetch a logo and store it; a listing is shown as before. Raises FetchError, StoreError."""
        url = await asyncio.to_thread(self.logos.url_of, name)
        small = await self.small(await self._body(url, admit))
        await asyncio.to_thread(self.logos.store, url, small, now)
        return 0, None

    async def fail(self, name: str, reason: str, now: int) -> int:
        """Store why a logo brought no thumbnail. Raises StoreError."""
        url = await asyncio.to_thread(self.logos.url_of, name)
        await asyncio.to_thread(self.logos.fail, url, reason, now)
        return 0

    async def _body(self, url: str, admit: Admit) -> bytes:
        if not data_uri.is_data_uri(url[:5].encode("utf-8", "replace")):
            return (await self._fetcher.get(url, admit=admit)).body or b""
        parsed = data_uri.read(url.encode("utf-8", "replace"))
        if not isinstance(parsed, bytes):
            raise FetchError("fetch-picture-broken", parsed.sentence)
        return parsed

    async def small(self, body: bytes) -> bytes:
        """The thumbnail of a picture, made in a separate process. Raises FetchError."""
        if data_uri.image_type(body) is None:
            raise FetchError("fetch-picture")
        async with self._decoding:
            picture = await _decoded(body)
        if picture is None or data_uri.image_type(picture) != "image/webp" or len(picture) > LOGO_BYTES:
            raise FetchError("fetch-picture-broken", f"{len(body):,} bytes")
        return picture


async def _decoded(body: bytes) -> bytes | None:
    program = str(Path(thumbnail.__file__))
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-I", program, str(LOGO_BYTES), stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env={}
    )
    try:
        async with asyncio.timeout(SECONDS):
            output, _ = await child.communicate(body)
    except TimeoutError:
        return None
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    return output if child.returncode == 0 else None
