"""Ancestors of transactions, from a source that has transactions by their txid."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from indexer.chains import Follow


async def fetch(transactions: Callable[[set[bytes]], Awaitable[dict[bytes, bytes]]], follow: Follow) -> None:
    """Fetch what `follow` wants, round by round, until it wants nothing more that was not asked for already."""
    asked: set[bytes] = set()
    wanted = await asyncio.to_thread(follow, {})
    while wanted := wanted - asked:
        asked |= wanted
        wanted = await asyncio.to_thread(follow, await transactions(wanted))
