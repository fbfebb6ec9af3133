"""The progress of a follower, for status, logs and progress bars; and its reports to other processes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from time import monotonic

from indexer.errors import FailedBlockError, SourceError, SourceUnavailableError
from indexer.failures import is_of_machine
from indexer.masking import masked
from indexer.store import DATABASE_ERRORS
from indexer.store.followers import FollowerReport

SILENT_SECONDS = 30.0

LONGEST_ERROR, GREATEST = 1_000, (1 << 63) - 1
"""The bounds of a source's report: characters of an error, and the greatest number of a column."""


@dataclass(slots=True)
class SyncProgress:
    """The progress of one follower.

    state: starting, catching-up, following, unreachable or stopped; `error` is the reason for the last two, and `fault`
    what failed: source, database or program. height, hash: the newest stored block (hash in internal byte order), and
    last_block_at when it was stored (seconds since 1970, None where that is not known). seen_at: when the database took
    a sign of life, None before the first; `signed`: the same by the monotonic clock, at first when following began.
    tip: the source's height. blocks, bytes, events: read since the start; event_counts: the events by kind. mempool:
    transactions in the source's mempool, None where it lists none. read_twice: the height up to which all blocks were
    read a second time, None on a chain that is read once. reorgs, refused: reorganisations, and blocks refused
    as invalid. checked: the header rules that are checked, empty until the source is open. note: a warning of the
    source; for a source of partial blocks, its meaning. caught: answers of this source, or ranges of its files, that
    were refused as impossible. disagreement: how several sources disagree. peers, peer_networks: the peers that are
    connected and the networks that they are in, None for a source that is not read from peers.
    """

    name: str
    caip2: str = ""
    state: str = "starting"
    height: int | None = None
    hash: bytes = b""
    tip: int | None = None
    mempool: int | None = None
    read_twice: int | None = None
    blocks: int = 0
    bytes: int = 0
    events: int = 0
    event_counts: Counter[str] = field(default_factory=Counter)
    reorgs: int = 0
    refused: int = 0
    error: str = ""
    fault: str = ""
    last_block_at: int | None = None
    seen_at: int | None = None
    signed: float = field(default_factory=monotonic)
    checked: str = ""
    note: str = ""
    caught: int = 0
    disagreement: str = ""
    peers: int | None = None
    peer_networks: int | None = None

    def fail(self, error: Exception) -> str:
        """Note what ended the work: it is tried again, unless an operator must act, or the disk or the memory fails.
        Returns the state."""
        is_database, is_source = isinstance(error, DATABASE_ERRORS), isinstance(error, SourceError)
        self.fault = "database" if is_database else "source" if is_source else "program"
        is_final = is_of_machine(error) and not is_database
        if is_source:
            is_final = not isinstance(error, SourceUnavailableError)
        self.state = "stopped" if is_final else "unreachable"
        is_explained = is_database or isinstance(error, (SourceError, FailedBlockError))
        self.error = str(error) if is_explained else f"{type(error).__name__}: {error}"
        return self.state

    def follow(self) -> None:
        """Note that the store is at the source's tip."""
        self.state, self.error, self.fault = "following", "", ""

    @property
    def is_catching_up(self) -> bool:
        """Whether the chain is about to be read, or is being read up to its tip."""
        return self.state in ("starting", "catching-up")

    @property
    def lag(self) -> int | None:
        """The blocks that the source has and the store lacks; None while the source's height is not known."""
        if self.tip is None:
            return None
        return max(0, self.tip - (-1 if self.height is None else self.height))

    def report(self, now: int) -> FollowerReport:
        """The report for other processes, at `now` (seconds since 1970)."""
        members = {name: getattr(self, name) for name in _REPORTED}
        for name in ("height", "tip", "mempool", "caught"):
            members[name] = members[name] and min(members[name], GREATEST)
        for name in ("error", "note", "disagreement"):
            text = masked(members[name][:LONGEST_ERROR]).replace("\0", "\ufffd")
            members[name] = text.encode(errors="replace").decode()
        return FollowerReport(chain=self.name, seen_at=now, **members)

    def take(self, report: FollowerReport) -> None:
        """Take over the report of a follower in another process."""
        for name in _REPORTED:
            setattr(self, name, getattr(report, name))
        self.seen_at = report.seen_at

    def is_silent(self) -> bool:
        """Whether there was no sign of life for SILENT_SECONDS, of a chain that is followed."""
        return self.state != "stored" and monotonic() - self.signed > SILENT_SECONDS


_REPORTED = {member.name for member in fields(FollowerReport)} - {"chain", "seen_at"}
