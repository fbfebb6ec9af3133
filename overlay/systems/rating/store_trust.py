"""Reads of the trust graph: edges are computed from the receipts since the last read, and workers that the operator
blocks are blocked for every observer."""

from __future__ import annotations

from collections.abc import Collection
from itertools import product

from sqlalchemy import Connection, delete, select, update

from indexer.store.database import writing
from indexer.store.queries import Queries, Row, batches, insert_new
from overlay.systems.rating.store import receipts
from overlay.systems.rating.store_edges import blocked_workers, trust_edges
from parsers.claims.motebit.trust_graph import ANYBODY, EdgePair, TaskOutcome, TrustEdge, fold

MAX_EDGES = 10_000
"""Edges that are read at once."""

MAX_OUTCOMES = 10_000
"""The number of outcomes of an edge that count: those that were completed last."""


class TrustGraph(Queries):
    """The edges in a database. Several threads and processes may use it at once. Every method raises StoreError when
    the database refuses."""

    def edges(self, observers: Collection[str], workers: Collection[str]) -> dict[EdgePair, TrustEdge]:
        """At most MAX_EDGES edges from these observers to these workers, by pair."""
        rows: list[Row] = []
        for some, others in product(list(batches(sorted(observers))), list(batches(sorted(workers)))):
            among = (trust_edges.c.observer.in_(some), trust_edges.c.worker.in_(others))
            key = (trust_edges.c.observer, trust_edges.c.worker)
            rows += self._rows(select(trust_edges).where(*among).order_by(*key).limit(MAX_EDGES - len(rows)))
        by_pair = {EdgePair(row["observer"], row["worker"]): row for row in rows}
        due = [pair for pair, row in by_pair.items() if row["submitted"] != row["computed"]]
        computed = {pair: fold(self._outcomes(pair)) for pair in sorted(due)}  # two readers lock rows in one order
        if computed:
            with writing(self._engine) as connection:
                for pair, trust_edge in computed.items():
                    _store(connection, pair, trust_edge, by_pair[pair]["submitted"])
        stored = {pair: TrustEdge(row["level"], row["successes"], row["failures"]) for pair, row in by_pair.items()}
        return stored | computed

    def _outcomes(self, pair: EdgePair) -> list[TaskOutcome]:
        whose = receipts.c.is_proved if pair.observer == ANYBODY else receipts.c.counter_signer == pair.observer
        columns = (receipts.c.completed_at, receipts.c.digest, receipts.c.outcome)
        independent = receipts.c.counter_signer != receipts.c.worker
        rows = select(*columns).where(whose, receipts.c.worker == pair.worker, independent)
        newest = rows.distinct().order_by(columns[0].desc(), columns[1].desc()).limit(MAX_OUTCOMES)
        return [TaskOutcome(row["completed_at"], row["digest"], row["outcome"]) for row in self._rows(newest)]

    # -- by hand

    def block(self, worker: str, now: int) -> None:
        """Block a worker (a key) for every observer, from a time (seconds since 1970)."""
        with writing(self._engine) as connection:
            insert_new(connection, blocked_workers, [{"worker": worker, "blocked_at": now}])

    def unblock(self, worker: str) -> bool:
        """Unblock a worker; False where it is not blocked."""
        with writing(self._engine) as connection:
            gone = delete(blocked_workers).where(blocked_workers.c.worker == worker)
            return connection.execute(gone).rowcount == 1

    def blocked(self) -> set[str]:
        """All blocked workers."""
        return set(self._scalars(select(blocked_workers.c.worker)))


def _store(connection: Connection, pair: EdgePair, trust_edge: TrustEdge, submitted: int) -> None:
    """Store an edge as computed up to the number `submitted`."""
    same = (trust_edges.c.observer == pair.observer, trust_edges.c.worker == pair.worker)
    later = (*same, trust_edges.c.computed < submitted)
    connection.execute(update(trust_edges).where(*later).values(**trust_edge._asdict(), computed=submitted))
