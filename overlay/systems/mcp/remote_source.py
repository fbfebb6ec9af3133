"""A running overlay, queried by the tools of a local MCP server. `verify` checks here, without trusting it."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Mapping
from typing import Any

from overlay.answers.observed_tools import ListedTools
from overlay.client import AsyncOverlayClient, ClientError, OverlayClient, calls
from overlay.client.calls import Call
from overlay.client.listing_source import ClientSource
from overlay.systems.mcp.tool_calls import Pairs, ToolRefusedError

_NAMES = frozenset("_:.ix")
"""Characters of outpoints and of `0x`, which raw bytes as hex do not have."""


class RemoteSource:
    """The overlay of a client. Methods raise ToolRefusedError with its answer, or the reason why there is none. `chain`
    is the CAIP-2 id of the chain on which listings are verified, None for any main network."""

    def __init__(self, client: AsyncOverlayClient, chain: str | None = None) -> None:
        self._client, self._chain = client, chain

    async def search(self, pairs: Pairs) -> Mapping[str, Any]:
        """A page of a search."""
        return await self._ask(calls.search_by(pairs))

    async def get(self, id_: str) -> Mapping[str, Any]:
        """A listing."""
        return await self._ask(calls.get(id_))

    async def observed_tools(self, id_: str) -> ListedTools:
        """The tools that its URL lists."""
        try:
            return await self._client.tools(id_)
        except ClientError as error:
            raise ToolRefusedError(str(error)) from None

    async def history(self, id_: str) -> Mapping[str, Any]:
        """The revisions of a listing."""
        return await self._ask(calls.history(id_))

    async def diagnose(self, transaction: str) -> Mapping[str, Any]:
        """The steps of a transaction."""
        if len(transaction) <= 64 or not _NAMES.isdisjoint(transaction):
            return await self._ask(calls.diagnose(transaction))
        try:
            raw = bytes.fromhex(transaction)
        except ValueError:
            raise ToolRefusedError("what is neither a txid, an outpoint nor pairs of hex digits") from None
        return await self._ask(calls.diagnose(raw))

    async def verify(self, id_: str) -> Mapping[str, Any]:
        """The check of its proof on this machine."""
        try:
            return await to_thread(_verified, self._client.base, id_, self._chain)
        except ClientError as error:
            raise ToolRefusedError(str(error)) from None

    async def quote(self, pairs: Pairs) -> Mapping[str, Any]:
        """The amount to pay now."""
        return await self._ask(Call("/v1/quote", dict, tuple(pairs)))

    async def _ask(self, call: Call[Any]) -> Mapping[str, Any]:
        try:
            answer: Mapping[str, Any] = await self._client.ask(call)
        except ClientError as error:
            raise ToolRefusedError(str(error)) from None
        return answer


def _verified(url: str, id_: str, chain: str | None) -> dict[str, Any]:
    from overlay.verify import verify

    with OverlayClient(url) as client:
        source = ClientSource(lambda call: client.ask(call, is_checked=False))
        return verify(source, id_, expected=chain).as_json()
