"""Wake the parts of this process that wait for changes of the store, without polling it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class ChangeNotifier:
    """A set of events of the event loop; each listener clears its own."""

    def __init__(self) -> None:
        self._listeners: set[asyncio.Event] = set()

    def notify(self) -> None:
        """The store has changed: set the event of every listener."""
        for event in self._listeners:
            event.set()

    def add(self) -> asyncio.Event:
        """An event that every `notify` sets from now on."""
        event = asyncio.Event()
        self._listeners.add(event)
        return event

    @contextmanager
    def listen(self) -> Iterator[asyncio.Event]:
        """An event that every `notify` sets, until the end of the context."""
        event = self.add()
        try:
            yield event
        finally:
            self._listeners.discard(event)
