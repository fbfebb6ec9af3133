"""Read a BSV transaction, with envelopes in outputs of one satoshi (laws 1 to 4), or one that holds pointers only."""

from __future__ import annotations

from collections.abc import Sequence

from indexer.model import EventKind
from indexer.resolution.lineage import SatLocation, UnknownPosition
from indexer.resolution.session import (
    MOST_TRACED,
    TRACED_AT_ONCE,
    TRACED_BYTES,
    Session,
    TransactionReader,
    may_concern_a2b,
    values_unknown,
)
from indexer.resolution.verdict import judge_registration, judge_update, may_update
from parsers.bitcoin.tx import Transaction
from parsers.inscriptions import output_record, sigma
from parsers.inscriptions.envelope import is_json
from parsers.inscriptions.output_record import OutputRecord
from parsers.reasons import Reason


class OutputEnvelopeReader(TransactionReader):
    """BSV, with envelopes in outputs of one satoshi (laws 1 to 4), and chains that carry pointers only."""

    def __init__(self, session: Session, index: int, transaction: Transaction) -> None:
        super().__init__(session, index, transaction)
        self._checked = 0
        self._displacing: int | None = None

    def read(self) -> None:
        """Add the events of this transaction: first the events of registrations that it spends, then new records."""
        # registrations from before reading began, as far as they were traced
        for vout in range(len(self.tx.outputs) if self.session.origins else 0):
            origin = (self.session.origins or {}).get(self.tx.outpoint(vout))
            traced = origin.state if origin else None
            if traced is not None and traced.outpoint is not None:
                self.session.registrations_by_outpoint.setdefault(traced.outpoint, [traced])
        spent_registrations = self.spent_registrations()
        positions = self.positions((number, state.offset) for number, state, _ in spent_registrations)
        self.clear_spent()
        occupied: set[int] = set()
        lost: list[UnknownPosition] = []
        for (_, state, spent), position in zip(spent_registrations, positions, strict=True):
            if isinstance(position, UnknownPosition):
                self.mark_undecided(state, spent, position.missing)
                lost.append(position)
                continue
            location = self.output_ranges.locate(position)
            if location.burned or location.vout is None:
                self.burn(state, spent, location, self._burn_reason(location, occupied))
                continue
            verdict = judge_update(state.kind, self.record(location.vout))
            self.transfer(state, spent, location, verdict, sigma.signer(self.tx, location.vout))
            occupied.add(location.vout)
        self._new_records(occupied, lost)
        self.add_split_pointer()

    def _burn_reason(self, location: SatLocation, occupied: set[int]) -> Reason:
        """Why a registration burned. Satoshis come in order: outputs checked for an earlier one are not checked
        again."""
        if location.vout is None:
            return Reason("burned-fee")
        while self._displacing is None and self._checked < location.vout:
            if self._is_first_record(self._checked, occupied):
                self._displacing = self._checked
            self._checked += 1
        return (
            Reason("burned-merged") if self._displacing is None else Reason("burned-displaced", str(self._displacing))
        )

    def _is_first_record(self, vout: int, occupied: set[int]) -> bool:
        txout = self.tx.outputs[vout]
        if txout.satoshis != 1 or vout in occupied or not may_concern_a2b(txout.script):
            return False
        verdict = judge_registration(self.record(vout), elsewhere=False, one_sat_rule=True)
        return verdict is not None and verdict.event is EventKind.INSCRIBED

    def _new_records(self, occupied: set[int], lost: Sequence[UnknownPosition]) -> None:
        candidates = [
            vout for vout, txout in enumerate(self.tx.outputs) if vout not in occupied and may_concern_a2b(txout.script)
        ]
        records = {vout: self.record(vout) for vout in {*candidates, *occupied}}
        bare = {
            vout
            for vout, record in records.items()
            if not record.inscription and not record.pointer and output_record.is_for_registry(record.fields)
        }
        # a JSON envelope without MAP and, in another output, an A2B MAP without envelope are one near miss
        wanting = any(
            record.inscription and is_json(record.inscription.content_type) and not record.fields
            for record in records.values()
        )
        for vout in candidates:
            record = records[vout]
            if record.pointer and not record.inscription:
                self.add_pointer(vout, record.pointer)
            elif vout not in bare or not wanting or record.near:
                self._new_record(vout, record, elsewhere=bool(bare), lost=lost)

    def _new_record(self, vout: int, record: OutputRecord, *, elsewhere: bool, lost: Sequence[UnknownPosition]) -> None:
        if self.session.rules.envelope is None:
            return
        verdict = judge_registration(record, elsewhere=elsewhere, one_sat_rule=True)
        if verdict is None:
            return
        if (reason := self._unsettled(vout, record)) is not None:
            self.defer(SatLocation(vout, 0, burned=False), verdict, reason)
        elif verdict.event is EventKind.REJECTED:
            self.reject(vout, verdict)
        elif lost and self.output_ranges.may_hold(vout, lost[0].at_least):
            # an update or a first record: a registration may be here; the last unknown position lacks most values
            reasons = (values_unknown(lost[-1].missing),)
            self.add_event(EventKind.UNDECIDED, vout, card=verdict.card, reasons=reasons, owner=self.owner(vout))
        else:
            self.register(SatLocation(vout, 0, burned=False), verdict, sigma.signer(self.tx, vout))

    def _unsettled(self, vout: int, record: OutputRecord) -> Reason | None:
        """Why it is unknown whether a card is on a satoshi that was registered before reading began; None where it is
        not, or does not matter."""
        origins, outpoint = self.session.origins, self.tx.outpoint(vout)
        if origins is None or self.tx.outputs[vout].satoshis != 1 or not may_update(record):
            return None
        origin = origins.get(outpoint)
        if origin is None and len(origins) >= MOST_TRACED:
            return Reason("origin-untraced", f"only {MOST_TRACED:,} cards of a block are")
        if origin is None:
            session = self.session
            if len(session.untraced) < TRACED_AT_ONCE and session.untraced_bytes < TRACED_BYTES:
                session.untraced[outpoint] = self.tx  # traced before the block is read again
                session.untraced_bytes += self.tx.size
            return Reason("origin-unknown", "it was not traced yet")
        return origin.unknown
