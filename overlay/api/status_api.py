"""What changed, where every chain stands, and whether this process is well."""

from __future__ import annotations

from asyncio import to_thread
from typing import Any

from aiohttp import web

from overlay.api.answers import SERVICES, json_answer
from overlay.api.params import CHANGES, pairs, read
from overlay.api.problems import BadRequestError, ProblemError
from overlay.ports import Change, Store


async def changes(request: web.Request) -> web.Response:
    """The change feed after a sequence number, in order, without gaps."""
    given, faults = read(pairs(request.rel_url.raw_query_string), CHANGES)
    if faults:
        raise BadRequestError(faults)
    store, since, limit = request.app[SERVICES].store, given.get("since", 0), given.get("limit", 100)
    return json_answer(await to_thread(feed, store, since, limit, given.get("epoch")))


def feed(store: Store, since: int, limit: int, epoch: str | None) -> dict[str, Any]:
    """At most `limit` changes after `since`; a single reset when `since` belongs to another database: then the reader
    forgets what it knows and goes on from 0."""
    found = store.changes(since, limit)
    rows = found.rows
    if since > found.newest_seq or (epoch is not None and epoch != found.epoch):
        reason = "since is not a sequence number of this epoch: forget everything and read from 0"
        rows = (Change(0, "reset", None, None, reason),)
    last = rows[-1].seq if rows else since
    return {
        "changes": [_change(row, found.epoch) for row in rows],
        "epoch": found.epoch,
        "nextSince": last,
        "more": last < found.newest_seq,
    }


def _change(row: Change, epoch: str) -> dict[str, Any]:
    return {
        "seq": row.seq,
        "epoch": epoch,
        "op": row.op,
        "id": row.id,
        "height": row.height,
        "reason": row.reason,
    }


async def status(request: web.Request) -> web.Response:
    """Where every chain stands, counts, versions."""
    return json_answer(await to_thread(request.app[SERVICES].status))


async def healthz(request: web.Request) -> web.Response:
    """The process answers."""
    return json_answer({"status": "ok", "version": request.app[SERVICES].version})


async def readyz(request: web.Request) -> web.Response:
    """Questions can be answered, else 503 saying what is missing."""
    missing = await to_thread(request.app[SERVICES].ready)
    if missing is not None:
        raise ProblemError(503, missing, headers={"Retry-After": "5"})
    return json_answer({"status": "ready", "version": request.app[SERVICES].version})


async def robots(request: web.Request) -> web.Response:  # noqa: ARG001 - the shape of a handler
    """What crawlers may read: the pages, not the endless combinations of filters."""
    text = "User-agent: *\nAllow: /$\nAllow: /listings/\nAllow: /docs\nDisallow: /v1/\nDisallow: /?\n"
    return web.Response(text=text, headers={"Cache-Control": "public, max-age=86400"})
