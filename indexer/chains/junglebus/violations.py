"""Responses of a server that cannot be true: refused, counted by kind, and logged."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from indexer.errors import SourceUnavailableError
from indexer.headers.header_chain import HeaderError
from parsers.errors import ParseError

log = logging.getLogger(__name__)


class ViolationError(SourceUnavailableError):
    """A response that contradicts itself, a hash, or a header. It is refused; a later one may be correct."""


class Violations:
    """Counts refused responses by kind: answer, header, order, block, txid, proof, spend; and as `item` failures of
    single routes while the server answers others."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.counts: Counter[str] = Counter()

    def record(self, kind: str, what: str) -> ViolationError:
        """Count a violation; the error to raise."""
        self.counts[kind] += 1
        log.warning("%s: refused a response of the server (%s): %s", self._name, kind, what)
        return ViolationError(f"{self._name}: the server's answer is refused: {what}")

    @contextmanager
    def refusing(self, kind: str, about: str = "") -> Iterator[None]:
        """Count what cannot be parsed, and a header that breaks a rule, as a violation; `about` precedes the error.
        Raises ViolationError."""
        try:
            yield
        except (HeaderError, ParseError) as error:
            raise self.record(kind, f"{about}{error}") from None

    @property
    def total(self) -> int:
        """The number of violations."""
        return self.counts.total()
