"""BEEF: transactions with the merkle paths of their ancestors. BRC-62 (V1), BRC-96 (V2) and BRC-95 (Atomic).

Reading checks what the bytes alone can tell: every path named is there and leads from the very transaction that names
it. `verify` checks the rest, against headers. Both take one pass, whatever descends from what. The order does not
matter: BRC-62 wants parents before children, and writers in use do not all heed it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from parsers import bump
from parsers.bump import MerklePath
from parsers.cursor import Cursor
from parsers.errors import ParseError, ProofError
from parsers.tx import COINBASE_TXID, Outpoint, Transaction, TxOutput, varint
from parsers.tx import read as read_tx

V1, V2 = bytes.fromhex("0100beef"), bytes.fromhex("0200beef")
ATOMIC = bytes.fromhex("01010101")

NODE_PAIR = 64
"""Bytes of a transaction that could as well be two nodes of a merkle tree, so that no path can prove it."""

MOST_SATOSHIS = 21_000_000 * 100_000_000

_RAW, _PROVED, _TXID_ONLY = 0, 1, 2
_SMALLEST_TX = 10


class Member(NamedTuple):
    """A transaction of a BEEF. `txid` is in internal byte order; `raw` its bytes and `tx` the record of them, None
    where only the txid is given; `path` the number of the merkle path that proves it, None without one."""

    txid: bytes
    raw: bytes | None
    tx: Transaction | None
    path: int | None = None


class Spend(NamedTuple):
    """An input of a transaction that no path proves: its scripts have to be run by whoever relies on it."""

    tx: Transaction
    vin: int
    spent: TxOutput


@dataclass(frozen=True, slots=True)
class Beef:
    """Merkle paths and transactions. `version` is 1 or 2; `subject` the txid (internal byte
    order) that an Atomic BEEF is about, None for one that is not atomic.

    Making one that contradicts itself raises ParseError; so does one of version 1 with a bare txid.
    """

    version: int
    paths: tuple[MerklePath, ...]
    members: tuple[Member, ...]
    subject: bytes | None = None
    _by_txid: dict[bytes, Member] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_txid", {member.txid: member for member in self.members})
        if self.version not in (1, 2):
            raise ParseError(f"BEEF version {self.version} is not known: there are 1 and 2")
        if not self.members or len(self._by_txid) != len(self.members):
            raise ParseError("a BEEF holds a transaction twice" if self.members else "a BEEF without a transaction")
        for member in self.members:
            _check_member(self, member)
        if self.subject is not None:
            _check_atomic(self.members, self._by_txid, self.subject)

    def member(self, txid: bytes) -> Member | None:
        """The transaction of that txid (internal byte order), None when it is not here."""
        return self._by_txid.get(txid)

    @property
    def newest(self) -> Member:
        """The transaction that all of it is about: the subject, else the last one."""
        return self.members[-1] if self.subject is None else self._by_txid[self.subject]

    def to_bytes(self) -> bytes:
        """The binary form."""
        parts = [ATOMIC, self.subject] if self.subject is not None else []
        parts += [V1 if self.version == 1 else V2, varint(len(self.paths))]
        parts += [path.to_bytes() for path in self.paths]
        parts.append(varint(len(self.members)))
        form = _v1_bytes if self.version == 1 else _v2_bytes
        return b"".join([*parts, *map(form, self.members)])


def _check_member(beef: Beef, member: Member) -> None:
    """What one transaction says about itself."""
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
    """Raise ProofError for a transaction that no merkle path can prove, as it may be two nodes (CVE-2017-12842)."""
    if tx.size == NODE_PAIR:
        raise ProofError(f"transaction {tx.hex_id} has {NODE_PAIR} bytes, as two nodes of a merkle tree have")


def _check_atomic(members: Sequence[Member], known: Mapping[bytes, Member], subject: bytes) -> None:
    """BRC-95: the subject is there, and nothing that is not among its ancestors."""
    if subject not in known:
        raise ParseError(f"an Atomic BEEF lacks its subject {_shown(subject)}")
    related, todo = {subject}, [subject]
    while todo:
        tx = known[todo.pop()].tx
        parents = {spent.prevout.txid for spent in tx.inputs} if tx else set()
        fresh = (parents & known.keys()) - related
        related |= fresh
        todo += fresh
    for member in members:
        if member.txid not in related:
            raise ParseError(f"an Atomic BEEF holds {_shown(member.txid)}, which its subject does not descend from")


def read(data: bytes) -> Beef:
    """The BEEF of any version that fills `data`. Raises ParseError."""
    cursor = Cursor(data)
    subject = None
    mark = cursor.take(4, "the version")
    if mark == ATOMIC:
        subject, mark = cursor.take(32, "the subject's txid"), cursor.take(4, "the version")
    if mark not in (V1, V2):
        raise ParseError(f"these bytes begin {mark.hex()}: a BEEF begins {V1.hex()}, {V2.hex()} or {ATOMIC.hex()}")
    paths = tuple(bump.read_from(cursor) for _ in range(cursor.count("merkle paths", 3)))
    form = _read_v1 if mark == V1 else _read_v2
    members = [form(cursor) for _ in range(cursor.count("transactions", _SMALLEST_TX + 1))]
    cursor.finish("the BEEF")
    return Beef(1 if mark == V1 else 2, paths, _once(members), subject)


def _once(members: Sequence[Member]) -> tuple[Member, ...]:
    """Each transaction once, where a writer repeated it; the last one stays last, as it is the subject."""
    found: dict[bytes, Member] = {}
    for member in members:
        known = found.get(member.txid)
        found[member.txid] = member if known is None else _fuller(known, member)
    for member in members[-1:]:
        found[member.txid] = found.pop(member.txid)
    return tuple(found.values())


def _fuller(one: Member, other: Member) -> Member:
    """The one of two members of the same txid that says more."""
    if one.path is not None and other.path is not None and one.path != other.path:
        raise ParseError(f"transaction {_shown(one.txid)} names two merkle paths, {one.path} and {other.path}")
    return max(one, other, key=lambda member: (member.raw is not None, member.path is not None))


def _read_v1(cursor: Cursor) -> Member:
    tx, raw = _read_tx(cursor)
    flag = cursor.byte("a flag")
    if flag not in (_RAW, _PROVED):
        raise ParseError(f"transaction {tx.hex_id} has flag {flag}: 0 and 1 are known", cursor.at - 1)
    return Member(tx.txid, raw, tx, cursor.varint("the number of a merkle path") if flag else None)


def _read_v2(cursor: Cursor) -> Member:
    form = cursor.byte("a format")
    if form == _TXID_ONLY:
        return Member(cursor.take(32, "a txid"), None, None)
    if form not in (_RAW, _PROVED):
        raise ParseError(f"a transaction has format {form}: 0, 1 and 2 are known", cursor.at - 1)
    path = cursor.varint("the number of a merkle path") if form else None
    tx, raw = _read_tx(cursor)
    return Member(tx.txid, raw, tx, path)


def _read_tx(cursor: Cursor) -> tuple[Transaction, bytes]:
    tx = read_tx(cursor.data, cursor.at)
    return tx, cursor.take(tx.size, "a transaction")


def _v1_bytes(member: Member) -> bytes:
    proof = b"\0" if member.path is None else b"\1" + varint(member.path)
    return (member.raw or b"") + proof


def _v2_bytes(member: Member) -> bytes:
    if member.raw is None:
        return b"\2" + member.txid
    proof = b"\0" if member.path is None else b"\1" + varint(member.path)
    return proof + member.raw


def write(
    transactions: Iterable[tuple[bytes, MerklePath | None]], *, version: int = 1, subject: bytes | None = None
) -> bytes:
    """The BEEF of raw transactions (without witness), parents first, each with its merkle path if it has one.

    Paths of one block are joined. Raises ParseError when something does not fit together.
    """
    given = [(raw, read_tx(raw), path) for raw, path in transactions]
    blocks: dict[tuple[int, bytes], list[MerklePath]] = {}
    for _, tx, path in given:
        if path is not None:
            blocks.setdefault((path.height, path.merkle_root), []).append(bump.extract(path, [tx.txid]))
    numbers = {block: number for number, block in enumerate(blocks)}
    members = tuple(
        Member(tx.txid, raw, tx, None if path is None else numbers[path.height, path.merkle_root])
        for raw, tx, path in given
    )
    return Beef(version, tuple(map(bump.combine, blocks.values())), members, subject).to_bytes()


def verify(
    beef: Beef, is_root: Callable[[int, bytes], bool], held: Mapping[bytes, Transaction] | None = None
) -> tuple[Spend, ...]:
    """Check all that a BEEF claims, and give what is left: the inputs whose scripts have to be run.

    `is_root(height, root)` says whether the block of the best chain at that height has that merkle root (32 bytes,
    internal order); it is asked about every path, used or not. `held` are transactions, by txid, that the caller has
    from elsewhere: only for those is a bare txid enough. Raises ProofError naming what is not proved: a root that is
    not of the chain, a parent that is missing, an output that is missing or spent twice, more satoshis out than in.
    """
    for path in beef.paths:
        if not is_root(path.height, path.merkle_root):
            raise ProofError(f"merkle root {_shown(path.merkle_root)} is not that of the chain's block {path.height:,}")
    known = dict(_known(beef, held or {}))
    spent: set[Outpoint] = set()
    left: list[Spend] = []
    for member in beef.members:
        if member.tx is None:
            continue
        _check_spent_once(member.tx, spent)
        if member.path is None:
            left += _spends(member.tx, known)
    return tuple(left)


def _known(beef: Beef, held: Mapping[bytes, Transaction]) -> Iterable[tuple[bytes, Transaction]]:
    for member in beef.members:
        tx = member.tx or held.get(member.txid)
        if tx is None:
            raise ProofError(f"transaction {_shown(member.txid)} is only named, and not held here")
        yield member.txid, tx


def _check_spent_once(tx: Transaction, spent: set[Outpoint]) -> None:
    for each in tx.inputs:
        if each.prevout.txid == COINBASE_TXID:
            continue  # every coinbase spends the same nothing
        if each.prevout in spent:
            raise ProofError(f"output {each.prevout} is spent twice, the second time by transaction {tx.hex_id}")
        spent.add(each.prevout)


def _spends(tx: Transaction, known: Mapping[bytes, Transaction]) -> list[Spend]:
    """The inputs of a transaction without a proof, once its parents are there and pay for it."""
    found = []
    for vin, each in enumerate(tx.inputs):
        parent = known.get(each.prevout.txid)
        if parent is None:
            raise ProofError(f"transaction {tx.hex_id} has no merkle path, and its parent {each.prevout} is missing")
        if each.prevout.vout >= len(parent.outputs):
            raise ProofError(f"transaction {tx.hex_id} spends {each.prevout}, which does not exist")
        found.append(Spend(tx, vin, parent.outputs[each.prevout.vout]))
    paid, made = _total([spend.spent for spend in found]), _total(tx.outputs)
    if made > paid:
        raise ProofError(f"transaction {tx.hex_id} makes {made:,} satoshis out of {paid:,}")
    return found


def _total(outputs: Sequence[TxOutput]) -> int:
    """The sum of values, each of which is one that can exist."""
    for made in outputs:
        if not 0 <= made.satoshis <= MOST_SATOSHIS:
            raise ProofError(f"an output holds {made.satoshis:,} satoshis, which cannot be")
    return sum(made.satoshis for made in outputs)


def _shown(digest: bytes) -> str:
    return digest[::-1].hex()
