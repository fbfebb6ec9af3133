"""The order in which transactions spend each other, and the values of their outputs: columns without objects.

The order takes 24 bytes an input and 8 a transaction.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from parsers.bitcoin.tx import Outpoint, Transaction

_Numbers = npt.NDArray[np.int64]
_AT_ONCE = 1 << 20


class SpendOrder(NamedTuple):
    """Positions of transactions, each parent before its children; and for each whether it has a child here."""

    positions: Sequence[int]
    is_parent: Sequence[int]


def spend_order(transactions: Iterable[Transaction]) -> SpendOrder:
    """The order in which to read these transactions: parents first, else as they come (BCH sorts by txid).

    Txids are compared by their hashes in this process, which cannot be predicted from outside: two of ten million
    transactions collide with a probability of 10^-6.
    """
    txids, prevouts, children = array("q"), array("q"), array("q")
    for position, transaction in enumerate(transactions):
        txids.append(hash(transaction.txid))
        for spent in transaction.inputs:
            prevouts.append(hash(spent.prevout.txid))
            children.append(position)
    count = len(txids)
    if count < 2:
        return SpendOrder(range(count), bytes(count))
    parents, children_of = _edges(*(np.frombuffer(column, np.int64) for column in (txids, prevouts, children)))
    is_parent = np.zeros(count, np.bool_)
    is_parent[parents] = True
    in_order = not (parents > children_of).any()
    return SpendOrder(range(count) if in_order else _sorted(count, parents, children_of), is_parent.tobytes())


def _edges(txids: _Numbers, prevouts: _Numbers, children: _Numbers) -> tuple[_Numbers, _Numbers]:
    """Two columns: positions of parents, and of the children that spend them."""
    order = np.argsort(txids, kind="stable")
    names = txids[order]
    parents, spending = [], []
    for start in range(0, len(prevouts), _AT_ONCE):
        batch = prevouts[start : start + _AT_ONCE]
        indexes = np.maximum(np.searchsorted(names, batch, side="right") - 1, 0)
        there = names[indexes] == batch
        parents.append(order[indexes[there]])
        spending.append(children[start : start + _AT_ONCE][there])
    none = np.empty(0, np.int64)
    return np.concatenate([none, *parents]), np.concatenate([none, *spending])


def _sorted(count: int, parents: _Numbers, children: _Numbers) -> Sequence[int]:
    """Positions below `count`, each parent before its children, the lowest possible first."""
    order = np.argsort(parents, kind="stable")
    left = np.bincount(children, minlength=count)
    ready = np.flatnonzero(left == 0).tolist()
    # views give plain numbers, several times as fast as arrays do
    starts, of_parent = np.searchsorted(parents[order], np.arange(count + 1)).data, children[order].data
    waiting = left.data
    positions = array("q")
    while ready:
        position = heappop(ready)
        positions.append(position)
        for index in range(starts[position], starts[position + 1]):
            child = of_parent[index]
            waiting[child] -= 1
            if not waiting[child]:
                heappush(ready, child)
    return positions


class OutputValues:
    """Values of the outputs of some transactions, in satoshis: 8 bytes each and 24 bytes a transaction, gathered when
    the first is requested, which most blocks never do.

    Txids are compared as in `spend_order`.
    """

    def __init__(self, transactions: Iterable[Transaction] = ()) -> None:
        """`transactions` is iterated once, at the first `get`."""
        self._transactions: Iterable[Transaction] | None = transactions
        self._txids: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._order: npt.NDArray[np.int64] = self._txids
        self._starts, self._values = array("q"), array("q")

    def get(self, outpoint: Outpoint) -> int | None:
        """The value of an output in satoshis, None for outputs of other transactions."""
        if self._transactions is not None:
            self._gather(self._transactions)
            self._transactions = None
        txid = hash(outpoint.txid)
        index = int(np.searchsorted(self._txids, txid))
        if index == len(self._txids) or self._txids[index] != txid:
            return None
        number = int(self._order[index])
        value_index = self._starts[number] + outpoint.vout
        return self._values[value_index] if value_index < self._starts[number + 1] else None

    def _gather(self, transactions: Iterable[Transaction]) -> None:
        txids = array("q")
        for transaction in transactions:
            txids.append(hash(transaction.txid))
            self._starts.append(len(self._values))
            self._values.extend(output.satoshis for output in transaction.outputs)
        self._starts.append(len(self._values))
        names = np.frombuffer(txids, np.int64)
        self._order = np.argsort(names)
        self._txids = names[self._order]
