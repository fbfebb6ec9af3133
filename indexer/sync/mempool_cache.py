"""Relevant unconfirmed transactions with their events: only new ones and their descendants are read again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, KeysView, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from indexer.model import BlockFacts, Event, RegistrationState
from indexer.resolution.spend_order import spend_order
from parsers.bitcoin.tx import Outpoint, Transaction
from parsers.bitcoin.watched_outpoints import WatchedOutpoints

PART_BYTES = 250
"""Memory that a parsed input takes besides its bytes; an output takes less. A megabyte may hold 24,000 inputs."""


def memory_of(transaction: Transaction) -> int:
    """The bytes of memory that a parsed transaction takes, at most."""
    return transaction.size + PART_BYTES * (len(transaction.inputs) + len(transaction.outputs))


class MempoolCache:
    """Transactions by txid, with `bytes` of memory in all. `stale` are the txids with missing or outdated events."""

    def __init__(self) -> None:
        self.bytes = 0
        self.stale: set[bytes] = set()
        self._gone: set[bytes] = set()
        self._transactions: dict[bytes, Transaction] = {}
        self._events: dict[bytes, list[Event]] = {}
        self._cards: dict[bytes, bytes] = {}

    def __contains__(self, txid: bytes) -> bool:
        return txid in self._transactions

    @property
    def changed(self) -> bool:
        """Whether a transaction arrived or left since the last reading."""
        return bool(self.stale or self._gone)

    def add(self, transaction: Transaction) -> None:
        """Add a transaction."""
        self._transactions[transaction.txid] = transaction
        self.bytes += memory_of(transaction)
        self.stale.add(transaction.txid)

    def drop(self, txid: bytes) -> Transaction:
        """Remove a transaction. Raises KeyError when it is not here."""
        transaction = self._transactions.pop(txid)
        self.bytes -= memory_of(transaction)
        self.stale.discard(txid)
        self._events.pop(txid, None)
        self._gone.add(txid)
        return transaction

    def mark_all_stale(self) -> None:
        """Mark all transactions as stale: after another block their events may differ."""
        self.stale = set(self._transactions)

    def mark_descendants_stale(self) -> None:
        """Mark the descendants of new and removed transactions as stale, at any depth."""
        self.stale |= self.descendants(self.stale | self._gone)

    def descendants(self, txids: Iterable[bytes]) -> set[bytes]:
        """The transactions that descend from these: they spend their outputs, or those of a descendant."""
        children: dict[bytes, list[bytes]] = {}
        for txid, transaction in self._transactions.items():
            for parent in {spent.prevout.txid for spent in transaction.inputs}:
                children.setdefault(parent, []).append(txid)
        descendants: set[bytes] = set()
        waiting = list(txids)
        while waiting:
            fresh = [child for child in children.get(waiting.pop(), ()) if child not in descendants]
            descendants.update(fresh)
            waiting += fresh
        return descendants

    def unread(self) -> list[Transaction]:
        """The stale transactions."""
        return [self._transactions[txid] for txid in self.stale]

    def _parents(self) -> Iterator[tuple[Outpoint, Transaction]]:
        """The outpoints that stale transactions spend of others that are not stale, each with that parent."""
        for transaction in self.unread():
            for spent in transaction.inputs:
                parent = self._transactions.get(spent.prevout.txid)
                if parent is not None and parent.txid not in self.stale:
                    yield spent.prevout, parent

    def registrations(self) -> dict[Outpoint, list[RegistrationState]]:
        """The registrations at outpoints that stale transactions spend of transactions that are not stale."""
        spent = {outpoint: parent.txid for outpoint, parent in self._parents()}
        registrations: dict[Outpoint, list[RegistrationState]] = {}
        for txid in set(spent.values()):
            for event in self._events[txid]:
                if event.state and event.state.outpoint in spent:
                    registrations.setdefault(event.state.outpoint, []).append(event.state)
        return registrations

    def values(self) -> dict[Outpoint, int]:
        """Values in satoshis of outputs that stale transactions spend of transactions that are not stale."""
        return {
            outpoint: parent.outputs[outpoint.vout].satoshis
            for outpoint, parent in self._parents()
            if outpoint.vout < len(parent.outputs)
        }

    def take(self, reading: BlockFacts) -> list[Transaction]:
        """Take the events of the stale transactions. Those without events are removed, and returned."""
        events_by_txid: dict[bytes, list[Event]] = {txid: [] for txid in self.stale}
        for event in reading.events:
            events_by_txid[event.txid].append(event)
        self._events |= events_by_txid
        self._cards |= dict(reading.cards.items())
        without_events = [self.drop(txid) for txid, events in events_by_txid.items() if not events]
        self.stale, self._gone = set(), set()
        return without_events

    def events(self) -> list[Event]:
        """All events, those of parents first, else in order of txid."""
        by_txid = sorted(self._transactions.values(), key=lambda transaction: transaction.txid)
        ordered = (
            event for position in spend_order(by_txid).positions for event in self._events[by_txid[position].txid]
        )
        return [replace(event, position=position) for position, event in enumerate(ordered)]

    def cards(self) -> dict[bytes, bytes]:
        """The card bodies that events name, by SHA-256."""
        named = {event.card for events in self._events.values() for event in events if event.card}
        self._cards = {digest: self._cards[digest] for digest in named if digest in self._cards}
        return self._cards


_CHUNKS = 64


class SpentOutpointIndex:
    """Which unconfirmed transactions spend an outpoint, as fingerprints: 16 bytes an input, about 150 a transaction.

    Sets of outpoints passed to it must have the same `key`.
    """

    def __init__(self, key: int) -> None:
        self.key = key
        self._numbers: dict[bytes, int] = {}
        self._txids: list[bytes] = []
        self._chunks: list[tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]] = []

    def __contains__(self, txid: bytes) -> bool:
        return txid in self._numbers

    def txids(self) -> KeysView[bytes]:
        """The txids of all transactions in the index."""
        return self._numbers.keys()

    def add(self, txids: Sequence[bytes], marks: npt.NDArray[np.uint64], owners: npt.NDArray[np.int64]) -> None:
        """Add transactions; `marks` (fingerprints of prevouts) and `owners` (indexes into `txids`) are the result
        of `block.inputs`."""
        first = len(self._txids)
        self._numbers |= {txid: first + number for number, txid in enumerate(txids)}
        self._txids += txids
        self._chunks.append((marks, owners + first))
        if len(self._chunks) > _CHUNKS:
            self._chunks = [
                (np.concatenate([m for m, _ in self._chunks]), np.concatenate([o for _, o in self._chunks]))
            ]

    def discard(self, txids: Iterable[bytes]) -> None:
        """Remove transactions."""
        for txid in txids:
            self._numbers.pop(txid, None)
        if len(self._txids) > 2 * len(self._numbers) + _CHUNKS:
            self._compact()

    def _compact(self) -> None:
        """Rebuild the columns without removed transactions."""
        moved = np.full(len(self._txids), -1, np.int64)
        for number, (txid, old) in enumerate(self._numbers.items()):
            moved[old] = number
            self._numbers[txid] = number
        self._txids = list(self._numbers)
        chunks = []
        for marks, owners in self._chunks:
            owners = moved[owners]
            chunks.append((marks[owners >= 0], owners[owners >= 0]))
        self._chunks = chunks

    def spenders(self, outpoints: WatchedOutpoints) -> list[bytes]:
        """The txids of transactions that spend one of these outpoints."""
        txids: dict[bytes, None] = {}
        for marks, owners in self._chunks if len(outpoints) else ():
            for number in owners[outpoints.contains(marks)].tolist():
                txid = self._txids[number]
                if self._numbers.get(txid) == number:
                    txids[txid] = None
        return list(txids)
