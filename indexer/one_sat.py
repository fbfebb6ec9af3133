"""Read a BSV transaction: an envelope stands in an output of one satoshi (laws 1 to 4); or one that may only point."""

from __future__ import annotations

from collections.abc import Sequence

from indexer.facts import EventKind, State
from indexer.lineage import Landing, Unknown
from indexer.session import MOST_TRACED, TRACED_AT_ONCE, TRACED_BYTES, Session, TxReader, may_speak, unknown
from indexer.verdict import may_update, of_arrival, of_newcomer
from parsers import output, sigma
from parsers.envelope import is_json
from parsers.output import OutputRecord
from parsers.reasons import Reason
from parsers.tx import Outpoint, Transaction


class OutputReader(TxReader):
    """BSV: an envelope stands in an output of one satoshi (laws 1 to 4); and chains that carry pointers only."""

    def __init__(self, session: Session, index: int, transaction: Transaction) -> None:
        super().__init__(session, index, transaction)
        self._looked = 0
        self._displacing: int | None = None

    def read(self) -> None:
        """Note what this transaction says, registrations that move first."""
        self._adopt()
        leaving = self.leaving()
        places = self.positions((number, state.offset) for number, state, _ in leaving)
        self.vacate()
        seated: set[int] = set()
        lost: list[Unknown] = []
        for (_, state, spent), at in zip(leaving, places, strict=True):
            if isinstance(at, Unknown):
                self.undecided(state, spent, at.missing)
                lost.append(at)
                continue
            landing = self.line.land(at)
            if landing.burned:
                self.burn(state, spent, landing, self._burn_reason(landing, seated))
            else:
                self._arrive(state, spent, landing)
                seated.add(landing.vout or 0)
        self._newcomers(seated, lost)
        self.split_pointer()

    def _adopt(self) -> None:
        """Registrations made before reading began are where this transaction spends them, as far as cards showed it."""
        for vout in range(len(self.tx.outputs) if self.session.origins else 0):
            origin = (self.session.origins or {}).get(self.tx.outpoint(vout))
            state = origin.state if origin else None
            if state is not None and state.outpoint is not None:
                self.session.seats.setdefault(state.outpoint, [state])

    def _arrive(self, state: State, spent: Outpoint, landing: Landing) -> None:
        assert landing.vout is not None  # noqa: S101 - the fee is a burn
        record = self.record(landing.vout)
        verdict = of_arrival(state.kind, record)
        self.arrive(state, spent, landing, verdict, sigma.signer(self.tx, landing.vout))

    def _burn_reason(self, landing: Landing, seated: set[int]) -> Reason:
        """Satoshis come in order: outputs that were looked at for an earlier one need no second look."""
        if landing.vout is None:
            return Reason("burned-fee")
        while self._displacing is None and self._looked < landing.vout:
            if self._is_first_record(self._looked, seated):
                self._displacing = self._looked
            self._looked += 1
        return (
            Reason("burned-merged") if self._displacing is None else Reason("burned-displaced", str(self._displacing))
        )

    def _is_first_record(self, vout: int, seated: set[int]) -> bool:
        made = self.tx.outputs[vout]
        if made.satoshis != 1 or vout in seated or not may_speak(made.script):
            return False
        verdict = of_newcomer(self.record(vout), elsewhere=False, alone=True)
        return verdict is not None and verdict.event is EventKind.INSCRIBED

    def _newcomers(self, seated: set[int], lost: Sequence[Unknown]) -> None:
        speaking = [vout for vout, made in enumerate(self.tx.outputs) if vout not in seated and may_speak(made.script)]
        bare = {vout for vout in {*speaking, *seated} if self._is_bare(self.record(vout))}
        wanting = any(self._wants_map(self.record(vout)) for vout in {*speaking, *seated})
        for vout in speaking:
            record = self.record(vout)
            if record.pointer and not record.inscription:
                self.point(vout, record.pointer)
            elif vout not in bare or not wanting or record.near:
                self._newcomer(vout, record, elsewhere=bool(bare), lost=lost)

    @staticmethod
    def _is_bare(record: OutputRecord) -> bool:
        """Whether an output has an A2B MAP for which it has no envelope."""
        return record.inscription is None and record.pointer is None and output.is_claim(record.fields)

    @staticmethod
    def _wants_map(record: OutputRecord) -> bool:
        """Whether an output has a JSON envelope without MAP: with a bare one beside it, that is one near miss."""
        said = record.inscription
        return said is not None and is_json(said.content_type) and not record.fields

    def _newcomer(self, vout: int, record: OutputRecord, *, elsewhere: bool, lost: Sequence[Unknown]) -> None:
        if self.session.rules.envelope is None:
            return
        verdict = of_newcomer(record, elsewhere=elsewhere, alone=True)
        if verdict is None:
            return
        if (reason := self._unsettled(vout, record)) is not None:
            self.put_off(Landing(vout, 0, burned=False), verdict, reason)
        elif verdict.event is EventKind.REJECTED:
            self.reject(vout, verdict)
        elif lost and self.line.may_hold(vout, lost[0].at_least):
            # a registration may be here, so this is an update or a first record; the last one lost waits for the most
            reasons = (unknown(lost[-1].missing),)
            self.note(EventKind.UNDECIDED, vout, card=verdict.card, reasons=reasons, owner=self.owner(vout))
        else:
            self.inscribe(Landing(vout, 0, burned=False), verdict, sigma.signer(self.tx, vout))

    def _unsettled(self, vout: int, record: OutputRecord) -> Reason | None:
        """Why it is not known whether a card is on a satoshi that was registered before reading began; None where it is
        known that it is not, or does not matter."""
        origins, outpoint = self.session.origins, self.tx.outpoint(vout)
        if origins is None or self.tx.outputs[vout].satoshis != 1 or not may_update(record):
            return None
        origin = origins.get(outpoint)
        if origin is None and len(origins) >= MOST_TRACED:
            return Reason("origin-untraced", f"only {MOST_TRACED:,} cards of a block are")
        if origin is None:
            self._trace(outpoint)
            return Reason("origin-unknown", "it was not traced yet")
        return origin.unknown

    def _trace(self, card: Outpoint) -> None:
        """Have the origin of a card traced before the block is read again, or after that."""
        session = self.session
        if len(session.untraced) < TRACED_AT_ONCE and session.untraced_bytes < TRACED_BYTES:
            session.untraced[card] = self.tx
            session.untraced_bytes += self.tx.size
