"""The tables of the trust graph: edges, which are computed from receipts when they are read after a change, and the
workers that the operator blocks. Keys are lower-case hex."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import BigInteger, Connection, Index, Integer, String

from indexer.store.queries import upsert
from indexer.store.schema import keys, original_table, rebuilt_table, required
from parsers.claims.motebit.trust_graph import EdgePair

trust_edges = rebuilt_table(
    "trust_edges",
    *keys(observer=String, worker=String),
    *required(submitted=BigInteger, computed=BigInteger, level=String, successes=Integer, failures=Integer),
    Index("trust_edges_by_worker", "worker"),
)
"""One row for each pair with a receipt. It is due for computation while `submitted` is above `computed`."""

blocked_workers = original_table("blocked_workers", *keys(worker=String), *required(blocked_at=BigInteger))


NEW_EDGE = {"submitted": 1, "computed": 0, "level": "unknown", "successes": 0, "failures": 0}
"""A row without its key, before its first computation."""


def touch_edges(connection: Connection, pairs: Iterable[EdgePair]) -> None:
    """Have the edges of receipts that are stored in the same transaction computed again. No agent observes itself."""
    for pair in sorted({*pairs}):
        if pair.observer == pair.worker:
            continue
        statement = upsert(connection, trust_edges).values(**pair._asdict(), **NEW_EDGE)
        more = {"submitted": trust_edges.c.submitted + 1}
        connection.execute(statement.on_conflict_do_update(index_elements=["observer", "worker"], set_=more))
