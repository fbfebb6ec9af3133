"""Who waits for what this process learns: told in the event loop, without asking the store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class News:
    """Events that are set together. Every listener clears its own."""

    def __init__(self) -> None:
        self._listening: set[asyncio.Event] = set()

    def tell(self) -> None:
        """Something has changed: wake whoever listens."""
        for event in self._listening:
            event.set()

    @contextmanager
    def listen(self) -> Iterator[asyncio.Event]:
        """An event that is set by every `tell` while it is listened to."""
        event = asyncio.Event()
        self._listening.add(event)
        try:
            yield event
        finally:
            self._listening.discard(event)
