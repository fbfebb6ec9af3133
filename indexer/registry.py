"""Where registrations are, as of the block being read: the store's answer with the blocks not yet written on top."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from indexer.chains import Newest
from indexer.facts import Event, State
from parsers.tx import Outpoint


class Seats(Protocol):
    """What a registry asks of the store."""

    def at(self, chain: str, outpoints: Iterable[Outpoint]) -> dict[Outpoint, list[State]]:
        """The registrations of a chain that are at these outpoints now."""
        ...


@dataclass(slots=True)
class _Unwritten:
    """What blocks that go into the store together said: who is where now, and who is not where the store says; and the
    newest event about each id that was noted."""

    seats: dict[Outpoint, list[State]] = field(default_factory=dict)
    moved: set[str] = field(default_factory=set)
    newest: dict[str, Event] = field(default_factory=dict)


class Registry:
    """Registrations by the outpoint they are at: those of the store, and those of events not yet appended to it.

    Events are kept until they are settled, also while they are being written: whether the store has them already
    makes no difference to the answer then. Not to be changed while another thread asks.
    """

    def __init__(self, store: Seats, chain: str) -> None:
        self._store = store
        self._chain = chain
        self._unwritten = [_Unwritten()]

    def at(self, outpoints: Iterable[Outpoint]) -> Mapping[Outpoint, list[State]]:
        """The registrations at these outpoints; those that none is at are left out."""
        wanted = list(outpoints)
        found = {
            outpoint: stayed
            for outpoint, states in self._store.at(self._chain, wanted).items()
            if (stayed := [state for state in states if not self._has_moved(state.id)])
        }
        for outpoint in wanted:
            for each in self._unwritten:
                if outpoint in each.seats:
                    found[outpoint] = [*found.get(outpoint, []), *each.seats[outpoint]]
        return found

    def _has_moved(self, id_: str) -> bool:
        return any(id_ in each.moved for each in self._unwritten)

    def take(self, events: Iterable[Event]) -> None:
        """Count these events as happened, in order, though they are not in the store yet."""
        newest = self._unwritten[-1]
        for event in events:
            if event.state is None:
                continue
            if event.spent:
                for each in self._unwritten:
                    each.seats.pop(event.spent, None)  # all that were there leave with it
            newest.moved.add(event.state.id)
            if event.state.outpoint:
                newest.seats.setdefault(event.state.outpoint, []).append(event.state)

    def newest(self, stored: Newest) -> dict[str, Event]:
        """The newest event about each id: what the store said of them, under what was noted and is not in it."""
        found = dict(stored)
        for each in self._unwritten:
            found |= each.newest
        return found

    def note(self, events: Iterable[Event]) -> None:
        """Count these events as happened, in order, and each as the newest about its id."""
        for event in events:
            id_ = event.state.id if event.state else event.pointer.id if event.pointer else None
            if id_ is not None:
                self._unwritten[-1].newest[id_] = event

    def seal(self) -> None:
        """What was taken up to here is written now, and settled together."""
        self._unwritten.append(_Unwritten())

    def settle(self) -> None:
        """The store has what was sealed first."""
        del self._unwritten[0]

    def clear(self) -> None:
        """Forget all that is not settled: the store has it now, or never will."""
        self._unwritten = [_Unwritten()]
