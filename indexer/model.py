"""The records shared by the indexer's rooms: blocks, the events that hang from them, and anchors of pointers.
Immutable."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from indexer.spill import Spill, SpilledPairs
from parsers.bitcoin.tx import Outpoint
from parsers.bitcoin.witness_commitment import CoinbaseProof
from parsers.cards import Kind
from parsers.pointers.locator import locate
from parsers.reasons import Reason

UNCONFIRMED = 2**31 - 1
"""The height of unconfirmed events: above every other."""

LATEST_TIME = 253_402_300_799
"""The last second of the year 9999, in seconds since 1970: a later time of a source is refused, as dates end there."""

RULES = 2
"""The number of the rules by which this program reads blocks, stored with a chain when its reading begins: raised with
every change of what registers. Chains that were read before there was a number have 1."""

EVM = "eip155:"
"""Beginnings of the CAIP-2 ids of networks whose chains are read as logs: each block twice."""

SCHEMA = "7"
"""The version of the tables of a database."""

LOGO_BYTES = 1_300
"""The largest size of a stored thumbnail of a logo, in bytes: 20 of them fit with a page of results and all it loads
into 100 kB. See `overlay.web.rendering`."""

PARTIAL = (
    "the source delivers a selection of transactions: whether any is missing cannot be known, so there is no state hash"
)
"""The note on a chain that is read from partial blocks."""

LATE = (
    "reading began above the height at which A2B can begin here: a registration made before is known once a card is "
    "inscribed on it again, so there is no state hash; a new database without `from` reads all"
)
"""The note on a chain without its first blocks."""

OUTDATED = (
    "the blocks were read by rules {rules} of the registry, and this program has rules {current}: what changed since "
    "is missing, so there is no state hash; `a2b index --again {chain}` reads them again"
)
"""The note on a chain that was read by the rules of another version."""


@dataclass(frozen=True, slots=True)
class BlockRef:
    """A block of a chain. `chain` is the configured name; hashes are in internal byte order; `time` is that of the
    header in seconds since 1970; `header` is the raw 80 bytes (longer on chains with longer headers)."""

    chain: str
    height: int
    hash: bytes
    prev: bytes
    time: int
    header: bytes


class EventKind(StrEnum):
    """The kinds of events. The values are those in the database and the API."""

    INSCRIBED = "inscribed"
    REINSCRIBED = "reinscribed"
    MOVED = "moved"
    MAP_ONLY = "map_only"
    INVALID = "invalid"
    FOREIGN_CONTENT = "foreign_content"
    BURNED = "burned"
    POINTED = "pointed"
    REJECTED = "rejected"
    UNDECIDED = "undecided"


class Status(StrEnum):
    """The status of a registration after an event."""

    LIVE = "live"
    BURNED = "burned"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationState:
    """A registration after an event. It is the whole current state, so the newest event alone answers queries.

    `outpoint`, `offset` (satoshis into that output) and `satoshis` (the output's value) give the location of its
    satoshi, None once burned to the fee. `card` is the SHA-256 of the winning revision's bytes, `winner` its outpoint,
    `updated_height` its height. `map` is merged from the registration on, keys in order of first appearance.
    """

    id: str
    kind: Kind
    status: Status
    outpoint: Outpoint | None
    offset: int
    satoshis: int
    owner: str | None
    map: dict[str, str]
    card: bytes
    winner: Outpoint
    updated_height: int
    created_height: int

    @classmethod
    def begun(
        cls, identity: str, kind: Kind, card: bytes, outpoint: Outpoint, height: int, *,
        offset: int = 0, satoshis: int = 0, owner: str | None = None, fields: dict[str, str] | None = None,
    ) -> RegistrationState:  # fmt: skip
        """A registration after its first event, at this outpoint."""
        return cls(
            id=identity, kind=kind, status=Status.LIVE, outpoint=outpoint, offset=offset, satoshis=satoshis,
            owner=owner, map=fields or {}, card=card, winner=outpoint, updated_height=height, created_height=height,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class PointerAnchor:
    """A pointer as published on chain (law 8). `id` is None when it is invalid; `digest` 32 bytes or None; `kind` is
    the kind of the expected card.

    An entry of an ERC-8004 registry (`form` is `erc8004`) has the id `eip155:<chain>:<registry>/<agentId>`, also when
    its URI is invalid, as its event records. Its card is fetched from `uri`. Only the registry writes under that id, so
    the newest anchor decides: one of kind `moved` repeats the URI for another owner, `burned` ends the entry. An entry
    with a file on chain is a registration with the same id; an event that also has a state is of an entry that
    had a file on chain before, and has one elsewhere now.
    """

    id: str | None
    domain: str
    digest: bytes | None
    uri: str | None
    form: str
    kind: Kind = Kind.AGENT

    @property
    def locator(self) -> str | None:
        """The name by which its card is fetched: the id (law 10); for a registry's entry the id that its URI has by the
        same law. None when it is invalid."""
        if self.form != "erc8004":
            return self.id
        parsed = locate(self.uri or "")
        return None if isinstance(parsed, Reason) else parsed.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One immutable fact. `position` orders the events of a block in spend order; `tx_index` counts from the coinbase's
    0. `outpoint` is the output that carries it or now holds the satoshi (None: the fee); `spent` the registration's
    outpoint before it. `card` is the SHA-256 of the inscribed bytes, also of invalid ones; `reasons` explain why it is
    not valid, or how it ended, the most important first. `state` is the registration after it, None without one
    (rejected, pointed)."""

    kind: EventKind
    position: int
    tx_index: int
    txid: bytes
    outpoint: Outpoint | None
    spent: Outpoint | None = None
    card: bytes | None = None
    valid: bool = True
    reasons: tuple[Reason, ...] = ()
    owner: str | None = None
    signer: str | None = None
    state: RegistrationState | None = None
    pointer: PointerAnchor | None = None


class Proof(NamedTuple):
    """Proof that a transaction is in a block: its raw bytes, and its merkle path in the binary form of BRC-74.

    `witness` is the merkle path of its wtxid (BIP 141) in the same form, up to the commitment in the block's coinbase;
    None on chains without envelopes in witnesses, in a block without a commitment, and where it was not stored.
    """

    raw: bytes
    bump: bytes
    witness: bytes | None = None


Proofs = dict[bytes, Proof] | SpilledPairs[bytes, Proof]
"""Proofs of transactions by txid."""


class BlockLogs(NamedTuple):
    """The logs of one contract in a block: how many, and the SHA-256 over their contents and positions."""

    total: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class BlockFacts:
    """The facts of one block: its events in order, the card bodies that they name by SHA-256, and the proofs of their
    transactions by txid, on disk where the block is large. `coinbase` proves the witnesses of these on chains with
    envelopes in witnesses. `parents` are earlier raw transactions by txid; their output values determined where a
    satoshi moved. `logs` is what a chain of logs read, to be compared when it is read a second time; `source` is the
    number of the source that delivered the block, in configured order from 1."""

    ref: BlockRef
    events: tuple[Event, ...] | Spill[Event]
    cards: dict[bytes, bytes] | SpilledPairs[bytes, bytes]
    proofs: Proofs = field(default_factory=dict)
    coinbase: CoinbaseProof | None = None
    parents: dict[bytes, bytes] = field(default_factory=dict)
    source: int = 1
    logs: BlockLogs | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """A pointer on chain. `position` orders the anchors of a chain, `time` is of its block (seconds since 1970);
    `seen_at` is when it was first seen (milliseconds since 1970), None where it cannot be fetched. `locator` is the one
    that is fetched for it (`PointerAnchor.locator`), None where there is none."""

    chain: str
    position: int
    height: int
    time: int
    txid: bytes
    outpoint: Outpoint | None
    locator: str | None
    digest: bytes | None
    seen_at: int | None
    kind: Kind = Kind.AGENT
    form: str = "raw32"
    valid: bool = True
    event: EventKind = EventKind.POINTED
    owner: str | None = None


class FetchFact(NamedTuple):
    """A locator served bytes with this SHA-256 in fetches begun from `first_at` to `last_at` (milliseconds since 1970),
    the last of them at `url`. `by_cid`: the CID that the locator is made of names these bytes."""

    sha256: bytes
    first_at: int
    last_at: int
    url: str = ""
    by_cid: bool = False


class Drift(NamedTuple):
    """The locator now serves something else (`sha256`), at the latest since `since` (milliseconds since 1970)."""

    sha256: bytes
    since: int


class PeerRecord(NamedTuple):
    """The address of a peer of a network: how often in succession its connection failed, until when it is not connected
    to (seconds since 1970), and whether it ever sent the headers that were requested."""

    address: str
    failures: int
    away_until: int
    is_good: bool
