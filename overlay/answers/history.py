"""The revisions of a listing, and its proof."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from overlay.answers.items import CardDrift, FaultNote, ItemChange
from overlay.answers.record import Count, Hex, OutpointText, Record, Time, Txid, text

Header = Annotated[str, text(pattern="^[0-9a-f]{160}$")]
Beef = Annotated[Hex, text("Transaction and path together (BRC-62, version 1), without any witness.")]
CaipChain = Annotated[str, text("The chain's CAIP-2 id.")]


class ListingRevision(Record, kw_only=True):
    """One revision: `valid` is whether it counts; `reasons` are why not, and `reason` is the first of them."""

    outpoint: OutpointText | None
    txid: Txid
    height: Count | None
    tx_index: Count | None = None
    kind: str
    card_sha256: Txid | None
    valid: bool
    reason: str = ""
    reasons: tuple[FaultNote, ...]
    owner: str | None
    signer: str | None = None
    spent: OutpointText | None = None
    block_hash: Txid | None = None
    timestamp: Time | None
    changes: Annotated[
        tuple[ItemChange, ...],
        Meta(description="Pay-to addresses, owner, URL, command, prices and skills that it changed."),
    ] = ()


class ListingHistory(Record, kw_only=True):
    """The revisions of a registration, the newest first; `drifts` is what its address served instead of the card listed
    at that time, the newest first."""

    id: str
    revisions: tuple[ListingRevision, ...]
    drifts: tuple[CardDrift, ...] = ()


class MinedWitness(Record, kw_only=True):
    """The proof that the transaction's witness was mined (BIP 141), on BTC and LTC, where envelopes are in witnesses.
    Absent for blocks that were read before this was stored."""

    coinbase: Annotated[Hex, text("The block's coinbase transaction, without its witness.")]
    coinbase_bump: Annotated[Hex, text("Its merkle path (BRC-74).")]
    reserved: Annotated[str, text("The 32 bytes in its witness, empty where it has none.", pattern="^([0-9a-f]{64})?$")]
    bump: Annotated[
        Hex | None,
        Meta(description="The merkle path of the wtxid, absent where the block commits to no witness."),
    ] = None


class ProofHop(Record, kw_only=True):
    """A transaction and the block that it was mined in."""

    txid: Txid
    raw_tx: Hex
    bump: Annotated[Hex, text("The merkle path, in the binary form of BRC-74.")]
    block_hash: Txid
    height: Count
    header: Annotated[Hex, text("The block's header of 80 bytes, longer where the chain's are.")]
    witness: MinedWitness | None = None


class CurrentHop(ProofHop, kw_only=True):
    """Where the satoshi is now: absent while that is the winning revision's outpoint."""

    outpoint: Annotated[OutpointText | None, Meta(description="Null once the satoshi is burned.")]
    beef: Beef


class ListingProof(ProofHop, kw_only=True):
    """The proof of a listing."""

    id: str
    chain: CaipChain
    outpoint: Annotated[OutpointText, text("Where the winning revision is inscribed.")]
    beef: Beef
    current: CurrentHop | None = None
    before: Annotated[
        tuple[ProofHop, ...], Meta(description="The transactions from the registration to this revision.")
    ] = ()
    after: Annotated[
        tuple[ProofHop, ...],
        Meta(description="The later transactions that moved the satoshi, without a newer revision."),
    ] = ()
    parents: Annotated[
        tuple[Hex, ...],
        Meta(
            description="Stored transactions with outputs that these spend in inputs before the satoshi's: their "
            "values determine where it moved. They need no merkle path: the spending transactions commit to their ids."
        ),
    ] = ()
    owner_checked_at: Time | None = None
    first_header: Count | None = field(name="from", default=None)
    headers: Annotated[tuple[Header, ...], Meta(description="Consecutive headers from height `from` on.")] = ()


class HeaderRun(Record, kw_only=True):
    """Consecutive headers of a chain from height `from` on."""

    chain: CaipChain
    first_header: Count = field(name="from")
    headers: tuple[Header, ...]
