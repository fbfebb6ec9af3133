"""OrdLock: the two contracts by which a 1Sat ordinal is for sale. Its seller may cancel, and anyone may take it in a
transaction that pays the payout.

Both are constant bytes around two pushes: the HASH160 of the seller's key, and the payout as a serialized output. They
are compared by the SHA-256 of these bytes, as js-1sat-ord (v1) and 1sat-sdk (v2, since September 2026) write them.
"""

from __future__ import annotations

from hashlib import sha256
from itertools import islice
from typing import NamedTuple

from parsers.bitcoin.script import Op, executed, ops
from parsers.bitcoin.tx import TxOutput

_VARINT_SIZES = {0xFD: 2, 0xFE: 4, 0xFF: 8}


class _Contract(NamedTuple):
    """A contract: the sizes of its constant bytes before, between and after the two pushes, their SHA-256 together, and
    which push is the seller's."""

    before: int
    between: int
    after: int
    digest: str
    seller_push: int


_CONTRACTS = (
    _Contract(102, 0, 702, "14b3250639266f6c7f405470e9ca159d8b4bcb83de7136286b253fb16949b5f1", 0),
    _Contract(436, 31, 3, "a604d0551a9e30d416e3c36d31692149649a422400d5be954a0859c3fbfe7102", 1),
)
"""Version 1, which is retired but can still be bought and cancelled; version 2."""


class Sale(NamedTuple):
    """An offer to sell the satoshi of an output: the price in satoshis, the script that it is paid to, and the HASH160
    of the key that may cancel."""

    satoshis: int
    payout: bytes
    seller: bytes


def read(output: TxOutput) -> Sale | None:
    """The sale that an output of one satoshi offers, None for any other. What is executed must be the whole contract:
    an envelope before it and a MAP after it are not."""
    if output.satoshis != 1 or len(output.script) < _SMALLEST:
        return None
    lock = executed(output.script)
    return next((sale for contract in _CONTRACTS if (sale := _read(lock, contract)) is not None), None)


_SMALLEST = min(contract.before + contract.between + contract.after for contract in _CONTRACTS)


def _read(lock: bytes, contract: _Contract) -> Sale | None:
    first = _push(lock, contract.before)
    second = _push(lock, first.end + contract.between) if first else None
    if first is None or second is None:
        return None
    constant = lock[: contract.before] + lock[first.end : first.end + contract.between] + lock[second.end :]
    if len(lock) - second.end != contract.after or sha256(constant).hexdigest() != contract.digest:
        return None
    pushed = [first.data or b"", second.data or b""]
    seller, payout = pushed[contract.seller_push], _payout(pushed[1 - contract.seller_push])
    return Sale(*payout, seller) if payout is not None and len(seller) == 20 else None


def _push(lock: bytes, start: int) -> Op | None:
    """The push at an offset, with offsets in the lock."""
    op = next(islice(ops(lock[start:]), 1), None)
    return None if op is None or not op.data else op._replace(start=start, end=start + op.end)


def _payout(output: bytes) -> tuple[int, bytes] | None:
    """The satoshis and the script of a serialized output, None for any other bytes."""
    if len(output) < 9:
        return None
    width = _VARINT_SIZES.get(output[8], 0)
    start = 9 + width
    size = int.from_bytes(output[9:start], "little") if width else output[8]
    return (int.from_bytes(output[:8], "little"), output[start:]) if len(output) == start + size else None
