"""Fetches `ipfs://` cards through the operator's gateway: raw blocks, verified by their CID.

The operator chooses the gateway's URL, so it may be at a private address. Its content is still untrusted: size and time
are bounded, and a block that does not match its CID is refused.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from functools import cached_property
from typing import NamedTuple
from urllib.parse import unquote

import httpx

from indexer.fetcher.limits import USER_AGENT, Limits, read_body
from indexer.fetcher.reasons import FetchError, shown
from parsers.errors import ParseError, ProofError
from parsers.pointers import cid as cids
from parsers.pointers.cid import BlockContent
from parsers.pointers.locator import Locator, has_dot_segments, locate

MAX_DEPTH = 8
"""Directories in a path, at most."""


class IpfsFile(NamedTuple):
    """A file's bytes, whether they were verified against the CID, and their URL."""

    body: bytes
    verified: bool
    url: str


class Gateway:
    """An IPFS gateway at a base URL that answers `/ipfs/<cid>?format=raw` (trustless gateway specification)."""

    def __init__(self, base: str, limits: Limits | None = None) -> None:
        self._base, self._limits = base, limits or Limits()

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """Created once: a client that creates it for itself takes 30 ms of a processor."""
        return httpx.create_ssl_context(trust_env=False)

    async def fetch(self, uri: str) -> IpfsFile:
        """The file at an `ipfs://` URI. Files of several blocks, paths through sharded directories, and CIDs of other
        kinds come unverified. Raises FetchError."""
        locator = locate(uri)
        if not isinstance(locator, Locator) or not locator.id.startswith("ipfs://"):
            raise FetchError("fetch-url", shown(uri))
        cid_path = locator.id.removeprefix("ipfs://")
        root, _, path = cid_path.partition("?")[0].partition("/")
        names = [unquote(name) for name in path.split("/") if name]
        if len(names) > MAX_DEPTH:
            raise FetchError("fetch-url", f"a path of {len(names)} names; at most {MAX_DEPTH} are followed")
        client = httpx.AsyncClient(trust_env=False, verify=self._tls, timeout=self._limits.first_byte)
        try:
            async with asyncio.timeout(self._limits.total), client:
                body = await self._walk(client, root, names)
                if body is not None:
                    return IpfsFile(body, True, f"{self._base}/ipfs/{cid_path}")
                url = f"{self._base}/ipfs/{root}{'/' if path else ''}{path}"
                return IpfsFile(await self._get(client, url, "*/*"), False, url)
        except TimeoutError:
            raise FetchError("fetch-gateway", f"not done within {self._limits.total:g} s") from None

    async def _walk(self, client: httpx.AsyncClient, root: str, names: list[str]) -> bytes | None:
        """The verified bytes at a path of single blocks; None for any other path. Raises FetchError."""
        try:
            cid = cids.read(root)
        except ParseError:
            return None
        for name in [*names, None]:
            block = await self._block(client, cid)
            if block.content in (BlockContent.MANY, BlockContent.SHARDED):
                return None
            if name is None:
                break
            link = block.link(name) if block.content is BlockContent.DIRECTORY else None
            if link is None:
                raise FetchError("fetch-missing", f"no {shown(name, 80)} in {cid.base32}")
            try:
                cid = cids.of_bytes(link)
            except ParseError:
                return None
        if block.content is not BlockContent.FILE:
            raise FetchError("fetch-missing", f"{cid.base32} is not a file but {block.content.value}")
        return block.body

    async def _block(self, client: httpx.AsyncClient, cid: cids.Cid) -> cids.IpfsBlock:
        url = f"{self._base}/ipfs/{cid.base32}?format=raw"
        data = await self._get(client, url, "application/vnd.ipld.raw")
        try:
            return cids.block(cid, data)
        except (ProofError, ParseError) as error:
            raise FetchError("fetch-cid", shown(str(error))) from None

    async def _get(self, client: httpx.AsyncClient, url: str, accept: str) -> bytes:
        if has_dot_segments(url.removeprefix(self._base)):
            raise FetchError("fetch-url", f"a path that leads out of its CID: {shown(url)}")
        headers = {"User-Agent": USER_AGENT, "Accept": accept, "Accept-Encoding": "identity"}
        try:
            async with client.stream("GET", url, headers=headers) as response:
                if response.status_code in (404, 410):
                    raise FetchError("fetch-missing", str(response.status_code))
                if response.status_code != 200:
                    raise FetchError("fetch-gateway", f"status {response.status_code} from {url}")
                return await read_body(_raw(response), dict(response.headers), self._limits, self._limits.body)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise FetchError("fetch-gateway", shown(str(error)) or type(error).__name__) from None


async def _raw(response: httpx.Response) -> AsyncIterator[bytes]:
    async for chunk in response.aiter_raw():
        yield chunk
