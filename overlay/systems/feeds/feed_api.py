"""Feeds of any search, for feed readers: Atom (RFC 4287) and JSON Feed 1.1, the newest first.

An entry is a listing; its id is derived from the listing's, so that no reorganisation, restart or other server changes
it. A feed holds what holds all words of the search and is in a block: unconfirmed listings have no time yet, and may
never get one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from email.utils import formatdate
from functools import partial
from math import ceil
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode
from weakref import WeakKeyDictionary

from aiohttp import hdrs, web

from overlay.answers.items import STATUSES
from overlay.api import values
from overlay.api.answers import REVALIDATE, SERVICES, Answer, not_modified, unchanged, weak_etag
from overlay.api.base_url import base_url, listing_url
from overlay.api.parameters import ONLY_OVER_HTTP, SEARCH, optional, pairs, read, table
from overlay.api.problems import BadRequestError
from overlay.api.protocol_requests import FoundPage, find
from overlay.api.routes import Route
from overlay.api.site_links import SITE
from overlay.api.systems import SystemApi
from overlay.projection.search_index import SearchIndex
from overlay.systems.feeds import listing_feed
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
from overlay.text.compact_json import encode

ATOM_PATH, JSON_PATH = "/v1/feeds/search.atom", "/v1/feeds/search.json"
JSON_TYPE = "application/feed+json"
NEVER = "1970-01-01T00:00:00Z"
"""The time of an empty feed."""

_EXTENSION = ("id", "type", "status", "chain", "caip2", "owner", "txid", "updatedHeight", "cheapest")
_JSON_FEED = "https://jsonfeed.org/version/1.1"
_CONFIRMED = tuple(status for status in STATUSES if status != "pending")
_SETTLED_SECONDS = 2.0


_SORTS, _STATUSES = ("updated", "created"), (*_CONFIRMED, "all")
_WITHOUT = ONLY_OVER_HTTP | {"offset"}
_INSTEAD = {
    "sort": replace(
        SEARCH.names["sort"],
        description="`updated`: what changed last comes first; `created`: the newest registrations. Default: updated.",
        schema={"type": "string", "enum": list(_SORTS), "default": "updated"},
        read=partial(values.one_of, allowed=_SORTS),
    ),
    "status": replace(
        SEARCH.names["status"],
        description="The status of a listing; default live. Unconfirmed listings are in no feed.",
        schema={"type": "string", "enum": list(_STATUSES)},
        read=partial(values.one_of, allowed=_STATUSES),
    ),
}
FEED = table(
    *optional(
        _INSTEAD.get(parameter.name, parameter) for parameter in SEARCH.parameters if parameter.name not in _WITHOUT
    )
)
"""The parameters of a search that make sense for a feed."""


class Feed(NamedTuple):
    """A page of a feed: `base` of its URLs, the words of the search, the items, and three query strings: of the whole
    feed, of `this` page, and of the next one ("" on the last)."""

    base: str
    words: str
    items: tuple[dict[str, Any], ...]
    query_string: str
    this: str
    next: str

    @property
    def title(self) -> str:
        """The title of the feed."""
        title = SITE.get().title
        return f"{title}: {xml_text(self.words, MAX_TITLE)}" if self.words else title

    @property
    def page_url(self) -> str:
        """The search page."""
        return f"{self.base}/?{self.query_string}" if self.query_string else f"{self.base}/"

    def url(self, path: str, query_string: str) -> str:
        """The absolute URL of a page of the feed."""
        return f"{self.base}{path}?{query_string}" if query_string else f"{self.base}{path}"


async def atom(request: web.Request) -> web.Response:
    """The newest listings of a search as an Atom feed."""
    return await _answer(request, ATOM_TYPE, atom_document)


async def json_feed(request: web.Request) -> web.Response:
    """The newest listings of a search as a JSON Feed 1.1."""
    return await _answer(request, JSON_TYPE, json_document)


async def _answer(request: web.Request, media: str, write: Callable[[Feed], bytes]) -> web.Response:
    parameters = [(name, value) for name, value in pairs(request.rel_url.raw_query_string) if value.strip()]
    _, faults = read(parameters, FEED)
    if faults:
        raise BadRequestError(faults)
    page = await find(request, _searched(parameters), is_polled=True)
    body = write(_feed(base_url(request), parameters, page))
    services = request.app[SERVICES]
    state = page.state, dict(services.heights()), services.exchange.stamp()
    modified = _CLOCKS.setdefault(services.engine, ModifiedClock()).since(state)
    headers: dict[str, str] = {hdrs.ETAG: weak_etag(body), hdrs.CACHE_CONTROL: REVALIDATE}
    if modified is not None:
        headers[hdrs.LAST_MODIFIED] = formatdate(modified, usegmt=True)
    if is_unmodified(request, headers[hdrs.ETAG], modified):
        return not_modified(headers)
    return Answer(body=body, headers={hdrs.CONTENT_TYPE: f"{media}; charset=utf-8", **headers})


def _searched(parameters: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The parameters of the search that a feed's parameters stand for."""
    names = {FEED.names[name].name for name, _ in parameters}
    defaults = [(name, value) for name, value in (("sort", "updated"), ("status", "live")) if name not in names]
    every = [("status", status) for status in _CONFIRMED] if ("status", "all") in parameters else []
    return [*(pair for pair in parameters if pair != ("status", "all")), *every, *defaults]


def _feed(base: str, parameters: Sequence[tuple[str, str]], page: FoundPage) -> Feed:
    """The page as a feed. Listings that hold all words come before the others, which are left out."""
    room = max(0, page.hits.matched - page.search.position)
    search = sorted((name, value) for name, value in parameters if name != "cursor")
    following = [*search, ("cursor", page.next_cursor or "")] if page.next_cursor and room > len(page.items) else []
    items = [item for item in page.items[:room] if item["timestamp"] is not None]
    return Feed(base, page.search.text, tuple(items), *map(urlencode, (search, parameters, following)))


class ModifiedClock:
    """When the state that a process answers from was last seen to change: never earlier than it did."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._state: object = None
        self._since = 0.0

    def since(self, state: object) -> int | None:
        """Since when the state is the same, in seconds since 1970; None in the first two seconds, as HTTP dates could
        not tell two changes apart."""
        now = self._clock()
        if state != self._state:
            self._state, self._since = state, now
        return ceil(self._since) if now - self._since >= _SETTLED_SECONDS else None


_CLOCKS: WeakKeyDictionary[SearchIndex, ModifiedClock] = WeakKeyDictionary()


def is_unmodified(request: web.Request, etag: str, modified: int | None) -> bool:
    """Whether the client has this answer: by If-None-Match, else by If-Modified-Since (RFC 9110 §13.2.2)."""
    if hdrs.IF_NONE_MATCH in request.headers:
        return unchanged(request, etag)
    since = request.if_modified_since
    return since is not None and modified is not None and since.timestamp() >= modified


class FeedEntry(NamedTuple):
    """The members of a listing in both formats."""

    id: str
    title: str
    summary: str
    text: str
    tags: tuple[str, ...]
    updated: str
    page_url: str
    json_url: str


def _entry(base: str, item: dict[str, Any]) -> FeedEntry:
    text = xml_text(item["description"])
    return FeedEntry(
        id=entry_id(item["id"]),
        title=xml_text(item["name"], MAX_TITLE) or xml_text(item["id"]),
        summary=xml_text(item["summary"]),
        text=text,
        tags=tuple(dict.fromkeys(filter(None, (xml_text(tag) for tag in item["tags"])))),
        updated=item["timestamp"],
        page_url=f"{base}/listings/{quote(item['id'], safe='')}",
        json_url=listing_url(base, item["id"]),
    )


def atom_document(feed: Feed) -> bytes:
    """An Atom feed document."""
    entries = [_entry(feed.base, item) for item in feed.items]
    updated = max((entry.updated for entry in entries), default=NEVER)
    root = feed_element(f"feed?{feed.query_string}", feed.title, updated)
    add_link(root, "self", feed.url(ATOM_PATH, feed.this), ATOM_TYPE)
    add_link(root, "alternate", feed.page_url, "text/html")
    if feed.next:
        add_link(root, "next", feed.url(ATOM_PATH, feed.next), ATOM_TYPE)
    for entry, item in zip(entries, feed.items, strict=True):
        element = add(root, "entry")
        add(element, "id", entry.id)
        add(element, "title", entry.title)
        add(element, "updated", entry.updated)
        add_link(element, "alternate", entry.page_url, "text/html")
        add_link(element, "related", entry.json_url, "application/json")
        add(element, "summary", entry.summary)
        add(element, "content", entry.text, type="text")
        for term in (item["type"], *entry.tags):
            add(element, "category", term=term)
    return encoded(root)


def json_document(feed: Feed) -> bytes:
    """A JSON Feed. The extension `_a2b` of an item has the main members of the listing."""
    document: dict[str, Any] = {
        "version": _JSON_FEED,
        "title": feed.title,
        "home_page_url": feed.page_url,
        "feed_url": feed.url(JSON_PATH, feed.this),
        "authors": [{"name": SITE.get().title}],
        "items": [_json_item(_entry(feed.base, item), item) for item in feed.items],
    }
    if feed.next:
        document["next_url"] = feed.url(JSON_PATH, feed.next)
    return encode(document)


def _json_item(entry: FeedEntry, item: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": entry.id,
        "url": entry.page_url,
        "title": entry.title,
        "summary": entry.summary,
        "content_text": entry.text,
        "date_modified": entry.updated,
        "tags": [item["type"], *entry.tags],
        "_a2b": {"about": entry.json_url} | {name: item[name] for name in _EXTENSION},
    }


_feed_route = partial(Route, tag="feeds", parameters=FEED, conditional=True)
API = SystemApi(
    routes=(
        _feed_route(ATOM_PATH, atom, None, media=(ATOM_TYPE,)),
        _feed_route(JSON_PATH, json_feed, None, media=(JSON_TYPE,)),
        Route(
            listing_feed.LISTING_PATH, listing_feed.atom, None, tag="feeds", media=(ATOM_TYPE,), errors=(404, 451),
            conditional=True, action="search",
        ),
    ),
)  # fmt: skip
