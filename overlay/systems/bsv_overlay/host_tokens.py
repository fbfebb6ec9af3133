"""The lookup services `ls_ship` and `ls_slap`: this server as the host of its topics and services, in PushDrop tokens
(BRC-48, BRC-88) of a transaction that has no inputs and is not broadcast."""

from __future__ import annotations

import hmac
from hashlib import sha256
from typing import Any, NamedTuple

from overlay.api.identity_key import IdentityKey
from overlay.api.problems import bad_request
from overlay.api.services import AppServices
from overlay.api.values import shown
from overlay.systems.bsv_overlay.output_list import OverlayOutput, PackedTransaction
from overlay.systems.bsv_overlay.service_names import LOOKUP, SHIP, SLAP, TOPIC, OverlayService
from parsers.bitcoin.script import pushes
from parsers.bitcoin.signatures import add_to_private_key, public_key, sign
from parsers.bitcoin.tx import Outpoint, TxOutput, serialise, sha256d

_OP_CHECKSIG, _OP_2DROP, _OP_DROP = b"\xac", b"\x6d", b"\x75"
_FIND_ALL = "findAll"


class TokenKind(NamedTuple):
    """SHIP or SLAP: its name in tokens, the protocol of its key (BRC-43), the names that this server hosts, and the
    members of a query that select by name."""

    name: bytes
    key_protocol: str
    hosted: tuple[str, ...]
    selectors: tuple[str, ...]


_KINDS = {
    SHIP: TokenKind(b"SHIP", "service host interconnect", (TOPIC, "tm_a2b"), ("topics", "topic")),
    SLAP: TokenKind(b"SLAP", "service lookup availability", (LOOKUP, "ls_a2b", SHIP), ("service",)),
}


def unnamed_reason(services: AppServices) -> str | None:
    """Why this server cannot name itself in a token, None where it can."""
    if not services.site.public_url:
        return "A2B_PUBLIC_URL is not configured"
    return None if services.identity else "no identity key is configured"


def host_outputs(services: AppServices, service: OverlayService, query: Any) -> tuple[OverlayOutput, ...]:
    """The tokens that a query of `ls_ship` or `ls_slap` selects; none where the server cannot name itself. Raises
    BadRequestError."""
    kind, identity, url = _KINDS[service.name], services.identity, services.site.public_url
    names = _selected(kind, query, {"domain": url, "identityKey": identity.secp256k1_public.hex() if identity else ""})
    if identity is None or not url or not names:
        return ()
    scripts = [token_script(identity, kind, url, name) for name in names]
    raw = serialise((), tuple(TxOutput(0, script) for script in scripts))
    source = (PackedTransaction(raw, None),)
    return tuple(OverlayOutput(Outpoint(sha256d(raw), vout), b"", source) for vout in range(len(scripts)))


def _selected(kind: TokenKind, query: Any, own_names: dict[str, str]) -> tuple[str, ...]:
    """The hosted names that a query selects, all of them for `findAll` and an empty object."""
    if query == _FIND_ALL:
        return kind.hosted
    if not isinstance(query, dict):
        raise bad_request("wrong-type", f"the query is {shown(str(query))}: an object or {_FIND_ALL}", pointer="/query")
    names = kind.hosted
    for member, value in query.items():
        values = value if isinstance(value, list) else [value]
        if member not in (*kind.selectors, *own_names) or value is None:
            continue
        if not all(isinstance(single, str) for single in values):
            raise bad_request("wrong-type", f"{member} is a text or a list of texts", pointer=f"/query/{member}")
        if member in own_names and own_names[member] not in values:
            return ()
        if member in kind.selectors:
            names = tuple(name for name in names if name in values)
    return names


def token_script(identity: IdentityKey, kind: TokenKind, url: str, name: str) -> bytes:
    """The locking script of a token: key, OP_CHECKSIG, the fields and their signature, and as many drops.

    The key is derived from the identity key for the counterparty `anyone` (the private key 1), so that anyone can
    derive its public key: the shared secret of BRC-42 is then the identity's public key.
    """
    key = _derived(identity, f"2-{kind.key_protocol}-1")
    fields = [kind.name, identity.secp256k1_public, url.encode(), name.encode()]
    fields.append(sign(key, sha256(b"".join(fields)).digest()))
    drops = _OP_2DROP * (len(fields) // 2) + _OP_DROP * (len(fields) % 2)
    return pushes(public_key(key)) + _OP_CHECKSIG + pushes(*fields) + drops


def _derived(identity: IdentityKey, invoice: str) -> bytes:
    """The private key of BRC-42 for an invoice number (BRC-43) and the counterparty `anyone`."""
    offset = hmac.digest(identity.secp256k1_public, invoice.encode(), "sha256")
    return add_to_private_key(identity.secp256k1, offset)
