"""The change feed: what readers of the registry must look at again, in order and without gaps."""

from __future__ import annotations

from asyncio import to_thread
from typing import Any

from aiohttp import web

from overlay.api.answers import SERVICES, json_answer
from overlay.api.params import CHANGES, taken
from overlay.compact import encode
from overlay.ports import Change, Changes, Store


async def changes(request: web.Request) -> web.Response:
    """The change feed after a sequence number, in order, without gaps."""
    given = taken(request.rel_url.raw_query_string, CHANGES)
    store, since, limit = request.app[SERVICES].store, given.get("since", 0), given.get("limit", 100)
    return json_answer(await to_thread(feed, store, since, limit, given.get("epoch")))


def feed(store: Store, since: int, limit: int, epoch: str | None) -> dict[str, Any]:
    """At most `limit` changes after `since`; a single reset when `since` belongs to another database: then the reader
    forgets what it knows and goes on from 0. That a replica is behind is no reason to say so."""
    found = store.changes(since, limit)
    if found.may_be_behind and _is_of_another(found, since, epoch):
        found = store.surely_changes(since, limit)
    rows = found.rows
    if _is_of_another(found, since, epoch):
        reason = "since is not a sequence number of this epoch: forget everything and read from 0"
        rows = (Change(0, "reset", None, None, reason),)
    last = rows[-1].seq if rows else since
    return {
        "changes": [_change(row, found.epoch) for row in rows],
        "epoch": found.epoch,
        "nextSince": last,
        "more": last < found.newest_seq,
    }


def _is_of_another(found: Changes, since: int, epoch: str | None) -> bool:
    return since > found.newest_seq or (epoch is not None and epoch != found.epoch)


def _change(row: Change, epoch: str) -> dict[str, Any]:
    return {
        "seq": row.seq,
        "epoch": epoch,
        "op": row.op,
        "id": row.id,
        "height": row.height,
        "reason": row.reason,
    }


def sent(change: dict[str, Any]) -> bytes:
    """A change as an event of a stream (HTML, server-sent events): its id is where to go on from."""
    return b"id: %b-%d\ndata: %b\n\n" % (change["epoch"].encode(), change["seq"], encode(change))
