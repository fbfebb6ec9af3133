"""Tasks of this relay: funds locked for a worker, until a receipt settles the task or its time is over.

Times are seconds since 1970, amounts in the ledger's unit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    Index,
    Integer,
    String,
    Text,
    UniqueConstraint,
    delete,
    func,
    insert,
    select,
    update,
)

from indexer.store.queries import Queries, Row, batches, count, is_storable, row_of, texts_of, upsert
from indexer.store.schema import keys, original_table, required
from overlay.systems.relay.store_ledger import FEES, agent_account, booking, forget, post
from parsers.claims.motebit.settlement import RelayTask, RelayTaskState
from parsers.claims.motebit.trust_graph import TrustEdge

MAX_PENDING = 1_000
"""Pending tasks of one submitter."""

MAX_EDGES = 10_000
"""Edges of trust that are read at once."""

relay_tasks = original_table(
    "relay_tasks",
    *keys(id=String),
    *required(idempotency_key=String, submitted_by=String, worker=String, price=BigInteger, locked=BigInteger),
    *required(state=texts_of(RelayTaskState), created_at=BigInteger, expires_at=BigInteger),
    UniqueConstraint("submitted_by", "idempotency_key"),
    Index("relay_tasks_by_state", "state", "expires_at"),
    Index("relay_tasks_by_submitter", "submitted_by", "state", "locked"),
)

relay_task_requests = original_table(
    "relay_task_requests",
    *keys(task=String),
    *required(request_sha256=String),
)
"""The requests by which tasks were submitted."""

relay_settlements = original_table(
    "relay_settlements",
    *keys(task=String, upstream_relay_id=String),
    *required(receipt_sha256=String, receipt=Text, record=Text, settled_at=BigInteger),
)


relay_trust = original_table(
    "relay_trust",
    *keys(submitted_by=String, worker=String),
    *required(level=String, successes=Integer, failures=Integer),
)
"""How far each submitter trusts each worker, evaluated with every task that this relay settled between them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedTask:
    """A task, the key by which its submitter may repeat the request, and when its lock ends."""

    task: RelayTask
    idempotency_key: str
    created_at: int
    expires_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSettlement:
    """A settled task: completed, failed or denied, the parts of the locked amount for the worker and for the relay, its
    receipt and the signed record (JSON)."""

    task: RelayTask
    outcome: str
    payout: int
    fee: int
    receipt_sha256: str
    receipt: str
    record: str


class TooManyTasksError(Exception):
    """The submitter has as many pending tasks as one may have."""


class RelayTasks(Queries):
    """The tasks in a database. Every method raises StoreError when the database refuses."""

    def submit(self, submitted: SubmittedTask, request_sha256: str = "") -> SubmittedTask:
        """Store a task with the digest of its request, and lock its funds; the stored one where its submitter has used
        the key before. Raises InsufficientFundsError, TooManyTasksError."""
        task = submitted.task
        with booking(self._engine) as connection:
            same = (relay_tasks.c.submitted_by == task.submitted_by,
                    relay_tasks.c.idempotency_key == submitted.idempotency_key)  # fmt: skip
            stored = connection.execute(select(relay_tasks).where(*same)).mappings().first()
            if stored is not None:
                return _submitted(stored)
            pending = (relay_tasks.c.submitted_by == task.submitted_by, relay_tasks.c.state == RelayTaskState.PENDING)
            if count(connection, relay_tasks, *pending) >= MAX_PENDING:
                raise TooManyTasksError(f"{MAX_PENDING:,} tasks of this submitter are pending")
            connection.execute(insert(relay_tasks).values(**_row(submitted)))
            connection.execute(insert(relay_task_requests).values(task=task.id, request_sha256=request_sha256))
            amounts = {agent_account(task.submitted_by): -task.locked, _lock(task): task.locked}
            post(connection, "lock", task.id, submitted.created_at, amounts)
        return submitted

    def repeated(self, submitted_by: str, idempotency_key: str) -> SubmittedTask | None:
        """The task that its submitter submitted with a key before."""
        same = (relay_tasks.c.submitted_by == submitted_by, relay_tasks.c.idempotency_key == idempotency_key)
        row = self._first(select(relay_tasks).where(*same))
        return _submitted(row) if row else None

    def is_request_of(self, id_: str, request_sha256: str) -> bool:
        """Whether a task was submitted with this request."""
        row = self._first(select(relay_task_requests).where(relay_task_requests.c.task == id_))
        return row is not None and row["request_sha256"] == request_sha256

    def submitted(self, id_: str) -> SubmittedTask | None:
        """A task with its times."""
        if not is_storable(id_):
            return None
        row = self._first(select(relay_tasks).where(relay_tasks.c.id == id_))
        return _submitted(row) if row else None

    def tasks(self, ids: Collection[str], now: int) -> dict[str, RelayTask]:
        """The tasks with these ids that exist, by id; a task past its time is expired."""
        rows = self._rows_in(select(relay_tasks), relay_tasks.c.id, set(filter(is_storable, ids)))
        return {row["id"]: _as_of(_submitted(row), now) for row in rows}

    def settle(self, settlements: Sequence[TaskSettlement], now: int) -> list[str]:
        """Settle the pending tasks, of those passed in, and return their ids: the payout goes to the worker, the fees
        to the relay, and the rest of the locked amount back to the submitter."""
        settled = []
        with booking(self._engine) as connection:
            for settlement in settlements:
                task = settlement.task
                if not _end(connection, task.id, RelayTaskState.SETTLED, relay_tasks.c.expires_at > now):
                    continue
                row = {
                    "receipt_sha256": settlement.receipt_sha256, "receipt": settlement.receipt,
                    "record": settlement.record,
                }  # fmt: skip
                record = insert(relay_settlements).values(task=task.id, upstream_relay_id="", settled_at=now, **row)
                connection.execute(record)
                amounts = {_lock(task): -task.locked, FEES: settlement.fee}
                rest = task.locked - settlement.payout - settlement.fee
                for account, amount in ((task.worker, settlement.payout), (task.submitted_by, rest)):
                    name = agent_account(account)
                    amounts[name] = amounts.get(name, 0) + amount
                post(connection, "settlement", task.id, now, amounts)
                _observe(connection, task.submitted_by, task.worker, settlement.outcome)
                settled.append(task.id)
        return settled

    def settlement(self, id_: str) -> Row | None:
        """The settlement of a task: `receipt` and `record` (JSON), `receipt_sha256`, `settled_at`."""
        return self._first(select(relay_settlements).where(relay_settlements.c.task == id_))

    def expire(self, now: int, limit: int = 1_000) -> int:
        """Unlock the funds of tasks past their time. Returns the number of these tasks."""
        with booking(self._engine) as connection:
            overdue = (relay_tasks.c.state == RelayTaskState.PENDING, relay_tasks.c.expires_at <= now)
            rows = connection.execute(select(relay_tasks).where(*overdue).limit(limit)).mappings().all()
            for row in rows:
                task = _submitted(row).task
                _end(connection, task.id, RelayTaskState.EXPIRED)
                amounts = {_lock(task): -task.locked, agent_account(task.submitted_by): task.locked}
                post(connection, "expiry", task.id, now, amounts)
        return len(rows)

    def trim(self, before: int, limit: int = 1_000) -> int:
        """Delete tasks that ended before a time and locked nothing, with their receipts: they cost their submitter
        nothing. Returns the number of these tasks."""
        is_ended = relay_tasks.c.state.in_((RelayTaskState.SETTLED, RelayTaskState.EXPIRED))
        with booking(self._engine) as connection:
            old = select(relay_tasks.c.id).where(is_ended, relay_tasks.c.expires_at < before, relay_tasks.c.locked == 0)
            ids = connection.execute(old.limit(limit)).scalars().all()
            for some in batches(ids):
                for column in (relay_task_requests.c.task, relay_settlements.c.task, relay_tasks.c.id):
                    connection.execute(delete(column.table).where(column.in_(some)))
                forget(connection, ("lock", "settlement", "expiry"), some)
        return len(ids)

    def trust(self, agents: Collection[str]) -> dict[tuple[str, str], TrustEdge]:
        """At most MAX_EDGES edges among these agents, by submitter and worker."""
        among = (relay_trust.c.submitted_by.in_(agents), relay_trust.c.worker.in_(agents))
        rows = self._rows(select(relay_trust).where(*among).order_by(*relay_trust.primary_key).limit(MAX_EDGES))
        return {(row["submitted_by"], row["worker"]): _trust_edge(row) for row in rows}

    def locked_by(self, motebit_id: str) -> int:
        """The amount that the pending tasks of a submitter lock."""
        pending = (relay_tasks.c.submitted_by == motebit_id, relay_tasks.c.state == RelayTaskState.PENDING)
        return int(self._scalar(select(func.sum(relay_tasks.c.locked)).where(*pending)) or 0)


def _observe(connection: Connection, submitted_by: str, worker: str, outcome: str) -> None:
    """Evaluate how far a submitter trusts a worker after one more task. No agent observes itself."""
    if submitted_by == worker:
        return
    pair = {"submitted_by": submitted_by, "worker": worker}
    same = (relay_trust.c.submitted_by == submitted_by, relay_trust.c.worker == worker)
    stored = connection.execute(select(relay_trust).where(*same)).mappings().first()
    trust = (_trust_edge(stored) if stored else TrustEdge()).after(outcome)
    row = upsert(connection, relay_trust).values(**pair, **trust._asdict())
    connection.execute(row.on_conflict_do_update(index_elements=list(pair), set_=trust._asdict()))


def _trust_edge(row: Row) -> TrustEdge:
    return TrustEdge(row["level"], row["successes"], row["failures"])


def _end(connection: Connection, id_: str, state: RelayTaskState, *still: Any) -> bool:
    pending = (relay_tasks.c.id == id_, relay_tasks.c.state == RelayTaskState.PENDING, *still)
    return connection.execute(update(relay_tasks).where(*pending).values(state=state)).rowcount == 1


def _lock(task: RelayTask) -> str:
    return f"locked:{task.id}"


def _as_of(submitted: SubmittedTask, now: int) -> RelayTask:
    is_over = submitted.task.state is RelayTaskState.PENDING and submitted.expires_at <= now
    return submitted.task._replace(state=RelayTaskState.EXPIRED) if is_over else submitted.task


def _submitted(row: Row) -> SubmittedTask:
    rest = dict(row)
    return SubmittedTask(task=RelayTask(*(rest.pop(name) for name in RelayTask._fields)), **rest)


def _row(submitted: SubmittedTask) -> dict[str, Any]:
    row = row_of(submitted) | submitted.task._asdict()
    del row["task"]
    return row
