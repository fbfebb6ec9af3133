"""The lines of a snapshot: one JSON object each, in one canonical form, so that the same facts give the same bytes.

{"format": "a2b-snapshot/4", "chains": [{"name", "caip2", "first", "height", "hash", "stateHash"?, "pointers"?,
                                         "partial"?, "rules"?}]}   1 without; /3 has no pointers: {"count", "hash"}
{"card": body}                                     sorted by SHA-256
{"parent": raw}                                    of looked-up values, sorted by txid in internal byte order
{"headers": {"chain", "first", "raw"}}             80 bytes each, of the blocks before the chain's first
{"block": {"chain", "height", "hash", "prev", "time", "header"?}}
{"coinbase": {"raw", "reserved", "bump"}}          of the block above, where witnesses carry envelopes (BIP 141)
{"proof": {"txid", "raw", "bump", "witness"?}}     of transactions in the block above, sorted by txid
{"event": {…}}                                     of the block above, in order
{"end": {"cards", "blocks", "events", "proofs"}}

Hashes are hex in display order (digests of cards as they are), bodies, headers and proofs base64. Members without a
value are left out.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import structs

from indexer.model import (
    LATEST_TIME,
    UNCONFIRMED,
    BlockRef,
    Event,
    EventKind,
    PointerAnchor,
    Proof,
    RegistrationState,
    Status,
)
from indexer.store.event_codec import EVENT, POINTER, STATE
from indexer.store.schema import POSITION_BITS
from indexer.store.state_hashes import PointersHash
from parsers.bitcoin.tx import Outpoint
from parsers.bitcoin.witness_commitment import CoinbaseProof
from parsers.cards import Kind

FORMAT, FORMER = "a2b-snapshot/4", "a2b-snapshot/3"
PROOF = b'{"proof":'
"""How a line of a transaction begins, in the one canonical form."""

Hash = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}\Z")]
Height = Annotated[int, msgspec.Meta(ge=0, lt=UNCONFIRMED)]
Natural = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Index = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_Vout = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
_Position = Annotated[int, msgspec.Meta(ge=0, lt=2**POSITION_BITS)]
_Outpoint = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}_(0|[1-9][0-9]{0,9})\Z")]
_Header = Annotated[str, msgspec.Meta(pattern=r"^(|[0-9a-f]{160})\Z")]


class SnapshotError(Exception):
    """A file is not a snapshot, or holds a false statement; the message names it and its position."""


class _LineObject(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True
):
    """An object of a line: every member is checked by type and range, and unknown ones are refused."""


class PointersLine(_LineObject, frozen=True, kw_only=True):
    """The number of valid pointers of a chain, and the hash over them (law 18)."""

    count: Natural
    hash: Hash


def pointers_line(pointers: PointersHash | None) -> PointersLine | None:
    """The hash over pointers as a member of the first line."""
    return PointersLine(count=pointers.total, hash=pointers.digest) if pointers is not None else None


class ChainHead(_LineObject, frozen=True, kw_only=True):
    """The statement of a snapshot about one chain: the range of heights, the newest block, the state hash there and
    that of its pointers; `partial` when only selected transactions of its blocks were read, so there is no state hash;
    `rules` is the number of the rules by which they were read."""

    name: Name
    caip2: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9-]{3,8}:[A-Za-z0-9_-]{1,64}\Z")]
    first: Height
    height: Height
    hash: Hash
    state_hash: str | None = None
    pointers: PointersLine | None = None
    partial: bool = False
    rules: Annotated[int, msgspec.Meta(ge=1)] = 1


class Headers(_LineObject, frozen=True, kw_only=True):
    """Headers of 80 bytes, joined, from height `first` on."""

    chain: Name
    first: Height
    raw: bytes


class _BlockLine(_LineObject, frozen=True, kw_only=True):
    chain: Name
    height: Height
    hash: Hash
    prev: Hash
    time: Annotated[int, msgspec.Meta(ge=0, le=LATEST_TIME)]
    header: _Header = ""


class _ProofLine(_LineObject, frozen=True, kw_only=True):
    txid: Hash
    raw: bytes
    bump: bytes
    witness: bytes | None = None


class _Coinbase(_LineObject, frozen=True, kw_only=True):
    raw: bytes
    reserved: bytes
    bump: bytes


class _StateLine(_LineObject, frozen=True, kw_only=True):
    id: str
    kind: Kind
    status: Status
    outpoint: _Outpoint | None = None
    offset: Natural = 0
    satoshis: Natural = 0
    owner: str | None = None
    map: tuple[tuple[str, str], ...] = ()
    card: Hash
    winner: _Outpoint
    updated_height: Height
    created_height: Height


class _PointerLine(_LineObject, frozen=True, kw_only=True):
    id: str | None = None
    domain: str
    digest: Hash | None = None
    uri: str | None = None
    form: str
    kind: Kind = Kind.AGENT


class _EventLine(_LineObject, frozen=True, kw_only=True):
    kind: EventKind
    position: _Position
    tx_index: _Index
    txid: Hash
    vout: _Vout | None = None
    spent: _Outpoint | None = None
    card: Hash | None = None
    valid: bool
    reasons: tuple[tuple[str, str, str], ...] = ()
    owner: str | None = None
    signer: str | None = None
    state: _StateLine | None = None
    pointer: _PointerLine | None = None


class Counts(_LineObject, frozen=True, kw_only=True):
    """The numbers of cards, blocks, events and proofs in a snapshot."""

    cards: Natural
    blocks: Natural
    events: Natural
    proofs: Natural


class _Line(_LineObject, frozen=True, kw_only=True):
    format: str | None = None
    chains: tuple[ChainHead, ...] | None = None
    card: bytes | None = None
    parent: bytes | None = None
    headers: Headers | None = None
    block: _BlockLine | None = None
    coinbase: _Coinbase | None = None
    proof: _ProofLine | None = None
    event: _EventLine | None = None
    end: Counts | None = None


_DECODER = msgspec.json.Decoder(_Line)
_ENCODER = msgspec.json.Encoder()


def _encode(**member: Any) -> bytes:
    return _ENCODER.encode(_Line(**member)) + b"\n"


def header_line(chains: tuple[ChainHead, ...]) -> bytes:
    """The first line."""
    return _encode(format=FORMAT, chains=chains)


def card_line(body: bytes) -> bytes:
    """A card as a line."""
    return _encode(card=body)


def parent_line(raw: bytes) -> bytes:
    """A transaction with looked-up output values, as a line."""
    return _encode(parent=raw)


def headers_line(chain: str, first: int, raw: bytes) -> bytes:
    """Headers of 80 bytes, joined, as a line."""
    return _encode(headers=Headers(chain=chain, first=first, raw=raw))


def block_line(ref: BlockRef) -> bytes:
    """A block as a line."""
    block = _BlockLine(
        chain=ref.chain, height=ref.height, hash=ref.hash[::-1].hex(), prev=ref.prev[::-1].hex(),
        time=ref.time, header=ref.header.hex(),
    )  # fmt: skip
    return _encode(block=block)


def coinbase_line(coinbase: CoinbaseProof) -> bytes:
    """The coinbase that proves the witnesses of a block as a line."""
    return _encode(coinbase=_Coinbase(**coinbase._asdict()))


def proof_line(txid: bytes, proof: Proof) -> bytes:
    """A transaction (txid in internal byte order) and its merkle paths as a line."""
    return _encode(proof=_ProofLine(txid=txid[::-1].hex(), raw=proof.raw, bump=proof.bump, witness=proof.witness))


def event_line(event: Event) -> bytes:
    """An event as a line."""
    line = _EventLine(
        **EVENT.line(event),
        position=event.position,
        vout=event.outpoint.vout if event.outpoint else None,
        state=_StateLine(**STATE.line(event.state)) if event.state else None,
        pointer=_PointerLine(**POINTER.line(event.pointer)) if event.pointer else None,
    )
    return _encode(event=line)


def end_line(counts: Counts) -> bytes:
    """The last line."""
    return _encode(end=counts)


def parse(line: bytes) -> tuple[str, Any]:
    """A line as its one member (`chains` for the first) and its value: a tuple of ChainHead, bytes, Headers, BlockRef,
    CoinbaseProof, a txid with its Proof, Event or Counts.

    Raises SnapshotError for any other form than `*_line` gives.
    """
    try:
        record = _DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise SnapshotError(f"this is not a line of a snapshot ({error}): {line[:60]!a}") from None
    if record.format not in (None, FORMAT, FORMER):
        raise SnapshotError(f"the format is {record.format[:60]!a}, and this version reads {FORMAT} and {FORMER}")
    members = [name for name in record.__struct_fields__ if getattr(record, name) is not None]
    if members == ["format", "chains"]:
        del members[0]
    elif len(members) != 1 or members[0] in ("format", "chains"):
        raise SnapshotError(f"this is not a line of a snapshot: {line[:60]!a}")
    encoded = _ENCODER.encode(record)
    if len(line) != len(encoded) + 1 or not (line.startswith(encoded) and line.endswith(b"\n")):
        raise SnapshotError(f"this line is not in canonical form: {line[:60]!a}")
    value = getattr(record, members[0])
    convert = _CONVERTERS.get(members[0])
    try:
        return members[0], convert(value) if convert else value
    except ValueError as error:
        raise SnapshotError(str(error)) from None


def _reversed(text: str) -> bytes:
    return bytes.fromhex(text)[::-1]


def _block(block: _BlockLine) -> BlockRef:
    header = bytes.fromhex(block.header)
    return BlockRef(block.chain, block.height, _reversed(block.hash), _reversed(block.prev), block.time, header)


def _proof(proof: _ProofLine) -> tuple[bytes, Proof]:
    return _reversed(proof.txid), Proof(proof.raw, proof.bump, proof.witness)


def _coinbase(coinbase: _Coinbase) -> CoinbaseProof:
    return CoinbaseProof(coinbase.raw, coinbase.reserved, coinbase.bump)


def _event(line: _EventLine) -> Event:
    members = EVENT.of_line(structs.asdict(line))
    return Event(
        **members,
        position=line.position,
        outpoint=Outpoint(members["txid"], line.vout) if line.vout is not None else None,
        state=RegistrationState(**STATE.of_line(structs.asdict(line.state))) if line.state else None,
        pointer=PointerAnchor(**POINTER.of_line(structs.asdict(line.pointer))) if line.pointer else None,
    )


_CONVERTERS: dict[str, Any] = {"block": _block, "coinbase": _coinbase, "proof": _proof, "event": _event}
