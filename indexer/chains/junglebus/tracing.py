"""Selects and proves the transactions that a stream delivers, and follows satoshis that the stream does not follow."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence

from indexer.chains.http_client import gather
from indexer.chains.junglebus.proving import ExtraTransactions, Proven, Prover
from indexer.chains.junglebus.responses import DeliveredTransaction
from indexer.chains.junglebus.retry_queue import RetryQueue
from indexer.chains.junglebus.violations import ViolationError
from parsers.bitcoin import block, tx
from parsers.bitcoin.tx import Outpoint
from parsers.errors import ParseError

OUTPUTS = 16
"""One-satoshi outputs of a transaction that are followed at once; the outpoints of registrations are checked anyway."""

STEPS = 1_000
"""Spending transactions followed at once from one transaction on."""

FRESH_SECONDS = 600.0
"""An output that was unspent so recently is not checked again while blocks are read."""

UNSPENT_CACHE = 100_000
"""Outputs of remembered checks."""


class Tracer:
    """Decides which delivered transactions count. Transactions that `prover` cannot verify are added to `retries`."""

    def __init__(
        self, prover: Prover, extra: ExtraTransactions, retries: RetryQueue, clock: Callable[[], float]
    ) -> None:
        self._prover, self._extra, self._retries, self._clock = prover, extra, retries, clock
        self._unspent: OrderedDict[Outpoint, float] = OrderedDict()
        self._followed = block.WatchedOutpoints()

    async def admit(self, matches: Sequence[DeliveredTransaction]) -> list[Proven]:
        """The delivered transactions that are worth reading, proved; their satoshis are followed at once.

        Raises SourceUnavailableError where the server does not answer; what it cannot prove is retried later.
        """
        selected, missing = await asyncio.to_thread(self._select, matches)
        fetched = await self._prover.raws(missing)
        for txid in missing.keys() - fetched.keys():
            self._retries.add(txid)
        completed = [match._replace(raw=fetched[txid]) for txid, match in missing.items() if txid in fetched]
        selected += (await asyncio.to_thread(self._select, completed))[0]
        proven = [result for result in await gather(map(self._prove_match, selected)) if result is not None]
        for transaction in proven:
            await self._follow(transaction)
        return proven

    def _select(
        self, matches: Sequence[DeliveredTransaction]
    ) -> tuple[list[DeliveredTransaction], dict[bytes, DeliveredTransaction]]:
        """The transactions worth reading: those with A2B data, or that spend a followed output; and, by txid, those
        without bytes or with wrong ones."""
        selected, missing = [], {}
        for match in matches:
            if match.raw is None or not self._prover.is_raw(match.txid, match.raw):
                missing[match.txid] = match
            elif self._is_worth_reading(match.raw):
                selected.append(match)
        return selected, missing

    def _is_worth_reading(self, raw: bytes) -> bool:
        try:
            return len(block.worth_reading(bytes(block.HEADER) + b"\1" + raw, self._followed)) > 0
        except ParseError:
            return False

    async def _prove_match(self, match: DeliveredTransaction) -> Proven | None:
        """Prove that a transaction is in the block it was delivered with; else it is retried later."""
        proven = await self.prove(match.txid, match.raw)
        if proven is not None and proven.height != match.height:
            self._prover.record_wrong_block(match, proven)
            self._retries.add(match.txid)
            return None
        return proven

    async def prove(self, txid: bytes, raw: bytes | None = None) -> Proven | None:
        """A proven transaction; None, and retried later, where the server has no valid proof."""
        try:
            proven = await self._prover.prove(txid, raw)
        except ViolationError:
            proven = None
        if proven is None:
            self._retries.add(txid)
        else:
            self._retries.remove(txid)
        return proven

    # -- following satoshis

    async def spender(self, outpoint: Outpoint) -> Proven | bool | None:
        """The proven transaction that spends an output, which is part of its block from now on; False for an output
        that the server reports as unspent, None without a valid proof."""
        try:
            txid = await self._prover.spender(outpoint)
            if not txid:
                return self._record_unspent(outpoint, txid)
            raw = await self._prover.raw(txid)
            if raw is not None:
                self._prover.check_spends(raw, outpoint)
        except ViolationError:
            return None
        proven = await self.prove(txid, raw) if raw is not None else None
        if proven is not None and proven not in self._extra:
            await self._extra.add(proven)
        return proven

    def _record_unspent(self, outpoint: Outpoint, answer: bytes | None) -> bool | None:
        if answer is None:
            return None
        self._unspent[outpoint] = self._clock()
        self._unspent.move_to_end(outpoint)
        if len(self._unspent) > UNSPENT_CACHE:
            self._unspent.popitem(last=False)
        return False

    async def _follow(self, first: Proven) -> None:
        """Follow the satoshis of a transaction through the transactions that spend them: most moves are in their block
        before it is read."""
        pending = [first]
        for _ in range(STEPS):
            if not pending:
                return
            transaction = tx.read(pending.pop().transaction.raw)
            # only there can registrations be
            of_one_satoshi = [vout for vout, output in enumerate(transaction.outputs) if output.satoshis == 1]
            outpoints = list(map(transaction.outpoint, of_one_satoshi[:OUTPUTS]))
            self._followed.add(outpoints)
            for outpoint in outpoints:
                checked = self._unspent.get(outpoint)
                if checked is None or self._clock() - checked >= FRESH_SECONDS:
                    spender = await self.spender(outpoint)
                    if isinstance(spender, Proven):
                        pending.append(spender)
