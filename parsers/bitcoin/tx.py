"""Transactions: raw bytes to records and back, with or without a segwit marker and witness (BIP 144)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from struct import Struct
from typing import NamedTuple

from parsers.byte_reader import ByteReader
from parsers.errors import TransactionError

_U32 = Struct("<I")
_I64 = Struct("<q")
_U32_AT = Struct("<I").unpack_from
_I64_AT = Struct("<q").unpack_from

COINBASE_TXID = bytes(32)


def sha256d(data: bytes) -> bytes:
    """Double SHA-256 (32 bytes, internal byte order), the hash of transactions, blocks and merkle nodes."""
    return sha256(sha256(data).digest()).digest()


class Outpoint(NamedTuple):
    """An output of a transaction. `txid` is in internal byte order, `str()` in display order: `<hex>_<vout>`."""

    txid: bytes
    vout: int

    def __str__(self) -> str:
        return f"{self.txid[::-1].hex()}_{self.vout}"

    @classmethod
    def parse(cls, text: str) -> Outpoint:
        """Parse `<64 hex digits in display order>_<vout>`; `.`, `:` and `i` are accepted as separators, too.

        Raises ValueError naming the text when it is not an outpoint.
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
        """The 36 bytes of the wire format: txid in internal byte order, vout as u32 little-endian."""
        return self.txid + _U32.pack(self.vout)


def transaction_name(text: str) -> str:
    """A txid (64 hex digits in display order, perhaps after `0x`) or an outpoint, perhaps after `ord://`, in its usual
    form: hex in lower case, `<txid>_<vout>`.

    Raises ValueError naming the text when it is neither.
    """
    bare = without_ord(text).removeprefix("0x")
    return str(Outpoint.parse(f"{bare}_0"))[:64] if len(bare) == 64 else str(Outpoint.parse(bare))


def without_ord(text: str) -> str:
    """A text without `ord://`, which publishing tools print before outpoints."""
    return text[6:] if text[:6].lower() == "ord://" else text


class TxInput(NamedTuple):
    """An input: the outpoint that it spends, its unlocking script, its sequence number and, on segwit chains, its
    witness stack (bottom first)."""

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
        """The txid as 64 hex digits in display byte order."""
        return self.txid[::-1].hex()

    @property
    def is_coinbase(self) -> bool:
        """Whether this is a coinbase: its only input spends the all-zero txid."""
        return len(self.inputs) == 1 and self.inputs[0].prevout.txid == COINBASE_TXID

    def outpoint(self, vout: int) -> Outpoint:
        """The outpoint of this transaction's output number `vout`."""
        return Outpoint(self.txid, vout)


class _TxReader(ByteReader):
    """Reads the fields of a transaction."""

    __slots__ = ()

    error = TransactionError

    def var_bytes(self, what: str) -> bytes:
        return self.take(self.varint(f"the length of {what}"), what)


def _outputs(reader: _TxReader) -> tuple[TxOutput, ...]:
    """All outputs. A script under 253 bytes is taken without calls, in a fifth of the time."""
    outputs: list[TxOutput] = []
    data, end = reader.data, reader.end
    for _ in range(reader.count("outputs", 9)):
        script = reader.offset + 9
        after = script + data[script - 1] if script <= end else end + 1
        if after <= end and after - script < 0xFD:
            outputs.append(TxOutput(_I64_AT(data, reader.offset)[0], data[script:after]))
            reader.offset = after
        else:
            satoshis = _I64_AT(reader.take(8, "a value"))[0]
            outputs.append(TxOutput(satoshis, reader.var_bytes("a locking script")))
    return tuple(outputs)


def read(data: bytes, offset: int = 0, *, segwit: bool = False, max_items: int | None = None) -> Transaction:
    """Parse the transaction at byte `offset` of `data`; `.size` says where it ends, and later bytes are ignored.

    With `segwit`, a zero input count followed by flag 1 (or, with Litecoin's MWEB bit, 8 or 9) announces a witness
    (BIP 144), and the txid is over the form without it. Raises TransactionError naming the byte where parsing stopped,
    also for more than `max_items` inputs, outputs, or witness items of an input.
    """
    reader = _TxReader(data, offset, max_items=max_items)
    version = _U32_AT(reader.take(4, "the version"))[0]
    marker = data[reader.offset : reader.offset + 2]
    flag = marker[1] if segwit and marker[:1] == b"\0" and marker[1:] in _SEGWIT_FLAGS else 0
    reader.offset += 2 if flag else 0
    body = reader.offset
    inputs: list[TxInput] = []
    for _ in range(reader.count("inputs", 41)):
        prevout = Outpoint(reader.take(32, "a previous txid"), _U32_AT(reader.take(4, "a previous output number"))[0])
        script = reader.var_bytes("an unlocking script")
        inputs.append(TxInput(prevout, script, _U32_AT(reader.take(4, "a sequence number"))[0]))
    outputs = _outputs(reader)
    body_end = reader.offset
    if flag & 1:
        for number, tx_input in enumerate(inputs):
            items = range(reader.count("witness items", 1))
            inputs[number] = tx_input._replace(witness=tuple(reader.var_bytes("a witness item") for _ in items))
    if flag & 8 and reader.take(1, "the MWEB part") != b"\0":
        raise TransactionError("a MWEB transaction body is not part of a block", reader.offset)
    locktime_offset = reader.offset
    locktime = _U32_AT(reader.take(4, "the lock time"))[0]
    raw = data[offset : reader.offset]
    if flag:
        raw = data[offset : offset + 4] + data[body:body_end] + data[locktime_offset : reader.offset]
    return Transaction(sha256d(raw), version, tuple(inputs), outputs, locktime, reader.offset - offset)


_SEGWIT_FLAGS = (b"\1", b"\x08", b"\x09")


def wtxid(raw: bytes) -> bytes:
    """The wtxid (BIP 141; 32 bytes, internal byte order) of the transaction that fills `raw` as a block serialises it.

    It does not cover Litecoin's MWEB flag bit and the empty MWEB part before the lock time.
    """
    if raw[4:5] == b"\0" and raw[5:6] in _SEGWIT_FLAGS[1:]:
        marker = b"\0\1" if raw[5] & 1 else b""
        raw = raw[:4] + marker + raw[6:-5] + raw[-4:]
    return sha256d(raw)


def read_exactly(data: bytes, *, segwit: bool = False, max_items: int | None = None) -> Transaction:
    """Parse the transaction that fills `data`. Raises TransactionError as `read` does, and for bytes left over."""
    tx = read(data, segwit=segwit, max_items=max_items)
    if tx.size != len(data):
        raise TransactionError(f"{len(data) - tx.size:,} bytes follow the transaction", tx.size)
    return tx


def values_of(outpoints: Iterable[Outpoint], outputs: Mapping[bytes, Sequence[TxOutput]]) -> dict[Outpoint, int]:
    """Satoshis of outputs, as far as they are among the outputs of these transactions, by txid."""
    return {
        outpoint: outputs[outpoint.txid][outpoint.vout].satoshis
        for outpoint in outpoints
        if outpoint.vout < len(outputs.get(outpoint.txid, ()))
    }


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
    """The raw bytes of a transaction without its witness: the inverse of `read`."""
    parts = [_U32.pack(version), varint(len(inputs))]
    for tx_input in inputs:
        parts += [tx_input.prevout.pack(), varint(len(tx_input.script)), tx_input.script, _U32.pack(tx_input.sequence)]
    parts.append(varint(len(outputs)))
    for output in outputs:
        parts += [_I64.pack(output.satoshis), varint(len(output.script)), output.script]
    return b"".join([*parts, _U32.pack(locktime)])
