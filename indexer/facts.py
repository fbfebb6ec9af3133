"""What the indexer remembers: blocks, and events that hang from them. Immutable."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from indexer.spill import Spill, SpilledPairs
from parsers.cards import Kind
from parsers.locator import locate
from parsers.reasons import Reason
from parsers.tx import Outpoint
from parsers.witness_commitment import Coinbase

UNCONFIRMED = 2**31 - 1
"""The height of what is in no block yet: above every other."""


@dataclass(frozen=True, slots=True)
class BlockRef:
    """A block of a chain. `chain` is the configured name; hashes are in internal byte order; `time` in seconds since
    1970 as the header says; `header` the raw 80 bytes (longer where a chain's are)."""

    chain: str
    height: int
    hash: bytes
    prev: bytes
    time: int
    header: bytes


class EventKind(StrEnum):
    """What happened. The same words stand in tables, in the API and in the tests."""

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
    """Where a registration stands after an event."""

    LIVE = "live"
    BURNED = "burned"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A registration after an event: all that "now" is, so that the newest event alone answers.

    `outpoint`, `offset` (satoshis into that output) and `satoshis` (the output's value) say where its satoshi is, None
    once burned to the fee. `card` is the SHA-256 of the winning revision's bytes, `winner` its outpoint,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PointerAnchor:
    """A pointer as it stands on chain (law 8). `id` is None when it is invalid; `digest` 32 bytes or None;
    `kind` is what the card should be.

    An entry of an ERC-8004 registry (`form` is `erc8004`) has as `id` the name of its place, whatever its URI is worth:
    `eip155:<chain>:<registry>/<agentId>`. Whether it is valid, its event says. Its card is fetched from `uri`. Only the
    registry writes under that name, so the newest of its anchors speaks for the entry: one of kind `moved` says the
    same URI for another owner, `burned` ends it. An entry whose file stands on chain is a registration by the same
    name; an event with a state as well is of one that carried its file before, and leads elsewhere since.
    """

    id: str | None
    domain: str
    digest: bytes | None
    uri: str | None
    form: str
    kind: Kind = Kind.AGENT

    @property
    def locator(self) -> str | None:
        """What its card is fetched by: the id (law 10); of a registry's entry, which is no address, the name that its
        URI has by the same law. None when it is invalid."""
        if self.form != "erc8004":
            return self.id
        found = locate(self.uri or "")
        return None if isinstance(found, Reason) else found.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One immutable fact. `position` orders the events of a block as they were spent; `tx_index` counts from the
    coinbase's 0. `outpoint` is the output that says it or now holds the satoshi (None: the fee); `spent` the
    registration's outpoint before it. `card` is the SHA-256 of the inscribed bytes, also of invalid ones; `reasons`
    say why it is not valid, or how it ended, the most telling first. `state` is the registration after it,
    None where there is none (rejected, pointed)."""

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
    state: State | None = None
    pointer: PointerAnchor | None = None


class Proof(NamedTuple):
    """That a transaction is in a block: its raw bytes, and its merkle path in the binary form of BRC-74.

    `witness` is the merkle path of its wtxid (BIP 141) in the same form, which leads to what the block's coinbase
    commits to; None where witnesses carry no envelopes, in a block that commits to none, and where it was not stored.
    """

    raw: bytes
    bump: bytes
    witness: bytes | None = None


Proofs = dict[bytes, Proof] | SpilledPairs[bytes, Proof]
"""Proofs of transactions by txid."""


@dataclass(frozen=True, slots=True)
class Reading:
    """All that one block had to say: its events in order, the card bodies they name by SHA-256, and the proofs of the
    transactions that said it, by txid. Of a large block they are not held in memory. `coinbase` proves the witnesses of
    these, on chains where they carry envelopes. `parents` are earlier transactions by txid, whose outputs' values
    decided where a satoshi went.
    """

    ref: BlockRef
    events: tuple[Event, ...] | Spill[Event]
    cards: dict[bytes, bytes] | SpilledPairs[bytes, bytes]
    proofs: Proofs = field(default_factory=dict)
    coinbase: Coinbase | None = None
    parents: dict[bytes, bytes] = field(default_factory=dict)
