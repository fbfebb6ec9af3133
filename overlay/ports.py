"""What the HTTP side asks of the rest of the program: the store's reading half, and `Services`, all of it together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from indexer.facts import Event, State
from indexer.settings import CHANGE_BLOCKS, Quota
from overlay.counters import Counters
from overlay.exchange import Exchange
from overlay.index import SearchIndex
from overlay.logos import NoLogos
from overlay.news import News
from parsers.reasons import Reason
from parsers.tx import Outpoint

if TYPE_CHECKING:
    from indexer.pointers import Drift
    from indexer.pointing import Pointing
    from indexer.progress import Progress
    from indexer.store.badges import Badge
    from indexer.store.rechecks import Checked
    from indexer.store.requests import Request
    from overlay.proofs import Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """An unconfirmed revision that would change a confirmed listing: where it stands and the summary it would show;
    for a config, those of its `servers` by key."""

    outpoint: str | None
    summary: str
    servers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviousCard:
    """A card that was shown before the current one: its bytes, the owner then, and the height (of the listing's chain)
    from which another card was shown."""

    body: bytes
    owner: str | None
    replaced_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The newest word about one registration.

    `chain` is the configured name, `caip2` its CAIP-2 id. `card_body` holds the exact bytes of the winning revision.
    Times are of the blocks that `state` calls updated and created, in seconds since 1970; `created_time` is None while
    the registration is unconfirmed, and then its heights mean nothing. `signer` is the address of the winner's verified
    SIGMA signature. `owner_checked` is when the chain's source last said that the outpoint is unspent, in seconds since
    1970, where moves are found by asking. `pointing` is what points at the card where it was fetched, and `badge` what
    the host of an inscribed card's url says of the registration (law 11), None where it was never to be asked.
    `undecided` says why it is not known where it is, or whose card this is (law 3), None where that is known.
    `previous` are the cards shown before, oldest first. `headers_unproved`: headers of its chain were taken without
    their proof of work.
    """

    state: State
    chain: str
    caip2: str
    card_body: bytes | None
    updated_time: int | None
    created_time: int | None
    signer: str | None = None
    undecided: Reason | None = None
    pending: Pending | None = None
    owner_checked: int | None = None
    pointing: Pointing | None = None
    badge: Badge | None = None
    previous: tuple[PreviousCard, ...] = ()
    headers_unproved: bool = False


@dataclass(frozen=True, slots=True)
class Revision:
    """One event of a registration, or a pointer, and the block it hangs from; height, hash (internal order) and time
    are None while it is unconfirmed."""

    event: Event
    height: int | None
    hash: bytes | None
    time: int | None


class Change(NamedTuple):
    """A row of the change feed: `op` is upsert, remove, revert or reset."""

    seq: int
    op: str
    id: str | None
    height: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows in order of `seq`, the epoch they belong to, and the newest sequence number there is: as far as is known
    where it may be behind, as a replica may."""

    epoch: str
    rows: tuple[Change, ...]
    newest_seq: int
    may_be_behind: bool = False


class Store(Protocol):
    """The reading half of the store: synchronous and fast, safe to call from a worker thread."""

    @property
    def is_here(self) -> bool:
        """Whether it is read in this process, and not asked over a network."""
        ...

    def listing(self, id: str, /) -> Listing | None:  # noqa: A002
        """The registration of that plain id (no `#key`), None when nobody knows it."""
        ...

    def pointing(self, id: str, /) -> Pointing | None:  # noqa: A002
        """What points at an id, None when nothing does."""
        ...

    def history(self, registration_id: str, /) -> list[Revision]:
        """Every revision, newest first; empty when nobody knows the id."""
        ...

    def drifts(self, id: str, /) -> Sequence[Drift]:  # noqa: A002
        """What was served at the address of a pointer instead of the card that it lists, the newest first."""
        ...

    def card(self, sha256: bytes, /) -> bytes | None:
        """The bytes with that SHA-256, None when they were never kept."""
        ...

    def evidence(self, registration_id: str, /) -> Evidence:
        """What proves a registration's winning revision. Raises `overlay.proofs.NoProofError`."""
        ...

    def proved(self, txids: Iterable[str], /) -> set[str]:
        """Those of these txids, as they are shown, of which a proof is kept."""
        ...

    def headers(self, chain: str, first: int, count: int, /) -> list[bytes]:
        """At most `count` consecutive headers (80 bytes each) of a chain, by its configured name, from a height on."""
        ...

    def changes(self, since: int, limit: int, /) -> Changes:
        """At most `limit` rows with a sequence number above `since`."""
        ...

    def surely_changes(self, since: int, limit: int, /) -> Changes:
        """The same from where nothing is behind; asked only where `changes` may be."""
        ...


class Asked(Protocol):
    """Transactions that publishers asked for; see `indexer.store.requests`. Synchronous, called in threads."""

    def ask(self, txid: bytes, client: str, now: int, /) -> Request:
        """The request for `txid`, stored when this returns. Raises TooManyRequestsError."""
        ...

    def counts(self) -> dict[str, int]:
        """How many requests are in each state."""
        ...


class Logos(Protocol):
    """Small pictures of listings' logos; see `overlay.logos`. `stamp` answers from memory, the others read."""

    def shown(self, urls: Iterable[str], /) -> Mapping[str, str]:
        """The SHA-256 (hex) of the small picture of each of these logos that there is one of."""
        ...

    def picture(self, digest: str, /) -> bytes | None:
        """The small picture (WebP) with this SHA-256 (hex)."""
        ...

    def stamp(self) -> int:
        """Another number when there are other pictures."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What is told of a process to who watches it.

    `status` answers CONTRACT's Status; it may take its time and is called in a thread. `ready` is None when all is
    caught up with, else a sentence saying what is missing. `version` is the program's. `requests` is what publishers
    ask to be fetched. `refused` counts the blocks refused, by chain, `ingested` tells what was read of each, and
    `fetched` counts fetches by what they came to. With `log_requests` each answer is worth a line in the log.
    """

    status: Callable[[], dict[str, Any]]
    ready: Callable[[], str | None]
    version: str
    requests: Asked
    refused: Callable[[], Mapping[str, int]] = dict
    ingested: Callable[[], Mapping[str, Progress]] = dict
    fetched: Callable[[], Mapping[str, int]] = dict
    counters: Counters = field(default_factory=Counters)
    log_requests: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Services(Watched):
    """Everything the application is given, built once by the command that starts it, beside what is told of it.

    `diagnose` answers CONTRACT's Diagnosis for a txid or outpoint as text or for raw transaction bytes (raising
    ParseError for bytes that are none); it may take its time and is called in a thread. `chains` maps configured names
    to CAIP-2 ids, in configured order, and `heights` names to the height indexed; both are called for every search and
    must answer from memory.

    `asked` is called after a publisher asked for something. `recheck` has all that is fetched for a listing's plain id
    fetched again, and is told the time in milliseconds since 1970. `news` wakes who waits for changes; where nobody
    tells them, they are looked for. `limits` are the rate limits by kind of route and `trusted_proxies` the networks
    whose X-Forwarded-For is believed.
    `check_owner` asks the source of a chain whether an outpoint is unspent: True, False, or None where it cannot tell;
    it is None where no chain's moves are found by asking. `exchange` holds the exchange rates, `logos` the
    pictures. A change of price is a warning for `change_blocks` blocks.
    """

    engine: SearchIndex
    store: Store
    diagnose: Callable[[str | bytes], dict[str, Any]]
    chains: Callable[[], Mapping[str, str]]
    heights: Callable[[], Mapping[str, int]]
    asked: Callable[[], None] = lambda: None
    recheck: Callable[[str, int], Sequence[Checked]] = lambda *_: ()
    change_blocks: int = CHANGE_BLOCKS
    news: News = field(default_factory=News)
    exchange: Exchange = field(default_factory=Exchange)
    logos: Logos = field(default_factory=NoLogos)
    limits: Mapping[str, Quota | None] = field(default_factory=dict)
    trusted_proxies: tuple[str, ...] = ()
    check_owner: Callable[[str, Outpoint], Awaitable[bool | None]] | None = None
