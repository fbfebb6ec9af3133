"""The status of an overlay."""

from __future__ import annotations

from typing import Annotated, TypedDict

from msgspec import Meta, field

from overlay.answers.record import Count, Record, Time, words
from overlay.jobs import Role


class StateDigest(TypedDict):
    """The state hash of a chain; null where completeness cannot be known."""

    height: Count
    hash: str | None


class RebuildProgress(TypedDict):
    """The progress of a rebuild of the index: registrations written, and about how many there are. The earlier index
    answers until it is complete."""

    done: Count
    of: Count


class SourceSummary(Record, kw_only=True):
    """One source of a chain."""

    source: str
    state: Annotated[str, words("current", "ready", "starting", "unreachable", "stopped")]
    height: Count | None = None
    hash: str | None = None
    error: str = ""


class ChainSummary(Record, kw_only=True):
    """Where a chain is. Of a chain that is only stored, tip, lag, mempool and reorgs are null: its follower has
    them."""

    name: str
    chain: str
    state: str
    height: int | None
    hash: str | None
    network: str | None = None
    tip: int | None = None
    lag: int | None = None
    mempool: int | None = None
    reorgs: Count | None = None
    source: str | None = None
    error: str | None = None
    checked: str = ""
    complete: bool = True
    caught: Count = 0
    note: str = ""
    sources: tuple[SourceSummary, ...] = ()
    warnings: tuple[str, ...] = ()


class IndexSummary(Record, kw_only=True):
    """How far the index has come in the changes."""

    engine: str
    seq: Count
    changes_behind: Count = field(name="behind")
    meaning: bool = False
    renewal: RebuildProgress | None = None
    damage: Annotated[
        str,
        Meta(
            description="What is wrong with the files of the index, while it is rebuilt. Searches find what the others "
            "hold."
        ),
    ] = ""
    error: Annotated[
        str,
        Meta(
            description="Why changes cannot be written to the index now, as on a full disk. Searches find what it has."
        ),
    ] = ""
    compiling: Annotated[
        bool,
        Meta(
            description="While code that every search needs is compiled, once per data folder. Until it is done "
            "searches are answered with 503."
        ),
    ] = False


class ReplicaLag(Record, kw_only=True):
    """How far the replica that is read from is behind: in seconds and in changes."""

    source: str
    lag_seconds: float | None
    changes_behind: Count | None = field(name="behind")


class RatesFeed(Record, kw_only=True):
    """A feed of exchange rates."""

    source: str
    base: str
    quoted_at: Time | None = field(name="at")
    age: Count | None
    usable: bool = False
    code: str = ""
    error: str = ""
    left_out: tuple[str, ...] = ()


class RatesSummary(Record, kw_only=True):
    """The exchange rates in use, the preferred feed first; null members when none may be used."""

    source: str | None
    quoted_at: Time | None = field(name="at")
    age: Count | None
    base: str | None = None
    feeds: tuple[RatesFeed, ...]


class DatabaseCheck(Record, kw_only=True):
    """The last check of a SQLite database for damage, which follows a stop that was not clean, and an error;
    `interrupted`: no fault was found in 60 s. A damaged database answers 503 everywhere."""

    state: Annotated[str, words("checking", "ok", "interrupted", "failed")]
    checked_at: Time
    detail: str


class JobSummary(Record, kw_only=True):
    """Periodic work of the process that answers: when its last run began, how long that took, how many failed since the
    start, why the last one did, and when the next is due (null while one is under way)."""

    name: str
    role: Annotated[str, words(*Role)]
    last_run_at: Time | None
    seconds: float | None
    failures: Count
    next_run_at: Time | None
    error: str = ""


class RegistryStatus(Record, kw_only=True):
    """Chains, counts and versions of an overlay."""

    version: str
    chains: tuple[ChainSummary, ...]
    listings: dict[str, Count]
    index: IndexSummary | None = None
    replica: ReplicaLag | None = None
    state_hash: Annotated[dict[str, StateDigest | None], Meta(description="Of each chain, computed once per tip.")] = (
        field(default_factory=dict)
    )
    rates: RatesSummary | None = None
    integrity: DatabaseCheck | None = None
    jobs: tuple[JobSummary, ...] = ()
    pointers: Annotated[
        dict[str, Count],
        Meta(description="How many of the locators that pointers name are in which state of fetching."),
    ] = field(default_factory=dict)


class ProcessHealth(Record, kw_only=True):
    """The process answers, or is ready; then with the number of changes that its index has not read."""

    status: str
    version: str
    changes_behind: Count | None = field(name="behind", default=None)
