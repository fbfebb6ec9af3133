"""Where the satoshi of a card was before reading began: traced back through transactions (law 3).

On BSV a satoshi that comes out of an output of more than one satoshi carries no registration. So its past is read back
to that output, and from there the cards on it are judged forward as everywhere. Elsewhere nothing is traced: by
ordinal theory a satoshi's past ends in a coinbase only.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice

from indexer.chains import Chain
from indexer.facts import BlockRef, EventKind, State
from indexer.lineage import Landing
from indexer.networks import is_complete_from
from indexer.one_sat import OutputReader
from indexer.output_values import OutputValues
from indexer.session import Origin, Session
from indexer.store import Store, Writer
from indexer.verdict import of_arrival, of_newcomer
from parsers import tx
from parsers.errors import ParseError
from parsers.reasons import Reason
from parsers.tx import Outpoint, Transaction

HOPS = 1_000
"""Transactions through which one satoshi is traced back."""

INPUTS = 10_000
"""Inputs that are looked at for one satoshi, one that is looked at again included."""

AHEAD = 16
"""Inputs of one transaction whose values are asked for at once, after the first one, which nearly always is enough."""

ROUNDS, FETCHED, FETCHED_BYTES = 256, 10_000, 64 << 20
"""What one search may ask its source for: answers that wait for one another, transactions, and their bytes."""

LOOKS = 2_000_000
"""Inputs that one search may look at: half a second."""

REMEMBERED = 10_000
"""Origins kept in memory, the one used longest ago dropped first."""

FREE = Origin()
"""What a satoshi was that carried no registration."""

MISSING = "origin-unknown"
"""The code of an origin that may be found later, when the source has a transaction that it lacks now."""


class Trace:
    """The way back of the satoshi in output `vout` of `card`. `path` holds the outputs of one satoshi that it was in,
    newest first; `needs` the txids of transactions to be fetched next; `failure` says why it was given up. `base` is
    the trace of an earlier card on it, where this one ends."""

    def __init__(self, card: Transaction, vout: int) -> None:
        self.card = card
        self.path: list[tuple[Transaction, int]] = [(card, vout)]
        self.needs: set[bytes] = set()
        self.failure: Reason | None = None
        self.is_complete = False
        self.base: Trace | None = None
        self._looked = 0

    def advance(self, walk: Walk) -> None:
        """Go back as far as transactions are known."""
        self.needs = set()
        while not (self.needs or self.failure or self.is_complete):
            self._step(walk)

    def _step(self, walk: Walk) -> None:
        """Find the input that the satoshi comes from: first in, first out (law 3)."""
        made, vout = self.path[-1]
        position = walk.position(made, vout)
        for number, spent in enumerate(() if made.is_coinbase else made.inputs):
            self._looked += 1
            walk.looks -= 1
            value = walk.value(spent.prevout)
            if self._looked > INPUTS:
                self.failure = _untraced(f"more than {INPUTS:,} inputs stand before it")
            elif walk.looks < 0:
                self.failure = Reason(MISSING, "too many others were traced at the same time")
            elif value is None:
                self.needs = walk.unknown(made, number)
            elif position < value:
                self._go_on(spent.prevout, value, walk)
            else:
                position -= value
                continue
            return
        self.is_complete = True  # it was made by a coinbase

    def _go_on(self, prevout: Outpoint, value: int, walk: Walk) -> None:
        """The satoshi comes from that output: it is traced where it was alone there."""
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
    """One search: the traces that are under way by the outputs of their cards, the `values` that were known before,
    origins that are not known, and the transactions fetched."""

    traces: Mapping[Outpoint, Trace]
    values: dict[Outpoint, int]
    failed: Mapping[Outpoint, Reason]
    rounds: int
    transactions: dict[bytes, Transaction] = field(default_factory=dict)
    room: int = FETCHED_BYTES
    looks: int = LOOKS
    _starts: dict[bytes, list[int]] = field(default_factory=dict)

    def follow(self, found: Mapping[bytes, bytes]) -> set[bytes]:
        """Take transactions and go on with them, as `indexer.chains.Follow`. Fetched are as many as one search may."""
        for txid, raw in found.items():
            self.room -= len(raw)
            with suppress(ParseError):  # whatever it is, no satoshi comes from it
                self.transactions[txid] = tx.read_exactly(raw)
        for trace in self.traces.values():
            if not trace.needs or not trace.needs.isdisjoint(found):
                trace.advance(self)
        self.rounds -= 1
        left = FETCHED - len(self.transactions)
        if self.rounds < 0 or self.room < 0 or left <= 0:
            return set()
        return set(islice(set().union(*(trace.needs for trace in self.traces.values())), left))

    def position(self, made: Transaction, vout: int) -> int:
        """How many satoshis stand before an output in its transaction."""
        if made.txid not in self._starts:
            self._starts[made.txid] = list(accumulate((output.satoshis for output in made.outputs), initial=0))
        return self._starts[made.txid][vout]

    def value(self, outpoint: Outpoint) -> int | None:
        """The satoshis of an output, None while they are not known."""
        made = self.transactions.get(outpoint.txid)
        if made is None:
            return self.values.get(outpoint)
        return made.outputs[outpoint.vout].satoshis if outpoint.vout < len(made.outputs) else 0

    def unknown(self, made: Transaction, first: int) -> set[bytes]:
        """The txids of what some inputs, from number `first` on, spend, as far as their values are not known."""
        prevouts = [spent.prevout for spent in made.inputs[first : first + (AHEAD if first else 1)]]
        return {prevout.txid for prevout in prevouts if self.value(prevout) is None}

    def spent(self, made: Transaction) -> dict[Outpoint, int]:
        """The satoshis that a transaction spends, as far as they are known."""
        values = ((spent.prevout, self.value(spent.prevout)) for spent in made.inputs)
        return {prevout: value for prevout, value in values if value is not None}


class Origins:
    """Finds the origins of cards on one chain, and remembers them."""

    def __init__(self, chain: Chain, store: Store, writer: Writer) -> None:
        self._chain, self._store, self._writer = chain, store, writer
        self._known: OrderedDict[Outpoint, Origin] = OrderedDict()

    def is_late(self) -> bool:
        """Whether registrations may have been made before the first block that is read."""
        start = self._store.first(self._chain.name)
        return not is_complete_from(self._chain.caip2, self._chain.first if start is None else start)

    def forget(self) -> None:
        """Trace all again: in other blocks, heights are other ones."""
        self._known.clear()

    def forget_missing(self) -> None:
        """Trace again what was given up because a transaction could not be had."""
        missing = [at for at, origin in self._known.items() if origin.unknown and origin.unknown.code == MISSING]
        for outpoint in missing:
            del self._known[outpoint]

    async def find(
        self, cards: Mapping[Outpoint, Transaction], before: BlockRef, rounds: int = ROUNDS
    ) -> dict[Outpoint, Origin]:
        """The origins of the cards in these outputs, of transactions in `before` or an earlier block or in none yet.

        Each has an answer, which may be that it is not known. `rounds` is how many answers of the source that wait for
        one another this may take. Raises SourceError or StoreError.
        """
        found = {outpoint: self._known[outpoint] for outpoint in cards if outpoint in self._known}
        traces = {at: Trace(card, at.vout) for at, card in cards.items() if at not in found}
        if traces:
            walk = await asyncio.to_thread(self._begin, traces, rounds)
            await self._chain.ancestors(before, walk.follow)
            found |= await self._settle(walk, before)
        self._remember(found)
        return found

    def _begin(self, traces: Mapping[Outpoint, Trace], rounds: int) -> Walk:
        """Begin with the values that are stored."""
        firsts = {spent.prevout for trace in traces.values() for spent in trace.card.inputs[:AHEAD]}
        failed = {at: origin.unknown for at, origin in self._known.items() if origin.unknown}
        return Walk(traces, self._store.values(firsts), failed, rounds)

    def _keep_values(self, walk: Walk) -> None:
        """Keep the values of what cards spend, so that a block that is read again asks for nothing."""
        made = {trace.card.txid: trace.card for trace in walk.traces.values()}
        spent = (pair for card in made.values() for pair in walk.spent(card).items())
        self._writer.keep_values({at: value for at, value in spent if at not in walk.values})

    def _remember(self, found: Mapping[Outpoint, Origin]) -> None:
        for outpoint, origin in found.items():
            self._known[outpoint] = origin
            self._known.move_to_end(outpoint)
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    async def _settle(self, walk: Walk, before: BlockRef) -> dict[Outpoint, Origin]:
        """What came of all traces."""
        await asyncio.to_thread(self._keep_values, walk)
        replay = Replay(self._chain)
        found = await asyncio.to_thread(replay.origins, walk)
        states = {at: origin.state for at, origin in found.items() if origin.state}
        await asyncio.to_thread(self._writer.keep_cards, [replay.cards[state.card] for state in states.values()])
        wanted = {txid for state in states.values() for txid in replay.shown(state)}
        heights = await self._chain.heights(wanted, before) if wanted else {}
        for at, state in states.items():
            created, updated = replay.shown(state)
            if missing := {created, updated} - heights.keys():
                found[at] = Origin(unknown=_missing(min(missing)))
                continue
            known = replace(state, created_height=heights[created], updated_height=heights[updated])
            found[at] = replace(found[at], state=known)
        return found


class Replay:
    """Judges the cards on satoshis that were traced, from the oldest on: each output once, however many cards follow.
    The heights of states are numbers of the transactions judged. `cards` are bodies by SHA-256."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._txids: list[bytes] = []
        self.cards: dict[bytes, bytes] = {}

    def origins(self, walk: Walk) -> dict[Outpoint, Origin]:
        """The origin of each card that was traced; `walk` has earlier cards first."""
        found: dict[Outpoint, Origin] = {}
        for at, trace in walk.traces.items():
            state, base = None, trace.base
            if base is not None:
                earlier = found[base.card.outpoint(base.path[0][1])]
                if earlier.unknown is not None:
                    found[at] = earlier
                    continue
                state = self._judge(earlier.state, *base.path[0])
            if not trace.is_complete:
                found[at] = Origin(unknown=trace.failure or _missing(min(trace.needs, default=trace.card.txid)))
                continue
            for made, vout in trace.path[:0:-1]:
                state = self._judge(state, made, vout)
            found[at] = Origin(state, walk.spent(trace.card)) if state is not None else FREE
        return found

    def shown(self, state: State) -> tuple[bytes, bytes]:
        """The txids of the first record and of the card that counts."""
        return self._txids[state.created_height], self._txids[state.updated_height]

    def _judge(self, state: State | None, made: Transaction, vout: int) -> State | None:
        """The registration on a satoshi after it came into an output of one satoshi, None where it carries none."""
        session = Session(len(self._txids), self._chain.rules, self._chain.network, {}, {}, OutputValues())
        self._txids.append(made.txid)
        reader = OutputReader(session, 0, made)
        landing, record = Landing(vout, 0, burned=False), reader.record(vout)
        if state is not None and state.outpoint is not None:
            reader.arrive(state, state.outpoint, landing, of_arrival(state.kind, record), None)
        elif (verdict := of_newcomer(record, elsewhere=False, alone=True)) and verdict.event is EventKind.INSCRIBED:
            reader.inscribe(landing, verdict, None)
        self.cards |= session.cards.items()
        return next((event.state for event in session.events), None)


def _missing(txid: bytes) -> Reason:
    return Reason(MISSING, f"transaction {txid[::-1].hex()} cannot be had")


def _untraced(why: str) -> Reason:
    return Reason("origin-untraced", why)
