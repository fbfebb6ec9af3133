"""BEEF: transactions with the merkle paths of their ancestors. BRC-62 (V1), BRC-96 (V2) and BRC-95 (Atomic).

Parsing verifies what the bytes alone can show: every merkle path that a transaction names exists and contains that
transaction. `verify` verifies the rest against headers. Both take one pass over the transactions, in any order: BRC-62
requires parents before children, but not all writers in use comply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from parsers.bitcoin import bump
from parsers.bitcoin.bump import MerklePath
from parsers.bitcoin.tx import COINBASE_TXID, Outpoint, Transaction, TxOutput, varint
from parsers.bitcoin.tx import read as read_tx
from parsers.byte_reader import ByteReader
from parsers.errors import ParseError, ProofError

V1, V2 = bytes.fromhex("0100beef"), bytes.fromhex("0200beef")
ATOMIC = bytes.fromhex("01010101")

NODE_PAIR = 64
"""Bytes of two merkle nodes: a merkle path cannot prove a transaction of this size (CVE-2017-12842)."""

MAX_SATOSHIS = 21_000_000 * 100_000_000

_RAW, _PROVED, _TXID_ONLY = 0, 1, 2
_SMALLEST_TX = 10


class BeefTransaction(NamedTuple):
    """A transaction of a BEEF. `txid` is in internal byte order; `raw` (bytes) and `tx` (parsed) are None for a bare
    txid; `path` is the index of the merkle path that proves it, None without one."""

    txid: bytes
    raw: bytes | None
    tx: Transaction | None
    path: int | None = None


class UnprovenInput(NamedTuple):
    """Input `vin` of a transaction without a merkle path, and the output that it spends: the caller must run its
    scripts."""

    tx: Transaction
    vin: int
    spent: TxOutput


@dataclass(frozen=True, slots=True)
class Beef:
    """Merkle paths and transactions. `version` is 1 or 2; `subject` is the subject txid (internal byte order) of an
    Atomic BEEF, None for any other.

    The constructor raises ParseError for contradictions, and for a bare txid in version 1.
    """

    version: int
    paths: tuple[MerklePath, ...]
    members: tuple[BeefTransaction, ...]
    subject: bytes | None = None
    _by_txid: dict[bytes, BeefTransaction] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_txid", {member.txid: member for member in self.members})
        if self.version not in (1, 2):
            raise ParseError(f"BEEF version {self.version} is not supported: 1 and 2 are")
        if not self.members or len(self._by_txid) != len(self.members):
            raise ParseError("a BEEF holds a transaction twice" if self.members else "a BEEF without a transaction")
        for member in self.members:
            _check_member(self, member)
        if self.subject is not None:
            _check_atomic(self.members, self._by_txid, self.subject)

    def member(self, txid: bytes) -> BeefTransaction | None:
        """The transaction with a txid (internal byte order); None when the BEEF does not contain it."""
        return self._by_txid.get(txid)

    @property
    def newest(self) -> BeefTransaction:
        """The transaction that the BEEF proves: the subject, else the last one."""
        return self.members[-1] if self.subject is None else self._by_txid[self.subject]

    def to_bytes(self) -> bytes:
        """The binary format."""
        parts = [ATOMIC, self.subject] if self.subject is not None else []
        parts += [V1 if self.version == 1 else V2, varint(len(self.paths))]
        parts += [path.to_bytes() for path in self.paths]
        parts.append(varint(len(self.members)))
        form = _v1_bytes if self.version == 1 else _v2_bytes
        return b"".join([*parts, *map(form, self.members)])


def _check_member(beef: Beef, member: BeefTransaction) -> None:
    """Verify one transaction and the merkle path that it names. Raises ParseError."""
    if member.tx is None:
        if beef.version == 1:
            raise ParseError(f"a BEEF of version 1 holds {_shown(member.txid)} without its transaction")
        return
    if not member.tx.inputs or not member.tx.outputs:
        raise ParseError(f"transaction {_shown(member.txid)} has no inputs or no outputs")
    if member.path is None:
        return
    if member.path >= len(beef.paths):
        raise ParseError(f"transaction {_shown(member.txid)} names merkle path {member.path} of {len(beef.paths)}")
    refuse_node_pair(member.tx)
    beef.paths[member.path].root(member.txid)


def refuse_node_pair(tx: Transaction) -> None:
    """Raise ProofError for a transaction of 64 bytes, which could be two merkle nodes (CVE-2017-12842)."""
    if tx.size == NODE_PAIR:
        raise ProofError(f"transaction {tx.hex_id} has {NODE_PAIR} bytes, the size of two nodes of a merkle tree")


def _check_atomic(members: Sequence[BeefTransaction], by_txid: Mapping[bytes, BeefTransaction], subject: bytes) -> None:
    """BRC-95: the subject exists, and every other transaction is one of its ancestors. Raises ParseError."""
    if subject not in by_txid:
        raise ParseError(f"an Atomic BEEF lacks its subject {_shown(subject)}")
    related, todo = {subject}, [subject]
    while todo:
        tx = by_txid[todo.pop()].tx
        parents = {tx_input.prevout.txid for tx_input in tx.inputs} if tx else set()
        unseen = (parents & by_txid.keys()) - related
        related |= unseen
        todo += unseen
    for member in members:
        if member.txid not in related:
            raise ParseError(f"an Atomic BEEF holds {_shown(member.txid)}, which its subject does not descend from")


def read(data: bytes, max_items: int | None = None) -> Beef:
    """Parse the BEEF, of any version, that fills `data`. Raises ParseError, also for more than `max_items` merkle
    paths, their nodes, transactions, inputs and outputs together."""
    reader = ByteReader(data, budget=max_items)
    subject = None
    mark = reader.take(4, "the version")
    if mark == ATOMIC:
        subject, mark = reader.take(32, "the subject's txid"), reader.take(4, "the version")
    if mark not in (V1, V2):
        raise ParseError(f"these bytes begin {mark.hex()}: a BEEF begins {V1.hex()}, {V2.hex()} or {ATOMIC.hex()}")
    paths = tuple(bump.read_from(reader) for _ in range(reader.count("merkle paths", 3)))
    form = _read_v1 if mark == V1 else _read_v2
    members = [form(reader) for _ in range(reader.count("transactions", _SMALLEST_TX + 1))]
    reader.finish("the BEEF")
    return Beef(1 if mark == V1 else 2, paths, _deduplicated(members), subject)


def _deduplicated(members: Sequence[BeefTransaction]) -> tuple[BeefTransaction, ...]:
    """The transactions without repetitions; the last one stays last, because it is the one to prove."""
    by_txid: dict[bytes, BeefTransaction] = {}
    for member in members:
        earlier = by_txid.get(member.txid)
        by_txid[member.txid] = member if earlier is None else _fuller(earlier, member)
    for member in members[-1:]:
        by_txid[member.txid] = by_txid.pop(member.txid)
    return tuple(by_txid.values())


def _fuller(left: BeefTransaction, right: BeefTransaction) -> BeefTransaction:
    """The entry with more parts, of two with the same txid. Raises ParseError when they name different paths."""
    if left.path is not None and right.path is not None and left.path != right.path:
        raise ParseError(f"transaction {_shown(left.txid)} names two merkle paths, {left.path} and {right.path}")
    return max(left, right, key=lambda member: (member.raw is not None, member.path is not None))


def _read_v1(reader: ByteReader) -> BeefTransaction:
    tx, raw = _read_tx(reader)
    flag = reader.byte("a flag")
    if flag not in (_RAW, _PROVED):
        raise ParseError(f"transaction {tx.hex_id} has flag {flag}: 0 and 1 are supported", reader.offset - 1)
    return BeefTransaction(tx.txid, raw, tx, reader.varint("the number of a merkle path") if flag else None)


def _read_v2(reader: ByteReader) -> BeefTransaction:
    form = reader.byte("a format")
    if form == _TXID_ONLY:
        return BeefTransaction(reader.take(32, "a txid"), None, None)
    if form not in (_RAW, _PROVED):
        raise ParseError(f"a transaction has format {form}: 0, 1 and 2 are supported", reader.offset - 1)
    path = reader.varint("the number of a merkle path") if form else None
    tx, raw = _read_tx(reader)
    return BeefTransaction(tx.txid, raw, tx, path)


def _read_tx(reader: ByteReader) -> tuple[Transaction, bytes]:
    start = reader.offset
    tx = read_tx(reader.data, start, max_items=reader.budget)
    reader.spend(len(tx.inputs) + len(tx.outputs), "inputs and outputs", start)
    return tx, reader.take(tx.size, "a transaction")


def _v1_bytes(member: BeefTransaction) -> bytes:
    proof = b"\0" if member.path is None else b"\1" + varint(member.path)
    return (member.raw or b"") + proof


def _v2_bytes(member: BeefTransaction) -> bytes:
    if member.raw is None:
        return b"\2" + member.txid
    proof = b"\0" if member.path is None else b"\1" + varint(member.path)
    return proof + member.raw


def write(
    transactions: Iterable[tuple[bytes, MerklePath | None]], *, version: int = 1, subject: bytes | None = None
) -> bytes:
    """The BEEF of raw transactions (without witness), parents first, each with its merkle path or None.

    Paths of the same block are combined. Raises ParseError for a path that does not contain its transaction, and for
    contradictions.
    """
    parsed = [(raw, read_tx(raw), path) for raw, path in transactions]
    blocks: dict[tuple[int, bytes], list[MerklePath]] = {}
    for _, tx, path in parsed:
        if path is not None:
            blocks.setdefault((path.height, path.merkle_root), []).append(bump.extract(path, [tx.txid]))
    numbers = {block: number for number, block in enumerate(blocks)}
    members = tuple(
        BeefTransaction(tx.txid, raw, tx, None if path is None else numbers[path.height, path.merkle_root])
        for raw, tx, path in parsed
    )
    return Beef(version, tuple(map(bump.combine, blocks.values())), members, subject).to_bytes()


def verify(
    beef: Beef, is_root: Callable[[int, bytes], bool], trusted: Mapping[bytes, Transaction] | None = None
) -> tuple[UnprovenInput, ...]:
    """Verify a BEEF; returns the inputs of unproven transactions: the caller must run their scripts.

    `is_root(height, root)` returns whether the block of the best chain at a height has a merkle root (32 bytes,
    internal byte order); it is called for every path. `trusted` are transactions by txid that the caller has already:
    only they may be bare txids in the BEEF. Raises ProofError naming what is not proved: a root that is not of the
    chain, a missing parent, an output that is missing or spent twice, more satoshis out than in.
    """
    for path in beef.paths:
        if not is_root(path.height, path.merkle_root):
            raise ProofError(f"merkle root {_shown(path.merkle_root)} is not that of the chain's block {path.height:,}")
    by_txid = dict(_transactions(beef, trusted or {}))
    spent: set[Outpoint] = set()
    unproven: list[UnprovenInput] = []
    for member in beef.members:
        if member.tx is None:
            continue
        _check_spent_once(member.tx, spent)
        if member.path is None:
            unproven += _unproven_inputs(member.tx, by_txid)
    return tuple(unproven)


def _transactions(beef: Beef, trusted: Mapping[bytes, Transaction]) -> Iterable[tuple[bytes, Transaction]]:
    for member in beef.members:
        tx = member.tx or trusted.get(member.txid)
        if tx is None:
            raise ProofError(f"transaction {_shown(member.txid)} is only a bare txid")
        yield member.txid, tx


def _check_spent_once(tx: Transaction, spent: set[Outpoint]) -> None:
    for tx_input in tx.inputs:
        if tx_input.prevout.txid == COINBASE_TXID:
            continue  # all coinbases have the same null prevout
        if tx_input.prevout in spent:
            raise ProofError(f"output {tx_input.prevout} is spent twice, the second time by transaction {tx.hex_id}")
        spent.add(tx_input.prevout)


def _unproven_inputs(tx: Transaction, by_txid: Mapping[bytes, Transaction]) -> list[UnprovenInput]:
    """The inputs of an unproven transaction: its parents must be available and pay for its outputs."""
    inputs = []
    for vin, tx_input in enumerate(tx.inputs):
        parent = by_txid.get(tx_input.prevout.txid)
        if parent is None:
            raise ProofError(
                f"transaction {tx.hex_id} has no merkle path, and its parent {tx_input.prevout} is missing"
            )
        if tx_input.prevout.vout >= len(parent.outputs):
            raise ProofError(f"transaction {tx.hex_id} spends {tx_input.prevout}, which does not exist")
        inputs.append(UnprovenInput(tx, vin, parent.outputs[tx_input.prevout.vout]))
    paid, sent = _total([unproven.spent for unproven in inputs]), _total(tx.outputs)
    if sent > paid:
        raise ProofError(f"transaction {tx.hex_id} sends {sent:,} satoshis and spends {paid:,}")
    return inputs


def _total(outputs: Sequence[TxOutput]) -> int:
    """The sum of values in satoshis. Raises ProofError for a value that cannot exist."""
    for output in outputs:
        if not 0 <= output.satoshis <= MAX_SATOSHIS:
            raise ProofError(f"an output holds {output.satoshis:,} satoshis, which cannot exist")
    return sum(output.satoshis for output in outputs)


def _shown(digest: bytes) -> str:
    return digest[::-1].hex()
