"""Read a BTC or LTC transaction: envelopes are in tapscripts of inputs, satoshis follow ordinal theory (law 3a)."""

from __future__ import annotations

from dataclasses import replace

from indexer.model import EventKind, RegistrationState
from indexer.resolution.lineage import SatLocation, UnknownPosition
from indexer.resolution.session import TransactionReader, may_concern_a2b, values_unknown
from indexer.resolution.verdict import judge_registration, judge_update
from parsers.bitcoin.script import is_unspendable
from parsers.bitcoin.tx import Outpoint, Transaction
from parsers.inscriptions import envelope, map_protocol, output_record
from parsers.inscriptions.output_record import OutputRecord
from parsers.reasons import Reason


class WitnessEnvelopeReader(TransactionReader):
    """BTC and LTC: an envelope in an input's tapscript inscribes the first satoshi of that input (law 3a)."""

    def read(self) -> None:
        """Add the events of this transaction, in the order of the satoshis that they are about."""
        spent_registrations = self.spent_registrations()
        revealing = {
            number
            for number, spent in enumerate(self.tx.inputs)
            if spent.witness and envelope.read_witness(spent.witness)
        }
        met = {number for number, state, _ in spent_registrations if number in revealing and state.offset == 0}
        wants: list[tuple[int, int, RegistrationState | None, Outpoint | None]] = [
            *((number, state.offset, state, spent) for number, state, spent in spent_registrations),
            *((number, 0, None, None) for number in revealing if number not in met),
        ]
        wants.sort(key=lambda want: want[:2])
        positions = self.positions((number, offset) for number, offset, _, _ in wants)
        self.clear_spent()
        for (number, offset, state, spent), position in zip(wants, positions, strict=True):
            record = record_of(self.tx, number, has_envelope=offset == 0 and number in revealing)
            self._follow(state, spent, position, record)
        self._pointers()

    def _follow(
        self,
        state: RegistrationState | None,
        spent: Outpoint | None,
        position: int | UnknownPosition,
        record: OutputRecord,
    ) -> None:
        if isinstance(position, UnknownPosition):
            self._defer(state, spent, position)
            return
        location = self.output_ranges.locate(position)
        if state is not None and spent is not None:
            if location.burned:
                code = "burned-fee" if location.vout is None else "burned-unspendable"
                self.burn(state, spent, location, Reason(code))
            else:
                self.transfer(state, spent, location, judge_update(state.kind, record), None)
            return
        self._new_record(location, record)

    def _defer(self, state: RegistrationState | None, spent: Outpoint | None, position: UnknownPosition) -> None:
        if state is not None and spent is not None:
            self.mark_undecided(state, spent, position.missing)
            return
        self.add_event(EventKind.UNDECIDED, None, reasons=(values_unknown(position.missing),))

    def _new_record(self, location: SatLocation, record: OutputRecord) -> None:
        verdict = judge_registration(record, elsewhere=False, one_sat_rule=False)
        if verdict is None:
            return
        if verdict.event is not EventKind.REJECTED:
            refusal = self._refusal(location)
            if refusal is None:
                if self.session.origins is None:
                    self.register(location, verdict, None)
                else:
                    self.defer(location, verdict, Reason("origin-untraced", "this is done on BSV only"))
                return
            verdict = replace(verdict, event=EventKind.REJECTED, reasons=(refusal,))
        self.reject(location.vout, verdict)

    def _refusal(self, location: SatLocation) -> Reason | None:
        if location.vout is None:
            return Reason("burned-fee")
        if location.burned:
            return Reason("burned-unspendable")
        taken = str(self.tx.outpoint(location.vout)) in self.session.new_ids
        return Reason("outpoint-taken") if taken else None

    def _pointers(self) -> None:
        for vout, txout in enumerate(self.tx.outputs):
            if may_concern_a2b(txout.script) and (parsed := self.record(vout).pointer):
                self.add_pointer(vout, parsed)
        self.add_split_pointer()


def record_of(tx: Transaction, number: int, *, has_envelope: bool) -> OutputRecord:
    """The record for a satoshi of input `number`: with `has_envelope`, the envelope of that input with the MAP inside
    it, else the MAP of the first OP_RETURN output, which is also for registrations that are moved without an
    envelope."""
    if has_envelope:
        return output_record.read(tx, 0, witness=tx.inputs[number].witness)
    data = next((txout.script for txout in tx.outputs if is_unspendable(txout.script)), b"")
    return OutputRecord(0, 0, data, map=map_protocol.read(data))
