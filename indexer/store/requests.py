"""Requests that serving processes write: of publishers, to fetch a transaction, and to fetch sooner than it is due what
a listing depends on. The process that indexes works them off."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Connection, Index, delete, func, insert, select, update

from indexer.check_verdict import CheckVerdict
from indexer.store import checks
from indexer.store.badges import BADGE_CHECK
from indexer.store.card_signatures import KEYS_CHECK
from indexer.store.database import writing
from indexer.store.host_topics import WORDS, Recheck, hastened, listing_topics, topics
from indexer.store.locks import advisory_lock
from indexer.store.pointer_queries import SAME_POINTER
from indexer.store.queries import Queries, Row, count, full_network, row_of
from indexer.store.schema import BYTEWISE, badges, columns_of, events, locators, original_table, sightings

REQUESTS_LOCK = advisory_lock("q")
"""While requests for transactions are counted and one is added."""

OPEN_PER_CLIENT, OPEN_IN_ALL = 20, 10_000
"""Transaction requests that may be open at once: of one client (`client_networks`), and in all."""

MAX_ENDED, ENDED_SECONDS = 100_000, 86_400
"""Transaction requests that stay for diagnosis after they ended: so many, and so long after they were made."""

RECHECK_PAUSE = 60_000
"""Milliseconds between two fetches of a locator or host on request of clients."""

MAX_RECHECKED = 16
"""Locators of one listing that one recheck makes due."""


class RequestState(StrEnum):
    """How far a request has come: no source has the transaction yet; one has; it is in an indexed block; no source had
    it for as long as was tried."""

    WAITING = "waiting"
    LOCATED = "found"
    INDEXED = "indexed"
    GIVEN_UP = "given-up"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRequest:
    """A request to fetch a transaction. `txid` is in internal byte order, times in seconds since 1970; `next_at` is
    when sources are queried again, 0 when they no longer are. `detail` is the outcome."""

    txid: bytes
    client: str
    requested_at: int
    tries: int = 0
    next_at: int
    state: RequestState = RequestState.WAITING
    detail: str = ""

    @property
    def ended(self) -> bool:
        """Whether no source will be queried any more."""
        return self.next_at == 0


requests = original_table(
    "requests",
    *columns_of(TransactionRequest, {"txid"}, client=BYTEWISE),
    Index("requests_open", "state", "next_at"),
)


class TooManyRequestsError(Exception):
    """The limit of open requests is reached, of this client or in all; the message names it."""


class Requests(Queries):
    """The transaction requests in one database; several threads and processes may use it at once.

    Every method that writes raises StoreError when the database refuses.
    """

    def add(self, txid: bytes, client: str, now: int) -> TransactionRequest:
        """The request for `txid`: the open or answered one, or else a new one in the name of `client`, stored when this
        returns. Raises TooManyRequestsError."""
        new = TransactionRequest(txid=txid, client=client, requested_at=now, next_at=now)
        with writing(self._engine, REQUESTS_LOCK) as connection:
            row = connection.execute(select(requests).where(requests.c.txid == txid)).mappings().first()
            if row is not None and row["state"] != RequestState.GIVEN_UP:
                return TransactionRequest(**row)
            _check_room(connection, client)
            connection.execute(delete(requests).where(requests.c.txid == txid))
            connection.execute(insert(requests), [row_of(new)])
        return new

    def get(self, txid: bytes) -> TransactionRequest | None:
        """The request for a transaction (internal byte order); None for an unknown or long ended one."""
        row = self._first(select(requests).where(requests.c.txid == txid))
        return TransactionRequest(**row) if row else None

    def mined(self, txid: bytes) -> tuple[str, int] | None:
        """The chain and height of an indexed block with events of a transaction, None without one."""
        row = self._first(select(events.c.chain, events.c.height).where(events.c.txid == txid).limit(1))
        return (row["chain"], row["height"]) if row else None

    def due(self, now: int, limit: int) -> list[TransactionRequest]:
        """At most `limit` due requests, those with the fewest tries first: many unknown transactions delay no new
        one."""
        statement = (
            select(requests)
            .where(requests.c.state.in_((RequestState.WAITING, RequestState.LOCATED)))
            .where(requests.c.next_at > 0, requests.c.next_at <= now)
            .order_by(requests.c.tries, requests.c.next_at)
            .limit(limit)
        )
        return [TransactionRequest(**row) for row in self._rows(statement)]

    def update(self, request: TransactionRequest) -> None:
        """Store how far a request has come; its client only as long as it waits."""
        row = row_of(request) | ({} if request.state is RequestState.WAITING else {"client": ""})
        with writing(self._engine, REQUESTS_LOCK) as connection:
            connection.execute(update(requests).where(requests.c.txid == request.txid).values(**row))

    def hasten(self, now: int) -> None:
        """Make the requests for transactions that were found due again: a starting process does not have these in
        memory."""
        with writing(self._engine, REQUESTS_LOCK) as connection:
            open_ones = (requests.c.state == RequestState.LOCATED, requests.c.next_at > 0)
            connection.execute(update(requests).where(*open_ones).values(next_at=now))

    def trim(self, now: int, keep: int = MAX_ENDED) -> int:
        """Delete requests that ended and were made a day ago, and the oldest of more than `keep`; return how many."""
        ended = requests.c.next_at == 0
        newest = select(requests.c.requested_at).where(ended).order_by(requests.c.requested_at.desc())
        with writing(self._engine, REQUESTS_LOCK) as connection:
            first_over = connection.execute(newest.offset(keep).limit(1)).scalar()
            before = max(now - ENDED_SECONDS, -1 if first_over is None else first_over + 1)
            return connection.execute(delete(requests).where(ended, requests.c.requested_at < before)).rowcount

    def counts(self) -> dict[str, int]:
        """How many requests are in each state."""
        numbers = self._counts(select(requests.c.state, func.count()).group_by(requests.c.state))
        return {state.value: numbers.get(state.value, 0) for state in RequestState}


def _check_room(connection: Connection, client: str) -> None:
    waiting = requests.c.state == RequestState.WAITING
    if full := full_network(connection, requests.c.client, client, OPEN_PER_CLIENT, waiting):
        requested = f"{OPEN_PER_CLIENT * full.factor} transactions that {full.title} requested"
        raise TooManyRequestsError(f"{requested} are still being looked for")
    if count(connection, requests, waiting) >= OPEN_IN_ALL:
        raise TooManyRequestsError(f"{OPEN_IN_ALL:,} transactions are still being looked for")


class Rechecks(Queries):
    """Requests of serving processes for earlier fetches of the hosts and locators that a listing depends on: only times
    are written. Several threads and processes may use it at once."""

    def request(self, id_: str, now_ms: int) -> list[Recheck]:
        """Make all that is fetched for a listing due at `now_ms`, or `RECHECK_PAUSE` after its last fetch; a repeated
        request changes nothing. Empty where nothing is fetched. Stored when this returns. Raises StoreError."""
        with writing(self._engine) as connection:
            named = select(sightings.c.locator).join(events, SAME_POINTER).where(events.c.anchor == id_).distinct()
            locators = connection.execute(named.order_by(sightings.c.locator).limit(MAX_RECHECKED)).scalars().all()
            rechecks = [_recheck_locator(connection, locator, now_ms) for locator in locators]
            badge = connection.execute(select(badges).where(badges.c.registration == id_)).mappings().first()
            rechecks += _recheck_domain(connection, badge, now_ms) if badge is not None else []
            for topic in listing_topics:
                rechecks += topic.recheck(connection, id_, now_ms, RECHECK_PAUSE)
            return rechecks


def _recheck_locator(connection: Connection, locator: str, now_ms: int) -> Recheck:
    same = locators.c.locator == locator
    row = connection.execute(select(locators).where(same)).mappings().one()
    next_at = _recheck_at(row["next_at"], row["last_at"], now_ms)
    connection.execute(update(locators).where(same).values(next_at=next_at))
    return Recheck("pointer", locator, row["state"], row["reason"], row["detail"], row["last_at"], next_at)


def _recheck_domain(connection: Connection, row: Row, now_ms: int) -> list[Recheck]:
    """The domain of an inscribed agent, and the other subjects that are checked at it."""
    check = checks.get(connection, BADGE_CHECK, row["registration"])
    last = (check.checked_at if check else 0) or None
    next_at = _recheck_at(check.next_at if check else None, last, now_ms)
    names = [row["registration"]]
    checks.hasten(connection, BADGE_CHECK, names, next_at)
    verdict = CheckVerdict.of(row["by"], check.reason if check else "", last or 0)
    state = WORDS[verdict.state] + (f" by {row['by']}" if row["by"] else "")
    rechecks = [Recheck("domain", row["host"], state, verdict.reason, "", last, next_at)]
    rechecks += hastened(connection, "keys", KEYS_CHECK, [row["card"].hex()], next_at)
    for topic in topics:
        rechecks += topic.recheck(connection, row["host"], row["card"], next_at)
    return rechecks


def _recheck_at(scheduled: int | None, last: int | None, now_ms: int) -> int:
    earliest = now_ms if last is None else max(now_ms, last + RECHECK_PAUSE)
    return earliest if scheduled is None else min(scheduled, earliest)
