"""Where registrations are, as of the block being read: the store's answer with the blocks not yet written on top."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from indexer.facts import Event, State
from parsers.tx import Outpoint


class Seats(Protocol):
    """What a registry asks of the store."""

    def at(self, chain: str, outpoints: Iterable[Outpoint]) -> dict[Outpoint, list[State]]:
        """The registrations of a chain that are at these outpoints now."""
        ...


class Registry:
    """Registrations by the outpoint they are at: those of the store, and those of events not yet appended to it."""

    def __init__(self, store: Seats, chain: str) -> None:
        self._store = store
        self._chain = chain
        self._pending: dict[Outpoint, list[State]] = {}
        self._moved: set[str] = set()

    def at(self, outpoints: Iterable[Outpoint]) -> Mapping[Outpoint, list[State]]:
        """The registrations at these outpoints; those that none is at are left out."""
        wanted = list(outpoints)
        found = {
            outpoint: stayed
            for outpoint, states in self._store.at(self._chain, wanted).items()
            if (stayed := [state for state in states if state.id not in self._moved])
        }
        for outpoint in wanted:
            if outpoint in self._pending:
                found[outpoint] = [*found.get(outpoint, []), *self._pending[outpoint]]
        return found

    def take(self, events: Iterable[Event]) -> None:
        """Count these events as happened, in order, though they are not in the store yet."""
        for event in events:
            if event.state is None:
                continue
            if event.spent:
                self._pending.pop(event.spent, None)  # all that were there leave with it
            self._moved.add(event.state.id)
            if event.state.outpoint:
                self._pending.setdefault(event.state.outpoint, []).append(event.state)

    def settle(self) -> None:
        """Forget what is pending: the store has it now, or never will."""
        self._pending.clear()
        self._moved.clear()
