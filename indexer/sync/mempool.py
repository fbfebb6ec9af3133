"""The unconfirmed events of a source's mempool: which transactions are relevant, and their events if mined next.

Every transaction is scanned once, by the block walker over a pseudo block of the new ones. Of irrelevant ones only the
fingerprints of what they spend are stored, to find them again when an outpoint that they spend becomes relevant.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace as changed
from itertools import islice, pairwise

from indexer.chains import Chain
from indexer.failures import LeftOut, is_of_machine
from indexer.model import BlockFacts, BlockRef, Event
from indexer.resolution.block_reader import holdable, read_unconfirmed
from indexer.resolution.origins import OriginTracer
from indexer.resolution.registration_lookup import RegistrationLookup
from indexer.resolution.session import Origin
from indexer.resolution.transaction_reader import ReadResult
from indexer.store import Store, Writer
from indexer.store.pending import announce_submitted, replace_pending
from indexer.sync.coin_checks import CoinChecks
from indexer.sync.mempool_cache import MempoolCache, SpentOutpointIndex, memory_of
from parsers.bitcoin import block
from parsers.bitcoin.block import WatchedOutpoints
from parsers.bitcoin.tx import Outpoint, Transaction, read_exactly, varint
from parsers.errors import ParseError
from parsers.reasons import UNPROVED, Reason

log = logging.getLogger(__name__)

BATCH = 1_000
"""Transactions requested from the source at once."""

LOOK_SECONDS, LOOK_BYTES = 2.0, 64 << 20
"""Limits of one refresh, whichever is reached first; the remaining transactions are read by the next one, so blocks do
not wait."""

CACHED_BYTES = 256 << 20
"""Memory of relevant transactions, at most; others wait until there is room."""

RETRY_SECONDS = 10.0
"""Pause before transactions that the source did not return are requested again."""

OFFERED, OFFERED_SECONDS = 10_000, 3_600.0
"""Submitted transactions that count as unconfirmed, and for how many seconds, where the source has no mempool list."""

VALUES = 1_000
"""Outpoints with values looked up between two blocks, at most."""


class Mempool:
    """Keeps the unconfirmed events in the store in sync with one source. `size` is the number of transactions in its
    mempool, None where it cannot list them; `unread` how many of these were not scanned yet."""

    def __init__(self, chain: Chain, store: Store, writer: Writer, left_out: LeftOut | None = None) -> None:
        self._chain, self._store, self._writer = chain, store, writer
        self._left_out = left_out if left_out is not None else LeftOut()
        self._registry = RegistrationLookup(store.registrations, chain.name)
        self._origins, self._is_late = OriginTracer(chain, store, writer), False
        self.size: int | None = None
        self.unread = 0
        self._retry_at = 0.0
        self._offered: dict[bytes, float] = {}
        self._submitted: frozenset[bytes] = frozenset()
        self._coins, self._marked = CoinChecks(chain, store.submissions), frozenset[bytes]()
        self._work = f"mempool {chain.name}"
        self._restart(WatchedOutpoints())

    def _restart(self, watched: WatchedOutpoints) -> None:
        """Drop everything, and take the key of fingerprints from `watched`."""
        key = int(watched.arrays[0])
        self._spends, self._holdable_outpoints = SpentOutpointIndex(key), WatchedOutpoints(key=key)
        self._cache = MempoolCache()
        self._unscanned: set[bytes] = set()
        self._refused: set[bytes] = set()
        self._read_at = b""
        self._forget_values()

    def _forget_values(self) -> None:
        self._values: dict[Outpoint, int] = {}
        self._traced: dict[Outpoint, Origin] = {}
        self._origins.forget()
        self._requested: set[Outpoint] = set()
        self._resolvable = False

    def begin(self) -> None:
        """Delete the unconfirmed events of an earlier run, which may be outdated. Raises StoreError."""
        replace_pending(self._writer, self._chain.name, (), {})

    def offer(self, txid: bytes) -> None:
        """Add a transaction that the source was found to have (txid in internal byte order). Where the source cannot
        list its mempool, it counts as unconfirmed until a block has it, or for an hour."""
        self._offered.pop(txid, None)
        self._offered[txid] = time.monotonic() + OFFERED_SECONDS
        if len(self._offered) > OFFERED:
            del self._offered[next(iter(self._offered))]

    def _still_offered(self) -> frozenset[bytes]:
        """The submitted transactions that are in no stored block yet."""
        now = time.monotonic()
        offered = dict(self._offered)  # of this thread: the event loop may add to the other
        over = {txid for txid, until in offered.items() if until <= now}
        for txid in over | self._store.history.in_blocks(self._chain.name, offered):
            self._offered.pop(txid, None)
        return frozenset(self._offered)

    async def refresh(self, watched: WatchedOutpoints) -> bool:
        """Process the transactions that arrived and left since the last refresh. Returns whether the store was changed.
        `watched` holds the outpoints of registrations as of the newest stored block, and must not change meanwhile.

        Does nothing while the source's newest block is not the store's: transactions that left may have been mined. The
        source's list may be slightly older than that block. Raises SourceError or StoreError.
        """
        newest = await asyncio.to_thread(self._store.blocks.newest, self._chain.name)
        listed = await self._chain.mempool()
        tip = await self._chain.tip()
        if newest is None or tip is None or tip.hash != newest.hash:
            return False
        self.size = None if listed is None else len(listed)
        seen = await asyncio.to_thread(self._still_offered) if listed is None else listed
        pending = await self._pending_submissions(newest.height, listed)
        await self._note_submissions(await self._without_spent(pending, seen, newest))
        seen |= self._submitted
        new_txids = await asyncio.to_thread(self._compare, seen, watched)
        if newest.hash != self._read_at:
            self._forget_values()
            self._retry_at = 0.0
            await self._reconsider(watched)
        await self._look(new_txids, watched)
        if self._resolvable:
            self._resolvable = False
            await self._reconsider(watched)
        self.unread = len(self._unscanned) + len(self._refused)
        if newest.hash == self._read_at and not self._cache.changed and self._marked == self._coins.unproved:
            return False
        await asyncio.to_thread(self._drop_settled)
        read = await self._read(watched, newest)
        self._read_at = newest.hash
        return await asyncio.to_thread(self._write, read.reading)

    def _write(self, reading: BlockFacts) -> bool:
        """Store all events as pending. Transactions without events are dropped: they are found again by the outpoints
        that they spend."""
        for transaction in self._cache.take(reading):
            self._holdable_outpoints.discard(self._holdable(transaction))
        self._marked = self._coins.unproved
        events = [_marked(event) if event.txid in self._marked else event for event in self._cache.events()]
        cards = self._cache.cards()
        return replace_pending(self._writer, self._chain.name, events, cards) > 0

    # -- submitted transactions

    async def _pending_submissions(self, height: int, listed: frozenset[bytes] | None) -> frozenset[bytes]:
        """The submitted transactions that wait to be mined. Expired ones are deleted, and those that
        contradict the source's mempool, with their descendants."""
        submissions, chain = self._store.submissions, self._chain.name
        await asyncio.to_thread(submissions.trim, chain, height)
        pending = await asyncio.to_thread(submissions.pending, chain)
        against = await self._contradicted(pending - listed) if listed else set()
        if against:
            count = await asyncio.to_thread(submissions.drop, chain, against)
            log.warning("%s: %d submitted transactions contradict the mempool; dropped", chain, count)
            pending = await asyncio.to_thread(submissions.pending, chain)
        return pending

    async def _without_spent(
        self, pending: frozenset[bytes], seen: frozenset[bytes], newest: BlockRef
    ) -> frozenset[bytes]:
        """The submitted transactions without those, and their descendants, that spend an output which a block has
        spent."""
        against = await self._coins.check(pending, seen, newest)
        if not against:
            return pending
        count = await asyncio.to_thread(self._store.submissions.drop, self._chain.name, against)
        log.warning("%s: %d submitted transactions spend what is spent in a block; dropped", self._chain.name, count)
        # what was submitted meanwhile is not checked yet
        return pending & await asyncio.to_thread(self._store.submissions.pending, self._chain.name)

    async def _note_submissions(self, pending: frozenset[bytes]) -> None:
        """Announce those among new submissions that are unconfirmed already: their proofs are new."""
        new, self._submitted = [txid for txid in pending - self._submitted if txid in self._cache], pending
        if new:
            await asyncio.to_thread(announce_submitted, self._writer, self._chain.name, new)

    async def _contradicted(self, submitted: frozenset[bytes]) -> set[bytes]:
        """The submitted transactions that spend an output which a transaction of the source spends, too."""
        if not submitted:
            return set()
        spends = await asyncio.to_thread(self._store.submissions.spends, self._chain.name)
        submitted_spends = {outpoint: txid for outpoint, txid in spends.items() if txid in submitted}
        contested = WatchedOutpoints(submitted_spends, key=self._spends.key)
        rivals = [txid for txid in await asyncio.to_thread(self._spends.spenders, contested) if txid not in submitted]
        raws = await self._chain.transactions(rivals) if rivals else {}
        return {
            submitted_spends[spent.prevout]
            for rival in self._parsed(raws)
            for spent in rival.inputs
            if spent.prevout in submitted_spends
        }

    async def _transactions(self, txids: Sequence[bytes]) -> dict[bytes, bytes]:
        """Raw transactions by txid: submitted ones from the store, the others from the source."""
        own_txids = [txid for txid in txids if txid in self._submitted]
        raws = await asyncio.to_thread(self._store.submissions.raws, self._chain.name, own_txids) if own_txids else {}
        others = [txid for txid in txids if txid not in raws]
        return raws | (await self._chain.transactions(others) if others else {})

    # -- new and gone transactions

    def _compare(self, listed: frozenset[bytes], watched: WatchedOutpoints) -> list[bytes]:
        """Drop transactions that left the mempool; the txids that were not scanned yet, the newly announced first."""
        if int(watched.arrays[0]) != self._spends.key:
            self._restart(watched)
        gone = self._spends.txids() - listed
        self._drop(txid for txid in gone if txid in self._cache)
        gone |= self._failed_before(listed)
        self._spends.discard(gone)
        if time.monotonic() >= self._retry_at:
            self._unscanned |= self._refused
            self._refused = set()
            self._retry_at = time.monotonic() + RETRY_SECONDS
        self._refused &= listed
        waiting = listed - self._spends.txids() - self._refused
        late = self._unscanned & waiting
        self._unscanned = set(waiting)
        return [*(waiting - late), *late]

    def _failed_before(self, listed: frozenset[bytes]) -> set[bytes]:
        """The transactions that failed an hour ago: they are scanned again if they are still listed."""
        due = {bytes.fromhex(hex_id)[::-1] for hex_id in self._left_out.due(self._work, BATCH)}
        for txid in due - listed:
            self._left_out.remove(self._work, txid[::-1].hex())
        return due

    async def _look(self, txids: Sequence[bytes], watched: WatchedOutpoints) -> None:
        """Scan transactions, as many as one refresh may."""
        until, room = time.monotonic() + LOOK_SECONDS, LOOK_BYTES
        for start in range(0, len(txids), BATCH):
            batch = txids[start : start + BATCH]
            raws = await self._transactions(batch)
            self._unscanned.difference_update(batch)
            self._refused.update(txid for txid in batch if txid not in raws)
            fresh = await asyncio.to_thread(self._sift, raws, watched)
            await self._gather(fresh, raws)
            room -= sum(map(len, raws.values()))
            if room < 0 or time.monotonic() > until:
                break

    def _sift(self, raws: dict[bytes, bytes], watched: WatchedOutpoints) -> list[Transaction]:
        """Store the outpoints that these transactions spend, and return the transactions that may be relevant."""
        raws = self._whole(raws)
        if not raws:
            return []
        rules, txids = self._chain.rules, list(raws)
        data = _pseudo_block(raws.values())
        scan = block.scan(data, watched, segwit=rules.segwit, witness=rules.envelope == "witness")
        marks, owners = block.inputs(data, scan.offsets, watched, segwit=rules.segwit)
        self._spends.add(txids, marks, owners)
        self._retry_values(raws)
        numbers = {candidate.tx_index for candidate in scan.candidates} | set(
            owners[self._holdable_outpoints.contains(marks)].tolist()
        )
        return list(self._parsed({txids[number]: raws[txids[number]] for number in sorted(numbers)}))

    def _whole(self, raws: dict[bytes, bytes]) -> dict[bytes, bytes]:
        """The entries that are exactly one transaction each; the others are refused."""
        segwit = self._chain.rules.segwit
        try:
            data = _pseudo_block(raws.values())
            offsets = block.tx_offsets(data, segwit=segwit).tolist() if raws else []
            if [stop - start for start, stop in pairwise(offsets)] == list(map(len, raws.values())):
                return raws
        except ParseError:
            pass
        valid = {transaction.txid: raws[transaction.txid] for transaction in self._parsed(raws)}
        return {txid: raw for txid, raw in raws.items() if txid in valid}

    def _parsed(self, raws: dict[bytes, bytes]) -> Iterator[Transaction]:
        """The transactions with the requested txid; the others are refused."""
        for txid, raw in raws.items():
            try:
                read = read_exactly(raw, segwit=self._chain.rules.segwit)
                if read.txid != txid:
                    raise ParseError(f"it is {read.hex_id}")
            except ParseError as error:
                log.warning(
                    "%s: the source returned no valid transaction %s: %s", self._chain.name, txid[::-1].hex(), error
                )
                self._refuse(txid)
            else:
                yield read

    def _refuse(self, txid: bytes) -> None:
        """Request it again later, as if it had not been scanned."""
        self._spends.discard([txid])
        self._refused.add(txid)

    # -- relevant transactions

    async def _gather(self, fresh: Iterable[Transaction], raws: dict[bytes, bytes]) -> None:
        """Cache these and, law 3b, every transaction that spends an output of theirs which can hold a registration, at
        any depth. `raws` are transactions that need not be requested.
        """
        while added := [transaction for transaction in fresh if self._add_to_cache(transaction)]:
            born = WatchedOutpoints(
                (outpoint for transaction in added for outpoint in self._holdable(transaction)), key=self._spends.key
            )
            again = await asyncio.to_thread(self._spends.spenders, born)
            fresh = await self._fetch_again([txid for txid in again if txid not in self._cache], raws)

    async def _fetch_again(self, txids: Sequence[bytes], raws: dict[bytes, bytes]) -> list[Transaction]:
        """Transactions that were scanned before."""
        fetched = {txid: raws[txid] for txid in txids if txid in raws}
        missing = [txid for txid in txids if txid not in raws]
        for start in range(0, len(missing), BATCH):
            fetched |= await self._transactions(missing[start : start + BATCH])
        for txid in missing:
            if txid not in fetched:
                self._refuse(txid)
        return list(self._parsed(fetched))

    async def _reconsider(self, watched: WatchedOutpoints) -> None:
        """Find transactions that became relevant: after a block or new values, registrations are at other outpoints."""
        self._cache.mark_all_stale()
        again = await asyncio.to_thread(self._spends.spenders, watched)
        again += await asyncio.to_thread(self._spends.spenders, self._holdable_outpoints)
        await self._gather(await self._fetch_again([txid for txid in again if txid not in self._cache], {}), {})

    def _holdable(self, transaction: Transaction) -> Iterator[Outpoint]:
        return holdable(transaction, self._chain.rules)

    def _add_to_cache(self, transaction: Transaction) -> bool:
        """Cache a transaction; returns whether it was new and there was room."""
        if transaction.txid in self._cache or self._left_out.is_waiting(self._work, transaction.hex_id):
            return False
        if self._cache.bytes + memory_of(transaction) > CACHED_BYTES:
            self._refuse(transaction.txid)
            return False
        self._cache.add(transaction)
        self._holdable_outpoints.add(self._holdable(transaction))
        return True

    def _drop(self, txids: Iterable[bytes]) -> None:
        """Remove these from the cache."""
        for txid in txids:
            self._holdable_outpoints.discard(self._holdable(self._cache.drop(txid)))

    def _drop_settled(self) -> None:
        """Drop transactions that a stored block holds or contradicts, though the source may still list them: they are
        requested again later, since a reorg may bring them back."""
        self._cache.mark_descendants_stale()
        fresh = {transaction.txid: transaction for transaction in self._cache.unread()}
        mined = self._store.history.in_blocks(self._chain.name, fresh)
        spends = {
            spent.prevout: txid
            for txid, transaction in fresh.items()
            if txid not in mined
            for spent in transaction.inputs
        }
        against = {spends[outpoint] for outpoint in self._store.registrations.departed(self._chain.name, spends)}
        if against:
            against |= self._cache.descendants(against)
        self._drop(mined | against)
        for txid in mined | against:
            self._refuse(txid)
        self._cache.mark_descendants_stale()

    # -- their events

    async def _read(self, watched: WatchedOutpoints, newest: BlockRef) -> ReadResult:
        """Read new transactions and their descendants as if mined next, with the output values that they need."""
        self._is_late = await asyncio.to_thread(self._origins.is_late)
        read = await asyncio.to_thread(self._read_with, watched)
        while (
            outpoints := list(islice(read.missing_values - self._requested, max(0, VALUES - len(self._requested))))
        ) or read.untraced:
            self._requested.update(outpoints)
            self._values |= await self._look_up(outpoints, newest)
            for outpoint, origin in (await self._origins.find(read.untraced, newest)).items():
                self._traced[outpoint] = origin
                self._values |= origin.values
            read = await asyncio.to_thread(self._read_with, watched)
        return read

    def _read_with(self, watched: WatchedOutpoints) -> ReadResult:
        """Read all new transactions, without any that fails when it is read alone."""
        try:
            return self._read_some(self._cache.unread(), watched)
        except Exception as error:
            if is_of_machine(error):
                raise
        for transaction in self._cache.unread():
            with self._left_out.leaving_out(self._work, transaction.hex_id):
                self._read_some([transaction], watched)
            if self._left_out.is_waiting(self._work, transaction.hex_id):
                self._drop([transaction.txid])
        return self._read_some(self._cache.unread(), watched)

    def _read_some(self, transactions: Iterable[Transaction], watched: WatchedOutpoints) -> ReadResult:
        chain = self._chain
        return read_unconfirmed(
            transactions, chain.rules, chain.network, watched, self._registry, self._cache.registrations(),
            self._values | self._cache.values(), self._traced if self._is_late else None,
        )  # fmt: skip

    def _retry_values(self, arrived: Collection[bytes]) -> None:
        """Look up a missing value again once the transaction with that output is in the mempool."""
        resolvable = {
            outpoint for outpoint in self._requested if outpoint not in self._values and outpoint.txid in arrived
        }
        self._requested -= resolvable
        self._resolvable = self._resolvable or bool(resolvable)

    async def _look_up(self, outpoints: Iterable[Outpoint], newest: BlockRef) -> dict[Outpoint, int]:
        """Values of outputs in satoshis: from the store, from unconfirmed parents, and then from the source."""
        values = await asyncio.to_thread(self._store.content.output_values, outpoints)
        missing = {outpoint for outpoint in outpoints if outpoint not in values}
        parents = list({outpoint.txid for outpoint in missing if outpoint.txid in self._spends})
        raws = await self._transactions(parents) if parents else {}
        for parent in self._parsed(raws):
            values |= {parent.outpoint(vout): output.satoshis for vout, output in enumerate(parent.outputs)}
        missing -= values.keys()
        return values | (await self._chain.values(missing, newest) if missing else {})


def _marked(event: Event) -> Event:
    """An event of a submitted transaction that no block is known to be able to hold yet."""
    return changed(event, reasons=(*event.reasons, Reason(UNPROVED)))


def _pseudo_block(raws: Iterable[bytes]) -> bytes:
    """Transactions as a block under an empty header, for the block walker."""
    transactions = list(raws)
    return b"".join([bytes(block.HEADER), varint(len(transactions)), *transactions])
