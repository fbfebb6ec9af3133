"""The answers of a server about a listing and its proof, as records: parsed, not yet verified."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from indexer.headers.networks import Network, by_caip2
from indexer.resolution.pointer_service import is_outpoint
from parsers.bitcoin import tx
from parsers.bitcoin.tx import Outpoint, Transaction
from parsers.bitcoin.witness_commitment import CoinbaseProof
from parsers.cards import Kind, split_id
from parsers.errors import ParseError
from parsers.json_records import ABSENT, Absent, JsonObject, convert, sized, unhex, unreadable, whole

MAX_TRANSACTIONS = 2_000
HEADER = 80

HOP_MEMBERS = frozenset(("txid", "rawTx", "bump", "blockHash", "height", "header", "witness"))
LOCATED_MEMBERS = HOP_MEMBERS | {"outpoint", "beef"}
PROOF_MEMBERS = LOCATED_MEMBERS | {"id", "chain", "before", "after", "parents", "current", "ownerCheckedAt"}


class NotProvedError(Exception):
    """Something is not proved; the message names what is missing or wrong."""


class NotCheckedError(Exception):
    """Something was not checked; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class ServedWitness:
    """The served proof of a transaction's witness (BIP 141): all bytes of the transaction, the coinbase of its
    block, and the merkle path of its wtxid (BRC-74), None in a block that commits to no witness."""

    raw: bytes
    coinbase: CoinbaseProof
    branch: bytes | None


@dataclass(frozen=True, slots=True)
class MinedBlock:
    """A merkle path (BRC-74, as served) and its block: the hash in internal byte order, and the header as served, which
    is longer than 80 bytes on merge-mined chains. `witness` is None where the server gives none."""

    path: bytes
    hash: bytes
    height: int
    header: bytes
    witness: ServedWitness | None = None


@dataclass(frozen=True, slots=True)
class MinedTransaction:
    """A transaction, the txid that the server gives it (hex in display order), its bytes without witness, and the block
    that it is in, None where the server names none."""

    tx: Transaction
    txid: str
    bare: bytes
    block: MinedBlock | None


@dataclass(frozen=True, slots=True)
class CurrentLocation:
    """The current location of the satoshi by the server's answer: the transaction, its BEEF (BRC-62), and the
    outpoint, None once burned."""

    mined: MinedTransaction
    beef: bytes
    outpoint: Outpoint | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAnswer:
    """A listing and its proof as a server answered.

    `tx` is the winning revision, inscribed at `outpoint`, with `bare` its bytes without witness, `block` its block and
    `beef` both as BRC-62. `origin` is the outpoint in the id, None for a pointer's listing. `before` and `after` are
    the other transactions of the satoshi, None where the server gives none, and `parents` others that they spend;
    `current` is the last of `after`, and `location` is the satoshi's location by the item, None once burned.
    """

    id: str
    item: Mapping[str, Any]
    proof: Mapping[str, Any]
    network: Network
    kind: Kind
    card: bytes
    origin: Outpoint | None
    outpoint: Outpoint
    location: Outpoint | None
    tx: Transaction
    bare: bytes
    block: MinedBlock
    beef: bytes
    before: tuple[MinedTransaction, ...] | None
    after: tuple[MinedTransaction, ...] | None
    parents: tuple[Transaction, ...] = ()
    current: CurrentLocation | None = None

    @property
    def registration(self) -> str:
        """The id without the key of one of several servers."""
        return split_id(self.id)[0]

    @property
    def number(self) -> int | None:
        """The number of the inscription that the id names beside an outpoint (law 3a), None without one."""
        number = self.registration.partition("#")[2]
        return int(number) if number else None

    @property
    def is_in_witness(self) -> bool:
        """Whether the envelopes of the satoshi are in witnesses."""
        return self.origin is not None and self.network.rules.envelope == "witness"

    @property
    def hops(self) -> tuple[MinedTransaction, ...]:
        """The transactions of the satoshi besides the winner."""
        return (*(self.before or ()), *(self.after or ()))


class _WitnessJson(JsonObject):
    coinbase: str
    reserved: str
    coinbase_bump: str
    bump: str | Absent = ABSENT


class _HopJson(JsonObject, kw_only=True):
    raw_tx: str
    txid: str
    # an unconfirmed transaction has none of these
    bump: str | None = None
    block_hash: str | None = None
    height: Annotated[int, whole(0, (1 << 32) - 1)] | None = None
    header: str | None = None
    witness: _WitnessJson | None = None


class _LocatedJson(_HopJson, kw_only=True):
    outpoint: str | None
    beef: str


_Hops = Annotated[list[_HopJson], sized(MAX_TRANSACTIONS)]


class _ProofJson(_LocatedJson, kw_only=True):
    chain: str
    id: str
    outpoint: str
    before: _Hops | None = None
    after: _Hops | None = None
    parents: Annotated[list[str], sized(MAX_TRANSACTIONS)] | None = None
    current: _LocatedJson | Absent = ABSENT


class _LocationJson(JsonObject):
    outpoint: str | None = None


class _ProofHeadersJson(JsonObject):
    headers: list[str]


def read(id_: str, item: Mapping[str, Any], proof: Mapping[str, Any], card: bytes) -> ServerAnswer:
    """The answer of a server about listing `id_`. Raises NotProvedError naming what cannot be read."""
    try:
        return _read(id_, item, proof, card)
    except ParseError as error:
        raise NotProvedError(str(error)) from None


def headers(answer: Any) -> list[bytes]:
    """The headers in an answer of a server. Raises NotProvedError."""
    try:
        return [unhex(header, "headers", HEADER) for header in convert(answer, _ProofHeadersJson).headers]
    except ParseError as error:
        raise NotProvedError(str(error)) from None


def _read(id_: str, item: Mapping[str, Any], proof: Mapping[str, Any], card: bytes) -> ServerAnswer:
    served = convert(proof, _ProofJson)
    network = by_caip2(served.chain)
    if network is None:
        raise NotProvedError(f"it is on {served.chain[:100]!a}, a chain that this program does not support")
    if item.get("type") not in tuple(Kind):
        raise NotProvedError(f"the answer calls it {str(item.get('type'))[:60]!a}, and not an agent or a tool")
    registration, _ = split_id(id_)
    if served.id != registration:
        raise NotProvedError(f"the proof is of {served.id[:100]!a}, and not of {registration[:100]!a}")
    origin = _outpoint(registration.partition("#")[0], "id") if is_outpoint(registration) else None
    segwit = network.rules.segwit
    winner = _mined(served, segwit)
    if winner.block is None:
        raise unreadable("bump")
    if served.parents is None and served.before is not None:
        raise unreadable("parents")
    return ServerAnswer(
        id=id_, item=item, proof=proof, network=network, kind=Kind(item["type"]), card=card,
        origin=origin, outpoint=_outpoint(served.outpoint, "outpoint"),
        location=_maybe_outpoint(convert(item, _LocationJson).outpoint),
        tx=winner.tx, bare=winner.bare, block=winner.block, beef=unhex(served.beef, "beef"),
        before=_hops(served.before, segwit), after=_hops(served.after, segwit),
        parents=tuple(_transaction(unhex(raw, "parents"), segwit, "parents") for raw in served.parents or ()),
        current=_current(served.current, segwit) if served.current is not ABSENT else None,
    )  # fmt: skip


def _mined(hop: _HopJson, segwit: bool) -> MinedTransaction:
    """A transaction and its block, which an unconfirmed one lacks."""
    raw = unhex(hop.raw_tx, "rawTx")
    parsed = _transaction(raw, segwit, "rawTx")
    bare = tx.serialise(parsed.inputs, parsed.outputs, parsed.version, parsed.locktime) if segwit else raw
    if hop.witness is not None and not segwit:
        raise unreadable("witness")
    return MinedTransaction(parsed, hop.txid, bare, _block(hop, hop.bump, raw) if hop.bump is not None else None)


def _block(hop: _HopJson, path: str, raw: bytes) -> MinedBlock:
    if hop.height is None:
        raise unreadable("height")
    block_hash, header = unhex(hop.block_hash or "", "blockHash", 32)[::-1], unhex(hop.header or "", "header")
    return MinedBlock(unhex(path, "bump"), block_hash, hop.height, header, _witness(hop.witness, raw))


def _witness(witness: _WitnessJson | None, raw: bytes) -> ServedWitness | None:
    if witness is None:
        return None
    coinbase = CoinbaseProof(
        unhex(witness.coinbase, "coinbase"), unhex(witness.reserved, "reserved"),
        unhex(witness.coinbase_bump, "coinbaseBump"),
    )  # fmt: skip
    return ServedWitness(raw, coinbase, unhex(witness.bump, "bump") if witness.bump is not ABSENT else None)


def _hops(hops: Sequence[_HopJson] | None, segwit: bool) -> tuple[MinedTransaction, ...] | None:
    return None if hops is None else tuple(_mined(hop, segwit) for hop in hops)


def _current(served: _LocatedJson, segwit: bool) -> CurrentLocation:
    return CurrentLocation(_mined(served, segwit), unhex(served.beef, "beef"), _maybe_outpoint(served.outpoint))


def _maybe_outpoint(text: str | None) -> Outpoint | None:
    return None if text is None else _outpoint(text, "outpoint")


def _outpoint(text: str, name: str) -> Outpoint:
    try:
        outpoint = Outpoint.parse(text)
    except ValueError as error:
        raise NotProvedError(f"the {name} {error}") from None
    if str(outpoint) != text:
        raise NotProvedError(f"the {name} {text!a} is not spelt as an overlay spells it, {outpoint}")
    return outpoint


def _transaction(raw: bytes, segwit: bool, name: str) -> Transaction:
    try:
        return tx.read_exactly(raw, segwit=segwit)
    except ParseError as error:
        raise NotProvedError(f"the answer's {name} is not a transaction: {error}") from None
