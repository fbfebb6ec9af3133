"""Webhooks: saved searches, their queue of deliveries and its log. All of it is in the database: a crash loses nothing,
and repeats at most the delivery under way, under the same number."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Connection,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    Text,
    bindparam,
    delete,
    func,
    insert,
    select,
    update,
)

from indexer.store.database import writing
from indexer.store.locks import advisory_lock
from indexer.store.queries import Queries, Row, count, full_network, row_of, upsert
from indexer.store.schema import BYTEWISE, columns_of, keys, original_table, outbox_positions, required

WEBHOOKS_LOCK = advisory_lock("h")
"""While webhooks are counted, and their deliveries queued."""

PER_CLIENT, IN_ALL = 5, 10_000
"""Webhooks that may be active at once: of one client (`client_networks`), and in all."""

MAX_WAITING, MAX_LOG = 10, 50
"""Deliveries of a webhook that wait at once, the oldest dropped first, and the newest ones in its log."""

MAX_REPORTED = 1_000
"""The number of listings whose last report to a webhook is stored: the newest."""

ENDED_SECONDS = 7 * 86_400
"""Seconds for which an ended webhook can be read, for the reason."""

MARK_BYTES = 8

DUE_AT_ONCE = 64
"""The number of due rows that are read at once."""

POSITION = "subscriptions"
"""The name of the outbox position up to which changes were compared with the webhooks."""


class TooManyWebhooksError(Exception):
    """The limit of active webhooks is reached, of this client or in all; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredWebhook:
    """A saved search with a URL that its changes are delivered to: `search` is the query string, `base` begins the URLs
    in deliveries, `sequence` is the number of the last delivery, `since_seq` the last change of the outbox before it
    was created. Times are in seconds since 1970; `next_at` is None while nothing waits, `ended_at` while it is active;
    `reason` is why it ended."""

    id: str
    client: str
    url: str
    search: str
    base: str
    secret_sha256: bytes
    created_at: int
    since_seq: int = 0
    sequence: int = 0
    failing_since: int | None = None
    next_at: int | None = None
    ended_at: int | None = None
    reason: str = ""


class Delivery(NamedTuple):
    """A delivery, and its entry in the log: `state` is waiting, delivered or dropped, `body` is sent while it waits,
    `outcome` is the result of the last try. `mark` is random, as a restored database, or one that took over, queues
    other deliveries under the same numbers; "" in deliveries of version 0.2.0."""

    subscription: str
    sequence: int
    state: str
    body: bytes | None
    changes: int
    tries: int
    outcome: str
    created_at: int
    tried_at: int | None
    mark: str

    @property
    def message_id(self) -> str:
        """The `webhook-id`: of this delivery alone, and the same at each try."""
        return "-".join(filter(None, (self.subscription, str(self.sequence), self.mark)))


class ListingReport(NamedTuple):
    """The report of a listing to a webhook, as a digest; None when the listing is not a result any more."""

    listing: str
    registration: str
    digest: bytes | None


class NewDelivery(NamedTuple):
    """A delivery to be queued under this number, and the listings that it reports."""

    subscription: str
    sequence: int
    body: bytes
    reports: Sequence[ListingReport]


subscriptions = original_table(
    "subscriptions",
    *columns_of(StoredWebhook, {"id"}, client=BYTEWISE),
    Index("subscriptions_by_client", "client"),
    Index("subscriptions_due", "next_at"),
    restored={"since_seq": 0},
)

deliveries = original_table(
    "deliveries",
    *columns_of(Delivery, {"subscription", "sequence"}),
    ForeignKeyConstraint(["subscription"], ["subscriptions.id"], ondelete="CASCADE"),
)

reported = original_table(
    "reported",
    *keys(subscription=Text, listing=BYTEWISE),
    *required(registration=BYTEWISE, digest=LargeBinary, sequence=BigInteger),
    ForeignKeyConstraint(["subscription"], ["subscriptions.id"], ondelete="CASCADE"),
    Index("reported_by_registration", "registration"),
)
"""The last report of each listing to a webhook, as a digest, and the delivery with it."""


class StoredWebhooks(Queries):
    """The webhooks in one database; several threads and processes may use it at once. Methods that write raise
    StoreError when the database refuses."""

    def check_room(self, client: str) -> None:
        """Raise TooManyWebhooksError where `add` would."""
        with self._engine.connect() as connection:
            _check_room(connection, client)

    def add(self, webhook: StoredWebhook) -> None:
        """Store a new webhook. Raises TooManyWebhooksError."""
        with writing(self._engine, WEBHOOKS_LOCK) as connection:
            _check_room(connection, webhook.client)
            connection.execute(insert(subscriptions), [row_of(webhook)])

    def get(self, id_: str) -> StoredWebhook | None:
        """A webhook; None for an unknown id."""
        row = self._first(select(subscriptions).where(subscriptions.c.id == id_))
        return StoredWebhook(**row) if row else None

    def delete(self, id_: str) -> None:
        """Delete a webhook with its deliveries."""
        with writing(self._engine, WEBHOOKS_LOCK) as connection:
            connection.execute(delete(subscriptions).where(subscriptions.c.id == id_))

    def active(self) -> list[StoredWebhook]:
        """All active webhooks, the oldest first."""
        statement = select(subscriptions).where(subscriptions.c.ended_at.is_(None))
        return [StoredWebhook(**row) for row in self._rows(statement.order_by(subscriptions.c.since_seq))]

    def log(self, id_: str) -> list[Delivery]:
        """The newest deliveries of a webhook, the newest first."""
        of_webhook = select(deliveries).where(deliveries.c.subscription == id_)
        return [Delivery(**row) for row in self._rows(of_webhook.order_by(deliveries.c.sequence.desc()).limit(MAX_LOG))]

    # -- queueing

    def position(self) -> tuple[str, int] | None:
        """The epoch and the last change of the outbox that was compared with all webhooks."""
        row = self._first(select(outbox_positions).where(outbox_positions.c.name == POSITION))
        return (row["epoch"], row["seq"]) if row else None

    def reports(self, registrations: Iterable[str]) -> dict[tuple[str, str], ListingReport]:
        """The last reports of the listings of registrations, by webhook and listing."""
        return {
            (row["subscription"], row["listing"]): ListingReport(row["listing"], row["registration"], row["digest"])
            for row in self._rows_in(select(reported), reported.c.registration, registrations)
        }

    def enqueue(
        self, before: tuple[str, int] | None, after: tuple[str, int], new: Sequence[NewDelivery], now: int
    ) -> bool:
        """Queue deliveries and move the position, in one transaction. Returns False, and changes nothing, if another
        process has moved it. Webhooks that ended meanwhile get none."""
        with writing(self._engine, WEBHOOKS_LOCK) as connection:
            stored = select(outbox_positions).where(outbox_positions.c.name == POSITION)
            row = connection.execute(stored).mappings().first()
            if (None if row is None else (row["epoch"], row["seq"])) != before:
                return False
            moved = {"epoch": after[0], "seq": after[1]}
            statement = upsert(connection, outbox_positions).values(name=POSITION, **moved)
            connection.execute(statement.on_conflict_do_update(index_elements=["name"], set_=moved))
            live = select(subscriptions.c.id).where(subscriptions.c.ended_at.is_(None))
            active = set(connection.execute(live).scalars()) if new else set()
            _queue(connection, [delivery for delivery in new if delivery.subscription in active], now)
        return True

    # -- delivering

    def due(self, now: int) -> Generator[tuple[str, str], None, None]:
        """The webhooks with a delivery to send now, by id and URL, the longest due first: read as they are
        needed."""
        statement = select(subscriptions.c.id, subscriptions.c.url).order_by(subscriptions.c.next_at)
        is_due = (subscriptions.c.next_at <= now, subscriptions.c.ended_at.is_(None))
        for row in self._stream(statement.where(*is_due), DUE_AT_ONCE):
            yield row["id"], row["url"]

    def oldest_waiting(self, id_: str) -> Delivery | None:
        """The delivery of a webhook to send next, None when none waits."""
        waiting = select(deliveries).where(deliveries.c.subscription == id_, deliveries.c.state == "waiting")
        row = self._first(waiting.order_by(deliveries.c.sequence).limit(1))
        return Delivery(**row) if row else None

    def succeed(self, delivery: Delivery, outcome: str, now: int) -> None:
        """Store that a delivery was accepted; the next one is due at once."""
        of_delivery = _of_delivery(delivery)
        with writing(self._engine) as connection:
            done = {"state": "delivered", "body": None, "tries": delivery.tries + 1, "outcome": outcome}
            connection.execute(update(deliveries).where(*of_delivery).values(tried_at=now, **done))
            old = (deliveries.c.sequence <= delivery.sequence - MAX_LOG, deliveries.c.state != "waiting")
            connection.execute(delete(deliveries).where(deliveries.c.subscription == delivery.subscription, *old))
            self._schedule(connection, delivery.subscription, now, None)

    def fail(self, delivery: Delivery, outcome: str, now: int, next_at: int, failing_since: int) -> None:
        """Store that a delivery failed, and when it is tried again."""
        with writing(self._engine) as connection:
            tried = {"tries": delivery.tries + 1, "outcome": outcome, "tried_at": now}
            connection.execute(update(deliveries).where(*_of_delivery(delivery)).values(**tried))
            self._schedule(connection, delivery.subscription, next_at, failing_since)

    def skip(self, id_: str, now: int) -> None:
        """Store that nothing waits for a webhook that was due."""
        with writing(self._engine) as connection:
            self._schedule(connection, id_, now, None)

    def end(self, id_: str, reason: str, now: int) -> None:
        """End a webhook: waiting deliveries are dropped, its log can be read for a while."""
        with writing(self._engine, WEBHOOKS_LOCK) as connection:
            ended = {"ended_at": now, "reason": reason, "next_at": None}
            connection.execute(update(subscriptions).where(subscriptions.c.id == id_).values(**ended))
            waiting = (deliveries.c.subscription == id_, deliveries.c.state == "waiting")
            connection.execute(update(deliveries).where(*waiting).values(state="dropped", body=None))
            connection.execute(delete(reported).where(reported.c.subscription == id_))

    def trim(self, now: int) -> None:
        """Delete webhooks and deliveries that ended long ago, and the oldest reports."""
        with writing(self._engine) as connection:
            connection.execute(delete(subscriptions).where(subscriptions.c.ended_at < now - ENDED_SECONDS))
            many = select(reported.c.subscription).group_by(reported.c.subscription)
            for id_ in connection.execute(many.having(func.count() > MAX_REPORTED)).scalars().all():
                newest = select(reported.c.sequence).where(reported.c.subscription == id_)
                last = newest.order_by(reported.c.sequence.desc()).offset(MAX_REPORTED).limit(1).scalar_subquery()
                connection.execute(delete(reported).where(reported.c.subscription == id_, reported.c.sequence <= last))

    @staticmethod
    def _schedule(connection: Connection, id_: str, next_at: int, failing_since: int | None) -> None:
        waits = select(deliveries.c.sequence).where(deliveries.c.subscription == id_, deliveries.c.state == "waiting")
        due = next_at if connection.execute(waits.limit(1)).first() is not None else None
        active = (subscriptions.c.id == id_, subscriptions.c.ended_at.is_(None))
        connection.execute(update(subscriptions).where(*active).values(next_at=due, failing_since=failing_since))


def _of_delivery(delivery: Delivery) -> tuple[Any, ...]:
    same = (deliveries.c.subscription == delivery.subscription, deliveries.c.sequence == delivery.sequence)
    return (*same, deliveries.c.state == "waiting")


def _check_room(connection: Connection, client: str) -> None:
    active = subscriptions.c.ended_at.is_(None)
    if full := full_network(connection, subscriptions.c.client, client, PER_CLIENT, active):
        number = PER_CLIENT * full.factor
        raise TooManyWebhooksError(f"{number} subscriptions of {full.title} are active: delete one of them first")
    if count(connection, subscriptions, active) >= IN_ALL:
        raise TooManyWebhooksError(f"{IN_ALL:,} subscriptions are active, the most that this server allows")


def _queue(connection: Connection, new: Sequence[NewDelivery], now: int) -> None:
    if not new:
        return
    rows = [
        {
            "subscription": delivery.subscription, "sequence": delivery.sequence, "state": "waiting",
            "body": delivery.body, "changes": len(delivery.reports), "tries": 0, "outcome": "", "created_at": now,
            "tried_at": None, "mark": token_hex(MARK_BYTES),
        }
        for delivery in new
    ]  # fmt: skip
    connection.execute(insert(deliveries), rows)
    keys: list[Mapping[str, Any]] = [{"s": delivery.subscription, "n": delivery.sequence} for delivery in new]
    number = {"sequence": bindparam("n"), "next_at": func.coalesce(subscriptions.c.next_at, now)}
    connection.execute(update(subscriptions).where(subscriptions.c.id == bindparam("s")).values(number), keys)
    over = (deliveries.c.sequence <= bindparam("n") - MAX_WAITING, deliveries.c.state == "waiting")
    too_old = update(deliveries).where(deliveries.c.subscription == bindparam("s"), *over)
    connection.execute(too_old.values(state="dropped", body=None, outcome="newer ones wait"), keys)
    report_rows: list[Row] = [
        {"subscription": delivery.subscription, "sequence": delivery.sequence, **report._asdict()}
        for delivery in new
        for report in delivery.reports
    ]
    if current := [row for row in report_rows if row["digest"] is not None]:
        statement = upsert(connection, reported)
        changed = {name: statement.excluded[name] for name in ("digest", "sequence")}
        connection.execute(
            statement.on_conflict_do_update(index_elements=["subscription", "listing"], set_=changed), current
        )
    if gone := [{"s": row["subscription"], "l": row["listing"]} for row in report_rows if row["digest"] is None]:
        same = (reported.c.subscription == bindparam("s"), reported.c.listing == bindparam("l"))
        connection.execute(delete(reported).where(*same), gone)
