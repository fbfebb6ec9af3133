"""The answers of a server about a listing and its proof, as records: parsed, not yet verified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from indexer.headers.networks import Network, by_caip2
from indexer.resolution.pointer_service import is_outpoint
from parsers.bitcoin import tx
from parsers.bitcoin.tx import Outpoint, Transaction
from parsers.bitcoin.witness_commitment import CoinbaseProof
from parsers.cards import Kind, split_id
from parsers.errors import ParseError

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


def read(id_: str, item: Mapping[str, Any], proof: Mapping[str, Any], card: bytes) -> ServerAnswer:
    """The answer of a server about listing `id_`. Raises NotProvedError naming what cannot be read."""
    network = by_caip2(_text(proof, "chain"))
    if network is None:
        raise NotProvedError(f"it is on {proof['chain'][:100]!a}, a chain that this program does not support")
    if item.get("type") not in tuple(Kind):
        raise NotProvedError(f"the answer calls it {str(item.get('type'))[:60]!a}, and not an agent or a tool")
    registration, _ = split_id(id_)
    if _text(proof, "id") != registration:
        raise NotProvedError(f"the proof is of {proof['id'][:100]!a}, and not of {registration[:100]!a}")
    origin = _outpoint(registration.partition("#")[0], "id") if is_outpoint(registration) else None
    segwit = network.rules.segwit
    winner = _mined(proof, segwit)
    if winner.block is None:
        _refuse("bump")
    parents = _list(proof, "parents")
    if parents is None and proof.get("before") is not None:
        _refuse("parents")
    return ServerAnswer(
        id=id_, item=item, proof=proof, network=network, kind=Kind(item["type"]), card=card,
        origin=origin, outpoint=_outpoint(_text(proof, "outpoint"), "outpoint"), location=_maybe_outpoint(item),
        tx=winner.tx, bare=winner.bare, block=winner.block, beef=_hex(proof, "beef"),
        before=_hops(proof, "before", segwit), after=_hops(proof, "after", segwit),
        parents=tuple(_transaction(unhex(raw, "parents"), segwit, "parents") for raw in parents or ()),
        current=_current(proof["current"], segwit) if "current" in proof else None,
    )  # fmt: skip


def _mined(answer: Mapping[str, Any], segwit: bool) -> MinedTransaction:
    """A transaction and its block, which an unconfirmed one lacks."""
    raw = _hex(answer, "rawTx")
    parsed = _transaction(raw, segwit, "rawTx")
    bare = tx.serialise(parsed.inputs, parsed.outputs, parsed.version, parsed.locktime) if segwit else raw
    in_block = answer.get("bump") is not None
    if "witness" in answer and not segwit:
        _refuse("witness")
    return MinedTransaction(parsed, _text(answer, "txid"), bare, _block(answer, raw) if in_block else None)


def _block(answer: Mapping[str, Any], raw: bytes) -> MinedBlock:
    height = answer.get("height")
    if not isinstance(height, int) or isinstance(height, bool) or not 0 <= height < 1 << 32:
        _refuse("height")
    block_hash = _hex(answer, "blockHash", 32)[::-1]
    return MinedBlock(
        _hex(answer, "bump"), block_hash, height, _hex(answer, "header"), _witness(answer.get("witness"), raw)
    )


def _witness(answer: object, raw: bytes) -> ServedWitness | None:
    if answer is None:
        return None
    if not isinstance(answer, dict):
        _refuse("witness")
    coinbase = CoinbaseProof(_hex(answer, "coinbase"), _hex(answer, "reserved"), _hex(answer, "coinbaseBump"))
    return ServedWitness(raw, coinbase, _hex(answer, "bump") if "bump" in answer else None)


def _hops(proof: Mapping[str, Any], name: str, segwit: bool) -> tuple[MinedTransaction, ...] | None:
    listed = _list(proof, name)
    if listed is None:
        return None
    if not all(isinstance(hop, dict) for hop in listed):
        _refuse(name)
    return tuple(_mined(hop, segwit) for hop in listed)


def _current(answer: object, segwit: bool) -> CurrentLocation:
    if not isinstance(answer, dict) or "outpoint" not in answer:
        _refuse("current")
    return CurrentLocation(_mined(answer, segwit), _hex(answer, "beef"), _maybe_outpoint(answer))


def _list(proof: Mapping[str, Any], name: str) -> list[Any] | None:
    listed = proof.get(name)
    if listed is not None and (not isinstance(listed, list) or len(listed) > MAX_TRANSACTIONS):
        _refuse(name)
    return listed


def _refuse(name: str) -> NoReturn:
    raise NotProvedError(f"the answer's {name} is missing or cannot be read")


def _text(answer: Mapping[str, Any], name: str) -> str:
    value = answer.get(name)
    if not isinstance(value, str):
        _refuse(name)
    return value


def _hex(answer: Mapping[str, Any], name: str, size: int | None = None) -> bytes:
    return unhex(_text(answer, name), name, size)


def unhex(value: object, name: str, size: int | None = None) -> bytes:
    """The bytes of a hex text, `size` of them if that is given. Raises NotProvedError."""
    if not isinstance(value, str):
        _refuse(name)
    try:
        raw = bytes.fromhex(value)
    except ValueError:
        _refuse(name)
    if len(raw) != (len(raw) if size is None else size) or raw.hex() != value:
        _refuse(name)
    return raw


def _maybe_outpoint(answer: Mapping[str, Any]) -> Outpoint | None:
    return None if answer.get("outpoint") is None else _outpoint(_text(answer, "outpoint"), "outpoint")


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
