"""Coins of an address as WhatsOnChain lists them. It sees the address: it is asked only where `A2B_COINS` names it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Annotated
from urllib.parse import quote

from indexer.chains.http_client import HttpClient, parse_json
from indexer.errors import SourceError
from overlay.publish.coins import MAX_COINS, SUPPLY, Coin, largest_first
from parsers.bitcoin.tx import Outpoint
from parsers.errors import ParseError
from parsers.json_records import JsonObject, convert, internal, sized, whole

VARIABLE, SERVICE = "A2B_COINS", "whatsonchain:"
"""The variable that names where coins are looked up, and how its value begins."""

MAX_PAGES = 10
MAX_NEW_COINS = 40
"""Coins that are checked and taken at once, the largest first: with a pause for each this is within a minute."""

PAUSE_SECONDS = 0.35
"""Between two requests: three a second are free."""

_PAGE_BYTES, _SPENT_BYTES = 4 << 20, 1 << 16


class _CoinJson(JsonObject, rename={"is_spent": "isSpentInMempoolTx"}):
    tx_hash: str
    tx_pos: Annotated[int, whole(0, (1 << 32) - 1)]
    value: Annotated[int, whole(0, SUPPLY)]
    is_spent: bool = False


class _PageJson(JsonObject):
    result: list[_CoinJson] | None = None
    error: str | None = None
    next_page_token: Annotated[str, sized(1_000)] | None = None


class WhatsOnChainCoins:
    """The coins by WhatsOnChain at the base URL of a network, such as `https://api.whatsonchain.com/v1/bsv/main`."""

    def __init__(self, url: str, pause_seconds: float = PAUSE_SECONDS) -> None:
        self.url = url.rstrip("/")
        self._pause = pause_seconds
        self._client = HttpClient("coins", f"WhatsOnChain at {self.url}", connections=1)

    async def new_coins(self, address: str, excluded: Collection[Outpoint]) -> list[Coin]:
        """The largest coins of an address that are not excluded, each checked to be unspent: outputs that were spent
        long ago have been listed. Raises SourceError."""
        try:
            async with self._client.for_command():
                listed = largest_first(await self._listed(address))
                candidates = [coin for coin in listed if coin.outpoint not in excluded][:MAX_NEW_COINS]
                return [coin for coin in candidates if not await self._is_spent(coin.outpoint)]
        finally:
            await self._client.close()

    async def _listed(self, address: str) -> list[Coin]:
        path = query = f"/address/{address}/unspent/all"
        coins: list[Coin] = []
        for _ in range(MAX_PAGES):
            body = await self._get(query, _PAGE_BYTES, "the coins")
            if body is None:
                break
            try:
                page = convert(await parse_json(body), _PageJson)
                entries = [entry for entry in page.result or () if not entry.is_spent]
                coins += [Coin(Outpoint(internal(entry.tx_hash, "tx_hash"), entry.tx_pos), entry.value)
                          for entry in entries]  # fmt: skip
            except ParseError as error:
                raise SourceError(f"WhatsOnChain at {self.url} answers no list of coins: {error}") from None
            if page.error:
                raise SourceError(f"WhatsOnChain at {self.url} answers an error: {page.error[:200]!a}")
            if not page.next_page_token or len(coins) >= MAX_COINS:
                break
            query = f"{path}?token={quote(page.next_page_token, safe='')}"
        return coins

    async def _is_spent(self, outpoint: Outpoint) -> bool:
        path = f"/tx/{outpoint.txid[::-1].hex()}/{outpoint.vout}/spent"
        return await self._get(path, _SPENT_BYTES, "a coin") is not None

    async def _get(self, path: str, limit: int, what: str) -> bytes | None:
        """The body at a path; None where there is nothing."""
        await asyncio.sleep(self._pause)
        response = await self._client.retry(lambda: self._client.request("GET", f"{self.url}{path}", limit, None, what))
        if response.status not in (200, 404):
            raise SourceError(f"WhatsOnChain at {self.url} answers {response.status} {response.reason} for {what}")
        return response.body if response.status == 200 else None
