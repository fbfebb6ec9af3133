"""How much of the stored chain its source still has, and when a contradiction is accepted (law 26)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

from indexer.chains import Chain
from indexer.errors import SourceUnavailableError, StoppedError
from indexer.model import BlockRef
from indexer.store import Store

PATIENCE_SECONDS = 600.0
"""Seconds for which a source must repeat a contradiction before it is accepted: of final blocks without events, or by a
tip below the stored one from a later source."""

RETURN_SECONDS = 300.0
"""How long it must repeat a contradiction of final blocks, with events or without, that only a source configured after
it brought, on a chain without work: these are rolled back to any depth."""

STOP_SECONDS = 3_600.0
"""How long it must repeat a contradiction of final blocks with events, before an operator must decide."""


class DeepReorgError(StoppedError):
    """The source has contradicted final blocks with events for an hour."""


class Agreement:
    """Compares the stored blocks of one chain with those of its source. `clock` gives monotonic seconds.

    `note`: that the source is behind the store, empty otherwise.
    """

    def __init__(self, chain: Chain, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._chain, self._store, self.clock = chain, store, clock
        self._contradiction: tuple[int, int] | None = None
        self._since = 0.0
        self.note = ""

    async def newest_common(self, newest: BlockRef, tip: BlockRef) -> BlockRef | None:
        """The newest stored block that the source has too, None without one; `newest`, the newest stored block, where
        the source is merely behind.

        Raises SourceUnavailableError while a contradiction must be repeated, DeepReorgError for one that is never
        believed.
        """
        is_lower = tip.height < newest.height
        top = await self._below(tip.height + 1) if is_lower else newest
        common = await self._search(top) if top else None
        # no honest chain without work has a block below and later than another one
        is_impossible = is_lower and not self._chain.has_work and tip.time > newest.time
        self.note = ""
        if common == top and not is_impossible:
            self._contradiction = None
            if is_lower:
                self.note = f"the source is at block {tip.height:,}, below the newest stored one: it may be syncing"
            return newest
        await self._weigh(newest, common.height if common else -1, needs_patience=is_impossible)
        return common

    async def _search(self, top: BlockRef) -> BlockRef | None:
        """The newest stored block up to `top` that the source has too, found in steps that double, and then by halves:
        it has all blocks below that one."""
        if await self._has(top):
            return top
        common, low, high, step = None, -1, top.height, 1
        while high - low > 1:
            # no stored block above `common` is up to `low`, and the source lacks the one at `high`
            middle = high - step if low < 0 and step < high else (low + high) // 2
            candidate = await self._below(middle + 1)
            if candidate is None or candidate.height <= low:
                low = middle
            elif await self._has(candidate):
                common, low = candidate, middle
            else:
                high = candidate.height
            step *= 2
        return common

    async def _has(self, stored: BlockRef) -> bool:
        """Whether the source does not contradict a stored block: it may have lost its blocks since it sent its tip."""
        theirs = await self._chain.ref(stored.height)
        return theirs is None or theirs.hash == stored.hash

    async def _below(self, height: int) -> BlockRef | None:
        return await asyncio.to_thread(self._store.blocks.below, self._chain.name, height)

    async def _weigh(self, newest: BlockRef, above: int, *, needs_patience: bool) -> None:
        """Return when the contradiction of the stored blocks above the height `above` is accepted."""
        name, finality = self._chain.name, self._chain.finality
        depth = await asyncio.to_thread(self._depth, newest, above)
        if not (depth.is_final or needs_patience):
            self._contradiction = None
            return
        contradiction = above, self._chain.source_number
        if self._contradiction != contradiction:
            self._contradiction, self._since = contradiction, self.clock()
        seconds = self.clock() - self._since
        if seconds < depth.patience:
            raise SourceUnavailableError(
                f"{name}: the source contradicts the stored blocks above {above:,}, for {seconds:,.0f} s now"
            )
        if depth.has_events:
            raise DeepReorgError(
                f"{name}: the source contradicts more than the last {finality:,} stored blocks, which are all that may "
                f"change; if the source is right, give the chain a larger ?finality=, or read it again with `a2b index "
                f"--again {name}`"
            )

    def _depth(self, newest: BlockRef, above: int) -> _Depth:
        """The depth of the stored blocks above the height `above`; `newest` is the newest stored block. Without work,
        only blocks of the source that is read, and of those before it, are protected."""
        name, stored = self._chain.name, self._store.blocks
        up_to = None if self._chain.has_work else self._chain.source_number
        last, lowest = stored.newest(name, up_to), stored.lowest_height(name, above)
        lowest_protected, newest_final = stored.lowest_height(name, above, up_to), self._newest_final(last)
        is_protected = lowest_protected is not None and lowest_protected <= newest_final
        return _Depth(
            is_final=lowest is not None and lowest <= self._newest_final(newest),
            is_protected=is_protected,
            has_events=is_protected and self._store.history.has_events(name, above, newest_final, up_to),
            is_later=last != newest,
        )

    def _newest_final(self, newest: BlockRef | None) -> int:
        """The height up to which blocks are final where `newest` is the newest, -1 for none."""
        finality = self._chain.finality
        return newest.height - finality if newest is not None and finality is not None else -1


class _Depth(NamedTuple):
    """The contents of stored blocks that are contradicted: final blocks; final blocks of the source that is read, or of
    one before it, and events in these. `is_later`: the newest are of a source after it."""

    is_final: bool
    is_protected: bool
    has_events: bool
    is_later: bool

    @property
    def patience(self) -> float:
        """The seconds for which a contradiction must be repeated."""
        if self.has_events:
            return STOP_SECONDS
        return RETURN_SECONDS if self.is_later and not self.is_protected else PATIENCE_SECONDS
