"""The message that answers a search: a text part for people and models, a data part with the listings."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote
from uuid import uuid4

from aiohttp import web

from overlay.api.base_url import base_url
from overlay.api.door_requests import FoundPage, find
from overlay.protocols.a2a.message_parts import DATA, TEXT, SearchMessage
from overlay.text.safe_text import on_one_line, visible

_SHOWN = (
    "id", "type", "status", "name", "summary", "url", "version", "provider", "domain", "tags", "skills", "cheapest",
    "offers", "rating", "integrity", "signer", "signed", "chain", "caip2", "outpoint", "origin", "owner", "txid",
    "cardSha256", "updatedHeight", "timestamp", "command", "args", "duplicates", "score",
)  # fmt: skip
"""The members of CONTRACT's item that the data part shows; `listingUrl` leads to the others."""

_NAMED, _LONGEST_NAME, _LONGEST_ID = 10, 80, 200


async def reply(request: web.Request, message: SearchMessage, version: str) -> dict[str, Any]:
    """The result of `SendMessage` (version 1.0) or `message/send` (0.3). Raises ProblemError as a search does."""
    page = await find(request, message.pairs)
    texts, data = {"text": _text(page)}, {"data": _data(page, base_url(request))}
    answer: dict[str, Any] = {"messageId": str(uuid4())}
    if message.context_id is not None:
        answer["contextId"] = message.context_id
    if version == "0.3":
        parts = {TEXT: {"kind": "text", **texts}, DATA: {"kind": "data", **data}}
        return {"kind": "message", "role": "agent", **answer, "parts": [parts[mode] for mode in message.modes]}
    parts = {TEXT: texts, DATA: {**data, "mediaType": DATA}}
    return {"message": {"role": "ROLE_AGENT", **answer, "parts": [parts[mode] for mode in message.modes]}}


def _text(page: FoundPage) -> str:
    """How many listings there are, and the names of the first."""
    words = f" for {on_one_line(visible(page.search.text), _LONGEST_NAME)}" if page.search.text else ""
    if not page.total:
        return f"No listings{words}."
    count = f"{page.total:,} listing{'' if page.total == 1 else 's'}{', or more,' if page.at_least else ''}{words}"
    lines = [f"{number}. {_line(item)}" for number, item in enumerate(page.items[:_NAMED], page.search.position + 1)]
    return "\n".join((f"{count}:" if lines else f"{count}, none of them on this page.", *lines))


def _line(item: dict[str, Any]) -> str:
    summary = f" - {on_one_line(visible(item['summary']))}" if item.get("summary") else ""
    return f"{on_one_line(visible(item['name']), _LONGEST_NAME)} ({item['type']}){summary} [{item['id'][:_LONGEST_ID]}]"


def _data(page: FoundPage, base: str) -> dict[str, Any]:
    data: dict[str, Any] = {
        "items": [_shown(item, base) for item in page.items],
        "total": page.total,
        "totalRelation": "gte" if page.at_least else "eq",
        "limit": page.search.query.limit,
        "offset": page.search.position,
        "nextCursor": page.next_cursor,
        "query": page.search.text,
        **page.comparison,
    }
    if page.search.notes:
        data["notes"] = [note.as_json() for note in page.search.notes]
        data["unappliedFilters"] = page.search.unapplied
    return data


def _shown(item: dict[str, Any], base: str) -> dict[str, Any]:
    shown = {name: item[name] for name in _SHOWN if name in item}
    return shown | {"listingUrl": f"{base}/v1/listings/{quote(item['id'], safe='')}"}
