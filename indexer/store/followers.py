"""Reports of the follower of each chain about itself, with a sign of life: for processes that follow nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import Connection, delete, insert, select

from indexer.store.queries import Queries
from indexer.store.schema import columns_of, rebuilt_table


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerReport:
    """The members of `SyncProgress` with these names; `seen_at` is when this was reported, in seconds since 1970."""

    chain: str
    state: str
    error: str
    fault: str
    height: int | None
    tip: int | None
    mempool: int | None
    reorgs: int
    checked: str
    note: str
    disagreement: str
    caught: int
    peers: int | None
    peer_networks: int | None
    last_block_at: int | None
    seen_at: int


followers = rebuilt_table("followers", *columns_of(FollowerReport, {"chain"}))
"""A row for each chain that the last process with the right to write follows, or followed."""


class FollowerQueries(Queries):
    """The reports of followers."""

    def reports(self) -> dict[str, FollowerReport]:
        """The last report about each chain that is followed, by its name."""
        return {row["chain"]: FollowerReport(**row) for row in self._rows(select(followers))}


def replace(connection: Connection, reports: Sequence[FollowerReport]) -> None:
    """Replace all reports by these, of every chain that this writer follows."""
    connection.execute(delete(followers))
    if reports:
        connection.execute(insert(followers), [asdict(row) for row in reports])
