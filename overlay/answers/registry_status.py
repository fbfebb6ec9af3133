"""The status of an overlay."""

from __future__ import annotations

from typing import Annotated, TypedDict

from msgspec import Meta, field

from overlay.answers.record import Count, Record, Time, words
from overlay.jobs import Role


class PointersDigest(TypedDict):
    """The number of valid pointers of a chain, and the hash chained over its blocks with any."""

    count: Count
    hash: str


class _Hashed(TypedDict):
    height: Count
    hash: str | None


class StateDigest(_Hashed, total=False):
    """The state hash of a chain, and that of its pointers; null where completeness cannot be known. An overlay of
    version 0.2.0 answers without `pointers`."""

    pointers: PointersDigest | None


class RebuildProgress(TypedDict):
    """The progress of a rebuild of the index: registrations written, and about how many there are. The earlier index
    answers until it is complete, unless its items have other members than this release: then searches are answered with
    503."""

    done: Count
    of: Count


class SourceSummary(Record, kw_only=True):
    """One source of a chain."""

    source: str
    state: Annotated[str, words("current", "ready", "starting", "unreachable", "stopped")]
    height: Count | None = None
    hash: str | None = None
    error: str = ""


ChainState = Annotated[
    str,
    words("starting", "catching-up", "following", "unreachable", "stopped", "silent", "stored"),
    Meta(
        description="`silent`: its process has given no sign of life for 30 s; `stored`: no process follows it, and "
        "tip, lag, mempool and reorgs are null; `unreachable`: the source or the database is, also where there is no "
        "answer for 30 s, or a block is refused or fails; it is tried again; `stopped`: an operator must act."
    ),
]

Degraded = Annotated[
    tuple[str, ...],
    Meta(
        description="What does not work now: `database` (it cannot be read or written), `search` (it is being "
        "compiled), `index-behind` (stored changes cannot be searched for 30 s, or the index cannot be written), "
        "`follower:NAME` (the chain is not followed, or not without errors), `sources-disagree:NAME` (sources of the "
        "chain disagree for 30 s, or about final blocks), `failed` (listings, rows or hosts are left out). While the "
        "database does not answer, what it holds is as it was when it last did."
    ),
]


class PeerSummary(Record, kw_only=True):
    """The peers of a chain that have sent their headers, and the networks of addresses (/16, of IPv6 /32) of these."""

    connected: Count
    networks: Count


class ChainSummary(Record, kw_only=True):
    """Where a chain is, as its follower reported."""

    name: str
    chain: str
    state: ChainState
    height: int | None
    hash: str | None
    network: str | None = None
    tip: Annotated[
        int | None, Meta(description="The newest height of the source that is believed; `error` names any other.")
    ] = None
    lag: int | None = None
    mempool: int | None = None
    reorgs: Count | None = None
    read_twice: Annotated[
        int | None,
        Meta(
            description="Of an EVM chain: the height up to which every block was read a second time, null for none. "
            "The state hash is of the newest stored block up to there."
        ),
    ] = None
    source: str | None = None
    follower_seen_at: Time | None = None
    last_block_at: Annotated[Time | None, Meta(description="When its newest block was stored.")] = None
    error: str | None = None
    sources_disagree: Annotated[
        str, Meta(description="How the sources of the chain disagree, for 30 s or about final blocks; empty otherwise.")
    ] = ""
    peers: Annotated[
        PeerSummary | None, Meta(description="Of a chain that is read from peers; null or absent otherwise.")
    ] = None
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
    rebuilding: RebuildProgress | None = None
    outdated: Annotated[
        bool, Meta(description="Whether it was made by another release or for other systems, and is to be rebuilt.")
    ] = False
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
            description="Why changes cannot be written to the index now, as on a full disk: searches find what it has. "
            "Also that it does not answer: then its numbers are those of when it did, and searches are 503."
        ),
    ] = ""
    compiling: Annotated[
        bool,
        Meta(
            description="While code that every search needs is compiled, once for a user and version. Until it is done "
            "searches are slower in a registry of up to 2,000 listings, and answered with 503 in a larger one."
        ),
    ] = False


class ReplicaLag(Record, kw_only=True):
    """How far the replica that is read from is behind: in seconds and in changes."""

    source: str
    lag_seconds: float | None
    changes_behind: Count | None = field(name="behind")


class RefusedRates(Record, kw_only=True):
    """Currencies of a feed whose current rates do not count, and why."""

    code: Annotated[str, words("contradicted", "leap", "newcomer", "median")]
    detail: str
    currencies: tuple[str, ...]


class RatesFeed(Record, kw_only=True):
    """A feed of exchange rates; where it is refused in some currencies, its last good rates of these."""

    source: str
    base: str
    quoted_at: Time | None = field(name="at")
    age: Count | None
    usable: bool = False
    code: str = ""
    error: str = ""
    left_out: tuple[str, ...] = ()
    refused: tuple[RefusedRates, ...] = ()


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


class FailedItem(Record, kw_only=True):
    """A listing, row or host that is left out: the failed work, and the kind of exception."""

    id: str
    reason: str


class FailedSummary(Record, kw_only=True):
    """Listings, rows and hosts that this process leaves out because it raised an exception: how many, and the first
    twenty. Each is tried again when it changes, or after an hour."""

    count: Count
    first: tuple[FailedItem, ...]


class RegistryStatus(Record, kw_only=True):
    """Chains, counts and versions of an overlay."""

    version: str
    chains: tuple[ChainSummary, ...]
    degraded: Degraded = ()
    failed: FailedSummary | None = None
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
    degraded: Degraded = ()
