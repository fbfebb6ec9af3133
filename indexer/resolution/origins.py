"""Traces the satoshi of a card back through transactions from before reading began (law 3).

On BSV a satoshi in an output of more than one satoshi carries no registration. A trace goes back to that output, and
the cards on the satoshi are judged forward from there. On other chains nothing is traced: by ordinal theory a
satoshi's past ends only in a coinbase.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice

from indexer.chains import Chain
from indexer.headers.networks import is_complete_from
from indexer.model import BlockRef, EventKind, RegistrationState
from indexer.resolution.lineage import SatLocation
from indexer.resolution.output_envelopes import OutputEnvelopeReader
from indexer.resolution.session import Origin, Session
from indexer.resolution.spend_order import OutputValues
from indexer.resolution.verdict import judge_registration, judge_update
from indexer.store import Store, Writer, contents
from parsers.bitcoin import tx
from parsers.bitcoin.tx import Outpoint, Transaction
from parsers.errors import ParseError
from parsers.reasons import Reason

HOPS = 1_000
"""Transactions through which one satoshi is traced back, at most."""

INPUTS = 10_000
"""Inputs examined for one satoshi, at most, repeated ones included."""

AHEAD = 16
"""Inputs of one transaction with values that are requested at once, after the first one, which is nearly always
enough."""

ROUNDS, FETCHED, FETCHED_BYTES = 256, 10_000, 64 << 20
"""Limits of one search at its source: consecutive requests, transactions, and their bytes."""

LOOKS = 2_000_000
"""Inputs that one search examines, at most: half a second."""

REMEMBERED = 10_000
"""Origins in memory, at most; the least recently used is dropped first."""

FREE = Origin()
"""The origin of a satoshi that carried no registration."""

MISSING = "origin-unknown"
"""The reason code of an origin that may be determined later, once the source has a transaction that it lacks now."""


class Trace:
    """The way back of the satoshi in output `vout` of `card`. `path` holds the one-satoshi outputs that it was in,
    newest first; `needs` the txids of transactions to be fetched next; `failure` is the reason why the trace was given
    up. `base` is the trace of an earlier card on the same satoshi, at which this one ends."""

    def __init__(self, card: Transaction, vout: int) -> None:
        self.card = card
        self.path: list[tuple[Transaction, int]] = [(card, vout)]
        self.needs: set[bytes] = set()
        self.failure: Reason | None = None
        self.is_complete = False
        self.base: Trace | None = None
        self._looked = 0

    def advance(self, walk: Walk) -> None:
        """Go back as far as the fetched transactions allow."""
        self.needs = set()
        while not (self.needs or self.failure or self.is_complete):
            self._step(walk)

    def _step(self, walk: Walk) -> None:
        """Find the input that the satoshi comes from: first in, first out (law 3)."""
        transaction, vout = self.path[-1]
        position = walk.position(transaction, vout)
        for number, spent in enumerate(() if transaction.is_coinbase else transaction.inputs):
            self._looked += 1
            walk.looks -= 1
            value = walk.value(spent.prevout)
            if self._looked > INPUTS:
                self.failure = _untraced(f"more than {INPUTS:,} inputs precede it")
            elif walk.looks < 0:
                self.failure = Reason(MISSING, "too many others were traced at the same time")
            elif value is None:
                self.needs = walk.missing_parents(transaction, number)
            elif position < value:
                self._continue(spent.prevout, value, walk)
            else:
                position -= value
                continue
            return
        self.is_complete = True  # a coinbase created it

    def _continue(self, prevout: Outpoint, value: int, walk: Walk) -> None:
        """Continue at the output that the satoshi comes from, if it is one of one satoshi."""
        parent = walk.transactions.get(prevout.txid)
        if value != 1:
            self.is_complete = True
        elif prevout in walk.traces:
            self.base, self.is_complete = walk.traces[prevout], True
        elif len(self.path) > HOPS:
            self.failure = _untraced(f"it moved more than {HOPS:,} times")
        elif prevout in walk.failed:
            self.failure = walk.failed[prevout]
        elif parent is None:
            self.needs = {prevout.txid}
        else:
            self.path.append((parent, prevout.vout))


@dataclass(slots=True)
class Walk:
    """One search: its traces by the outputs of their cards, output `values` known before it, the reasons of origins
    that could not be determined before, and the transactions fetched."""

    traces: Mapping[Outpoint, Trace]
    values: dict[Outpoint, int]
    failed: Mapping[Outpoint, Reason]
    rounds: int
    transactions: dict[bytes, Transaction] = field(default_factory=dict)
    room: int = FETCHED_BYTES
    looks: int = LOOKS
    _starts: dict[bytes, list[int]] = field(default_factory=dict)

    def follow(self, fetched: Mapping[bytes, bytes]) -> set[bytes]:
        """Take transactions and continue with them, as an `AncestorVisitor`. Fetched are as many as one search may."""
        for txid, raw in fetched.items():
            self.room -= len(raw)
            with suppress(ParseError):  # invalid bytes: the trace lacks this transaction
                self.transactions[txid] = tx.read_exactly(raw)
        for trace in self.traces.values():
            if not trace.needs or not trace.needs.isdisjoint(fetched):
                trace.advance(self)
        self.rounds -= 1
        left = FETCHED - len(self.transactions)
        if self.rounds < 0 or self.room < 0 or left <= 0:
            return set()
        return set(islice(set().union(*(trace.needs for trace in self.traces.values())), left))

    def position(self, transaction: Transaction, vout: int) -> int:
        """The number of satoshis before an output in its transaction."""
        if transaction.txid not in self._starts:
            self._starts[transaction.txid] = list(
                accumulate((output.satoshis for output in transaction.outputs), initial=0)
            )
        return self._starts[transaction.txid][vout]

    def value(self, outpoint: Outpoint) -> int | None:
        """The satoshis of an output, None while unknown."""
        transaction = self.transactions.get(outpoint.txid)
        if transaction is None:
            return self.values.get(outpoint)
        return transaction.outputs[outpoint.vout].satoshis if outpoint.vout < len(transaction.outputs) else 0

    def missing_parents(self, transaction: Transaction, first: int) -> set[bytes]:
        """The txids that the inputs from number `first` on spend and whose values are unknown."""
        prevouts = [spent.prevout for spent in transaction.inputs[first : first + (AHEAD if first else 1)]]
        return {prevout.txid for prevout in prevouts if self.value(prevout) is None}

    def spent(self, transaction: Transaction) -> dict[Outpoint, int]:
        """The values in satoshis of the outputs that a transaction spends, as far as they are known."""
        values = ((spent.prevout, self.value(spent.prevout)) for spent in transaction.inputs)
        return {prevout: value for prevout, value in values if value is not None}


class OriginTracer:
    """Determines the origins of cards on one chain, and caches them."""

    def __init__(self, chain: Chain, store: Store, writer: Writer) -> None:
        self._chain, self._store, self._writer = chain, store, writer
        self._cached: OrderedDict[Outpoint, Origin] = OrderedDict()

    def is_late(self) -> bool:
        """Whether registrations may have been made before the first block that is read."""
        start = self._store.blocks.lowest_height(self._chain.name)
        return not is_complete_from(self._chain.caip2, self._chain.first if start is None else start)

    def forget(self) -> None:
        """Clear the cache: after a reorganisation heights may differ."""
        self._cached.clear()

    def forget_missing(self) -> None:
        """Drop cached origins that failed for lack of a transaction: they are traced again."""
        missing = [
            outpoint for outpoint, origin in self._cached.items() if origin.unknown and origin.unknown.code == MISSING
        ]
        for outpoint in missing:
            del self._cached[outpoint]

    async def find(
        self, cards: Mapping[Outpoint, Transaction], before: BlockRef, rounds: int = ROUNDS
    ) -> dict[Outpoint, Origin]:
        """The origins of the cards in these outputs, of transactions in `before` or an earlier block or in none yet.

        Every card gets one, with the reason in `unknown` where it could not be determined. `rounds` limits consecutive
        requests to the source. Raises SourceError or StoreError.
        """
        origins = {outpoint: self._cached[outpoint] for outpoint in cards if outpoint in self._cached}
        traces = {outpoint: Trace(card, outpoint.vout) for outpoint, card in cards.items() if outpoint not in origins}
        if traces:
            walk = await asyncio.to_thread(self._begin, traces, rounds)
            await self._chain.ancestors(before, walk.follow)
            origins |= await self._settle(walk, before)
        for outpoint, origin in origins.items():
            self._cached[outpoint] = origin
            self._cached.move_to_end(outpoint)
        while len(self._cached) > REMEMBERED:
            self._cached.popitem(last=False)
        return origins

    def _begin(self, traces: Mapping[Outpoint, Trace], rounds: int) -> Walk:
        """A search that starts with the values in the store."""
        firsts = {spent.prevout for trace in traces.values() for spent in trace.card.inputs[:AHEAD]}
        failed = {outpoint: origin.unknown for outpoint, origin in self._cached.items() if origin.unknown}
        return Walk(traces, self._store.content.output_values(firsts), failed, rounds)

    def _keep_values(self, walk: Walk) -> None:
        """Store the values of the outputs that cards spend: reading the block again requests nothing."""
        cards_by_txid = {trace.card.txid: trace.card for trace in walk.traces.values()}
        spent = (pair for card in cards_by_txid.values() for pair in walk.spent(card).items())
        contents.store_output_values(
            self._writer, {outpoint: value for outpoint, value in spent if outpoint not in walk.values}
        )

    async def _settle(self, walk: Walk, before: BlockRef) -> dict[Outpoint, Origin]:
        """The origins that result from all traces."""
        await asyncio.to_thread(self._keep_values, walk)
        replay = Replay(self._chain)
        origins = await asyncio.to_thread(replay.origins, walk)
        states = {outpoint: origin.state for outpoint, origin in origins.items() if origin.state}
        await asyncio.to_thread(
            contents.store_cards, self._writer, [replay.cards[state.card] for state in states.values()]
        )
        txids = {txid for state in states.values() for txid in replay.record_txids(state)}
        heights = await self._chain.heights(txids, before) if txids else {}
        for outpoint, state in states.items():
            created, updated = replay.record_txids(state)
            if missing := {created, updated} - heights.keys():
                origins[outpoint] = Origin(unknown=_missing(min(missing)))
                continue
            dated = replace(state, created_height=heights[created], updated_height=heights[updated])
            origins[outpoint] = replace(origins[outpoint], state=dated)
        return origins


class Replay:
    """Judges the cards on traced satoshis from the oldest on, each output once, however many cards follow.
    Heights in states are indexes of the judged transactions until they are resolved. `cards` are bodies by SHA-256."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._txids: list[bytes] = []
        self.cards: dict[bytes, bytes] = {}

    def origins(self, walk: Walk) -> dict[Outpoint, Origin]:
        """The origin of each card that was traced; `walk` has earlier cards first."""
        origins: dict[Outpoint, Origin] = {}
        for outpoint, trace in walk.traces.items():
            state, base = None, trace.base
            if base is not None:
                earlier = origins[base.card.outpoint(base.path[0][1])]
                if earlier.unknown is not None:
                    origins[outpoint] = earlier
                    continue
                state = self.judge(earlier.state, *base.path[0])
            if not trace.is_complete:
                origins[outpoint] = Origin(unknown=trace.failure or _missing(min(trace.needs, default=trace.card.txid)))
                continue
            for transaction, vout in trace.path[:0:-1]:
                state = self.judge(state, transaction, vout)
            origins[outpoint] = Origin(state, walk.spent(trace.card)) if state is not None else FREE
        return origins

    def record_txids(self, state: RegistrationState) -> tuple[bytes, bytes]:
        """The txids of the first record and of the valid card."""
        return self._txids[state.created_height], self._txids[state.updated_height]

    def judge(self, state: RegistrationState | None, transaction: Transaction, vout: int) -> RegistrationState | None:
        """The registration on a satoshi after an output of one satoshi, None where it carries none."""
        session = Session(len(self._txids), self._chain.rules, self._chain.network, {}, {}, OutputValues())
        self._txids.append(transaction.txid)
        reader = OutputEnvelopeReader(session, 0, transaction)
        location, record = SatLocation(vout, 0, burned=False), reader.record(vout)
        if state is not None and state.outpoint is not None:
            reader.transfer(state, state.outpoint, location, judge_update(state.kind, record), None)
        elif (
            verdict := judge_registration(record, elsewhere=False, one_sat_rule=True)
        ) and verdict.event is EventKind.INSCRIBED:
            reader.register(location, verdict, None)
        self.cards |= session.cards.items()
        return next((event.state for event in session.events), None)


def _missing(txid: bytes) -> Reason:
    return Reason(MISSING, f"transaction {txid[::-1].hex()} cannot be had")


def _untraced(why: str) -> Reason:
    return Reason("origin-untraced", why)
