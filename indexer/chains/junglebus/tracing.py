"""From what a server tells to what is ours: sift, prove, and follow satoshis that the subscription does not follow."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Sequence

from indexer.chains.junglebus.answers import Match
from indexer.chains.junglebus.doubts import Doubts
from indexer.chains.junglebus.found import Found
from indexer.chains.junglebus.lies import LieError
from indexer.chains.junglebus.proving import Proven, Prover
from indexer.chains.together import together
from parsers import block, tx
from parsers.errors import ParseError
from parsers.tx import Outpoint

OUTPUTS = 16
"""Outputs of one satoshi of a transaction that are followed at once; where registrations really are is asked anyway."""

STEPS = 1_000
"""Moves followed at once from one transaction on."""

FRESH_SECONDS = 600.0
"""An output that was unspent so recently is not asked for again while blocks are read."""

REMEMBERED = 100_000


class Tracer:
    """Decides which told transactions count. `prover` believes only hashes, `doubts` takes what it cannot prove."""

    def __init__(self, prover: Prover, found: Found, doubts: Doubts) -> None:
        self._prover, self._found, self._doubts = prover, found, doubts
        self._unspent: OrderedDict[Outpoint, float] = OrderedDict()
        self._followed = block.Watched()

    async def admit(self, matches: Sequence[Match]) -> list[Proven]:
        """Those of the transactions told that are worth reading, proved; their satoshis are followed at once.

        Raises SourceUnavailableError where the server does not answer; what it lies about is in doubt.
        """
        ours, lacking = await asyncio.to_thread(self._sift, matches)
        fetched = await self._prover.raws(lacking)
        for txid in lacking.keys() - fetched.keys():
            self._doubts.add(txid)
        whole = [match._replace(raw=fetched[txid]) for txid, match in lacking.items() if txid in fetched]
        ours += (await asyncio.to_thread(self._sift, whole))[0]
        proven = [each for each in await together(map(self._prove_told, ours)) if each is not None]
        for each in proven:
            await self._follow(each)
        return proven

    def _sift(self, matches: Sequence[Match]) -> tuple[list[Match], dict[bytes, Match]]:
        """The transactions worth reading: those that may speak of A2B, or spend an output that is followed; and, by
        txid, those whose bytes were left out, or are others'."""
        ours, lacking = [], {}
        for match in matches:
            if match.raw is None or not self._prover.is_raw(match.txid, match.raw):
                lacking[match.txid] = match
            elif self._speaks(match.raw):
                ours.append(match)
        return ours, lacking

    def _speaks(self, raw: bytes) -> bool:
        try:
            return len(block.worth_reading(bytes(block.HEADER) + b"\1" + raw, self._followed)) > 0
        except ParseError:
            return False

    async def _prove_told(self, match: Match) -> Proven | None:
        """Prove a transaction to be where it was told to be; else it is in doubt."""
        proven = await self.prove(match.txid, match.raw)
        if proven is not None and proven.height != match.height:
            self._prover.misplaced(match, proven)
            self._doubts.add(match.txid)
            return None
        return proven

    async def prove(self, txid: bytes, raw: bytes | None = None) -> Proven | None:
        """A proved transaction; None, and in doubt from now on, where the server cannot prove it or lies about it."""
        try:
            proven = await self._prover.prove(txid, raw)
        except LieError:
            proven = None
        if proven is None:
            self._doubts.add(txid)
        else:
            self._doubts.settle(txid)
        return proven

    # -- where satoshis went

    async def spender(self, outpoint: Outpoint) -> Proven | bool | None:
        """What spends an output, proved, and part of its block from now on; False where the server says that nothing
        does, None where it lies or cannot prove it."""
        try:
            txid = await self._prover.spender(outpoint)
            if not txid:
                return self._unspent_or_unknown(outpoint, txid)
            raw = await self._prover.raw(txid)
            if raw is not None:
                self._prover.check_spends(raw, outpoint)
        except LieError:
            return None
        proven = await self.prove(txid, raw) if raw is not None else None
        if proven is not None and not self._found.holds(proven):
            await self._found.add(proven)
        return proven

    def _unspent_or_unknown(self, outpoint: Outpoint, said: bytes | None) -> bool | None:
        if said is None:
            return None
        self._unspent[outpoint] = time.monotonic()
        self._unspent.move_to_end(outpoint)
        if len(self._unspent) > REMEMBERED:
            self._unspent.popitem(last=False)
        return False

    async def _follow(self, first: Proven) -> None:
        """Follow the satoshis of a transaction through those that spend them: most moves are found before their block
        is read, and need no second reading."""
        waiting = [first]
        for _ in range(STEPS):
            if not waiting:
                return
            single = self._single(waiting.pop())
            self._followed.add(single)
            for outpoint in single:
                asked = self._unspent.get(outpoint)
                if asked is None or time.monotonic() - asked >= FRESH_SECONDS:
                    answer = await self.spender(outpoint)
                    if isinstance(answer, Proven):
                        waiting.append(answer)

    @staticmethod
    def _single(proven: Proven) -> list[Outpoint]:
        """The first outputs of one satoshi: where a registration can be."""
        made = tx.read(proven.told.raw)
        return [made.outpoint(vout) for vout, each in enumerate(made.outputs) if each.satoshis == 1][:OUTPUTS]
