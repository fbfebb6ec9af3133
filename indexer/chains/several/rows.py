"""The kept headers of one chain, for several sources that would each write them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from indexer.chains import HeaderRows


class SharedRows:
    """Hands out what is kept to every source; only the first that saves goes on saving.

    Each source saves from where its own last saving ended: two that write by turns would join headers that do not
    link. The others hold theirs in memory, and find the saved ones at the next start.
    """

    def __init__(self, rows: HeaderRows) -> None:
        self._rows, self._lock = rows, threading.Lock()
        self._saver: object = None

    def view(self) -> HeaderRows:
        """What to give to one source."""
        return _View(self)

    def load_headers(self, chain: str) -> Iterator[tuple[int, bytes]]:
        """As HeaderRows."""
        return self._rows.load_headers(chain)

    def save_headers(self, saver: object, chain: str, first: int, headers: bytes) -> None:
        """Save for the view that was first to ask; nothing for the others."""
        with self._lock:
            if self._saver is None:
                self._saver = saver
        if self._saver is saver:
            self._rows.save_headers(chain, first, headers)


class _View:
    def __init__(self, shared: SharedRows) -> None:
        self._shared = shared

    def load_headers(self, chain: str) -> Iterator[tuple[int, bytes]]:
        return self._shared.load_headers(chain)

    def save_headers(self, chain: str, first: int, headers: bytes) -> None:
        self._shared.save_headers(self, chain, first, headers)
