"""Blocks that a source serves and that cannot be read: left out for a while, with all blocks on top of them."""

from __future__ import annotations

import logging
import time
from typing import NamedTuple

from indexer.chains.source import BlockedBranch
from indexer.headers.header_chain import HeaderChain
from indexer.model import BlockRef

log = logging.getLogger(__name__)

REFUSED_SECONDS = 60.0
"""After these seconds a refused block is requested again: the error may have been a transmission error."""


class _RefusedBlock(NamedTuple):
    """The time until which a block is left out (monotonic seconds), and the reason."""

    until: float
    reason: str


class RefusedBlocks:
    """The refused blocks of the chain `name`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._refusals: dict[bytes, _RefusedBlock] = {}

    def add(self, ref: BlockRef, reason: str) -> None:
        """Leave out a block and all on top of it for a minute, and then request it again."""
        log.error("%s: block %d is left out for %d s: %s", self.name, ref.height, REFUSED_SECONDS, reason)
        self._refusals[ref.hash] = _RefusedBlock(time.monotonic() + REFUSED_SECONDS, reason)

    def last(self, headers: HeaderChain, best: bytes) -> int | None:
        """The height of the block `best`, or that below the lowest refused block of its branch; None where its header
        is unknown."""
        now = time.monotonic()
        self._refusals = {digest: refusal for digest, refusal in self._refusals.items() if refusal.until > now}
        height = headers.find(best)
        for digest in self._refusals:
            refused_height = headers.find(digest)
            ours = headers.ref(refused_height, best) if refused_height is not None else None
            if height is not None and refused_height is not None and ours is not None and ours.hash == digest:
                height = min(height, refused_height - 1)
        return height

    def blocked(self, headers: HeaderChain, best: bytes) -> BlockedBranch | None:
        """The lowest refused block of the branch that ends in the block `best`, until it is requested again."""
        height, last = headers.find(best), self.last(headers, best)
        if height is None or last is None or last >= height:
            return None
        refused = headers.ref(last + 1, best)
        reason = self._refusals[refused.hash].reason if refused is not None else ""
        return BlockedBranch(height, f"{self.name}: block {last + 1:,} is refused, and asked for again: {reason}")
