"""BEEF by the book, recursive and slow: which transactions the bytes prove, given the roots of a chain."""

from __future__ import annotations

from tests.oracles import merkle
from tests.oracles.wire import Tape, Tx, read_tx

Roots = set[tuple[int, bytes]]
MOST = 21 * 10**14


class UnprovedError(Exception):
    """Something in these bytes is not what it should be."""


def judge(data: bytes, roots: Roots, held: dict[str, Tx] | None = None) -> set[str] | None:
    """The txids that a BEEF's bytes prove, once scripts have run; None when anything in it is wrong.

    `held` are the transactions that need no more than their txid.
    """
    try:
        return _judge(data, roots, held or {})
    except (UnprovedError, IndexError, KeyError):
        return None


def _judge(data: bytes, roots: Roots, held: dict[str, Tx]) -> set[str]:
    tape = Tape(data)
    mark = tape.take(4).hex()
    subject = None
    if mark == "01010101":
        subject = tape.take(32)[::-1].hex()
        mark = tape.take(4).hex()
    version = {"0100beef": 1, "0200beef": 2}[mark]
    paths = [_path(tape) for _ in range(tape.varint())]
    for height, root, _ in paths:
        _sure((height, root) in roots)
    members = [_member(tape, version) for _ in range(tape.varint())]
    _sure(tape.position == len(data) and bool(members))
    existing: dict[str, Tx | None] = {}
    claims: dict[str, int] = {}
    for txid, tx, size, path in members:
        existing[txid] = existing.get(txid) or tx
        _sure(tx is None or bool(tx.spends and tx.outs))
        if path is not None:
            _sure(claims.setdefault(txid, path) == path)
            _sure(size != 64 and bytes.fromhex(txid)[::-1] in paths[path][2])
    complete = {txid: tx or held[txid] for txid, tx in existing.items()}
    spent = [spend for tx in existing.values() if tx for spend in tx.spends if int(spend[:64], 16)]
    _sure(len(spent) == len(set(spent)))
    for txid, tx in existing.items():
        if tx and txid not in claims:
            _pays(tx, complete)
    if subject is not None:
        _sure(subject in existing and _ancestors(subject, existing) == set(existing))
    return set(existing)


def _sure(what: bool) -> None:
    if not what:
        raise UnprovedError


def _path(tape: Tape) -> tuple[int, bytes, set[bytes]]:
    """The next BUMP: its height, its root and the txids it holds."""
    start = tape.position
    height = tape.varint()
    leaves: set[bytes] = set()
    for level in range(tape.number(1)):
        for _ in range(tape.varint()):
            tape.varint()
            digest = b"" if tape.number(1) == 1 else tape.take(32)
            leaves |= {digest} if level == 0 else set()
    root = merkle.judge(tape.data[start : tape.position])
    if root is None:
        raise UnprovedError
    return height, root, leaves


def _member(tape: Tape, version: int) -> tuple[str, Tx | None, int, int | None]:
    """The next transaction: its txid, itself, its size, and the path it names."""
    flag, path = 0, None
    if version == 2:
        flag = tape.number(1)
        if flag == 2:
            return tape.take(32)[::-1].hex(), None, 0, None
        path = tape.varint() if flag else None
    start = tape.position
    tx = read_tx(tape)
    size = tape.position - start
    if version == 1:
        flag = tape.number(1)
        path = tape.varint() if flag else None
    _sure(flag in (0, 1))
    return tx.txid, tx, size, path


def _pays(tx: Tx, complete: dict[str, Tx]) -> None:
    paid = 0
    for spend in tx.spends:
        txid, _, vout = spend.partition("_")
        paid += _value(complete[txid].outs[int(vout)].satoshis)
    _sure(sum(_value(out.satoshis) for out in tx.outs) <= paid)


def _value(satoshis: int) -> int:
    _sure(satoshis <= MOST)
    return satoshis


def _ancestors(txid: str, existing: dict[str, Tx | None]) -> set[str]:
    tx = existing.get(txid)
    parents = {spend.partition("_")[0] for spend in tx.spends} if tx else set()
    return {txid}.union(*(_ancestors(parent, existing) for parent in parents if parent in existing))
