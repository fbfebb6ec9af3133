"""The loop: where do we agree? Forget above it; read and append to the tip; wait. One `Follower` a chain."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from indexer.catchup import Catchup
from indexer.chains import AuxPowOptional, Cautious, Chain, Selective, SourceError, SourceUnavailableError, Sparse
from indexer.facts import BlockRef
from indexer.mempool import Mempool
from indexer.origins import MISSING
from indexer.owners import Owners
from indexer.progress import LATE, Progress
from indexer.store import Revision, Store, Writer
from parsers.tx import Outpoint

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
MEMPOOL_SECONDS = 0.5
"""Pause between two looks at the source's mempool; longer where a look takes longer."""

RETRY_SECONDS = 600.0
"""Pause between attempts to find what undecided events wait for."""

RETRIED, RETRYING_SECONDS = 64, 5.0
"""Undecided events that one attempt looks at, and seconds after which it looks at no more: the next one goes on with
the others, so that blocks are not kept waiting."""

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds between tries of a source that does not answer: doubled from the first to the longest."""


class DeepReorgError(SourceError):
    """The source contradicts blocks that were final: nothing is forgotten before someone has looked."""


class Follower:
    """Keeps the store in step with one chain. `changed` is called, in the event loop, after each write."""

    def __init__(self, chain: Chain, store: Store, writer: Writer, changed: Callable[[], None] = lambda: None) -> None:
        self._chain, self._store, self._writer, self._changed = chain, store, writer, changed
        self._retried = 0.0
        self._retried_last: Revision | None = None
        self.progress = Progress(chain.name)
        self._catchup = Catchup(chain, store, writer, self.progress, changed)
        self._mempool, self._mempool_due = Mempool(chain, store, writer), 0.0
        self.owners = Owners(chain, chain, store, writer) if isinstance(chain, Selective) else None

    async def open(self) -> None:
        """Connect to the source and take up what is stored. Raises SourceError or StoreError."""
        await asyncio.to_thread(self._mempool.begin)
        await self._chain.open()
        self.progress.caip2 = self._chain.caip2
        await asyncio.to_thread(self._take_up)

    def _take_up(self) -> None:
        self._writer.name_chain(self._chain.name, self._chain.caip2)
        if not self._chain.complete:
            self._writer.mark_partial(self._chain.name)
        self._take_up_headers()
        self._catchup.watch()
        self._note_newest(self._store.newest(self._chain.name))
        if self._catchup.origins.is_late():
            log.warning("%s: %s", self._chain.name, LATE)
        start = self._store.first(self._chain.name)
        if start is not None and start > self._chain.first and not isinstance(self._chain, Sparse):
            log.warning(
                "%s: the database begins at block %d and not at %d, and keeps its start; a new one would begin there",
                self._chain.name, start, self._chain.first,
            )  # fmt: skip

    def _take_up_headers(self) -> None:
        """Mark a chain whose merge-mined headers may come without their proof of work. Raises SourceError for one that
        is marked and read otherwise by now: such headers are stored among the others."""
        name = self._chain.name
        if isinstance(self._chain, AuxPowOptional) and self._chain.headers_unproved:
            self._writer.mark_unproved(name)
        elif self._store.is_unproved(name):
            raise SourceError(
                f"{name}: the database holds merge-mined headers that came without their proof of work; keep "
                "?auxpow=unchecked in the URL, or index into a new database"
            )

    async def run(self) -> None:
        """Follow until cancelled, or until the source must be looked at by a person (state `stopped`)."""
        pause = FIRST_PAUSE
        while True:
            try:
                await self.catch_up()
                if time.monotonic() >= self._mempool_due:
                    await self.look_at_mempool()
                pause = FIRST_PAUSE
                await self._chain.wait(self._pause())
            except SourceUnavailableError as error:
                self._say("unreachable", str(error))
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            except SourceError as error:
                self._say("stopped", str(error))
                return

    def _pause(self) -> float:
        """Seconds until the next look at the source is due, when nothing wakes us before."""
        return POLL_SECONDS if self.progress.mempool is None else max(0.05, self._mempool_due - time.monotonic())

    def give_up(self, error: str) -> None:
        """This chain cannot be followed, for that reason; a person must look at it."""
        self._say("stopped", error)

    def _say(self, state: str, error: str) -> None:
        if error != self.progress.error:
            log.error("%s is %s: %s", self._chain.name, state, error.removeprefix(f"{self._chain.name}: "))
        self.progress.state, self.progress.error = state, error
        self._note_source()

    def _note_source(self) -> None:
        """Say what a source warns of; of one that tells only part of each block what that means, and how it behaves."""
        if isinstance(self._chain, Selective):
            self.progress.note, self.progress.caught = self._chain.note, self._chain.caught
        elif isinstance(self._chain, Cautious):
            self.progress.note = self._chain.warning

    async def catch_up(self) -> None:
        """Bring the store to the source's tip: one look at the source, and as many batches as it takes."""
        tip = await self._chain.tip()
        if tip is None:
            self.progress.state, self.progress.error = "following", ""
            return
        self.progress.tip, self.progress.checked = tip.height, self._chain.checked
        at = await self._take_late(await self._retry_undecided(await self._agree()))
        if (at.height + 1 if at else self._chain.first) <= tip.height:
            self.progress.state = "catching-up"
            await self._catchup.read(at, tip.height)
        self._note_source()
        self.progress.state, self.progress.error = "following", ""

    @property
    def chain(self) -> Chain:
        """The source."""
        return self._chain

    def offer(self, txid: bytes) -> None:
        """Look at an unconfirmed transaction that the source knows, at once."""
        self._mempool.offer(txid)
        self._mempool_due = 0.0

    async def look_at_mempool(self) -> None:
        """Let what is unconfirmed in the store be what the source's mempool says; nothing while blocks are missing."""
        began = time.monotonic()
        if await self._mempool.refresh(self._catchup.watched):
            self._changed()
        self.progress.mempool = self._mempool.size
        self._mempool_due = time.monotonic() + max(MEMPOOL_SECONDS, time.monotonic() - began)

    async def _agree(self) -> BlockRef | None:
        """The newest stored block that the source has too; what is above it is forgotten."""
        newest = await asyncio.to_thread(self._store.newest, self._chain.name)
        if newest is None:
            return None
        at: BlockRef | None = newest
        while at is not None:
            theirs = await self._chain.ref(at.height)
            if theirs is not None and theirs.hash == at.hash:
                break
            if theirs is None and await self._is_merely_behind(at):
                return newest
            self._check_final(newest.height - at.height + 1)
            at = await asyncio.to_thread(self._store.below, self._chain.name, at.height)
        if at != newest:
            await self._reorganise(newest, at)
        return at

    def _check_final(self, depth: int) -> None:
        """Stop when the last `depth` stored blocks are not the source's, and that is more than may change."""
        if self._chain.finality is not None and depth > self._chain.finality:
            raise DeepReorgError(
                f"{self._chain.name}: the source contradicts more than the last {self._chain.finality:,} stored blocks,"
                " which are all that may change; if the source is right, give the chain a larger ?finality="
                " or index into a new database"
            )

    async def _is_merely_behind(self, at: BlockRef) -> bool:
        """Whether the source has no block at this height yet but agrees below: it is starting, not reorganising."""
        tip = await self._chain.tip()
        if tip is None:
            return True
        if tip.height >= at.height:
            return False
        ours = await asyncio.to_thread(self._store.below, self._chain.name, tip.height + 1)
        theirs = await self._chain.ref(ours.height) if ours else None
        return ours is not None and theirs is not None and ours.hash == theirs.hash

    async def _reorganise(self, newest: BlockRef, at: BlockRef | None) -> None:
        above = at.height if at else -1
        depth = newest.height - above
        self._catchup.origins.forget()
        await self._forget(at, above)
        self.progress.reorgs += 1
        log.warning("%s: %d blocks above %d are no longer in the best chain; forgotten", self._chain.name, depth, above)

    async def _forget(self, at: BlockRef | None, above: int) -> None:
        spent = await asyncio.to_thread(self._store.spent_above, self._chain.name, above)
        await asyncio.to_thread(self._writer.forget, self._chain.name, above)
        self._catchup.watched.add(spent)
        self._note_newest(at)
        self._changed()

    def _note_newest(self, ref: BlockRef | None) -> None:
        self.progress.height = ref.height if ref else None
        self.progress.hash = ref.hash if ref else b""

    async def _take_late(self, at: BlockRef | None) -> BlockRef | None:
        """Where a source tells only part of each block: read again from the lowest block that it now tells more of.

        `at` is the newest block stored; returned is what it is then.
        """
        if at is None or self.owners is None:
            return at
        height, told = await self.owners.look(at)
        if told:
            self._changed()
        if height is None or height > at.height:
            return at
        log.info("%s: more is known of block %d; reading again from there", self._chain.name, height)
        before = await asyncio.to_thread(self._store.below, self._chain.name, height)
        await self._forget(before, height - 1)
        return before

    async def _retry_undecided(self, at: BlockRef | None) -> BlockRef | None:
        """Law 3: look again for what undecided events wait for; with something found, read again from there.

        `at` is the newest block stored; returned is what it is then.
        """
        if at is None or (self._retried and time.monotonic() - self._retried < RETRY_SECONDS):
            return at
        self._retried = time.monotonic()
        self._catchup.origins.forget_missing()
        lowest: BlockRef | None = None
        for revision in await asyncio.to_thread(self._next_undecided):
            ref = await asyncio.to_thread(self._store.block, self._chain.name, revision.height)
            if ref is not None and await self._is_decidable(revision, ref):
                lowest = ref if lowest is None or ref.height < lowest.height else lowest
            self._retried_last = revision
            if time.monotonic() - self._retried > RETRYING_SECONDS:
                break
        if lowest is None:
            return at
        log.info("%s: what block %d waited for is known; reading again from there", self._chain.name, lowest.height)
        before = await asyncio.to_thread(self._store.below, self._chain.name, lowest.height)
        await self._forget(before, lowest.height - 1)
        return before

    def _next_undecided(self) -> list[Revision]:
        """The undecided events to look at now: those after the ones that were looked at before, and then the first."""
        chain, last = self._chain.name, self._retried_last
        found = self._store.undecided(chain, after=last, limit=RETRIED)
        if last is not None and len(found) < RETRIED:
            found += self._store.undecided(chain, upto=last.height, limit=RETRIED - len(found))
        return found

    async def _is_decidable(self, revision: Revision, ref: BlockRef) -> bool:
        """Whether what an undecided event of the block `ref` waits for is known now."""
        event, codes = revision.event, {reason.code for reason in revision.event.reasons}
        if MISSING in codes and event.outpoint is not None:
            return await self._catchup.is_traced(event.outpoint, ref)
        if "values-unknown" not in codes:
            return False
        wanted = {Outpoint.parse(text) for reason in event.reasons for text in reason.detail.split()}
        return len(await self._catchup.look_up(wanted, ref)) == len(wanted)
