"""Looks up registrations by outpoint as of the block being read: in the store, and in blocks that are not written
yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from indexer.chains import NewestEvents
from indexer.model import Event, RegistrationState
from parsers.bitcoin.tx import Outpoint


class RegistrationSource(Protocol):
    """The part of the store that the lookup needs."""

    def at_outpoints(self, chain: str, outpoints: Iterable[Outpoint]) -> dict[Outpoint, list[RegistrationState]]:
        """The registrations of a chain that are at these outpoints now."""
        ...


@dataclass(slots=True)
class _Unwritten:
    """The changes of blocks that are written together: registrations by their new outpoint, the ids that moved, and the
    newest event of each id that was noted."""

    by_outpoint: dict[Outpoint, list[RegistrationState]] = field(default_factory=dict)
    moved: set[str] = field(default_factory=set)
    newest: dict[str, Event] = field(default_factory=dict)


class RegistrationLookup:
    """Registrations by outpoint, read from the store and updated by events that are not written yet.

    Events stay until `settle`, also while they are being written: the result is the same whether the store has them
    already or not. Not thread-safe while it is changed.
    """

    def __init__(self, store: RegistrationSource, chain: str) -> None:
        self._store = store
        self._chain = chain
        self._unwritten = [_Unwritten()]

    def at_outpoints(self, outpoints: Iterable[Outpoint]) -> Mapping[Outpoint, list[RegistrationState]]:
        """The registrations at these outpoints; outpoints without one are left out. Raises StoreError."""
        requested = list(outpoints)
        registrations = {
            outpoint: stayed
            for outpoint, states in self._store.at_outpoints(self._chain, requested).items()
            if (stayed := [state for state in states if not any(state.id in batch.moved for batch in self._unwritten)])
        }
        for outpoint in requested:
            for batch in self._unwritten:
                if outpoint in batch.by_outpoint:
                    registrations[outpoint] = [*registrations.get(outpoint, []), *batch.by_outpoint[outpoint]]
        return registrations

    def take(self, events: Iterable[Event]) -> None:
        """Apply these events, in order, that are not in the store yet."""
        current = self._unwritten[-1]
        for event in events:
            if event.state is None:
                continue
            if event.spent:
                for batch in self._unwritten:
                    batch.by_outpoint.pop(event.spent, None)  # every registration on a spent output moves
            current.moved.add(event.state.id)
            if event.state.outpoint:
                current.by_outpoint.setdefault(event.state.outpoint, []).append(event.state)

    def newest(self, stored: NewestEvents) -> dict[str, Event]:
        """The newest event of each id: those in `stored`, replaced by events that were noted and are not written."""
        events = dict(stored)
        for batch in self._unwritten:
            events |= batch.newest
        return events

    def note(self, events: Iterable[Event]) -> None:
        """Note these events, in order, as the newest of their ids."""
        for event in events:
            id_ = event.state.id if event.state else event.pointer.id if event.pointer else None
            if id_ is not None:
                self._unwritten[-1].newest[id_] = event

    def seal(self) -> None:
        """Close the current batch: the events so far are written and settled together."""
        self._unwritten.append(_Unwritten())

    def settle(self) -> None:
        """Drop the oldest sealed batch, which the store has now."""
        del self._unwritten[0]

    def clear(self) -> None:
        """Drop all batches: the store has them, or they will be read again."""
        self._unwritten = [_Unwritten()]
