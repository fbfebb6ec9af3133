"""What a server says about a listing and its proof, as records: none of it is believed, only its shape is checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from indexer.networks import Network, by_caip2
from parsers import tx
from parsers.cards import Kind
from parsers.errors import ParseError
from parsers.tx import Outpoint, Transaction

MAX_TRANSACTIONS = 2_000
HEADER = 80


class NotProvedError(Exception):
    """Something is not proved: the message says what is missing or wrong."""


class NotCheckedError(Exception):
    """Something was not looked at: the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A listing as a server tells it. Hashes are in internal byte order.

    `tx` is the winning revision, inscribed at `outpoint` and mined in the block of `header` (as served) at `height`;
    `bare` its bytes without witness. `origin` is the outpoint that the id names. `before` and `after` are the other
    transactions of the satoshi, None where the server gives none, and `parents` others that they spend; `seat` is where
    the satoshi is said to be now, None once burned.
    """

    id: str
    item: Mapping[str, Any]
    network: Network
    kind: Kind
    card: bytes
    origin: Outpoint
    outpoint: Outpoint
    seat: Outpoint | None
    tx: Transaction
    bare: bytes
    path: bytes
    block_hash: bytes
    height: int
    header: bytes
    before: tuple[Transaction, ...] | None
    after: tuple[Transaction, ...] | None
    parents: tuple[Transaction, ...] = ()


def read(id_: str, item: Mapping[str, Any], proof: Mapping[str, Any], card: bytes) -> Claim:
    """The claim in a server's answers about listing `id_`. Raises NotProvedError naming what cannot be read."""
    network = by_caip2(_text(proof, "chain"))
    if network is None:
        raise NotProvedError(f"it is on {proof['chain']!a}, a chain that this program does not read")
    if item.get("type") not in tuple(Kind):
        raise NotProvedError(f"the answer calls it {str(item.get('type'))[:60]!a}, and not an agent or a tool")
    segwit = network.rules.segwit
    raw = _hex(proof, "rawTx")
    winner = _transaction(raw, segwit, "rawTx")
    height = proof.get("height")
    if not isinstance(height, int) or isinstance(height, bool) or not 0 <= height < 1 << 32:
        _refuse("height")
    seat = item.get("outpoint")
    return Claim(
        id=id_, item=item, network=network, kind=Kind(item["type"]), card=card,
        origin=_outpoint(id_.partition("#")[0], "id"), outpoint=_outpoint(_text(proof, "outpoint"), "outpoint"),
        seat=None if seat is None else _outpoint(_text(item, "outpoint"), "outpoint"), tx=winner,
        bare=tx.serialise(winner.inputs, winner.outputs, winner.version, winner.locktime) if segwit else raw,
        path=_hex(proof, "bump"), block_hash=_hex(proof, "blockHash", 32)[::-1], height=height,
        header=_hex(proof, "header"), before=_several(proof, "before", segwit), after=_several(proof, "after", segwit),
        parents=_several(proof, "parents", segwit) or (),
    )  # fmt: skip


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
    if len(raw) != (len(raw) if size is None else size):
        _refuse(name)
    return raw


def _outpoint(text: str, name: str) -> Outpoint:
    try:
        return Outpoint.parse(text)
    except ValueError as error:
        raise NotProvedError(f"the {name} {error}") from None


def _transaction(raw: bytes, segwit: bool, name: str) -> Transaction:
    try:
        return tx.read_exactly(raw, segwit=segwit)
    except ParseError as error:
        raise NotProvedError(f"the answer's {name} is no transaction: {error}") from None


def _several(proof: Mapping[str, Any], name: str, segwit: bool) -> tuple[Transaction, ...] | None:
    given = proof.get(name)
    if given is None:
        return None
    if not isinstance(given, list) or len(given) > MAX_TRANSACTIONS:
        _refuse(name)
    return tuple(_transaction(unhex(each, name), segwit, name) for each in given)
