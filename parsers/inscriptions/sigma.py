"""SIGMA: signatures of outputs, each bound to an outpoint that the transaction spends.

Tape: `SIGMA <algorithm> <address> <signature> <input number as text>`. The signature is over the digest
sha256(sha256(prev txid in display order ‖ prev vout u32 LE) ‖ sha256(script before the tape's separator)): with
algorithm BSM a Bitcoin Signed Message (65 bytes), with BRC77 a BRC-77 signed message that anyone can verify. BRC-77
messages for one recipient, and other algorithms, are parsed and never count as verified.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from hmac import digest as hmac
from typing import NamedTuple

from parsers.bitcoin.address import key_hash
from parsers.bitcoin.signatures import add_to_key, hash160, is_signed, recover_key, signed_message_digest
from parsers.bitcoin.tx import Transaction
from parsers.inscriptions.map_protocol import tapes

MAX_INSTANCES = 16
_BRC77 = bytes.fromhex("42423301")
_ANYONE = 0
_LONGEST_DER = 72


class Sigma(NamedTuple):
    """One signature, not verified yet. `vin` is the input it is bound to, -1 for the input with the output's number.

    `end` is the byte offset of the `|` push or OP_RETURN before the tape: the signature covers the script up to there.
    """

    algorithm: str
    address: str
    signature: bytes
    vin: int
    end: int


def read(script: bytes) -> tuple[Sigma, ...]:
    """The well-formed SIGMA tapes of an output script, in order, at most 16."""
    if b"SIGMA" not in script:
        return ()
    signatures = [
        Sigma(pushes[1][:16].decode("utf-8", "replace"), pushes[2].decode("ascii"), pushes[3], int(pushes[4]), start)
        for start, pushes in tapes(script)
        if pushes[0] == b"SIGMA" and _well_formed(pushes)
    ]
    return tuple(signatures[:MAX_INSTANCES])


def _well_formed(pushes: tuple[bytes, ...]) -> bool:
    if len(pushes) < 5:
        return False
    address, vin = pushes[2], pushes[4]
    return len(address) <= 64 and address.isascii() and (vin == b"-1" or (vin.isdigit() and len(vin) <= 9))


def digest(sigma: Sigma, tx: Transaction, vout: int) -> bytes | None:
    """The 32 bytes that are signed; None when the transaction does not have the input."""
    vin = vout if sigma.vin < 0 else sigma.vin
    if vin >= len(tx.inputs):
        return None
    spent = tx.inputs[vin].prevout
    outpoint = sha256(spent.txid[::-1] + spent.vout.to_bytes(4, "little")).digest()
    covered = sha256(tx.outputs[vout].script[: sigma.end]).digest()
    return sha256(outpoint + covered).digest()


def verify(sigma: Sigma, tx: Transaction, vout: int) -> str | None:
    """The signer's address, as the tape states it, if its signature of output `vout` of `tx` is valid; else None."""
    check = {"BSM": _bsm_key_hash, "BRC77": _brc77_key_hash}.get(sigma.algorithm)
    message = digest(sigma, tx, vout)
    stated = key_hash(sigma.address)
    if check is None or message is None or stated is None:
        return None
    return sigma.address if check(sigma.signature, message) == stated else None


def signer(tx: Transaction, vout: int) -> str | None:
    """The address of the first valid SIGMA signature of output `vout`; None without one."""
    signatures = read(tx.outputs[vout].script)
    return next((address for sigma in signatures if (address := verify(sigma, tx, vout))), None)


def _bsm_key_hash(signature: bytes, message: bytes) -> bytes | None:
    """HASH160 (20 bytes) of the key that signed a Bitcoin Signed Message (65 bytes: header, r, s), or None."""
    key = recover_key(signature, signed_message_digest(message))
    return hash160(key) if key else None


def _brc77_key_hash(signature: bytes, message: bytes) -> bytes | None:
    """HASH160 of the signer of a BRC-77 message for anyone (version, key (33 bytes), 0, key id (32), DER), or None."""
    key, der = signature[4:37], signature[70:]
    if signature[:4] != _BRC77 or signature[37:38] != bytes((_ANYONE,)) or not 0 < len(der) <= _LONGEST_DER:
        return None
    # BRC-42: the shared secret with "anyone" (the private key 1) is the signer's public key itself
    invoice = b"2-message signing-" + b64encode(signature[38:70])
    child = add_to_key(key, hmac(key, invoice, "sha256"))
    return hash160(key) if child and is_signed(child, der, sha256(message).digest()) else None
