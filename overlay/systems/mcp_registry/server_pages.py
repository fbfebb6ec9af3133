"""Pages of servers: the tools that a search finds, and for mirrors those that were burned, version by version."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from aiohttp import web

from indexer.spill import pieces
from indexer.store import Store
from indexer.store.event_codec import event_position
from overlay.api.answers import SERVICES
from overlay.api.executors import RECORDS, run_in
from overlay.api.problems import bad_request
from overlay.api.protocol_requests import FoundPage, cursor_after, find
from overlay.listings import lookup
from overlay.listings.assembler import Revisions
from overlay.listings.ids import parse_id
from overlay.listings.repository import ListingRepository
from overlay.systems.mcp_registry.server_names import NAMESPACE, listings_named
from overlay.systems.mcp_registry.server_versions import ServerVersion, compared, versions
from overlay.text.timestamps import timestamp
from parsers.cards import Kind

_CURSOR = re.compile(
    r"(?:burned\.(?P<place>[0-9]{1,18})\.(?P<chain>[^~]{0,200})|(?P<search>[^~]*))(?:~(?P<skip>[0-9]{1,3}))?"
)


READ_TOGETHER = 16
"""Servers read with their histories in one statement."""

BACKWARDS = 4 * 3_600
"""Seconds by which a block's time may be before that of an earlier block, at most: twice what nodes accept."""

CARD_BYTES, PAGE_BYTES = 32 << 20, 256 << 20
"""Bytes of cards of the registrations that are read together, besides the last one; and of the cards of a page, which
ends after the server that exceeds it."""


class ServerQuery(NamedTuple):
    """The filters of a list of servers. `since` is in seconds since 1970; `deleted`: also burned ones."""

    search: str = ""
    version: str = ""
    since: int | None = None
    deleted: bool = False
    limit: int = 30
    cursor: str = ""

    def holds(self, version: ServerVersion) -> bool:
        """Whether a version is among the requested ones."""
        if self.since is not None and version.changed < self.since:
            return False
        return version.latest if self.version == "latest" else self.version in ("", version.version)


class PageCursor(NamedTuple):
    """Where a page begins: a page cursor or an offset of the API, or a position among burned tools; and how many
    versions of the first server were shown already."""

    search: str = ""
    burned: tuple[str, int] | None = None
    skip: int = 0

    def __str__(self) -> str:
        start = self.search if self.burned is None else f"burned.{self.burned[1]}.{self.burned[0]}"
        return f"{start}~{self.skip}" if self.skip else start


class ServerPage(NamedTuple):
    """Versions of servers, and the cursor of the next page."""

    rows: list[ServerVersion]
    following: PageCursor | None


def read_cursor(text: str) -> PageCursor:
    """The inverse of `str`. Raises BadRequestError."""
    parsed = _CURSOR.fullmatch(text)
    if parsed is None:
        raise bad_request("bad-cursor", "the cursor was not given out here", "cursor")
    burned = (parsed["chain"], int(parsed["place"])) if parsed["place"] else None
    return PageCursor(parsed["search"] or "", burned, int(parsed["skip"] or 0))


async def page(request: web.Request, query: ServerQuery) -> ServerPage:
    """A page of at most `limit` versions. Raises ProblemError as `/v1/search` does."""
    start = read_cursor(query.cursor)
    if start.burned is None:
        if query.search.startswith(NAMESPACE):
            return await _in_thread(request, _by_name, query)
        live = await _live(request, query, start)
        if live.following is not None or query.since is None or query.search:
            return live
        rows, start = live.rows, PageCursor(burned=("", 0))
    else:
        rows = []
    burned = await _in_thread(request, _burned, query, start, query.limit - len(rows))
    return ServerPage(rows + burned.rows, burned.following)


async def _in_thread(request: web.Request, work: Callable[..., ServerPage], *args: object) -> ServerPage:
    """A page that is read from the store in a thread, within the limits of histories."""
    return await run_in(request, RECORDS, work, request.app[SERVICES].store, *args)


async def _live(request: web.Request, query: ServerQuery, start: PageCursor) -> ServerPage:
    """A page of the tools that a search finds; the oldest first without words."""
    pairs = [("type", "tool"), ("status", "live"), ("limit", str(query.limit))]
    if query.deleted and query.since is None:
        pairs.append(("status", "burned"))
    pairs += [("q", query.search)] if query.search else [("sort", "-created")]
    if query.since is not None:
        pairs.append(("updatedSince", timestamp(query.since) or ""))
    if start.search:
        pairs.append(("offset" if start.search.isdigit() else "cursor", start.search))
    tools = await find(request, pairs)
    return await _in_thread(request, _of_tools, query, start, tools)


def _of_tools(repository: ListingRepository, query: ServerQuery, start: PageCursor, tools: FoundPage) -> ServerPage:
    ids = [hit.id for hit in tools.hits.hits]
    rows, cut = fill(query.limit, start.skip, len(ids), wanted_versions(repository, ids, query))
    if cut is not None:
        index, skip = cut
        following = start.search if index == 0 else cursor_after(tools, index) or ""
        return ServerPage(rows, PageCursor(following, skip=skip))
    return ServerPage(rows, PageCursor(tools.next_cursor) if tools.next_cursor else None)


def _burned(repository: ListingRepository, query: ServerQuery, start: PageCursor, limit: int) -> ServerPage:
    """A page of tools that were burned since a time, in the order of chains and blocks."""
    after = start.burned or ("", 0)
    tools = _burned_tools(repository.store, query.since or 0, after, limit + 1)
    positions = [after, *(position for _, position in tools)]
    ids = [id_ for id_, _ in tools[:limit]]
    rows, cut = fill(limit, start.skip, len(ids), wanted_versions(repository, ids, query))
    if cut is not None:
        return ServerPage(rows, PageCursor(burned=positions[cut[0]], skip=cut[1]))
    return ServerPage(rows, PageCursor(burned=positions[limit]) if len(tools) > limit else None)


def _burned_tools(source: Store, since: int, after: tuple[str, int], limit: int) -> list[tuple[str, tuple[str, int]]]:
    """The tools that were burned at or after a time (seconds since 1970) and the positions of these events, which
    are a chain and a place; in this order, from the first position after `after` on."""
    first_places = {
        chain: event_position(source.blocks.height_at(chain, 1000 * (since - BACKWARDS)) or 0)
        for chain in source.chains()
        if chain >= after[0]
    }
    if after[0] in first_places:
        first_places[after[0]] = max(first_places[after[0]], after[1] + 1)
    return [
        (past.event.state.id, (past.chain, event_position(past.height, past.event.position)))
        for past in source.history.burned(Kind.TOOL, since, first_places, limit)
        if past.event.state is not None
    ]


def _by_name(repository: ListingRepository, query: ServerQuery) -> ServerPage:
    """The servers with a name, or of a namespace."""
    try:
        listings = listings_named(repository, query.search)
    except lookup.ListingNotFoundError:
        return ServerPage([], None)
    rows = [row for of_one in versions(repository, listings) for row in of_one]
    shown = [row for row in rows if query.holds(row) and (query.deleted or not row.deleted)]
    return ServerPage(shown[: query.limit], None)


def wanted_versions(
    repository: ListingRepository, ids: Sequence[str], query: ServerQuery
) -> Iterator[list[ServerVersion]]:
    """The requested versions of the listing, or of all servers of the registration, with each id; empty where it was
    deleted meanwhile. Ids are read in batches, as histories may be long and a page may fill before the last id. It ends
    before the last id where PAGE_BYTES were read."""
    room = PAGE_BYTES
    for some, revisions, size in _batches(repository, ids):
        by_id = lookup.listings_by_id(repository, some, revisions)
        named = {
            id_: [listing for listing in by_id.get(id_, ()) if id_ in (listing.id, listing.state.id)] for id_ in some
        }
        of_each = iter(
            versions(repository, [listing for listings in named.values() for listing in listings], revisions)
        )
        for id_ in some:
            yield [row for _ in named[id_] for row in next(of_each) if query.holds(row)]
        room -= size
        if room <= 0:
            return


def _batches(repository: ListingRepository, ids: Sequence[str]) -> Iterator[tuple[list[str], Revisions, int]]:
    """Ids in order, at most READ_TOGETHER at once and as many as have about CARD_BYTES of cards, with the revisions of
    their registrations and the bytes of these cards."""
    for start in range(0, len(ids), READ_TOGETHER):
        batch = ids[start : start + READ_TOGETHER]
        revisions = repository.revisions({parse_id(id_)[0] for id_ in batch})
        sizes = _card_bytes(repository, revisions)
        for some in pieces(batch, partial(_size, sizes), CARD_BYTES):
            names = {parse_id(id_)[0] for id_ in some}
            of_some = {name: revisions[name] for name in names & revisions.keys()}
            yield some, of_some, sum(sizes[name] for name in of_some)


def _size(sizes: Mapping[str, int], id_: str) -> int:
    return sizes.get(parse_id(id_)[0], 0)


def _card_bytes(repository: ListingRepository, revisions: Revisions) -> dict[str, int]:
    """The bytes of the cards that are read of registrations: of long histories not all are."""
    digests = {
        id_: list(dict.fromkeys(past.event.card for past in history.confirmed if past.event.card))
        for id_, history in revisions.items()
    }
    sizes = repository.store.content.card_sizes(digest for of_one in digests.values() for digest in of_one)
    return {id_: sum(sizes.get(digest, 0) for digest in compared(of_one)) for id_, of_one in digests.items()}


def fill(
    limit: int, skip: int, count: int, groups: Iterable[Sequence[ServerVersion]]
) -> tuple[list[ServerVersion], tuple[int, int] | None]:
    """At most `limit` rows of `count` groups, without the first `skip`; and where the next page begins, by group and
    row, unless all fit and no group is missing."""
    rows: list[ServerVersion] = []
    number = 0
    for number, group in enumerate(groups, 1):
        room = limit - len(rows)
        rows += group[skip : skip + room]
        if len(group) - skip > room:
            return rows, (number - 1, skip + room)
        skip = 0
    return rows, (number, 0) if number < count else None
