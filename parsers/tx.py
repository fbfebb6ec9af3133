"""Transactions as records, read from raw bytes (with or without a segwit marker and witness)."""

from __future__ import annotations

from hashlib import sha256
from struct import Struct
from typing import NamedTuple

from parsers.errors import TransactionError

_U32 = Struct("<I")
_I64 = Struct("<q")
_U32_AT = Struct("<I").unpack_from
_I64_AT = Struct("<q").unpack_from

COINBASE_TXID = bytes(32)


def sha256d(data: bytes) -> bytes:
    """Double SHA-256, as Bitcoin names transactions and blocks (32 bytes, internal byte order)."""
    return sha256(sha256(data).digest()).digest()


class Outpoint(NamedTuple):
    """An output of a transaction. `txid` is in internal byte order, `str()` in display order: `<hex>_<vout>`."""

    txid: bytes
    vout: int

    def __str__(self) -> str:
        return f"{self.txid[::-1].hex()}_{self.vout}"

    @classmethod
    def parse(cls, text: str) -> Outpoint:
        """Read `<64 hex>_<vout>` (also with `.`, `:` or `i` between, as other tools write it).

        Raises ValueError naming the text when it is no outpoint.
        """
        txid, vout = text[:64], text[65:]
        if len(text) < 66 or text[64] not in "_.:i" or not (vout.isascii() and vout.isdigit()) or len(vout) > 10:
            raise ValueError(f"{text[:100]!r} is not an outpoint: expected <64 hex digits>_<output number>")
        try:
            raw = bytes.fromhex(txid)
        except ValueError:
            raise ValueError(f"{text[:100]!r} is not an outpoint: {txid!r} is not hex") from None
        if len(raw) != 32 or int(vout) > 0xFFFFFFFF:
            raise ValueError(f"{text[:100]!r} is not an outpoint: expected <64 hex digits>_<output number>")
        return cls(raw[::-1], int(vout))

    def pack(self) -> bytes:
        """The 36 bytes of the wire: txid in internal order, vout as u32 little-endian."""
        return self.txid + _U32.pack(self.vout)


class TxInput(NamedTuple):
    """An input: the outpoint it spends, its unlocking script and, on segwit chains, its witness stack."""

    prevout: Outpoint
    script: bytes
    sequence: int
    witness: tuple[bytes, ...] = ()


class TxOutput(NamedTuple):
    """An output: its value in satoshis and its locking script."""

    satoshis: int
    script: bytes


class Transaction(NamedTuple):
    """A transaction. `txid` is in internal byte order; `size` is the length in bytes as it was serialised."""

    txid: bytes
    version: int
    inputs: tuple[TxInput, ...]
    outputs: tuple[TxOutput, ...]
    locktime: int
    size: int

    @property
    def hex_id(self) -> str:
        """The txid in display byte order, as people write it."""
        return self.txid[::-1].hex()

    @property
    def is_coinbase(self) -> bool:
        """Whether this transaction creates coins (its only input spends nothing)."""
        return len(self.inputs) == 1 and self.inputs[0].prevout.txid == COINBASE_TXID

    def outpoint(self, vout: int) -> Outpoint:
        """The outpoint of this transaction's output number `vout`."""
        return Outpoint(self.txid, vout)


class _Reader:
    """A cursor over bytes that refuses to run past the end."""

    __slots__ = ("at", "data", "end", "most")

    def __init__(self, data: bytes, at: int, most: int | None = None) -> None:
        self.data, self.at, self.end, self.most = data, at, len(data), most

    def take(self, size: int, what: str) -> bytes:
        start = self.at
        if size > self.end - start:
            raise TransactionError(f"{what} of {size:,} bytes runs past the end", start)
        self.at = start + size
        return self.data[start : self.at]

    def varint(self, what: str) -> int:
        first = self.take(1, what)[0]
        if first < 0xFD:
            return first
        size = 1 << (first - 0xFC)
        raw = self.take(size, what)
        return int.from_bytes(raw, "little")

    def count(self, what: str, smallest: int) -> int:
        """A varint that counts items of at least `smallest` bytes each: a claim beyond the data is refused."""
        start = self.at
        count = self.varint(f"the number of {what}")
        if count * smallest > self.end - self.at:
            raise TransactionError(f"{count:,} {what} do not fit in {self.end - self.at:,} bytes", start)
        if self.most is not None and count > self.most:
            raise TransactionError(f"{count:,} {what}, where at most {self.most:,} are read", start)
        return count

    def var_bytes(self, what: str) -> bytes:
        return self.take(self.varint(f"the length of {what}"), what)


def _input(reader: _Reader) -> TxInput:
    prevout = Outpoint(reader.take(32, "a previous txid"), _U32_AT(reader.take(4, "a previous output number"))[0])
    script = reader.var_bytes("an unlocking script")
    return TxInput(prevout, script, _U32_AT(reader.take(4, "a sequence number"))[0])


def _output(reader: _Reader) -> TxOutput:
    satoshis = _I64_AT(reader.take(8, "a value"))[0]
    return TxOutput(satoshis, reader.var_bytes("a locking script"))


def _outputs(reader: _Reader) -> tuple[TxOutput, ...]:
    """All outputs. Those with a script of less than 253 bytes, as most are, take a fifth of the time of `_output`."""
    made: list[TxOutput] = []
    data, end = reader.data, reader.end
    for _ in range(reader.count("outputs", 9)):
        script = reader.at + 9
        after = script + data[script - 1] if script <= end else end + 1
        if after <= end and after - script < 0xFD:
            made.append(TxOutput(_I64_AT(data, reader.at)[0], data[script:after]))
            reader.at = after
        else:
            made.append(_output(reader))
    return tuple(made)


def _witness(reader: _Reader) -> tuple[bytes, ...]:
    return tuple(reader.var_bytes("a witness item") for _ in range(reader.count("witness items", 1)))


def read(data: bytes, offset: int = 0, *, segwit: bool = False, most: int | None = None) -> Transaction:
    """Read one transaction from `data` at `offset` (bytes); trailing bytes are left alone, see `.size`.

    With `segwit`, a zero input count followed by flag 1 (or, with Litecoin's MWEB bit, 8 or 9) announces a witness
    (BIP 144), and the txid is over the form without it. Raises TransactionError naming the byte where reading stopped,
    also where there are more than `most` inputs, outputs, or witness items of an input.
    """
    reader = _Reader(data, offset, most)
    version = _U32_AT(reader.take(4, "the version"))[0]
    flag = 0
    if segwit and data[reader.at : reader.at + 1] == b"\0" and data[reader.at + 1 : reader.at + 2] in _SEGWIT_FLAGS:
        flag = data[reader.at + 1]
        reader.at += 2
    body = reader.at
    inputs = [_input(reader) for _ in range(reader.count("inputs", 41))]
    outputs = _outputs(reader)
    bare = data[body : reader.at]
    if flag & 1:
        inputs = [spent._replace(witness=_witness(reader)) for spent in inputs]
    if flag & 8 and reader.take(1, "the MWEB part") != b"\0":
        raise TransactionError("a MWEB transaction body is not part of a block", reader.at)
    locktime_at = reader.at
    locktime = _U32_AT(reader.take(4, "the lock time"))[0]
    raw = data[offset : reader.at] if not flag else data[offset : offset + 4] + bare + data[locktime_at : reader.at]
    return Transaction(sha256d(raw), version, tuple(inputs), outputs, locktime, reader.at - offset)


_SEGWIT_FLAGS = (b"\1", b"\x08", b"\x09")


def wtxid(raw: bytes) -> bytes:
    """The wtxid (BIP 141; 32 bytes, internal byte order) of a transaction that fills `raw` as a block serialises it.

    Litecoin's MWEB bit, and the empty MWEB part before the lock time, are left out of it.
    """
    if raw[4:5] == b"\0" and raw[5:6] in _SEGWIT_FLAGS[1:]:
        marker = b"\0\1" if raw[5] & 1 else b""
        raw = raw[:4] + marker + raw[6:-5] + raw[-4:]
    return sha256d(raw)


def read_exactly(data: bytes, *, segwit: bool = False, most: int | None = None) -> Transaction:
    """Read one transaction that must fill `data`, as a client hands one in. Raises TransactionError otherwise, as
    `read` does."""
    tx = read(data, segwit=segwit, most=most)
    if tx.size != len(data):
        raise TransactionError(f"{len(data) - tx.size:,} bytes follow the transaction", tx.size)
    return tx


def varint(value: int) -> bytes:
    """Encode a Bitcoin varint (CompactSize)."""
    if value < 0xFD:
        return bytes((value,))
    if value <= 0xFFFF:
        return b"\xfd" + value.to_bytes(2, "little")
    if value <= 0xFFFFFFFF:
        return b"\xfe" + value.to_bytes(4, "little")
    return b"\xff" + value.to_bytes(8, "little")


def serialise(inputs: tuple[TxInput, ...], outputs: tuple[TxOutput, ...], version: int = 1, locktime: int = 0) -> bytes:
    """Raw bytes of a transaction without witness, the inverse of `read`."""
    parts = [_U32.pack(version), varint(len(inputs))]
    for spent in inputs:
        parts += [spent.prevout.pack(), varint(len(spent.script)), spent.script, _U32.pack(spent.sequence)]
    parts.append(varint(len(outputs)))
    for made in outputs:
        parts += [_I64.pack(made.satoshis), varint(len(made.script)), made.script]
    return b"".join([*parts, _U32.pack(locktime)])
