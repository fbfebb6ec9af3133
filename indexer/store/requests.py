"""Publishers' requests to fetch a transaction: asked for by serving processes, worked off by the one that indexes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Engine, delete, func, insert, select, update

from indexer.store.database import writing
from indexer.store.tables import events, requests

OPEN_A_CLIENT, OPEN_IN_ALL = 20, 10_000
"""Requests that may wait at once."""

KEPT, KEPT_SECONDS = 100_000, 86_400
"""Requests that are kept after they ended, for diagnosis: so many, and so long after they were asked."""

_ASKING = 0x61326271
"""PostgreSQL advisory lock under which open requests are counted and one is added ("a2bq")."""


class RequestState(StrEnum):
    """How far a request has come: no source knew the transaction yet; one did; it is in an indexed block; no source
    knew it for as long as was tried."""

    WAITING = "waiting"
    FOUND = "found"
    INDEXED = "indexed"
    GIVEN_UP = "given-up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A transaction that somebody asked for. `txid` is in internal byte order, times in seconds since 1970; `next_at`
    says when it is looked for again, and is 0 once it is not. `detail` says what came of it."""

    txid: bytes
    client: str
    asked_at: int
    tries: int = 0
    next_at: int
    state: RequestState = RequestState.WAITING
    detail: str = ""

    @property
    def ended(self) -> bool:
        """Whether nothing more will be done about it."""
        return self.next_at == 0


class TooManyRequestsError(Exception):
    """More may not wait at once, of this client or in all: the message says which."""


class Requests:
    """The requests in one database; safe to use from several threads and processes at once.

    Every method that writes raises StoreError when the database refuses.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def ask(self, txid: bytes, client: str, now: int) -> Request:
        """The request for `txid`: the one there is, or a new one in the name of `client`, stored when this returns.

        One that was given up is begun anew. Raises TooManyRequestsError instead of adding one too many.
        """
        asked = Request(txid=txid, client=client, asked_at=now, next_at=now)
        with writing(self._engine, _ASKING) as connection:
            known = _one(connection, txid)
            if known is not None and known.state is not RequestState.GIVEN_UP:
                return known
            _check_room(connection, client)
            connection.execute(delete(requests).where(requests.c.txid == txid))
            connection.execute(insert(requests), [_row(asked)])
        return asked

    def get(self, txid: bytes) -> Request | None:
        """The request for a transaction (internal byte order), None when nobody asked or it was long ago."""
        with self._engine.connect() as connection:
            return _one(connection, txid)

    def mined(self, txid: bytes) -> tuple[str, int] | None:
        """The chain and height of an indexed block in which a transaction said something, None when there is none."""
        with self._engine.connect() as connection:
            found = connection.execute(select(events.c.chain, events.c.height).where(events.c.txid == txid)).first()
            return (found[0], found[1]) if found else None

    def due(self, now: int, limit: int) -> list[Request]:
        """Requests to look for now: those tried least come first, so that many that nobody knows delay no new one."""
        statement = (
            select(requests)
            .where(requests.c.state.in_((RequestState.WAITING, RequestState.FOUND)))
            .where(requests.c.next_at > 0, requests.c.next_at <= now)
            .order_by(requests.c.tries, requests.c.next_at)
            .limit(limit)
        )
        with self._engine.connect() as connection:
            return [_request(row) for row in connection.execute(statement).mappings()]

    def note(self, request: Request) -> None:
        """Remember how far a request has come; who asked only as long as it waits."""
        row = _row(request) if request.state is RequestState.WAITING else {**_row(request), "client": ""}
        with writing(self._engine, _ASKING) as connection:
            connection.execute(update(requests).where(requests.c.txid == request.txid).values(**row))

    def hasten(self, now: int) -> None:
        """Look again at once for what was found: a process that starts does not remember it."""
        with writing(self._engine, _ASKING) as connection:
            found = (requests.c.state == RequestState.FOUND, requests.c.next_at > 0)
            connection.execute(update(requests).where(*found).values(next_at=now))

    def trim(self, now: int, kept: int = KEPT) -> int:
        """Forget requests that ended: a day after they were asked, or the oldest of more than `kept`; how many."""
        ended = requests.c.next_at == 0
        newest = select(requests.c.asked_at).where(ended).order_by(requests.c.asked_at.desc())
        with writing(self._engine, _ASKING) as connection:
            first_over = connection.execute(newest.offset(kept).limit(1)).scalar()
            before = max(now - KEPT_SECONDS, -1 if first_over is None else first_over + 1)
            return connection.execute(delete(requests).where(ended, requests.c.asked_at < before)).rowcount

    def counts(self) -> dict[str, int]:
        """How many requests are in each state."""
        statement = select(requests.c.state, func.count()).group_by(requests.c.state)
        with self._engine.connect() as connection:
            found: dict[str, int] = dict(connection.execute(statement).all())
        return {state.value: found.get(state.value, 0) for state in RequestState}


def _one(connection: Connection, txid: bytes) -> Request | None:
    row = connection.execute(select(requests).where(requests.c.txid == txid)).mappings().first()
    return _request(row) if row else None


def _check_room(connection: Connection, client: str) -> None:
    waiting = select(func.count()).where(requests.c.state == RequestState.WAITING)
    if connection.execute(waiting.where(requests.c.client == client)).scalar_one() >= OPEN_A_CLIENT:
        raise TooManyRequestsError(f"{OPEN_A_CLIENT} transactions that you asked for are still being looked for")
    if connection.execute(waiting).scalar_one() >= OPEN_IN_ALL:
        raise TooManyRequestsError(f"{OPEN_IN_ALL:,} transactions are still being looked for")


def _row(request: Request) -> dict[str, Any]:
    return {
        "txid": request.txid, "client": request.client, "asked_at": request.asked_at, "tries": request.tries,
        "next_at": request.next_at, "state": request.state.value, "detail": request.detail,
    }  # fmt: skip


def _request(row: Any) -> Request:
    return Request(**{**row, "state": RequestState(row["state"])})
