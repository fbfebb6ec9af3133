"""Complaints: the payer of a transaction states that the paid agent did not deliver, signed by the key of the first
input. Pure: the caller proves the payment.

A complaint is a JSON object with `listing`, `txid` (hex), `code`, `at` (milliseconds since 1970), `publicKey` (hex) and
`signature`: base64 of the compact signature, as a Bitcoin Signed Message, of the RFC 8785 form of the other members.
There is no free text.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, NamedTuple

from parsers.bitcoin.signatures import compressed, public_key, recover_key, sign_message, signed_message_digest
from parsers.claims.canonical_json import SAFE_INTEGER, DocumentError, jcs
from parsers.claims.complaint_codes import CODES, WITHDRAWN

MAX_LISTING = 2_048
"""Characters of the id of a listing."""

MAX_AHEAD_MS = 600_000
"""Milliseconds that the time of a complaint may be ahead of the clock of the server."""

_MEMBERS = {"listing": str, "txid": str, "code": str, "at": int, "publicKey": str, "signature": str}


class Complaint(NamedTuple):
    """A complaint with a valid signature: the listing, the txid of the payment (hex), the code, when it was stated
    (milliseconds since 1970), and the public key of the payer as stated, compressed or not."""

    listing: str
    txid: str
    code: str
    stated_at: int
    key: bytes


def read_complaint(document: Any, now: int) -> Complaint:
    """The complaint in a document at a time (milliseconds since 1970). Raises DocumentError: malformed, not-yet-valid,
    bad-signature."""
    if not isinstance(document, dict) or {name: type(value) for name, value in document.items()} != _MEMBERS:
        raise DocumentError("malformed", f"a complaint is an object with {', '.join(_MEMBERS)}")
    listing, txid, code, stated_at = (document[name] for name in ("listing", "txid", "code", "at"))
    if not 0 < len(listing) <= MAX_LISTING or not _is_hex(txid, 64) or not 0 <= stated_at <= SAFE_INTEGER:
        raise DocumentError(
            "malformed", "listing is an id, txid 64 lower-case hex digits, and at milliseconds since 1970"
        )
    if code not in (*CODES, WITHDRAWN):
        raise DocumentError("malformed", f"code is one of {', '.join((*CODES, WITHDRAWN))}")
    if stated_at > now + MAX_AHEAD_MS:
        raise DocumentError("not-yet-valid", "the complaint is from the future")
    return Complaint(listing, txid, code, stated_at, _signer(document))


def signed_complaint(private_key: bytes, listing: str, txid: str, code: str, stated_at: int) -> dict[str, Any]:
    """The complaint that a private key (32 bytes) signs, at a time in milliseconds since 1970."""
    statement = {
        "listing": listing, "txid": txid, "code": code, "at": stated_at, "publicKey": public_key(private_key).hex(),
    }  # fmt: skip
    signature = sign_message(private_key, signed_message_digest(jcs(statement)))
    return {**statement, "signature": b64encode(signature).decode()}


def _signer(document: Mapping[str, Any]) -> bytes:
    statement = {name: value for name, value in document.items() if name != "signature"}
    try:
        signature = b64decode(document["signature"], validate=True)
        key = bytes.fromhex(document["publicKey"])
    except ValueError:
        raise DocumentError("malformed", "publicKey is hex, and signature is base64") from None
    signer = recover_key(signature, signed_message_digest(jcs(statement)))
    if signer is None or compressed(signer) != compressed(key):
        raise DocumentError("bad-signature", "publicKey did not sign the RFC 8785 form of the other members")
    return key


def _is_hex(text: str, digits: int) -> bool:
    return len(text) == digits and not set(text) - set("0123456789abcdef")
