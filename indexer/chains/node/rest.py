"""A node's REST side, on the same port as JSON-RPC: binary blocks and headers, where the node has it switched on."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from indexer.chains import SourceUnavailableError
from indexer.chains.node.client import PIECE, Client

log = logging.getLogger(__name__)

HEADERS = 2_000
"""Headers that a node gives at once."""

OFF_SECONDS = 600.0
"""How long a node that answered no REST request is not asked for any."""

_SAID = 4_096


class RestOffError(Exception):
    """This node does not answer REST requests, so it has to be asked by JSON-RPC."""


class NotThereError(Exception):
    """The node knows of no such block, or does not keep it: the message is its own words."""


class Rest:
    """Whether REST is on is found out by asking, and again after a while, as a node may be restarted with it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._off_until = 0.0

    @property
    def is_off(self) -> bool:
        """Whether the node is known not to answer."""
        return time.monotonic() < self._off_until

    async def headers(self, digest: bytes) -> bytes:
        """Headers from that block (hash in internal order) upwards, joined; none where it is not in the best chain.

        Raises RestOffError, NotThereError, SourceError.
        """
        self._check_on()
        hex_id = digest[::-1].hex()
        status, body = await self._client.get(f"/rest/headers/{HEADERS}/{hex_id}.bin")
        if status != 200:
            self._refuse(status, body, hex_id)
        return body

    @asynccontextmanager
    async def block(self, digest: bytes) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer whose body is that block. Raises RestOffError, NotThereError, SourceError."""
        self._check_on()
        hex_id = digest[::-1].hex()
        async with self._client.stream("GET", f"/rest/block/{hex_id}.bin") as response:
            if response.status != 200:
                self._refuse(response.status, await self._said(response), hex_id)
            yield response

    async def _said(self, response: aiohttp.ClientResponse) -> bytes:
        said = b""
        async for piece in self._client.pieces(response, PIECE):
            said += piece
            if len(said) > _SAID:
                break
        return said[:_SAID]

    def _check_on(self) -> None:
        if self.is_off:
            raise RestOffError

    def _refuse(self, status: int, body: bytes, hex_id: str) -> None:
        """Tell by an answer's words whether the node has no such block, no time, or no REST at all."""
        said = body[:200].decode(errors="replace").strip()
        if hex_id.encode() in body[:_SAID]:
            raise NotThereError(said)
        if status in (429, 500, 502, 503, 504):
            raise SourceUnavailableError(
                f"{self._client.name}: the node at {self._client.address.base} is busy or starting ({status}): {said}"
            )
        self._off_until = time.monotonic() + OFF_SECONDS
        log.info(
            "%s: the node answers no REST requests (%d); blocks come as hex, which is slower: start it with -rest=1",
            self._client.name, status,
        )  # fmt: skip
        raise RestOffError
