"""The revisions of one listing as an Atom feed."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from aiohttp import web

from overlay.api.answers import REVALIDATE, Answer, weak_etag
from overlay.api.base_url import base_url, listing_url
from overlay.api.protocol_requests import get, history
from overlay.systems.feeds.atom_xml import (
    ATOM_TYPE,
    MAX_TITLE,
    add,
    add_link,
    encoded,
    entry_id,
    feed_element,
    xml_text,
)

LISTING_PATH = "/v1/feeds/listings/{id}.atom"
MOST = 100
"""Entries of the feed: the newest revisions in a block."""

_WORDS = {
    "inscribed": "registered", "reinscribed": "updated", "moved": "moved", "map_only": "its MAP changed",
    "invalid": "an update is not valid", "foreign_content": "other content", "burned": "delisted",
    "pointed": "pointed at", "rejected": "rejected", "undecided": "undecided",
}  # fmt: skip


async def atom(request: web.Request) -> web.Response:
    """The revisions of a listing as an Atom feed, the newest first: to follow it."""
    item = await get(request, request.match_info["id"])
    revisions = (await history(request, item["id"]))["revisions"]
    body = document(base_url(request), item, [row for row in revisions if row["timestamp"] is not None][:MOST])
    headers = {"Content-Type": f"{ATOM_TYPE}; charset=utf-8", "Cache-Control": REVALIDATE, "ETag": weak_etag(body)}
    return Answer(body=body, headers=headers)


def document(base: str, item: dict[str, Any], revisions: list[dict[str, Any]]) -> bytes:
    """The feed of an item, or of the ids of a registration's servers, with these revisions."""
    id_ = item["id"]
    name = xml_text(item.get("name") or id_, MAX_TITLE)
    page, segment = f"{base}/listings/{quote(id_, safe='')}", quote(id_, safe="")
    updated = max((row["timestamp"] for row in revisions), default="1970-01-01T00:00:00Z")
    root = feed_element(f"listing?{id_}", name, updated)
    add_link(root, "self", base + LISTING_PATH.replace("{id}", segment), ATOM_TYPE)
    add_link(root, "alternate", page, "text/html")
    for row in revisions:
        element = add(root, "entry")
        add(element, "id", entry_id(f"revision?{id_}&{row['txid']}&{row['outpoint']}&{row['kind']}"))
        add(element, "title", f"{name}: {_WORDS[row['kind']]}")
        add(element, "updated", row["timestamp"])
        add_link(element, "alternate", page, "text/html")
        add_link(element, "related", listing_url(base, id_), "application/json")
        add(element, "summary", _summary(row))
    return encoded(root)


def _summary(row: dict[str, Any]) -> str:
    """The changes of a revision in words, else why it counts or not."""
    changed = ", ".join(dict.fromkeys(change["what"] for change in row.get("changes", ())))
    words = f"changed: {changed}" if changed else xml_text(row["reason"], MAX_TITLE)
    return f"{words}; block {row['height']}, transaction {row['txid']}".removeprefix("; ")
