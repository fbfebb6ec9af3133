"""What the source's mempool holds for us: which unconfirmed transactions matter, and what they say if mined next.

Every transaction is looked at once: the block walker goes over a pseudo block of the new ones. Of those that do not
matter only the fingerprints of what they spend are kept, so that they are found again when that begins to matter.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice, pairwise

from indexer.chains import Chain
from indexer.facts import BlockRef, Reading
from indexer.kept import Kept
from indexer.origins import Origins
from indexer.reading import Read, holdable, read_unconfirmed
from indexer.registry import Registry
from indexer.session import Origin
from indexer.spends import Spends
from indexer.store import Store, Writer
from parsers import block
from parsers.block import Watched
from parsers.errors import ParseError
from parsers.tx import Outpoint, Transaction, read_exactly, varint

log = logging.getLogger(__name__)

BATCH = 1_000
"""Transactions asked of the source at once."""

LOOK_SECONDS, LOOK_BYTES = 2.0, 64 << 20
"""One look ends at whichever comes first; the rest waits for the next, so that blocks are not kept waiting."""

KEPT_BYTES = 256 << 20
"""Transactions that matter are kept up to this; what does not fit waits until there is room."""

RETRY_SECONDS = 10.0
"""Pause before the source is asked again for what it did not give."""

OFFERED, OFFERED_SECONDS = 10_000, 3_600.0
"""Transactions that count as unconfirmed because somebody named them, and for how long, where no source can tell."""

VALUES = 1_000
"""Outpoints whose values are looked up between two blocks."""


class Mempool:
    """Keeps the unconfirmed events in the store in step with one source. `size` is the number of transactions in its
    mempool, None where it cannot tell; `unread` how many of them have not been looked at yet."""

    def __init__(self, chain: Chain, store: Store, writer: Writer) -> None:
        self._chain, self._store, self._writer = chain, store, writer
        self._registry = Registry(store, chain.name)
        self._origins, self._is_late = Origins(chain, store, writer), False
        self.size: int | None = None
        self.unread = 0
        self._retry_at = 0.0
        self._offered: dict[bytes, float] = {}
        self._restart(Watched())

    def _restart(self, watched: Watched) -> None:
        """Forget all that was seen; `watched` gives the key of fingerprints."""
        key = int(watched.arrays[0])
        self._spends, self._born = Spends(key), Watched(key=key)
        self._kept = Kept()
        self._late: set[bytes] = set()
        self._refused: set[bytes] = set()
        self._read_at = b""
        self._forget_values()

    def _forget_values(self) -> None:
        self._values: dict[Outpoint, int] = {}
        self._traced: dict[Outpoint, Origin] = {}
        self._origins.forget()
        self._asked: set[Outpoint] = set()
        self._tellable = False

    def begin(self) -> None:
        """Forget what an earlier run of the program has stored: nobody has seen it since."""
        self._writer.replace_pending(self._chain.name, (), {})

    def offer(self, txid: bytes) -> None:
        """The source knows this transaction, as somebody told. Where it cannot tell what is unconfirmed, this counts as
        that until a block has it, or for an hour."""
        self._offered.pop(txid, None)
        self._offered[txid] = time.monotonic() + OFFERED_SECONDS
        if len(self._offered) > OFFERED:
            del self._offered[next(iter(self._offered))]

    def _still_offered(self) -> frozenset[bytes]:
        """What was offered and is not in a stored block yet."""
        now = time.monotonic()
        over = [txid for txid, until in self._offered.items() if until <= now or self._store.said_by(txid)]
        for txid in over:
            self._offered.pop(txid, None)
        return frozenset(self._offered)

    async def refresh(self, watched: Watched) -> bool:
        """Take in what came and went since the last look; whether the store was changed. `watched` holds the outpoints
        where the newest stored block left registrations, and must not change meanwhile.

        Nothing is done while the source has another newest block than the store: what left may have been mined. Its
        list may be a little older than that block.
        Raises SourceError or StoreError.
        """
        at = await asyncio.to_thread(self._store.newest, self._chain.name)
        told = await self._chain.mempool()
        tip = await self._chain.tip()
        if at is None or tip is None or tip.hash != at.hash:
            return False
        self.size = None if told is None else len(told)
        seen = await asyncio.to_thread(self._still_offered) if told is None else told
        wanted = await asyncio.to_thread(self._compare, seen, watched)
        if at.hash != self._read_at:
            self._forget_values()
            self._retry_at = 0.0
            await self._reconsider(watched)
        await self._look(wanted, watched)
        if self._tellable:
            self._tellable = False
            await self._reconsider(watched)
        self.unread = len(self._late) + len(self._refused)
        if at.hash == self._read_at and not self._kept.changed:
            return False
        await asyncio.to_thread(self._drop_settled)
        read = await self._read(watched, at)
        self._read_at = at.hash
        return await asyncio.to_thread(self._write, read.reading)

    def _write(self, reading: Reading) -> bool:
        """What says nothing need not be kept: it is found again by what it spends. All the rest is pending."""
        for silent in self._kept.take(reading):
            self._born.discard(self._holdable(silent))
        events, cards = self._kept.events(), self._kept.cards()
        return self._writer.replace_pending(self._chain.name, events, cards) > 0

    # -- what is there

    def _compare(self, told: frozenset[bytes], watched: Watched) -> list[bytes]:
        """Drop what left; what was not looked at yet, the newly announced first."""
        if int(watched.arrays[0]) != self._spends.key:
            self._restart(watched)
        gone = self._spends.txids() - told
        self._drop(txid for txid in gone if txid in self._kept)
        self._spends.discard(gone)
        if time.monotonic() >= self._retry_at:
            self._late |= self._refused
            self._refused = set()
            self._retry_at = time.monotonic() + RETRY_SECONDS
        self._refused &= told
        waiting = told - self._spends.txids() - self._refused
        late = self._late & waiting
        self._late = set(waiting)
        return [*(waiting - late), *late]

    async def _look(self, wanted: Sequence[bytes], watched: Watched) -> None:
        """Look at transactions, as many as one look may take."""
        until, room = time.monotonic() + LOOK_SECONDS, LOOK_BYTES
        for start in range(0, len(wanted), BATCH):
            batch = wanted[start : start + BATCH]
            raws = await self._chain.transactions(batch)
            self._late.difference_update(batch)
            self._refused.update(txid for txid in batch if txid not in raws)
            fresh = await asyncio.to_thread(self._sift, raws, watched)
            await self._gather(fresh, raws)
            room -= sum(map(len, raws.values()))
            if room < 0 or time.monotonic() > until:
                break

    def _sift(self, raws: dict[bytes, bytes], watched: Watched) -> list[Transaction]:
        """Remember what these transactions spend; those that may matter."""
        raws = self._whole(raws)
        if not raws:
            return []
        rules, txids = self._chain.rules, list(raws)
        data = _pseudo_block(raws.values())
        offsets = block.tx_offsets(data, segwit=rules.segwit)
        marks, owners = block.inputs(data, offsets, watched, segwit=rules.segwit)
        self._spends.add(txids, marks, owners)
        self._ask_again(raws)
        found = block.worth_reading(data, watched, segwit=rules.segwit, witness=rules.envelope == "witness")
        numbers = {candidate.tx_index for candidate in found} | set(owners[self._born.holding(marks)].tolist())
        return list(self._parsed({txids[number]: raws[txids[number]] for number in sorted(numbers)}))

    def _whole(self, raws: dict[bytes, bytes]) -> dict[bytes, bytes]:
        """Those that are a transaction each, no more and no less; the others are refused."""
        segwit = self._chain.rules.segwit
        try:
            data = _pseudo_block(raws.values())
            offsets = block.tx_offsets(data, segwit=segwit).tolist() if raws else []
            if [stop - start for start, stop in pairwise(offsets)] == list(map(len, raws.values())):
                return raws
        except ParseError:
            pass
        good = {each.txid: raws[each.txid] for each in self._parsed(raws)}
        return {txid: raw for txid, raw in raws.items() if txid in good}

    def _parsed(self, raws: dict[bytes, bytes]) -> Iterator[Transaction]:
        """Transactions that are what the source calls them; others are refused."""
        for txid, raw in raws.items():
            try:
                read = read_exactly(raw, segwit=self._chain.rules.segwit)
                if read.txid != txid:
                    raise ParseError(f"it is {read.hex_id}")
            except ParseError as error:
                log.warning(
                    "%s: the source gives no good transaction %s: %s", self._chain.name, txid[::-1].hex(), error
                )
                self._refuse(txid)
            else:
                yield read

    def _refuse(self, txid: bytes) -> None:
        """Ask for it again later, as if it had not been looked at."""
        self._spends.discard([txid])
        self._refused.add(txid)

    # -- what matters

    async def _gather(self, fresh: Iterable[Transaction], raws: dict[bytes, bytes]) -> None:
        """Keep these and, law 3b, whatever spends an output of theirs where a registration may rest, at any depth.

        `raws` are transactions that need not be asked for.
        """
        while kept := [each for each in fresh if self._keep(each)]:
            born = Watched((outpoint for each in kept for outpoint in self._holdable(each)), key=self._spends.key)
            again = await asyncio.to_thread(self._spends.of, born)
            fresh = await self._again([txid for txid in again if txid not in self._kept], raws)

    async def _again(self, txids: Sequence[bytes], raws: dict[bytes, bytes]) -> list[Transaction]:
        """Transactions that were looked at before."""
        found = {txid: raws[txid] for txid in txids if txid in raws}
        missing = [txid for txid in txids if txid not in raws]
        for start in range(0, len(missing), BATCH):
            found |= await self._chain.transactions(missing[start : start + BATCH])
        for txid in missing:
            if txid not in found:
                self._refuse(txid)
        return list(self._parsed(found))

    async def _reconsider(self, watched: Watched) -> None:
        """Registrations may be elsewhere, after a block or when values can be told: what did not matter may do so."""
        self._kept.age()
        again = await asyncio.to_thread(self._spends.of, watched)
        again += await asyncio.to_thread(self._spends.of, self._born)
        await self._gather(await self._again([txid for txid in again if txid not in self._kept], {}), {})

    def _holdable(self, transaction: Transaction) -> Iterator[Outpoint]:
        return holdable(transaction, self._chain.rules)

    def _keep(self, transaction: Transaction) -> bool:
        """Keep a transaction, if it is new and there is room."""
        if transaction.txid in self._kept:
            return False
        if self._kept.bytes + transaction.size > KEPT_BYTES:
            self._refuse(transaction.txid)
            return False
        self._kept.add(transaction)
        self._born.add(self._holdable(transaction))
        return True

    def _drop(self, txids: Iterable[bytes]) -> None:
        """Keep these no longer."""
        for txid in txids:
            self._born.discard(self._holdable(self._kept.drop(txid)))

    def _drop_settled(self) -> None:
        """What a stored block holds or contradicts is settled, though the source may still list it, or list it again
        after a reorg: it is asked for again later."""
        self._kept.spread()
        fresh = {each.txid: each for each in self._kept.unread()}
        mined = self._store.mined(self._chain.name, fresh)
        spends = {spent.prevout: txid for txid, each in fresh.items() if txid not in mined for spent in each.inputs}
        against = {spends[outpoint] for outpoint in self._store.left(self._chain.name, spends)}
        if against:
            against |= self._kept.after(against)
        self._drop(mined | against)
        for txid in mined | against:
            self._refuse(txid)
        self._kept.spread()

    # -- what it says

    async def _read(self, watched: Watched, at: BlockRef) -> Read:
        """What is new and what goes on from it, read as if mined next, with the values that it turns out to need."""
        self._is_late = await asyncio.to_thread(self._origins.is_late)
        read = await asyncio.to_thread(self._read_with, watched)
        while (wanted := list(islice(read.wanted - self._asked, max(0, VALUES - len(self._asked))))) or read.untraced:
            self._asked.update(wanted)
            self._values |= await self._look_up(wanted, at)
            for outpoint, origin in (await self._origins.find(read.untraced, at)).items():
                self._traced[outpoint] = origin
                self._values |= origin.values
            read = await asyncio.to_thread(self._read_with, watched)
        return read

    def _read_with(self, watched: Watched) -> Read:
        chain = self._chain
        return read_unconfirmed(
            self._kept.unread(), chain.rules, chain.network, watched, self._registry, self._kept.seats(),
            self._values | self._kept.values(), self._traced if self._is_late else None,
        )  # fmt: skip

    def _ask_again(self, arrived: Collection[bytes]) -> None:
        """Values that could not be told are looked up again when the transaction that made the output arrives."""
        tellable = {outpoint for outpoint in self._asked if outpoint not in self._values and outpoint.txid in arrived}
        self._asked -= tellable
        self._tellable = self._tellable or bool(tellable)

    async def _look_up(self, wanted: Iterable[Outpoint], at: BlockRef) -> dict[Outpoint, int]:
        """Satoshis of outputs: values kept from earlier, those of unconfirmed parents, and then the source's."""
        values = await asyncio.to_thread(self._store.values, wanted)
        missing = {outpoint for outpoint in wanted if outpoint not in values}
        parents = list({outpoint.txid for outpoint in missing if outpoint.txid in self._spends})
        raws = await self._chain.transactions(parents) if parents else {}
        for parent in self._parsed(raws):
            values |= {parent.outpoint(vout): made.satoshis for vout, made in enumerate(parent.outputs)}
        missing -= values.keys()
        return values | (await self._chain.values(missing, at) if missing else {})


def _pseudo_block(raws: Iterable[bytes]) -> bytes:
    """Transactions as the block walker takes them, under an empty header."""
    given = list(raws)
    return b"".join([bytes(block.HEADER), varint(len(given)), *given])
