"""What a server said that cannot be true: refused, counted by kind, and logged."""

from __future__ import annotations

import logging
from collections import Counter

from indexer.chains import SourceUnavailableError

log = logging.getLogger(__name__)


class LieError(SourceUnavailableError):
    """An answer that contradicts itself, a hash, or a header. It is refused; the server may do better next time."""


class Lies:
    """How often a server was caught, by kind: answer, header, order, block, txid, proof, spend."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.counts: Counter[str] = Counter()

    def caught(self, kind: str, what: str) -> LieError:
        """Count a lie, and give the error to raise."""
        self.counts[kind] += 1
        log.warning("%s: refused what the server says (%s): %s", self._name, kind, what)
        return LieError(f"{self._name}: the server's answer is refused: {what}")

    @property
    def total(self) -> int:
        """How many there were."""
        return self.counts.total()
