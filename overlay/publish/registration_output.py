"""The output that holds a registration's satoshi now, which an update, transfer or burn spends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from overlay.publish.coins import Coin
from parsers.bitcoin.tx import Outpoint, read_exactly
from parsers.cards import Kind
from parsers.errors import ParseError


class RegistrationError(Exception):
    """A registration that cannot be spent now, or not by this key; the message says why."""


class PublishedSource(Protocol):
    """Where a registration is looked up: a running overlay, or the local store."""

    def listing(self, id_: str, /) -> Any:
        """The item of a listing, or the ids of the servers of a registration."""
        ...

    def proof(self, id_: str, /) -> Any:
        """The proof of a listing."""
        ...


class RegistrationOutput:
    """A registration's satoshi: its output as a coin, the kind and `app` of the registration, and its owner."""

    def __init__(self, coin: Coin, kind: Kind, app: str, owner: str) -> None:
        self.coin, self.kind, self.app, self.owner = coin, kind, app, owner


def find(source: PublishedSource, id_: str) -> RegistrationOutput:
    """The output that holds the satoshi of this registration (an id without `#`). The transaction must be the one that
    the outpoint names; that this is the registration of the id is the word of the source, which could name another one
    of the same key.

    Raises RegistrationError, and what the source raises.
    """
    if "#" in id_:
        raise RegistrationError(f"{id_} is one server of a registration: give the id before the #")
    item = source.listing(id_)
    if "servers" in item:
        item = source.listing(item["servers"][0]) | {"id": item["id"]}
    _check(item, id_)
    outpoint = Outpoint.parse(str(item["outpoint"]))
    proof = source.proof(id_)
    located = proof.get("current") or proof
    try:
        tx = read_exactly(bytes.fromhex(located["rawTx"]))
        output = tx.outputs[outpoint.vout]
    except (ParseError, ValueError, KeyError, TypeError, IndexError):
        raise RegistrationError(f"the transaction of {outpoint} is not in the proof of {id_}") from None
    if tx.txid != outpoint.txid or output.satoshis != 1:
        raise RegistrationError(f"the proof of {id_} is not for an output of one satoshi at {outpoint}")
    kind = Kind.AGENT if item["type"] == "agent" else Kind.TOOL
    return RegistrationOutput(
        Coin(outpoint, 1, output.script, _beef(located)), kind, item.get("app") or "", item.get("owner") or ""
    )


def _beef(located: Mapping[str, Any]) -> bytes | None:
    try:
        return bytes.fromhex(located["beef"])
    except (KeyError, TypeError, ValueError):
        return None


def _check(item: Mapping[str, Any], id_: str) -> None:
    if not str(item.get("caip2", item.get("chain", ""))).startswith("bsv"):
        raise RegistrationError(f"{id_} is on {item.get('chain')}, and only registrations on BSV are written here")
    if item.get("status") != "live":
        raise RegistrationError(f"{id_} is {item.get('status')}, and only a live registration can be spent")
    if item.get("pending"):
        raise RegistrationError(f"{id_} has an unconfirmed revision: wait until it is mined, or it would be replaced")
    if not item.get("outpoint"):
        raise RegistrationError(f"{id_} is a pointer: publish the card at its location instead")
