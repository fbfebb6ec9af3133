"""Logos that cards name: fetched as cards are, by the same rules and budgets, and kept as small pictures drawn anew."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

from indexer.fetching import thumbnail
from indexer.fetching.fetcher import Fetcher, open_admit
from indexer.fetching.network import Admit
from indexer.fetching.reasons import FetchError
from indexer.store.logos import Logos
from parsers import data_uri, pictures

AT_ONCE = 2
"""Pictures that are decoded at once."""

SECONDS = 30.0
"""What a decoder gets, however busy the machine is; its own time is bounded by `thumbnail.CPU_SECONDS`."""


class LogoDesk:
    """Fetches logos that somebody looked for, and keeps what came of it."""

    def __init__(self, fetcher: Fetcher, logos: Logos) -> None:
        self.logos = logos
        self._fetcher = fetcher
        self._decoding = asyncio.Semaphore(AT_ONCE)

    async def fetch(self, url: str, now: int, admit: Admit = open_admit) -> FetchError | None:
        """Fetch a logo and keep it, or why there is none (`now` in milliseconds since 1970). Returns the error; one of
        a budget (`fetch-budget`) was not noted, for nothing was asked. Raises StoreError."""
        try:
            small = await self.small(await self._body(url, admit))
        except FetchError as error:
            if error.refusal.code != "fetch-budget":
                await asyncio.to_thread(self.logos.fail, url, error.refusal.code, now)
            return error
        await asyncio.to_thread(self.logos.keep, url, small, now)
        return None

    async def _body(self, url: str, admit: Admit) -> bytes:
        if not data_uri.is_one(url[:5].encode("utf-8", "replace")):
            return (await self._fetcher.get(url, admit=admit)).body or b""
        found = data_uri.read(url.encode("utf-8", "replace"))
        if not isinstance(found, bytes):
            raise FetchError("fetch-picture-broken", found.sentence)
        return found

    async def small(self, body: bytes) -> bytes:
        """A picture's small one, made in a process of its own. Raises FetchError."""
        if pictures.kind(body) is None:
            raise FetchError("fetch-picture")
        async with self._decoding:
            made = await _decoded(body)
        if made is None or pictures.kind(made) != "image/webp" or len(made) > thumbnail.LOGO_BYTES:
            raise FetchError("fetch-picture-broken", f"{len(body):,} bytes")
        return made


async def _decoded(body: bytes) -> bytes | None:
    program = str(Path(thumbnail.__file__))
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-I", program, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env={}
    )
    try:
        async with asyncio.timeout(SECONDS):
            made, _ = await child.communicate(body)
    except TimeoutError:
        return None
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    return made if child.returncode == 0 else None
