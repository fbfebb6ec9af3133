"""SIGMA: who signed an output, bound to the outpoint that the transaction spends.

Tape: `SIGMA <algorithm> <address> <signature> <input number as text>`. The signature is over the digest
sha256(sha256(prev txid in display order ‖ prev vout u32 LE) ‖ sha256(script before the tape's separator)): with
algorithm BSM as a Bitcoin Signed Message (65 bytes), with BRC77 as a BRC-77 signed message that anyone can verify. A
BRC-77 message for one recipient, and any other algorithm, are read as claims and never called verified.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from hmac import digest as hmac
from typing import NamedTuple

from parsers.address import key_hash
from parsers.map_protocol import tapes
from parsers.tx import Transaction

MAX_INSTANCES = 16
_BRC77 = bytes.fromhex("42423301")
_ANYONE = 0
_LONGEST_DER = 72


class Sigma(NamedTuple):
    """One signature as claimed. `vin` is the input it binds to, -1 for the input with the output's number.

    `end` is the byte offset of the `|` push or OP_RETURN before the tape: the signature covers the script up to there.
    """

    algorithm: str
    address: str
    signature: bytes
    vin: int
    end: int


def read(script: bytes) -> tuple[Sigma, ...]:
    """The SIGMA tapes of an output script, in order, at most 16; those of another shape are left out."""
    if b"SIGMA" not in script:
        return ()
    found = [
        Sigma(pushes[1][:16].decode("utf-8", "replace"), pushes[2].decode("ascii"), pushes[3], int(pushes[4]), start)
        for start, pushes in tapes(script)
        if pushes[0] == b"SIGMA" and _well_formed(pushes)
    ]
    return tuple(found[:MAX_INSTANCES])


def _well_formed(pushes: tuple[bytes, ...]) -> bool:
    if len(pushes) < 5:
        return False
    address, vin = pushes[2], pushes[4]
    return len(address) <= 64 and address.isascii() and (vin == b"-1" or (vin.isdigit() and len(vin) <= 9))


def digest(sigma: Sigma, tx: Transaction, vout: int) -> bytes | None:
    """The 32 bytes that are signed, None when the transaction has no such input."""
    vin = vout if sigma.vin < 0 else sigma.vin
    if vin >= len(tx.inputs):
        return None
    spent = tx.inputs[vin].prevout
    outpoint = sha256(spent.txid[::-1] + spent.vout.to_bytes(4, "little")).digest()
    covered = sha256(tx.outputs[vout].script[: sigma.end]).digest()
    return sha256(outpoint + covered).digest()


def verify(sigma: Sigma, tx: Transaction, vout: int) -> str | None:
    """The signer's address, as the tape writes it, if the signature over `tx`'s output `vout` is valid; else None."""
    check = {"BSM": _bsm_key_hash, "BRC77": _brc77_key_hash}.get(sigma.algorithm)
    message = digest(sigma, tx, vout)
    claimed = key_hash(sigma.address)
    if check is None or message is None or claimed is None:
        return None
    return sigma.address if check(sigma.signature, message) == claimed else None


def signer(tx: Transaction, vout: int) -> str | None:
    """The address of the first valid SIGMA signature on output `vout`, or None."""
    claims = read(tx.outputs[vout].script)
    return next((address for claim in claims if (address := verify(claim, tx, vout))), None)


def _bsm_key_hash(signature: bytes, message: bytes) -> bytes | None:
    """HASH160 of the key that made a compact Bitcoin Signed Message signature (header, r, s: 65 bytes)."""
    from bitcoinx import InvalidSignature, PublicKey

    if len(signature) != 65 or not 27 <= signature[0] < 35:
        return None
    try:
        key = PublicKey.from_signed_message(signature, message)
    except InvalidSignature:
        return None
    found: bytes = key.hash160(compressed=signature[0] >= 31)
    return found


def _brc77_key_hash(signature: bytes, message: bytes) -> bytes | None:
    """HASH160 of the signer named in a valid BRC-77 message for anyone: version, key (33), 0, key id (32), DER."""
    from bitcoinx import InvalidSignature, PublicKey

    key, der = signature[4:37], signature[70:]
    if signature[:4] != _BRC77 or signature[37:38] != bytes((_ANYONE,)) or not 0 < len(der) <= _LONGEST_DER:
        return None
    try:
        named = PublicKey.from_bytes(key)
        # BRC-42: the shared secret with "anyone", whose private key is 1, is the signer's public key itself
        invoice = b"2-message signing-" + b64encode(signature[38:70])
        valid = named.add(hmac(key, invoice, "sha256")).verify_der_signature(der, message)
    except (InvalidSignature, ValueError):
        return None
    found: bytes = named.hash160()
    return found if valid else None
