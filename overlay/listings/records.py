"""Records read from the store: a registration, its revisions, and the rows of the change feed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from indexer.headers.networks import by_caip2
from indexer.model import Event, RegistrationState
from overlay.listings.system_facts import Facts, no_facts
from parsers.bitcoin import address
from parsers.bitcoin.script import p2pkh
from parsers.reasons import Reason

if TYPE_CHECKING:
    from indexer.resolution.pointer_service import PointerListing
    from indexer.store.badges import DomainBadge
    from indexer.store.card_signatures import StoredSignature
    from indexer.store.observed_tools import ObservedTools
    from parsers.cards import AgentCard, McpServer
    from parsers.inscriptions.ordlock import Sale


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRevision:
    """An unconfirmed revision that would change a confirmed registration: where the satoshi is and who owns it then,
    whether it is burned by it, its MAP, and the agent or the servers of its card, None where that is not stored any
    more."""

    outpoint: str | None
    owner: str | None
    is_burned: bool = False
    map: Mapping[str, str] = field(default_factory=dict)
    cards: Sequence[AgentCard | McpServer] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviousCard:
    """A card that was shown before the current one: its bytes, the owner then, and the height (of the listing's chain)
    from which another card was shown."""

    body: bytes
    owner: str | None
    replaced_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The newest state of one registration, or of an id that pointers list.

    `chain` is the configured name, `caip2` its CAIP-2 id. `card_body` holds the exact bytes of the winning revision.
    Times are of the blocks that `state` calls updated and created, in seconds since 1970; `created_time` is None while
    the registration is unconfirmed, and then its heights have no meaning. `signer` is the address of the winner's
    verified SIGMA signature. `owner_checked` is when the chain's source last reported the outpoint as unspent, in
    seconds since 1970, where moves are found by queries. `pointers` are the pointers to the card where it was fetched,
    and `badge` is what the host of an inscribed card's url declares about the registration (law 11), None where it was
    never checked. `undecided` is the reason why its outpoint, or the owner of its card, is unknown (law 3), else None.
    `previous` are the cards shown before, oldest first. `signature` is the outcome of checking the card's own
    signatures, None for a card without; `facts` are those that systems add. `headers_unproved`: headers of its chain
    were accepted without their proof of work. `notice_time` is of the first block since which its MAP has said what it
    says, that it is deprecated or not any more, in seconds since 1970; None while that is unconfirmed, and without it.
    `sale` is what its output offers where that is a sale (OrdLock). `observed` are the tools of the endpoints that its
    card names, by URL: facts about these, for the current state alone.
    """

    state: RegistrationState
    chain: str
    caip2: str
    card_body: bytes | None = None
    updated_time: int | None
    created_time: int | None
    signer: str | None = None
    undecided: Reason | None = None
    pending: PendingRevision | None = None
    owner_checked: int | None = None
    pointers: PointerListing | None = None
    badge: DomainBadge | None = None
    previous: tuple[PreviousCard, ...] = ()
    headers_unproved: bool = False
    notice_time: int | None = None
    signature: StoredSignature | None = None
    sale: Sale | None = None
    observed: Mapping[str, ObservedTools] = field(default_factory=dict)
    facts: Facts = field(default_factory=no_facts)

    @property
    def owner(self) -> str | None:
        """The address that holds its satoshi, or that may cancel its sale."""
        return self.state.owner if self.sale is None else self.address(p2pkh(self.sale.seller))

    def address(self, script: bytes) -> str | None:
        """The address of a locking script on its chain, None for a script without one."""
        network = by_caip2(self.caip2)
        return None if network is None else address.owner(script, network.coin, network.kind)


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One event of a registration, or a pointer, and its block; height, hash (internal order) and time are None while
    it is unconfirmed."""

    event: Event
    height: int | None
    hash: bytes | None
    time: int | None


class FeedChange(NamedTuple):
    """A row of the change feed: `op` is upsert, remove, revert or reset."""

    seq: int
    op: str
    id: str | None
    height: int | None
    reason: str
    epoch: str


@dataclass(frozen=True, slots=True)
class FeedPage:
    """Rows in order of `seq`, and the newest sequence number with its epoch. `continues`: the position before them is
    of this database. `may_be_behind`: a replica answered; its newest row may be older than the primary's."""

    epoch: str
    rows: tuple[FeedChange, ...]
    newest_seq: int
    continues: bool = True
    may_be_behind: bool = False
