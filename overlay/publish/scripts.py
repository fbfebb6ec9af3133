"""The output scripts of the registry (specification §6.1, §6.4): inscription and MAP, MAP alone, notices, pointers."""

from __future__ import annotations

from hashlib import sha256

from parsers.bitcoin import address
from parsers.bitcoin.script import OP_RETURN, pushes
from parsers.cards import Kind
from parsers.cards.deprecation import Deprecation, map_fields
from parsers.inscriptions import envelope, map_protocol
from parsers.pointers import pointer

MAP_TYPES = {Kind.AGENT: "a2b-agent", Kind.TOOL: "a2b-mcp"}
RELAYED_BYTES = 83
"""Bytes of a data output's script that nodes of BTC, LTC and DOGE relay."""

PART_BYTES = RELAYED_BYTES - 10
"""Bytes of a part of a split pointer; the others are OP_RETURN, the mark and `<i>/<n>`, with their lengths."""


def inscription(owner: bytes, card: bytes, kind: Kind, app: str) -> bytes:
    """The owner's script, the envelope with the card, and MAP `SET app … type …`. Raises ValueError for an `app` that
    MAP cannot hold."""
    return owner + envelope.build("application/json", card) + _map(kind, app)


def metadata(owner: bytes, kind: Kind, app: str) -> bytes:
    """The owner's script and MAP, without a card: changes `app` and leaves the card. Raises ValueError."""
    return owner + _map(kind, app)


def notice(owner: bytes, kind: Kind, app: str, deprecation: Deprecation | None) -> bytes:
    """The owner's script and a MAP that calls the registration deprecated, None for one that takes it back. Raises
    ValueError for a text that MAP cannot hold."""
    fields = {"app": app} if app else {}
    return owner + map_protocol.build({**fields, "type": MAP_TYPES[kind], **map_fields(deprecation)})


def _map(kind: Kind, app: str) -> bytes:
    if not app.strip():
        raise ValueError("app is empty: name the program that publishes")
    return map_protocol.build({"app": app, "type": MAP_TYPES[kind]})


def pointers(domain: str, card: bytes | None, coin: str) -> list[bytes]:
    """The data outputs that point to a domain's card: one; on DOGE several parts where one output is too small.

    Raises ValueError for a name that is not a domain, and for one that is too long for the parts.
    """
    digest = sha256(card).digest() if card is not None else None
    script = pointer.build(domain, digest, false=coin == "bsv")
    if coin != "doge" or len(script) <= RELAYED_BYTES:
        return [script]
    if digest is None:
        raise ValueError(f"{domain[:253]!r} is too long for an output on DOGE, and is split only before a hash")
    whole = domain.encode() + b" " + digest
    parts = [whole[start : start + PART_BYTES] for start in range(0, len(whole), PART_BYTES)]
    return [
        bytes((OP_RETURN,)) + pushes(pointer.MARK, f"{number}/{len(parts)}".encode(), part)
        for number, part in enumerate(parts, 1)
    ]


def payee(script: bytes, network: str) -> str:
    """The address on a network that a script pays to, or that there is none."""
    return address.owner(script, "bsv", network) or "a script without an address"
