"""Decisions of an operator to hide listings, owners and cards by law. Facts, state hashes and anchors stay as they are;
each part that hands out a listing reads the decisions first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, Select, String, Table, delete, or_, select, update

from indexer.store import outbox
from indexer.store.database import writing
from indexer.store.pointer_queries import SAME_POINTER
from indexer.store.queries import Queries, Row, rows_in, upsert
from indexer.store.schema import (
    columns_of,
    events,
    fetches,
    original_table,
    pending,
    required,
    sightings,
)
from indexer.store.writer import Writer

HIDDEN = "hidden"
"""The reason of the changes that announce a decision, and the end of one."""


class Subject(StrEnum):
    """The things that a decision can be about."""

    ID = "id"
    """A registration or pointer, by its id."""
    OWNER = "owner"
    """Everything that an address owns or owned."""
    SHA256 = "sha256"
    """Everything that has, or had, the card with this SHA-256 (hex)."""


class HideReason(StrEnum):
    """The reasons for which operators hide listings."""

    ILLEGAL_CONTENT = "illegal-content"
    COPYRIGHT = "copyright"
    TRADEMARK = "trademark"
    PERSONAL_DATA = "personal-data"
    MALWARE = "malware"
    FRAUD = "fraud"
    COURT_ORDER = "court-order"
    OTHER = "other"


class HideDecision(NamedTuple):
    """A decision to hide something from `since` until `until` (seconds since 1970, None for no end). `law` and `text`
    are the operator's, "" for none."""

    subject: Subject
    value: str
    reason: HideReason
    law: str
    text: str
    since: int
    until: int | None

    @property
    def sentence(self) -> str:
        """The decision for people."""
        law = f", {self.law}" if self.law else ""
        return f"hidden on this server by its operator ({self.reason}{law}){f': {self.text}' if self.text else ''}"


_NEW, _ANNOUNCED, _LIFTED = "new", "announced", "lifted"

hidden = original_table(
    "hidden", *columns_of(HideDecision, ("subject", "value")), *required(state=String), restored={"state": _NEW}
)
"""Decisions to hide. `state`: readers of the outbox do not know of it yet, they do, or it has ended."""

_IN_FORCE = select(*(hidden.c[name] for name in HideDecision._fields)).where(hidden.c.state != _LIFTED)

Decisions = Mapping[tuple[Subject, str], HideDecision]
"""The decisions in force, by what they are about."""


class HiddenQueries(Queries):
    """Reads of decisions. `stamp` stays the same as long as nothing is written: they are read again only after a
    write."""

    def __init__(self, engine: Engine, stamp: Callable[[], int], clock: Callable[[], float]) -> None:
        super().__init__(engine)
        self._stamp, self._clock = stamp, clock
        self._cached: tuple[int, tuple[HideDecision, ...]] | None = None

    def decisions(self) -> tuple[HideDecision, ...]:
        """The decisions in force, the oldest first."""
        stamp, cached = self._stamp(), self._cached  # before reading
        if cached is None or cached[0] != stamp:
            rows = self._rows(_IN_FORCE.order_by(hidden.c.since, hidden.c.subject, hidden.c.value))
            cached = self._cached = stamp, tuple(HideDecision(**row) for row in rows)
        now = self._clock()
        return tuple(decision for decision in cached[1] if decision.until is None or decision.until > now)

    def of(self, ids: Iterable[str]) -> dict[str, HideDecision]:
        """The decisions that hide registrations and pointers, by their ids; what is shown is left out."""
        decisions = self.decisions()
        if not decisions:
            return {}
        with self._engine.connect() as connection:
            return _hiding(connection, _by_subject(decisions), ids)

    def transactions(self, txids: Iterable[bytes]) -> set[bytes]:
        """The transactions, of those passed in (internal byte order), of what is hidden."""
        decisions = self.decisions()
        if not decisions:
            return set()
        with self._engine.connect() as connection:
            ids: dict[bytes, set[str]] = {}
            for table in (events, pending):
                columns = select(table.c.txid, table.c.registration, table.c.anchor)
                for row in rows_in(connection, columns, table.c.txid, txids):
                    ids.setdefault(row["txid"], set()).update({row["registration"], row["anchor"]} - {None})
            hiding = _hiding(connection, _by_subject(decisions), set().union(*ids.values()))
        return {txid for txid, of_transaction in ids.items() if not hiding.keys().isdisjoint(of_transaction)}

    def affected(self, decision: HideDecision) -> list[str]:
        """The ids of what a decision hides, sorted. Those of an owner or a card are looked for among all events."""
        with self._engine.connect() as connection:
            return sorted(_affected(connection, [decision]))

    def has_news(self) -> bool:
        """Whether a decision has begun or ended that the outbox does not announce yet."""
        due = or_(hidden.c.state != _ANNOUNCED, hidden.c.until <= int(self._clock()))
        return self._scalar(select(hidden.c.value).where(due).limit(1)) is not None


def hide(engine: Engine, decision: HideDecision) -> None:
    """Store a decision, in the place of an earlier one about the same. Raises StoreError."""
    row = {**decision._asdict(), "state": _NEW}
    with writing(engine) as connection:
        statement = upsert(connection, hidden).values(row)
        connection.execute(statement.on_conflict_do_update(index_elements=["subject", "value"], set_=row))


def unhide(engine: Engine, subject: Subject, value: str) -> bool:
    """End a decision; False where there is none. Raises StoreError."""
    same = (hidden.c.subject == subject, hidden.c.value == value, hidden.c.state != _LIFTED)
    with writing(engine) as connection:
        return bool(connection.execute(update(hidden).where(*same).values(state=_LIFTED)).rowcount)


def announce_hidden(writer: Writer) -> list[str]:
    """Have readers of the outbox remove what is hidden from now on, and look again at what is hidden no longer; return
    the ids of the former."""
    with writer.transaction() as connection:
        over = or_(hidden.c.state == _LIFTED, hidden.c.until <= int(writer.clock()))
        ended = [HideDecision(**row) for row in connection.execute(_of_state(over)).mappings()]
        connection.execute(delete(hidden).where(over))
        new = [HideDecision(**row) for row in connection.execute(_of_state(hidden.c.state == _NEW)).mappings()]
        connection.execute(update(hidden).where(hidden.c.state == _NEW).values(state=_ANNOUNCED))
        remaining = _by_subject(HideDecision(**row) for row in connection.execute(_IN_FORCE).mappings())
        gone = _affected(connection, new)
        back = _affected(connection, ended)
        back = {id_: back[id_] for id_ in back.keys() - _hiding(connection, remaining, back).keys()}
        for changed, op in ((gone, "remove"), (back, "upsert")):
            rows = [
                {"chain": chain, "op": op, "id": id_, "height": None, "reason": HIDDEN}
                for id_, chain in sorted(changed.items())
            ]
            outbox.append(connection, rows)
    return sorted(gone)


def _of_state(condition: Any) -> Select[Any]:
    return select(*(hidden.c[name] for name in HideDecision._fields)).where(condition)


def _by_subject(decisions: Iterable[HideDecision]) -> Decisions:
    return {(decision.subject, decision.value): decision for decision in decisions}


def _hiding(connection: Connection, decisions: Decisions, ids: Iterable[str]) -> dict[str, HideDecision]:
    """The decisions that hide these ids."""
    requested = set(ids)
    hiding = {id_: decisions[Subject.ID, id_] for id_ in requested if (Subject.ID, id_) in decisions}
    for table in (events, pending):
        for name in ("registration", "anchor"):
            for row in _rows_of(connection, table, name, decisions, table.c[name], requested - hiding.keys()):
                hiding.setdefault(row["id"], _decision(decisions, row))
    for row in _served(connection, decisions, requested - hiding.keys()):
        hiding.setdefault(row["id"], decisions[Subject.SHA256, row["sha256"].hex()])
    return hiding


def _affected(connection: Connection, decisions: Iterable[HideDecision]) -> dict[str, str]:
    """The ids that these decisions are about, each with a chain that has it ("" where none has)."""
    by_subject = _by_subject(decisions)
    ids = {value: "" for subject, value in by_subject if subject is Subject.ID}
    for table in (events, pending):
        for name in ("registration", "anchor"):
            for row in rows_in(connection, select(table.c[name].label("id"), table.c.chain), table.c[name], list(ids)):
                ids[row["id"]] = row["chain"]
            for row in _rows_of(connection, table, name, by_subject):
                ids[row["id"]] = row["chain"]
    return ids | {row["id"]: row["chain"] for row in _served(connection, by_subject)}


_OWNERS, _CARDS = ("owner", "holder"), ("card", "winner_card", "anchor_digest")


def _rows_of(
    connection: Connection,
    table: Table,
    name: str,
    decisions: Decisions,
    column: Any = None,
    values: Iterable[str] = (),
) -> Iterable[Row]:
    """The events of hidden owners and cards, with their id in the column of this name; with `column`, those with one of
    these values."""
    owners, digests = _values(decisions, Subject.OWNER), _digests(decisions)
    conditions = [table.c[owner].in_(owners) for owner in _OWNERS if owners]
    conditions += [table.c[card].in_(digests) for card in _CARDS if digests]
    if not conditions:
        return ()
    columns = (table.c[name].label("id"), table.c.chain, *(table.c[part] for part in (*_OWNERS, *_CARDS)))
    statement = select(*columns).where(table.c[name].is_not(None), or_(*conditions))
    return (
        connection.execute(statement).mappings() if column is None else rows_in(connection, statement, column, values)
    )


def _decision(decisions: Decisions, row: Row) -> HideDecision:
    keys = [(Subject.OWNER, row[owner]) for owner in _OWNERS if row[owner]]
    keys += [(Subject.SHA256, row[card].hex()) for card in _CARDS if row[card]]
    return next(decisions[key] for key in keys if key in decisions)


def _served(connection: Connection, decisions: Decisions, ids: Iterable[str] | None = None) -> Iterable[Row]:
    """The pointers to hosts that served a hidden card, of these ids, or of all."""
    digests = _digests(decisions)
    if not digests:
        return ()
    statement = (
        select(events.c.anchor.label("id"), events.c.chain, fetches.c.sha256)
        .join(sightings, SAME_POINTER)
        .join(fetches, fetches.c.locator == sightings.c.locator)
        .where(fetches.c.sha256.in_(digests), events.c.anchor.is_not(None))
    )
    return (
        connection.execute(statement).mappings()
        if ids is None
        else rows_in(connection, statement, events.c.anchor, ids)
    )


def _values(decisions: Decisions, subject: Subject) -> list[str]:
    return [value for about, value in decisions if about is subject]


def _digests(decisions: Decisions) -> list[bytes]:
    return [bytes.fromhex(value) for value in _values(decisions, Subject.SHA256)]
