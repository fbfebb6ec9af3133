"""What reading transactions has in common on every chain: where registrations are, and what was said. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from indexer.chains import Rules
from indexer.facts import BlockRef, Event, EventKind, PointerAnchor, Proofs, Reading, State, Status
from indexer.lineage import Landing, Line, Unknown, positions
from indexer.output_values import OutputValues
from indexer.spill import Spill, SpilledPairs
from indexer.verdict import Verdict
from parsers import address, envelope, output, pointer
from parsers.output import OutputRecord
from parsers.reasons import Reason
from parsers.tx import Outpoint, Transaction
from parsers.witness_commitment import Coinbase

MAP_KEYS, MAP_CHARACTERS = 64, 4096
"""How much of a merged MAP a registration carries along: every move stores it again."""

REASONS = 16
"""Reasons kept for one event."""

MISSING = 30
"""Outpoints named in one undecided update; more are asked for when these are known."""

Values = Mapping[Outpoint, int]
"""Satoshis of outputs that had to be looked up."""

MOST_TRACED, TRACED_AT_ONCE, TRACED_BYTES = 100_000, 10_000, 64 << 20
"""Cards of one block whose origins are traced, how many between two readings of it, and bytes of their transactions."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What the satoshi of a card was before the transaction that inscribes it.

    `state` is the registration that it carried, as of the output that this transaction spends, None where it carried
    none; `unknown` says why that is not known. `values` are satoshis of outputs that the transaction spends.
    """

    state: State | None = None
    values: Values = field(default_factory=dict)
    unknown: Reason | None = None


Origins = Mapping[Outpoint, Origin]
"""Origins of cards, by the output that holds the card."""

_NOT_VALID = {EventKind.REJECTED, EventKind.INVALID, EventKind.FOREIGN_CONTENT, EventKind.UNDECIDED}


@dataclass(slots=True)
class Session:
    """Transactions being read in spend order, and what they have said so far.

    `seats` holds the registrations at the outpoints that these transactions spend; it is kept up to date. `outputs` are
    those of these transactions, `parents` the txids of those of which values were used; `is_spent_here` is whether
    another of them spends one of the transaction being read. `wanted` are outpoints whose values are needed and not
    known, `born` the ids of first records.

    `origins` is None where every earlier block was read, so that `seats` has all registrations. Else a card without a
    registration is undecided unless its origin is there; `untraced` are the transactions of cards for which it is not,
    by the output that holds the card.
    """

    height: int
    rules: Rules
    network: str
    seats: dict[Outpoint, list[State]]
    values: Values
    outputs: OutputValues
    origins: Origins | None = None
    events: Spill[Event] = field(default_factory=Spill)
    cards: SpilledPairs[bytes, bytes] = field(default_factory=SpilledPairs)
    is_spent_here: bool = True
    wanted: set[Outpoint] = field(default_factory=set)
    parents: set[bytes] = field(default_factory=set)
    born: set[str] = field(default_factory=set)
    untraced: dict[Outpoint, Transaction] = field(default_factory=dict)
    untraced_bytes: int = 0

    def reading(self, ref: BlockRef, proofs: Proofs | None = None, coinbase: Coinbase | None = None) -> Reading:
        """All that was said, as that of a block."""
        events = self.events.in_memory
        said = self.events if events is None else tuple(events)
        return Reading(ref, said, self.cards.settled(), proofs if proofs is not None else {}, coinbase)

    def value(self, outpoint: Outpoint) -> int | None:
        """The satoshis of an outpoint, as far as this session knows."""
        known = self.outputs.get(outpoint)
        if known is not None:
            self.parents.add(outpoint.txid)
            return known
        known = self.values.get(outpoint)
        if known is None:
            seated = self.seats.get(outpoint)
            return seated[0].satoshis if seated else None
        return known


class TxReader:
    """What reading a transaction has in common on every chain, and how what it says is noted."""

    def __init__(self, session: Session, index: int, transaction: Transaction) -> None:
        self.session, self.index, self.tx = session, index, transaction
        self.line = Line(transaction.outputs, alone=session.rules.envelope != "witness")
        self.records: dict[int, OutputRecord] = {}

    def record(self, vout: int) -> OutputRecord:
        """What output `vout` says, read once."""
        if vout not in self.records:
            self.records[vout] = output.read(self.tx, vout)
        return self.records[vout]

    def leaving(self) -> list[tuple[int, State, Outpoint]]:
        """The registrations that this transaction spends, with the number of the input, in order."""
        return [
            (number, state, spent.prevout)
            for number, spent in enumerate(self.tx.inputs)
            for state in self.session.seats.get(spent.prevout, ())
        ]

    def positions(self, sats: Iterable[tuple[int, int]]) -> list[int | Unknown]:
        """Where satoshis, given as (input number, offset), stand on the line; what is not known is noted as wanted."""
        prevouts = [spent.prevout for spent in self.tx.inputs]
        found = list(positions(prevouts, sats, self.session.value))
        for place in found:
            if isinstance(place, Unknown):
                self.session.wanted.update(place.missing)
        return found

    def vacate(self) -> None:
        """Nobody is at the outpoints that this transaction spent any more."""
        for spent in self.tx.inputs:
            self.session.seats.pop(spent.prevout, None)

    def owner(self, vout: int) -> str | None:
        """The address that output `vout` is locked to, None where it is locked to none."""
        rules = self.session.rules
        return address.owner(self.tx.outputs[vout].script, self.inscribed(vout), rules.coin, self.session.network)

    def inscribed(self, vout: int) -> envelope.Inscription | None:
        """The envelope that stands in output `vout` itself."""
        return self.record(vout).inscription if may_speak(self.tx.outputs[vout].script) else None

    def note(self, kind: EventKind, vout: int | None, **rest: Any) -> None:
        """Add an event; a state that has an outpoint takes its seat, when one of these transactions may spend it."""
        state: State | None = rest.get("state")
        if state and state.outpoint and self.session.is_spent_here:
            self.session.seats.setdefault(state.outpoint, []).append(state)
        rest["reasons"] = tuple(rest.get("reasons", ()))[:REASONS]
        outpoint = self.tx.outpoint(vout) if vout is not None else None
        event = Event(
            kind=kind,
            position=len(self.session.events),
            tx_index=self.index,
            txid=self.tx.txid,
            outpoint=outpoint,
            valid=kind not in _NOT_VALID and rest.pop("valid", True),
            **rest,
        )
        self.session.events.append(event)

    def undecided(self, state: State, spent: Outpoint, missing: Iterable[Outpoint]) -> None:
        """Law 3: where this registration went cannot be told yet."""
        after = replace(state, status=Status.UNDECIDED, outpoint=None, offset=0, satoshis=0)
        self.note(EventKind.UNDECIDED, None, spent=spent, reasons=(unknown(missing),), owner=state.owner, state=after)

    def burn(self, state: State, spent: Outpoint, landing: Landing, reason: Reason) -> None:
        """Law 3: the registration ends here."""
        after = replace(state, status=Status.BURNED, outpoint=None, offset=0, satoshis=0, owner=None)
        self.note(EventKind.BURNED, landing.vout, spent=spent, reasons=(reason,), state=after)

    def arrive(self, state: State, spent: Outpoint, landing: Landing, verdict: Verdict, signer: str | None) -> None:
        """Law 4: the registration lives on in a new output, which may say something new."""
        vout = landing.vout
        assert vout is not None  # noqa: S101 - the fee is a burn
        seat, owner = self.tx.outpoint(vout), self.owner(vout)
        after = replace(
            state, outpoint=seat, offset=landing.offset, satoshis=self.tx.outputs[vout].satoshis, owner=owner
        )
        if verdict.fields:
            after = replace(after, map=merge(state.map, verdict.fields))
        if verdict.event is EventKind.REINSCRIBED and verdict.card:
            after = replace(after, card=verdict.card, winner=seat, updated_height=self.session.height)
        self.keep(verdict)
        self.note(
            verdict.event, vout, spent=spent, card=verdict.card, reasons=verdict.reasons, owner=owner, signer=signer,
            state=after,
        )  # fmt: skip

    def inscribe(self, landing: Landing, verdict: Verdict, signer: str | None) -> None:
        """Law 3: the first record of a satoshi gives the registration its id."""
        state = self._first_state(landing, verdict)
        if self.session.rules.envelope == "witness":  # elsewhere nobody looks there, and a block may bring a million
            self.session.born.add(state.id)
        self.keep(verdict)
        self.note(EventKind.INSCRIBED, landing.vout, card=state.card, owner=state.owner, signer=signer, state=state)

    def put_off(self, landing: Landing, verdict: Verdict, reason: Reason) -> None:
        """Law 3: a card that may be an update of a registration made before reading began. One that can be a first
        record is listed as undecided meanwhile, by the id that it would have."""
        state, vout = None, landing.vout
        if verdict.event is EventKind.INSCRIBED:
            first = self._first_state(landing, verdict)
            state = replace(first, status=Status.UNDECIDED, outpoint=None, offset=0, satoshis=0)
            self.keep(verdict)
        owner = self.owner(vout) if vout is not None else None
        self.note(EventKind.UNDECIDED, vout, card=verdict.card, reasons=(reason,), owner=owner, state=state)

    def _first_state(self, landing: Landing, verdict: Verdict) -> State:
        """The registration that a first record makes."""
        vout = landing.vout
        assert vout is not None  # noqa: S101
        assert verdict.kind is not None  # noqa: S101
        assert verdict.card is not None  # noqa: S101
        seat = self.tx.outpoint(vout)
        return State(
            id=str(seat),
            kind=verdict.kind,
            status=Status.LIVE,
            outpoint=seat,
            offset=landing.offset,
            satoshis=self.tx.outputs[vout].satoshis,
            owner=self.owner(vout),
            map=merge({}, verdict.fields),
            card=verdict.card,
            winner=seat,
            updated_height=self.session.height,
            created_height=self.session.height,
        )

    def reject(self, vout: int | None, verdict: Verdict) -> None:
        """Law 7: it looks meant for us, and is not accepted. `vout` is None where its satoshi went to the fee."""
        owner = self.owner(vout) if vout is not None else None
        self.note(EventKind.REJECTED, vout, card=verdict.card, reasons=verdict.reasons, owner=owner)

    def keep(self, verdict: Verdict) -> None:
        if verdict.card is not None and verdict.body is not None:
            self.session.cards.add(verdict.card, verdict.body, len(verdict.body))

    def point(self, vout: int, found: pointer.Pointer) -> None:
        """Law 8: a pointer, good or bad."""
        anchor = PointerAnchor(
            id=found.id, domain=found.domain, digest=found.digest, uri=found.uri, form=found.form, kind=found.kind
        )
        self.note(EventKind.POINTED, vout, valid=not found.reasons, reasons=found.reasons, pointer=anchor)

    def split_pointer(self) -> None:
        """Law 8, Dogecoin's form: one pointer in parts over several outputs."""
        split = pointer.read_split([made.script for made in self.tx.outputs])
        if split is not None:
            self.point(split[0], split[1])


def unknown(missing: Iterable[Outpoint]) -> Reason:
    """The reason of an undecided update: the outpoints whose values it waits for."""
    return Reason("values-unknown", " ".join(str(outpoint) for outpoint in islice(missing, MISSING)))


def may_speak(script: bytes) -> bool:
    """Whether an output's script can be about A2B at all: a look at its bytes, cheaper than reading it."""
    return b"a2b" in script or b"ord" in script or b"bsv-mcp" in script


def merge(before: Mapping[str, str], said: Mapping[str, str]) -> dict[str, str]:
    """Law 1 and 4: MAP is inherited and later keys win. Bounded: what does not fit is left out, the newest first."""
    merged = {**before, **said}
    kept: dict[str, str] = {}
    room = MAP_CHARACTERS
    for key in sorted(merged, key=lambda key: key not in ("app", "type")):
        room -= len(key) + len(merged[key])
        if room < 0 or len(kept) == MAP_KEYS:
            break
        kept[key] = merged[key]
    return {key: kept[key] for key in merged if key in kept}
