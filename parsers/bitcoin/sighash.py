"""The digest that the signature of an input signs: that of BIP 143 with SIGHASH_FORKID (BSV, BCH) and the original one
(LTC, DOGE, BTC before segwit), and whether the unlocking script of a P2PKH output is valid.

Signatures in scripts are DER with one byte for the hash type. Digests are 32 bytes, as they are signed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from struct import Struct

from parsers.bitcoin import signatures
from parsers.bitcoin.script import OP_CODESEPARATOR, ops, p2pkh, push
from parsers.bitcoin.tx import Transaction, TxInput, TxOutput, serialise, sha256d, varint

ALL, NONE, SINGLE = 1, 2, 3
FORKID, ANYONE_CAN_PAY = 0x40, 0x80
ALL_FORKID = ALL | FORKID

_U32, _I64 = Struct("<I").pack, Struct("<q").pack
_ZERO = bytes(32)
_ONE = b"\x01" + bytes(31)


MAX_LEGACY_BYTES = 64 << 20
"""Bytes of a transaction times its inputs, at most, where the original digest is checked: each input hashes nearly the
whole transaction. One of 100 kB, the most that nodes relay, has at most 680 signed inputs."""


class SharedHashes:
    """Hashes that the BIP 143 digests of all inputs of a transaction share, each computed once: without this, the time
    is that of bytes times inputs (25 MB with 2,000 inputs: 97 s)."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    @cached_property
    def prevouts(self) -> bytes:
        """The hash of all spent outpoints."""
        return sha256d(b"".join(tx_input.prevout.pack() for tx_input in self._tx.inputs))

    @cached_property
    def sequences(self) -> bytes:
        """The hash of all sequence numbers."""
        return sha256d(b"".join(_U32(tx_input.sequence) for tx_input in self._tx.inputs))

    @cached_property
    def outputs(self) -> bytes:
        """The hash of all outputs."""
        return sha256d(b"".join(map(_packed, self._tx.outputs)))


def forkid_digest(
    tx: Transaction,
    vin: int,
    script_code: bytes,
    satoshis: int,
    hash_type: int = ALL_FORKID,
    shared: SharedHashes | None = None,
) -> bytes:
    """The digest of input `vin` by BIP 143, as BSV and BCH use it with SIGHASH_FORKID. `script_code` is the locking
    script of the spent output (from its last executed OP_CODESEPARATOR on), `satoshis` its value. `shared` are the
    shared hashes of this transaction, where several of its inputs are hashed."""
    kind, alone = hash_type & 0x1F, bool(hash_type & ANYONE_CAN_PAY)
    spent, shared = tx.inputs[vin], shared or SharedHashes(tx)
    is_all = kind not in (NONE, SINGLE)
    prevouts = _ZERO if alone else shared.prevouts
    sequences = shared.sequences if is_all and not alone else _ZERO
    outputs = shared.outputs if is_all else _ZERO
    if kind == SINGLE and vin < len(tx.outputs):
        outputs = sha256d(_packed(tx.outputs[vin]))
    return sha256d(
        b"".join(
            (
                _U32(tx.version & 0xFFFFFFFF), prevouts, sequences, spent.prevout.pack(),
                varint(len(script_code)), script_code, _I64(satoshis), _U32(spent.sequence), outputs,
                _U32(tx.locktime), _U32(hash_type),
            )
        )
    )  # fmt: skip


def legacy_digest(tx: Transaction, vin: int, script_code: bytes, hash_type: int = ALL) -> bytes:
    """The digest of input `vin` before BIP 143. OP_CODESEPARATOR is removed from `script_code`."""
    kind = hash_type & 0x1F
    if kind == SINGLE and vin >= len(tx.outputs):
        return _ONE  # what the original implementation signs here
    script = b"".join(script_code[op.start : op.end] for op in ops(script_code) if op.opcode != OP_CODESEPARATOR)
    blank = kind in (NONE, SINGLE)
    inputs = [
        TxInput(tx_input.prevout, script if number == vin else b"", 0 if blank and number != vin else tx_input.sequence)
        for number, tx_input in enumerate(tx.inputs)
    ]
    outputs: Sequence[TxOutput] = tx.outputs
    if kind == NONE:
        outputs = ()
    elif kind == SINGLE:
        outputs = [*[TxOutput(-1, b"")] * vin, tx.outputs[vin]]
    if hash_type & ANYONE_CAN_PAY:
        inputs = [inputs[vin]]
    signed = serialise(tuple(inputs), tuple(outputs), tx.version & 0xFFFFFFFF, tx.locktime)
    return sha256d(signed + _U32(hash_type))


def _packed(output: TxOutput) -> bytes:
    return _I64(output.satoshis) + varint(len(output.script)) + output.script


def p2pkh_error(
    tx: Transaction,
    vin: int,
    spent: TxOutput,
    *,
    forkid: bool = True,
    lock: bytes | None = None,
    shared: SharedHashes | None = None,
) -> str | None:
    """Why the unlocking script of input `vin` does not satisfy the P2PKH script of the output that it spends; None
    where it does. `forkid`: the chain demands SIGHASH_FORKID (BSV, BCH), else the original digest is used. `lock` is
    the part of the locking script that is executed (see `executed`), None for all of it; the signature is over all.
    `shared` as in `forkid_digest`. Without `forkid`, a transaction of more than MAX_LEGACY_BYTES is an error.

    Strict DER with low s, compressed or uncompressed keys, and nothing but the two pushes, as nodes relay it.
    """
    pushed = [op.data for op in ops(tx.inputs[vin].script)]
    if len(pushed) != 2 or any(data is None for data in pushed):
        return f"input {vin}: a P2PKH output is unlocked by two pushes, a signature and a public key"
    signature, key = (data or b"" for data in pushed)
    if p2pkh(signatures.hash160(key)) != (spent.script if lock is None else lock):
        return f"input {vin}: the public key is not the one that the output pays to"
    if len(signature) < 9:
        return f"input {vin}: the signature is {len(signature)} bytes"
    hash_type = signature[-1]
    if (hash_type & ~(FORKID | ANYONE_CAN_PAY)) not in (ALL, NONE, SINGLE) or bool(hash_type & FORKID) != forkid:
        return f"input {vin}: the hash type is 0x{hash_type:02x}"
    if forkid:
        digest = forkid_digest(tx, vin, spent.script, spent.satoshis, hash_type, shared)
    elif tx.size * len(tx.inputs) > MAX_LEGACY_BYTES:
        return f"input {vin}: a transaction of {tx.size:,} bytes with {len(tx.inputs):,} inputs takes too long to check"
    else:
        digest = legacy_digest(tx, vin, spent.script, hash_type)
    if not signatures.is_signed(signatures.compressed(key) or b"", signature[:-1], digest):
        return f"input {vin}: the signature is not valid"
    return None


def sign_p2pkh(
    tx: Transaction,
    vin: int,
    private_key: bytes,
    satoshis: int,
    script_code: bytes | None = None,
    *,
    forkid: bool = True,
) -> bytes:
    """The unlocking script of input `vin`, which spends a P2PKH output of this key with so many satoshis; `forkid` as
    in `p2pkh_error`. `script_code` is the signed part of a longer script, such as one with an envelope."""
    key = signatures.public_key(private_key)
    code = script_code or p2pkh(signatures.hash160(key))
    if forkid:
        digest, hash_type = forkid_digest(tx, vin, code, satoshis), ALL_FORKID
    else:
        digest, hash_type = legacy_digest(tx, vin, code), ALL
    return push(signatures.sign(private_key, digest) + bytes((hash_type,))) + push(key)
