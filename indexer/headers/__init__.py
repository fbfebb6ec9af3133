"""Block headers of Bitcoin networks: proof of work, each network's rules, and the branch with the most work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class HeaderStore(Protocol):
    """Persistent storage for the headers of each chain's best branch."""

    def load_headers(self, chain: str) -> Iterator[tuple[int, bytes]]:
        """Consecutive runs of the best branch, lowest first: the height of the first header, and headers of 80 bytes,
        concatenated."""
        ...

    def save_headers(self, chain: str, first: int, headers: bytes) -> None:
        """Replace all headers from height `first` on by these (80 bytes each, concatenated), in one transaction."""
        ...
