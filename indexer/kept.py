"""Unconfirmed transactions that matter, and what each says: what went on from nothing new is not read again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from indexer.facts import Event, Reading, State
from indexer.spend_order import spend_order
from parsers.tx import Outpoint, Transaction


class Kept:
    """Transactions by txid, `bytes` in all. `stale` are those whose events are not known, or may be others now."""

    def __init__(self) -> None:
        self.bytes = 0
        self.stale: set[bytes] = set()
        self._gone: set[bytes] = set()
        self._transactions: dict[bytes, Transaction] = {}
        self._said: dict[bytes, list[Event]] = {}
        self._cards: dict[bytes, bytes] = {}

    def __contains__(self, txid: bytes) -> bool:
        return txid in self._transactions

    @property
    def changed(self) -> bool:
        """Whether anything came or went since the last reading."""
        return bool(self.stale or self._gone)

    def add(self, transaction: Transaction) -> None:
        """Keep a transaction."""
        self._transactions[transaction.txid] = transaction
        self.bytes += transaction.size
        self.stale.add(transaction.txid)

    def drop(self, txid: bytes) -> Transaction:
        """Keep a transaction no longer. Raises KeyError when it was not kept."""
        transaction = self._transactions.pop(txid)
        self.bytes -= transaction.size
        self.stale.discard(txid)
        self._said.pop(txid, None)
        self._gone.add(txid)
        return transaction

    def age(self) -> None:
        """Everything may say something else: the block before it is another."""
        self.stale = set(self._transactions)

    def spread(self) -> None:
        """Whatever goes on from what came or went is stale too, at any depth."""
        self.stale |= self.after(self.stale | self._gone)

    def after(self, txids: Iterable[bytes]) -> set[bytes]:
        """The transactions kept that spend outputs of these, or of one that does."""
        children: dict[bytes, list[bytes]] = {}
        for txid, each in self._transactions.items():
            for parent in {spent.prevout.txid for spent in each.inputs}:
                children.setdefault(parent, []).append(txid)
        found: set[bytes] = set()
        waiting = list(txids)
        while waiting:
            fresh = [child for child in children.get(waiting.pop(), ()) if child not in found]
            found.update(fresh)
            waiting += fresh
        return found

    def unread(self) -> list[Transaction]:
        """The stale transactions."""
        return [self._transactions[txid] for txid in self.stale]

    def _parents(self) -> Iterator[tuple[Outpoint, Transaction]]:
        """The outpoints that stale transactions spend of others, and those."""
        for each in self.unread():
            for spent in each.inputs:
                parent = self._transactions.get(spent.prevout.txid)
                if parent is not None and parent.txid not in self.stale:
                    yield spent.prevout, parent

    def seats(self) -> dict[Outpoint, list[State]]:
        """The registrations that what is not stale left at outpoints which stale transactions spend."""
        found: dict[Outpoint, list[State]] = {}
        for outpoint, parent in self._parents():
            states = [event.state for event in self._said[parent.txid] if event.state]
            seated = [state for state in states if state.outpoint == outpoint]
            if seated:
                found[outpoint] = seated
        return found

    def values(self) -> dict[Outpoint, int]:
        """Satoshis of the outputs of what is not stale which stale transactions spend."""
        return {
            outpoint: parent.outputs[outpoint.vout].satoshis
            for outpoint, parent in self._parents()
            if outpoint.vout < len(parent.outputs)
        }

    def take(self, reading: Reading) -> list[Transaction]:
        """The stale transactions were read: keep what they say. Those that say nothing are dropped, and returned."""
        said: dict[bytes, list[Event]] = {txid: [] for txid in self.stale}
        for event in reading.events:
            said[event.txid].append(event)
        self._said |= said
        self._cards |= dict(reading.cards.items())
        silent = [self.drop(txid) for txid, events in said.items() if not events]
        self.stale, self._gone = set(), set()
        return silent

    def events(self) -> list[Event]:
        """All that is said, parents first, else in the order of txids."""
        by_txid = sorted(self._transactions.values(), key=lambda each: each.txid)
        ordered = (event for position in spend_order(by_txid).positions for event in self._said[by_txid[position].txid])
        return [replace(event, position=position) for position, event in enumerate(ordered)]

    def cards(self) -> dict[bytes, bytes]:
        """The card bodies that events name, by SHA-256."""
        named = {event.card for events in self._said.values() for event in events if event.card}
        self._cards = {digest: self._cards[digest] for digest in named if digest in self._cards}
        return self._cards
