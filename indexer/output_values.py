"""Satoshis of the outputs of the transactions being read."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from parsers.tx import Outpoint, Transaction


class OutputValues:
    """Values of the outputs of some transactions, in satoshis: 8 bytes each and 24 bytes a transaction, gathered when
    the first is wanted, which most blocks never do.

    Txids are compared as in `spend_order`.
    """

    def __init__(self, transactions: Iterable[Transaction] = ()) -> None:
        """`transactions` is gone through once, later."""
        self._transactions: Iterable[Transaction] | None = transactions
        self._txids: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._places: npt.NDArray[np.int64] = self._txids
        self._starts, self._values = array("q"), array("q")

    def get(self, outpoint: Outpoint) -> int | None:
        """The value of an output, None where it is of none of these transactions."""
        if self._transactions is not None:
            self._gather(self._transactions)
            self._transactions = None
        txid = hash(outpoint.txid)
        place = int(np.searchsorted(self._txids, txid))
        if place == len(self._txids) or self._txids[place] != txid:
            return None
        number = int(self._places[place])
        at = self._starts[number] + outpoint.vout
        return self._values[at] if at < self._starts[number + 1] else None

    def _gather(self, transactions: Iterable[Transaction]) -> None:
        txids = array("q")
        for transaction in transactions:
            txids.append(hash(transaction.txid))
            self._starts.append(len(self._values))
            self._values.extend(made.satoshis for made in transaction.outputs)
        self._starts.append(len(self._values))
        names = np.frombuffer(txids, np.int64)
        self._places = np.argsort(names)
        self._txids = names[self._places]
