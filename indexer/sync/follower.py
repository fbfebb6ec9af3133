"""The loop of one chain: find the newest common block, delete the blocks above it, read and append to the tip, wait."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress

from indexer.chains import Chain
from indexer.chains.silence import SILENT_SECONDS
from indexer.errors import OtherNetworkError, SourceError, SourceRefusalError, SourceUnavailableError, StoppedError
from indexer.failures import LeftOut, is_of_machine
from indexer.model import LATE, UNCONFIRMED, BlockRef
from indexer.resolution.origins import MISSING
from indexer.retries import Backoff
from indexer.state_hash import outdated
from indexer.store import Revision, Store, Writer, block_writer, chain_marks
from indexer.store.database import HeldNetworkError, OtherChainError
from indexer.sync.agreement import PATIENCE_SECONDS, STOP_SECONDS, Agreement
from indexer.sync.catchup import Catchup
from indexer.sync.mempool import Mempool
from indexer.sync.outpoint_monitor import OutpointMonitor
from indexer.sync.packaged_chain import is_packaged
from indexer.sync.progress import SyncProgress
from indexer.sync.second_reader import SecondReader
from parsers.bitcoin.tx import Outpoint

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
MEMPOOL_SECONDS = 0.5
"""Pause between two refreshes of the mempool; as long as the refresh took where that is longer."""

RETRY_SECONDS = 600.0
"""Pause between attempts to decide undecided events."""

RETRIED, RETRYING_SECONDS = 64, 5.0
"""The limits of undecided events and seconds of one attempt; the next one continues, so blocks do not wait."""

BACKOFF, REFUSED = Backoff(1.0, 60.0), Backoff(1.0, 300.0)
"""Seconds between attempts to reach a source that does not answer, and one that refuses to."""

STOPPED_SECONDS = 600.0
"""Seconds between two requests to a source that has repeated a refused contradiction for an hour."""


CONFIRM_SECONDS = 10.0
"""Seconds between the two equal answers about its network that a source must give before the network is stored."""

LOOK_SECONDS, SHOWN_SECONDS = 1.0, 10
"""Seconds between two looks whether the source answers, and the steps in which the seconds without an answer are shown:
each is a transaction."""


class Follower:
    """Keeps the store in sync with one chain. `changed` is called, in the event loop, after each write; `left_out`
    remembers which unconfirmed transactions failed. While `again` is set, opening deletes the stored blocks of the
    chain. `configured` are the names of all chains that are followed, the first of which holds a network that several
    have. `attempted` is set after the first attempt to open."""

    def __init__(
        self,
        chain: Chain,
        store: Store,
        writer: Writer,
        changed: Callable[[], None] = lambda: None,
        left_out: LeftOut | None = None,
        configured: Sequence[str] = (),
    ) -> None:
        self._chain, self._store, self._writer, self._changed = chain, store, writer, changed
        self._configured, self.attempted, self.again = configured, asyncio.Event(), False
        self._failures, self._is_other_since = 0, 0.0
        self._before_silence: str | None = None
        self._silence = ""
        self._retried, self._blocked_height = 0.0, -1
        self._missing: int | None = None
        self._retried_last: Revision | None = None
        self.progress = SyncProgress(chain.name)
        self.agreement = Agreement(chain, store)
        self._catchup = Catchup(chain, store, writer, self.progress, changed)
        self.mempool, self._mempool_due = Mempool(chain, store, writer, left_out), 0.0
        self.outpoint_monitor = OutpointMonitor(chain, store, writer) if chain.filtered else None
        self.second_reader = SecondReader(chain, store, writer) if chain.is_read_twice else None

    def hold_by(self, is_held: Callable[[], bool]) -> None:
        """Read no faster than others read the store: while `is_held`, each batch waits for some seconds."""
        self._catchup.is_held = is_held

    async def start(self) -> None:
        """Open the source, and retry while it does not answer as it must. Raises SourceError for a fault that no answer
        changes, and StoreError."""
        with self._watching_silence():
            while not await self._has_done(self.open):
                pass

    async def open(self) -> None:
        """Connect to the source and load the stored state. Raises SourceError or StoreError."""
        await asyncio.to_thread(self.mempool.begin)
        try:
            await self._chain.open()
            await self._confirm_network()
            self.progress.caip2 = self._chain.caip2
            await asyncio.to_thread(self._name_network)
        finally:
            self.attempted.set()
        if self.again:
            await self._begin_again()
        await asyncio.to_thread(self._load_state)

    async def _confirm_network(self) -> None:
        """Ask again which network the source is of, before it is stored for good; development networks are trusted at
        once. Raises OtherNetworkError where two answers differ."""
        chain, network = self._chain, self._chain.caip2
        if not chain.names_network or chain.is_development:
            return
        if chain.name in await asyncio.to_thread(self._store.chains):
            return
        await asyncio.sleep(CONFIRM_SECONDS)
        again = await chain.identify()
        if again != network:
            raise OtherNetworkError(
                f"{chain.name}: the source said that its network is {network}, and says {again} now; it is asked again"
            )

    def _name_network(self) -> None:
        """Store which network the chain is. Raises OtherNetworkError where another one is stored, which is replaced
        after ten minutes while nothing was read of it, StoppedError where another name holds the network, and
        OtherChainError where the records of another contract or program are stored."""
        chain, configured = self._chain, self._configured
        is_repeated = self._is_other_since and time.monotonic() - self._is_other_since >= PATIENCE_SECONDS
        replaces = bool(is_repeated) and not self._store.history.has_events(chain.name, -1, UNCONFIRMED)
        try:
            others = chain_marks.name_chain(
                self._writer, chain.name, chain.caip2, chain.contract, configured, replaces=replaces
            )
        except OtherChainError as error:
            raise OtherNetworkError(str(error)) from None
        except HeldNetworkError as error:
            raise StoppedError(str(error)) from None
        if chain.contract:
            chain_marks.name_contract(self._writer, chain.name, chain.contract)
        for name in others:
            log.warning(
                "%s: the database holds %s under the name %r, too: remove that (a2b forget %s)",
                chain.name, chain.caip2, name, name,
            )  # fmt: skip

    async def _begin_again(self) -> None:
        """Delete the stored blocks, unless the source cannot deliver the first one: a node may have pruned it. Raises
        SourceError."""
        chain = self._chain
        if not chain.has_history:
            raise SourceError(f"{chain.name}: this source has only the present state: nothing can be read again")
        async with aclosing(chain.blocks(chain.first, chain.first)) as stream:
            async for _ in stream:
                break
        count = await asyncio.to_thread(block_writer.forget, self._writer, chain.name, -1)
        self.again = False
        log.warning("%s: %d blocks are forgotten, to be read again from block %d", chain.name, count, chain.first)
        self._changed()

    def _load_state(self) -> None:
        if not self._chain.has_history:
            chain_marks.mark_current(self._writer, self._chain.name)
        if not self._chain.complete:
            chain_marks.mark_partial(self._writer, self._chain.name)
        self._mark_unproved_headers()
        if self.second_reader is not None:
            self.second_reader.begin()
        self._catchup.watch()
        self._note_newest(self._store.blocks.newest(self._chain.name))
        if self._catchup.origins.is_late():
            log.warning("%s: %s", self._chain.name, LATE)
        if note := outdated(self._store, self._chain.name):
            log.warning("%s: %s", self._chain.name, note)
        start = self._store.blocks.lowest_height(self._chain.name)
        if start is not None and start > self._chain.first and not self._chain.sparse:
            log.warning(
                "%s: the database begins at block %d and not at %d, and keeps its start; a new one would begin there",
                self._chain.name, start, self._chain.first,
            )  # fmt: skip

    def _mark_unproved_headers(self) -> None:
        """Mark a chain with merge-mined headers that may lack their proof of work. Raises SourceError for a marked
        chain that is now configured with the check: headers without a proof are stored among the others."""
        name = self._chain.name
        if self._chain.headers_unproved:
            chain_marks.mark_unproved(self._writer, name)
        elif self._store.is_unproved(name):
            raise SourceError(
                f"{name}: the database holds merge-mined headers that came without their proof of work; keep "
                "?auxpow=unchecked in the URL, or index into a new database"
            )

    async def run(self) -> None:
        """Follow until cancelled, or until an operator must correct a setting (state `stopped`). Raises StoreError."""
        try:
            with self._watching_silence():
                while True:
                    await self._has_done(self._follow_once)
        except SourceError as error:
            self.fail(error)

    async def _follow_once(self) -> None:
        await self.catch_up()
        if time.monotonic() >= self._mempool_due:
            await self.refresh_mempool()
        self._failures, self._is_other_since = 0, 0.0
        until_mempool = max(0.05, self._mempool_due - time.monotonic())
        await self._chain.wait(POLL_SECONDS if self.progress.mempool is None else until_mempool)

    async def _has_done(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Whether work with the source succeeds. A failure that its next answer may end is noted, and waited for (law
        26), as is any exception of the program. Raises SourceError for a fault that no answer changes, and errors of
        database, disk and memory."""
        try:
            await work()
        except (SourceUnavailableError, StoppedError) as error:
            await asyncio.sleep(self._pause_after(error))
            return False
        except Exception as error:
            if isinstance(error, SourceError) or is_of_machine(error):
                raise
            await asyncio.sleep(self._pause_after(error))
            return False
        return True

    def _pause_after(self, error: Exception) -> float:
        """Note a failure; the seconds to wait before the next attempt."""
        now = time.monotonic()
        self._is_other_since = (self._is_other_since or now) if isinstance(error, OtherNetworkError) else 0.0
        if self._is_other_since and now - self._is_other_since >= STOP_SECONDS:
            error = StoppedError(f"{error}; or remove what is stored with `a2b forget {self._chain.name}`")
        self.fail(error)
        if isinstance(error, StoppedError):
            return STOPPED_SECONDS
        self._failures += 1
        return (REFUSED if isinstance(error, SourceRefusalError) else BACKOFF).pause(self._failures)

    @contextmanager
    def _watching_silence(self) -> Iterator[None]:
        """Note every LOOK_SECONDS whether the source answers, whatever the work is waiting for."""
        watch = asyncio.create_task(self._watch_silence())
        try:
            yield
        finally:
            watch.cancel()
            self._end_silence()

    async def _watch_silence(self) -> None:
        never = asyncio.Event()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await never.wait()
            self._note_silence()
            self._note_agreement()

    def _note_silence(self) -> None:
        """Show a source that is waited for as unreachable, until it answers, or the request fails for a reason."""
        progress, seconds = self.progress, self._chain.silence
        if seconds < SILENT_SECONDS:
            self._end_silence()
            return
        if self._before_silence is None and progress.state in ("unreachable", "stopped"):
            return
        if self._before_silence is None:
            self._before_silence = progress.state
            log.error("%s is unreachable: no answer for %.0f s; the request goes on", self._chain.name, seconds)
        rounded = int(seconds / SHOWN_SECONDS) * SHOWN_SECONDS
        self._silence = f"{self._chain.name}: no answer for {rounded:,} s; the request goes on"
        progress.fail(SourceUnavailableError(self._silence))

    def _end_silence(self) -> None:
        before, self._before_silence = self._before_silence, None
        if before is not None and self.progress.state == "unreachable" and self.progress.error in ("", self._silence):
            self.progress.state, self.progress.error, self.progress.fault = before, "", ""

    def fail(self, error: Exception) -> None:
        """Note in the progress, and log once, what ended the work on this chain: whatever it was. What the program
        does not expect is logged with its trace."""
        before, state = self.progress.error, self.progress.fail(error)
        if self.progress.error != before:
            text = self.progress.error.removeprefix(f"{self._chain.name}: ")
            trace = error if self.progress.fault == "program" else None
            log.error("%s is %s: %s", self._chain.name, state, text, exc_info=trace)
        self._note_source()

    def _note_source(self) -> None:
        """Copy the warnings of the source into the progress."""
        notes = [self.agreement.note or self._chain.warning]
        if self.second_reader is not None:
            self.progress.read_twice = self.second_reader.height
            notes.append(self.second_reader.note)
        self.progress.note = "; ".join(filter(None, notes))
        self.progress.caught = self._chain.violation_count
        self._note_agreement()

    def _note_agreement(self) -> None:
        """Copy how the source's peers, or several sources, are into the progress."""
        self.progress.disagreement = self._chain.disagreement
        peers = self._chain.peers
        self.progress.peers, self.progress.peer_networks = peers if peers is not None else (None, None)

    async def catch_up(self) -> None:
        """Bring the store to the source's tip, in as many batches as it takes. Raises SourceError or StoreError."""
        tip = await self._chain.tip()
        if tip is None:
            if self.progress.height is None:
                self._note_end(-1)
            else:
                self.fail(SourceUnavailableError(f"{self._chain.name}: the source has no newest block"))
            return
        self.progress.tip, self.progress.checked = max(tip.height, self._blocked_height), self._chain.checked
        newest = await asyncio.to_thread(self._store.blocks.newest, self._chain.name)
        if newest is not None and (common := await self.agreement.newest_common(newest, tip)) != newest:
            await self._reorganise(newest, common)
            newest = common
        newest = await self._reread_filtered(await self._retry_undecided(newest))
        if newest is not None and self.second_reader is not None:
            height = await self.second_reader.look(newest)
            newest = newest if height is None else await self._forget_from(height)
        if (newest.height + 1 if newest else self._chain.first) <= tip.height:
            self.progress.state = "catching-up"
            await self._catchup.read(newest, tip.height)
        if self.second_reader is not None and self.progress.height is not None:
            self.second_reader.note_newest(self.progress.height)
        self._note_source()
        self._note_end(tip.height)

    def _note_end(self, tip: int) -> None:
        """Note that the store is at the end of what the source can deliver, up to the height `tip`; or that it ends
        below that for the second time in a row at the same block, which no reorganisation explains."""
        blocked, before = self._chain.blocked, self._missing
        self._blocked_height = blocked.height if blocked is not None else -1
        following = self._chain.first if self.progress.height is None else self.progress.height + 1
        self._missing = following if following <= tip and not self._chain.sparse else None
        if blocked is not None:
            self.progress.tip = max(tip, blocked.height)
            self.fail(SourceUnavailableError(blocked.reason))
        elif self._missing is not None and self._missing == before:
            self.fail(
                SourceUnavailableError(
                    f"{self._chain.name}: the source delivers no block {following:,}, though its newest is {tip:,}"
                )
            )
        else:
            self.progress.follow()

    @property
    def chain(self) -> Chain:
        """The source."""
        return self._chain

    @property
    def is_stored(self) -> bool:
        """Whether the database holds a network under the name of the chain."""
        return self._chain.name in self._store.chains()

    def offer(self, txid: bytes) -> None:
        """Have the mempool refreshed at once, with this transaction (txid in internal byte order) that the source
        has."""
        self.mempool.offer(txid)
        self._mempool_due = 0.0

    async def refresh_mempool(self) -> None:
        """Replace the unconfirmed events in the store by the events of the source's mempool, unless blocks are
        missing."""
        began = time.monotonic()
        if await self.mempool.refresh(self._catchup.watched):
            self._changed()
        self.progress.mempool = self.mempool.size
        self._mempool_due = time.monotonic() + max(MEMPOOL_SECONDS, time.monotonic() - began)

    async def _reorganise(self, newest: BlockRef, common: BlockRef | None) -> None:
        above = common.height if common else -1
        if above < 1 and await asyncio.to_thread(is_packaged, self._store, self._chain.name):
            name = self._chain.name
            raise SourceError(
                f"{name}: the database holds the packaged sample blocks under this name, and the source has another "
                f"chain: remove them (a2b forget {name}), or give the chain another name in A2B_CHAINS"
            )
        depth = newest.height - above
        self._catchup.origins.forget()
        await self._forget(common, above)
        self.progress.reorgs += 1
        log.warning("%s: %d blocks above %d are no longer in the best chain; forgotten", self._chain.name, depth, above)

    async def _forget(self, newest: BlockRef | None, above: int) -> None:
        spent = await asyncio.to_thread(self._store.registrations.spent_above, self._chain.name, above)
        await asyncio.to_thread(block_writer.forget, self._writer, self._chain.name, above)
        self._catchup.watched.add(spent)
        self._note_newest(newest)
        if self.second_reader is not None:
            self.second_reader.roll_back(above)
        self.progress.state = "catching-up"  # no state hash is computed before the blocks that replace these
        self._changed()

    def _note_newest(self, ref: BlockRef | None) -> None:
        self.progress.height = ref.height if ref else None
        self.progress.hash = ref.hash if ref else b""

    async def _reread_filtered(self, newest: BlockRef | None) -> BlockRef | None:
        """Delete from the lowest block with new transactions on, to read it again: for a source of partial blocks.

        `newest` is the newest stored block; the result is the newest one after that.
        """
        if newest is None or self.outpoint_monitor is None:
            return newest
        height, has_changes = await self.outpoint_monitor.look(newest)
        if has_changes:
            self._changed()
        if height is None or height > newest.height:
            return newest
        log.info("%s: the source has more of block %d; reading again from there", self._chain.name, height)
        return await self._forget_from(height)

    async def _forget_from(self, height: int) -> BlockRef | None:
        """Delete the blocks from a height on; the newest one after that."""
        before = await asyncio.to_thread(self._store.blocks.below, self._chain.name, height)
        await self._forget(before, height - 1)
        return before

    async def _retry_undecided(self, newest: BlockRef | None) -> BlockRef | None:
        """Law 3: try again to decide undecided events; delete from the lowest block with an event that can be decided
        now.

        `newest` is the newest stored block; the result is the newest one after that.
        """
        if newest is None or (self._retried and time.monotonic() - self._retried < RETRY_SECONDS):
            return newest
        self._retried = time.monotonic()
        self._catchup.origins.forget_missing()
        lowest: BlockRef | None = None
        for revision in await asyncio.to_thread(self._next_undecided):
            ref = await asyncio.to_thread(self._store.blocks.get, self._chain.name, revision.height)
            if ref is not None and await self._is_decidable(revision, ref):
                lowest = ref if lowest is None or ref.height < lowest.height else lowest
            self._retried_last = revision
            if time.monotonic() - self._retried > RETRYING_SECONDS:
                break
        if lowest is None:
            return newest
        log.info(
            "%s: undecided events of block %d can be decided; reading again from there", self._chain.name, lowest.height
        )
        return await self._forget_from(lowest.height)

    def _next_undecided(self) -> list[Revision]:
        """The undecided events of this attempt: those after the last attempt's, and then the first ones again."""
        chain, last = self._chain.name, self._retried_last
        revisions = self._store.history.undecided(chain, after=last, limit=RETRIED)
        if last is not None and len(revisions) < RETRIED:
            revisions += self._store.history.undecided(chain, up_to=last.height, limit=RETRIED - len(revisions))
        return revisions

    async def _is_decidable(self, revision: Revision, ref: BlockRef) -> bool:
        """Whether an undecided event of the stored block `ref` can be decided now."""
        event, codes = revision.event, {reason.code for reason in revision.event.reasons}
        if MISSING in codes and event.outpoint is not None:
            return await self._catchup.is_traced(event.outpoint, ref)
        if "values-unknown" not in codes:
            return False
        undecided_by = {Outpoint.parse(text) for reason in event.reasons for text in reason.detail.split()}
        return len(await self._catchup.look_up(undecided_by, ref)) == len(undecided_by)
