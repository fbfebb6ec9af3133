"""A node's REST interface, on the port of JSON-RPC: binary blocks and headers, if it is enabled (`-rest=1`)."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from indexer.chains.http_client import SMALL_BYTES
from indexer.chains.node.client import NodeClient
from indexer.errors import SourceUnavailableError

log = logging.getLogger(__name__)

HEADERS = 2_000
"""Headers per request, the limit of a node."""

OFF_SECONDS = 600.0
"""The pause of REST requests after a node did not answer one."""

_MESSAGE_BYTES = 4_096


class RestOffError(Exception):
    """The node does not answer REST requests: use JSON-RPC."""


class NoBlockError(Exception):
    """The node does not have this block, or has pruned it; the message is the node's."""


class Rest:
    """REST is tried first, and again OFF_SECONDS after it was found disabled."""

    def __init__(self, client: NodeClient) -> None:
        self._client = client
        self.off_until = 0.0

    async def headers(self, digest: bytes) -> bytes:
        """Headers from a block (hash in internal byte order) upwards, joined; none where it is not in the best chain.

        Raises RestOffError, NoBlockError, SourceError.
        """
        self._check_on()
        hex_id = digest[::-1].hex()
        status, body = await self._client.get(f"/rest/headers/{HEADERS}/{hex_id}.bin")
        if status != 200:
            self._refuse(status, body, hex_id)
        return body

    @asynccontextmanager
    async def block(self, digest: bytes) -> AsyncIterator[aiohttp.ClientResponse]:
        """The response with a block as its body. Raises RestOffError, NoBlockError, SourceError."""
        self._check_on()
        hex_id = digest[::-1].hex()
        async with self._client.stream("GET", f"/rest/block/{hex_id}.bin") as response:
            if response.status != 200:
                self._refuse(response.status, await self._read_message(response), hex_id)
            yield response

    async def _read_message(self, response: aiohttp.ClientResponse) -> bytes:
        message = b""
        async for piece in self._client.pieces(response, SMALL_BYTES):
            message += piece
            if len(message) > _MESSAGE_BYTES:
                break
        return message[:_MESSAGE_BYTES]

    def _check_on(self) -> None:
        if time.monotonic() < self.off_until:
            raise RestOffError

    def _refuse(self, status: int, body: bytes, hex_id: str) -> None:
        """Raise the error of a response: unknown block, busy, or REST disabled."""
        message = self._client.redact(body.decode(errors="replace"))[:200].strip()
        if hex_id.encode() in body[:_MESSAGE_BYTES]:
            raise NoBlockError(message)
        if status in (429, 500, 502, 503, 504):
            raise SourceUnavailableError(
                f"{self._client.name}: {self._client.label} is busy or starting ({status}): {message}"
            )
        self.off_until = time.monotonic() + OFF_SECONDS
        log.info(
            "%s: REST is disabled at the node (%d); blocks come as hex, which is slower: start it with -rest=1",
            self._client.name, status,
        )  # fmt: skip
        raise RestOffError
