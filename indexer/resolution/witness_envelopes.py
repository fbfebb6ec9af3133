"""Read a BTC or LTC transaction: envelopes are in tapscripts of inputs, satoshis follow ordinal theory (law 3a)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from indexer.model import EventKind, RegistrationState
from indexer.resolution.lineage import SatLocation, UnknownPosition
from indexer.resolution.reveals import Reveal, Satoshi, reveals, unbound
from indexer.resolution.session import Session, TransactionReader, may_concern_a2b, values_unknown
from indexer.resolution.verdict import Judgement, judge_registration, judge_update
from parsers.bitcoin.tx import Outpoint, Transaction
from parsers.inscriptions import output_record
from parsers.reasons import Reason

MAX_REGISTERED = 64
"""Registrations that one transaction makes at one outpoint. Each later transfer of it writes an event for each of them:
thousands would make a transfer of 110 bytes cost a second."""

_Position = int | UnknownPosition


class _Spent(NamedTuple):
    """A registration that the transaction spends, and the position of its satoshi among all outputs' satoshis."""

    number: int
    state: RegistrationState
    outpoint: Outpoint
    position: _Position


class _Placed(NamedTuple):
    """An envelope that inscribes a satoshi, its position among all outputs' satoshis, and its meaning as a first
    record."""

    reveal: Reveal
    position: _Position
    verdict: Judgement | None


class WitnessEnvelopeReader(TransactionReader):
    """BTC and LTC: every envelope in a tapscript inscribes the satoshi that it names, or the first of its input.

    The registrations that a satoshi carried before the transaction decide how its envelopes are read: as first records,
    each by itself, or as updates of its registration, in sequence. Of several registrations on it the first is updated:
    a transaction has at most as many events as envelopes and spent registrations.
    """

    def __init__(self, session: Session, index: int, transaction: Transaction) -> None:
        super().__init__(session, index, transaction)
        self._faults: set[tuple[int, str]] = set()  # a tapscript may have half a million
        self._registered: Counter[int] = Counter()

    def read(self) -> None:
        """Add the events of this transaction: near misses that inscribe no satoshi, the registrations that it spends in
        the order of their satoshis, and new records in the order of their envelopes."""
        registrations = sorted(self.spent_registrations(), key=_by_satoshi)
        judged = (
            (reveal, judge_registration(reveal.record, elsewhere=False, one_sat_rule=False))
            for reveal in reveals(self.tx)
        )
        bound = [
            (reveal, verdict)
            for reveal, verdict in judged
            if (registrations or verdict is not None) and self._is_bound(reveal, verdict)
        ]
        satoshis = [(number, state.offset) for number, state, _ in registrations]
        satoshis += [(reveal.input, 0) for reveal, _ in bound if reveal.pointer is None]
        sats = sorted(set(satoshis))
        positions: dict[tuple[int, int], _Position] = dict(zip(sats, self.positions(sats), strict=True))
        placed = [_Placed(reveal, self._position(reveal, positions), verdict) for reveal, verdict in bound]
        spent = [
            _Spent(number, state, there, positions[number, state.offset]) for number, state, there in registrations
        ]
        self.clear_spent()
        left = self._carry(spent, placed)
        unknown = (envelope.position for envelope in spent if isinstance(envelope.position, UnknownPosition))
        lost = min(unknown, key=lambda position: position.at_least, default=None)
        for envelope in left:
            self._first_record(envelope, lost)
        for vout, txout in enumerate(self.tx.outputs):
            if may_concern_a2b(txout.script) and (parsed := self.record(vout).pointer):
                self.add_pointer(vout, parsed)
        self.add_split_pointer()

    def _is_bound(self, reveal: Reveal, verdict: Judgement | None) -> bool:
        """Whether an envelope inscribes a satoshi, as far as that is known; else it is a near miss at most: of each
        fault the first in its input."""
        reasons: tuple[Reason, ...] = ()
        fault = (reveal.input, reveal.envelope.fault)
        if not reveal.envelope.fault:
            reason = unbound(self.tx, reveal, self.session.value)
            if not isinstance(reason, Reason):
                return True
            reasons = (reason,)
        elif fault in self._faults:
            return False
        if verdict is not None:
            self._faults.add(fault)
            self._reject(None, verdict, *reasons)
        return False

    def _position(self, reveal: Reveal, positions: Mapping[tuple[int, int], _Position]) -> _Position:
        missing = unbound(self.tx, reveal, self.session.value)
        if isinstance(missing, Outpoint):
            self.session.missing_values.add(missing)
            return UnknownPosition((missing,), 0)
        return positions[reveal.input, 0] if reveal.pointer is None else reveal.pointer

    def _carry(self, spent: Iterable[_Spent], placed: Sequence[_Placed]) -> list[_Placed]:
        """Follow the registrations; returns the envelopes that update none. Those on a satoshi are assigned to the
        first registration there: thousands of both take linear time."""
        by_satoshi: dict[Satoshi, list[Reveal]] = {}
        for envelope in placed:
            by_satoshi.setdefault(envelope.reveal.satoshi, []).append(envelope.reveal)
        tape, updating = output_record.read_tape(self.tx), set[int]()
        for number, state, outpoint, position in spent:
            here = by_satoshi.pop((number, state.offset), [])
            if isinstance(position, UnknownPosition):
                self.mark_undecided(state, outpoint, position.missing)
                updating |= {reveal.number for reveal in here}
                continue
            location = self.output_ranges.locate(position)
            if location.burned:
                self.burn(state, outpoint, location, _burned(location))
                continue
            here = sorted(here + by_satoshi.pop(position, []), key=lambda reveal: reveal.number)
            for record in [reveal.record for reveal in here] or [tape]:
                state = self.transfer(state, outpoint, location, judge_update(state.kind, record), None)
            updating |= {reveal.number for reveal in here}
        return [envelope for envelope in placed if envelope.reveal.number not in updating]

    def _first_record(self, placed: _Placed, lost: UnknownPosition | None) -> None:
        reveal, position, verdict = placed
        if verdict is None:
            return
        if reveal.pointer is not None and lost is not None and lost.at_least <= reveal.pointer:
            position = lost
        if isinstance(position, UnknownPosition):
            if verdict.event is EventKind.REJECTED:
                self.reject(None, verdict)
            else:
                self.add_event(EventKind.UNDECIDED, None, reasons=(values_unknown(position.missing),))
            return
        self._new_record(self.output_ranges.locate(position), verdict, reveal.number)

    def _new_record(self, location: SatLocation, verdict: Judgement, number: int) -> None:
        if verdict.event is EventKind.REJECTED:
            self.reject(location.vout, verdict)
        elif location.vout is None or location.burned:
            self._reject(location.vout, verdict, _burned(location))
        elif self._registered[location.vout] == MAX_REGISTERED:
            self._reject(location.vout, verdict, Reason("outpoint-taken", str(MAX_REGISTERED)))
        else:
            self._registered[location.vout] += 1
            is_taken = str(self.tx.outpoint(location.vout)) in self.session.new_ids
            suffix = f"#{number}" if is_taken else ""
            if self.session.origins is None:
                self.register(location, verdict, None, suffix)
            else:
                self.defer(location, verdict, Reason("origin-untraced", "this is done on BSV only"), suffix)

    def _reject(self, vout: int | None, verdict: Judgement, *reasons: Reason) -> None:
        self.reject(vout, replace(verdict, event=EventKind.REJECTED, reasons=(*reasons, *verdict.reasons)))


def _by_satoshi(spent: tuple[int, RegistrationState, Outpoint]) -> tuple[int, int, int, str]:
    """A sorting key: by satoshi, and on one satoshi by the number in the id, the plain id first."""
    number, state, _ = spent
    return number, state.offset, len(state.id), state.id


def _burned(location: SatLocation) -> Reason:
    return Reason("burned-fee" if location.vout is None else "burned-unspendable")
