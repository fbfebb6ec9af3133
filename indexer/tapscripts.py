"""Read a BTC or LTC transaction: an envelope stands in an input's tapscript (law 3a), satoshis go by ordinal theory."""

from __future__ import annotations

from dataclasses import replace

from indexer.facts import EventKind, State
from indexer.lineage import Landing, Unknown
from indexer.session import TxReader, may_speak, unknown
from indexer.verdict import of_arrival, of_newcomer
from parsers import envelope, map_protocol, output
from parsers.output import OutputRecord
from parsers.reasons import Reason
from parsers.script import is_unspendable
from parsers.tx import Outpoint, Transaction


class WitnessReader(TxReader):
    """BTC and LTC: an envelope stands in an input's tapscript and names the first satoshi of that input (law 3a)."""

    def read(self) -> None:
        """Note what this transaction says, in the order of the satoshis that it is said of."""
        leaving = self.leaving()
        spoken = {
            number
            for number, spent in enumerate(self.tx.inputs)
            if spent.witness and envelope.read_witness(spent.witness)
        }
        met = {number for number, state, _ in leaving if number in spoken and state.offset == 0}
        wants: list[tuple[int, int, State | None, Outpoint | None]] = [
            *((number, state.offset, state, spent) for number, state, spent in leaving),
            *((number, 0, None, None) for number in spoken if number not in met),
        ]
        wants.sort(key=lambda want: want[:2])
        places = self.positions((number, offset) for number, offset, _, _ in wants)
        self.vacate()
        for (number, offset, state, spent), at in zip(wants, places, strict=True):
            said = record_of(self.tx, number, speaks=offset == 0 and number in spoken)
            self._follow(state, spent, at, said)
        self._pointers()

    def _follow(self, state: State | None, spent: Outpoint | None, at: int | Unknown, said: OutputRecord) -> None:
        if isinstance(at, Unknown):
            self._put_off(state, spent, at)
            return
        landing = self.line.land(at)
        if state is not None and spent is not None:
            if landing.burned:
                code = "burned-fee" if landing.vout is None else "burned-unspendable"
                self.burn(state, spent, landing, Reason(code))
            else:
                self.arrive(state, spent, landing, of_arrival(state.kind, said), None)
            return
        self._newcomer(landing, said)

    def _put_off(self, state: State | None, spent: Outpoint | None, at: Unknown) -> None:
        if state is not None and spent is not None:
            self.undecided(state, spent, at.missing)
            return
        self.note(EventKind.UNDECIDED, None, reasons=(unknown(at.missing),))

    def _newcomer(self, landing: Landing, said: OutputRecord) -> None:
        verdict = of_newcomer(said, elsewhere=False, alone=False)
        if verdict is None:
            return
        if verdict.event is not EventKind.REJECTED:
            refusal = self._refusal(landing)
            if refusal is None:
                if self.session.origins is None:
                    self.inscribe(landing, verdict, None)
                else:
                    self.put_off(landing, verdict, Reason("origin-untraced", "this is done on BSV only"))
                return
            verdict = replace(verdict, event=EventKind.REJECTED, reasons=(refusal,))
        self.reject(landing.vout, verdict)

    def _refusal(self, landing: Landing) -> Reason | None:
        if landing.vout is None:
            return Reason("burned-fee")
        if landing.burned:
            return Reason("burned-unspendable")
        taken = str(self.tx.outpoint(landing.vout)) in self.session.born
        return Reason("outpoint-taken") if taken else None

    def _pointers(self) -> None:
        for vout, made in enumerate(self.tx.outputs):
            if may_speak(made.script) and (found := self.record(vout).pointer):
                self.point(vout, found)
        self.split_pointer()


def record_of(tx: Transaction, number: int, *, speaks: bool) -> OutputRecord:
    """The record for a satoshi of input `number`: with `speaks`, the envelope of that input with the MAP inside it,
    else the MAP of the first OP_RETURN output, which is also for registrations that are moved without an envelope."""
    if speaks:
        return output.read(tx, 0, witness=tx.inputs[number].witness)
    data = next((made.script for made in tx.outputs if is_unspendable(made.script)), b"")
    return OutputRecord(0, 0, data, map=map_protocol.read(data))
