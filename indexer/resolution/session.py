"""The state shared by the transactions of one block while they are read, and the base of their readers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Protocol

from indexer.headers.networks import CoinRules
from indexer.model import Event, EventKind, PointerAnchor, RegistrationState, Status
from indexer.resolution.lineage import OutputRanges, SatLocation, UnknownPosition, positions
from indexer.resolution.verdict import Judgement
from indexer.spill import Spill, SpilledPairs
from parsers.bitcoin import address
from parsers.bitcoin.tx import Outpoint, Transaction
from parsers.inscriptions import output_record
from parsers.inscriptions.output_record import OutputRecord
from parsers.pointers import pointer
from parsers.reasons import Reason

MAP_KEYS, MAP_CHARACTERS = 64, 4096
"""Limits of the merged MAP that a registration carries: every move stores it again."""

REASONS = 16
"""Reasons stored with one event, at most."""

MISSING = 30
"""Outpoints named in one undecided update, at most; the others are requested once these values are known."""

Values = Mapping[Outpoint, int]
"""Satoshis of outputs that had to be looked up."""

MOST_TRACED, TRACED_AT_ONCE, TRACED_BYTES = 100_000, 10_000, 64 << 20
"""Limits on tracing the origins of a block's cards: cards in all, cards between two readings of the block, and bytes of
their transactions."""


class ValueLookup(Protocol):
    """Values of the outputs of some transactions."""

    def get(self, outpoint: Outpoint, /) -> int | None:
        """The value of an output in satoshis, None for outputs of other transactions."""
        ...


@dataclass(frozen=True, slots=True)
class Origin:
    """The registration on the satoshi of a card before the transaction that inscribes the card.

    `state` is the registration on it, at the output that this transaction spends, None where there was none. `unknown`
    is the reason why this could not be determined. `values` are satoshis of outputs that the transaction spends.
    """

    state: RegistrationState | None = None
    values: Values = field(default_factory=dict)
    unknown: Reason | None = None


Origins = Mapping[Outpoint, Origin]
"""Origins of cards, by the output that holds the card."""

_NOT_VALID = {EventKind.REJECTED, EventKind.INVALID, EventKind.FOREIGN_CONTENT, EventKind.UNDECIDED}


@dataclass(slots=True)
class Session:
    """The state of reading transactions in spend order, and the events so far.

    registrations_by_outpoint: registrations at the outpoints that these transactions spend, updated while reading.
    values: satoshis of outputs that were looked up; outputs: those of the outputs of these transactions. origins: None
    where every earlier block was read, and so all registrations are known. Else a card without a registration is
    undecided unless its origin is in this mapping. is_spent_here: whether another of these transactions spends the one
    that is being read. missing_values: outpoints with values that are needed and unknown. parents: txids of those of
    these transactions with output values that were used. new_ids: ids of first records. untraced: transactions of cards
    with an origin that is needed and unknown, by the output that holds the card.
    """

    height: int
    rules: CoinRules
    network: str
    registrations_by_outpoint: dict[Outpoint, list[RegistrationState]]
    values: Values
    outputs: ValueLookup
    origins: Origins | None = None
    events: Spill[Event] = field(default_factory=Spill)
    cards: SpilledPairs[bytes, bytes] = field(default_factory=SpilledPairs)
    is_spent_here: bool = True
    missing_values: set[Outpoint] = field(default_factory=set)
    parents: set[bytes] = field(default_factory=set)
    new_ids: set[str] = field(default_factory=set)
    untraced: dict[Outpoint, Transaction] = field(default_factory=dict)
    untraced_bytes: int = 0

    def value(self, outpoint: Outpoint) -> int | None:
        """The satoshis of an output, None where this session does not have them."""
        value = self.outputs.get(outpoint)
        if value is not None:
            self.parents.add(outpoint.txid)
            return value
        value = self.values.get(outpoint)
        if value is None:
            occupied = self.registrations_by_outpoint.get(outpoint)
            return occupied[0].satoshis if occupied else None
        return value


class TransactionReader:
    """Reads one transaction and adds its events to the session: what all chains have in common."""

    def __init__(self, session: Session, index: int, transaction: Transaction) -> None:
        self.session, self.index, self.tx = session, index, transaction
        self.output_ranges = OutputRanges(transaction.outputs, one_sat_rule=session.rules.envelope != "witness")
        self.records: dict[int, OutputRecord] = {}

    def record(self, vout: int) -> OutputRecord:
        """The record of output `vout`, parsed once."""
        if vout not in self.records:
            self.records[vout] = output_record.read(self.tx, vout)
        return self.records[vout]

    def spent_registrations(self) -> list[tuple[int, RegistrationState, Outpoint]]:
        """The registrations that this transaction spends, in order of input: (input number, state, outpoint). Of each
        the newest state counts: several envelopes of one transaction may have updated it (law 3a)."""
        newest = {
            (number, state.id): (number, state, spent.prevout)
            for number, spent in enumerate(self.tx.inputs)
            for state in self.session.registrations_by_outpoint.get(spent.prevout, ())
        }
        return list(newest.values())

    def positions(self, sats: Iterable[tuple[int, int]]) -> list[int | UnknownPosition]:
        """The positions of satoshis, each (input number, offset in satoshis), among all satoshis of the inputs.
        Outpoints with values that are needed for that are added to the session's `missing_values`."""
        prevouts = [spent.prevout for spent in self.tx.inputs]
        resolved = list(positions(prevouts, sats, self.session.value))
        for position in resolved:
            if isinstance(position, UnknownPosition):
                self.session.missing_values.update(position.missing)
        return resolved

    def clear_spent(self) -> None:
        """Remove the registrations at the outpoints that this transaction spends."""
        for spent in self.tx.inputs:
            self.session.registrations_by_outpoint.pop(spent.prevout, None)

    def owner(self, vout: int) -> str | None:
        """The address that output `vout` is locked to, None where its script has none."""
        rules = self.session.rules
        return address.owner(self.tx.outputs[vout].script, rules.coin, self.session.network)

    def add_event(self, kind: EventKind, vout: int | None, **rest: Any) -> None:
        """Add an event; its registration is found again at its new outpoint when one of these transactions spends
        that."""
        state: RegistrationState | None = rest.get("state")
        if state and state.outpoint and self.session.is_spent_here:
            self.session.registrations_by_outpoint.setdefault(state.outpoint, []).append(state)
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

    def mark_undecided(self, state: RegistrationState, spent: Outpoint, missing: Iterable[Outpoint]) -> None:
        """Law 3: where this registration went is unknown until the values of `missing` are looked up."""
        after = replace(state, status=Status.UNDECIDED, outpoint=None, offset=0, satoshis=0)
        self.add_event(
            EventKind.UNDECIDED, None, spent=spent, reasons=(values_unknown(missing),), owner=state.owner, state=after
        )

    def burn(self, state: RegistrationState, spent: Outpoint, location: SatLocation, reason: Reason) -> None:
        """Law 3: the registration is burned by this transaction."""
        after = replace(state, status=Status.BURNED, outpoint=None, offset=0, satoshis=0, owner=None)
        self.add_event(EventKind.BURNED, location.vout, spent=spent, reasons=(reason,), state=after)

    def transfer(
        self, state: RegistrationState, spent: Outpoint, location: SatLocation, verdict: Judgement, signer: str | None
    ) -> RegistrationState:
        """Law 4: the registration moves to a new output; the record there may update it; returns its state there."""
        vout = location.vout
        assert vout is not None  # noqa: S101 - the fee is a burn
        satpoint, owner = self.tx.outpoint(vout), self.owner(vout)
        after = replace(
            state, outpoint=satpoint, offset=location.offset, satoshis=self.tx.outputs[vout].satoshis, owner=owner
        )
        if verdict.fields:
            after = replace(after, map=merge_map(state.map, verdict.fields))
        if verdict.event is EventKind.REINSCRIBED and verdict.card:
            after = replace(after, card=verdict.card, winner=satpoint, updated_height=self.session.height)
        self.store_card(verdict)
        self.add_event(
            verdict.event, vout, spent=spent, card=verdict.card, reasons=verdict.reasons, owner=owner, signer=signer,
            state=after,
        )  # fmt: skip
        return after

    def register(self, location: SatLocation, verdict: Judgement, signer: str | None, suffix: str = "") -> None:
        """Law 3: the first record on a satoshi gives the registration its id, which ends in `suffix` (law 3a)."""
        state = self._first_state(location, verdict, suffix)
        self.store_card(verdict)
        self.add_event(
            EventKind.INSCRIBED, location.vout, card=state.card, owner=state.owner, signer=signer, state=state
        )

    def defer(self, location: SatLocation, verdict: Judgement, reason: Reason, suffix: str = "") -> None:
        """Law 3: a card that may update a registration made before reading began is undecided. One that can be a first
        record is listed meanwhile under the id that it would have."""
        state, vout = None, location.vout
        if verdict.event is EventKind.INSCRIBED:
            first = self._first_state(location, verdict, suffix)
            state = replace(first, status=Status.UNDECIDED, outpoint=None, offset=0, satoshis=0)
            self.store_card(verdict)
        owner = self.owner(vout) if vout is not None else None
        self.add_event(EventKind.UNDECIDED, vout, card=verdict.card, reasons=(reason,), owner=owner, state=state)

    def _first_state(self, location: SatLocation, verdict: Judgement, suffix: str) -> RegistrationState:
        """The registration that a first record creates."""
        vout = location.vout
        assert vout is not None  # noqa: S101
        assert verdict.kind is not None  # noqa: S101
        assert verdict.card is not None  # noqa: S101
        satpoint = self.tx.outpoint(vout)
        if self.session.rules.envelope == "witness":  # only witness chains read it, and a block may have a million
            self.session.new_ids.add(f"{satpoint}{suffix}")
        return RegistrationState.begun(
            f"{satpoint}{suffix}", verdict.kind, verdict.card, satpoint, self.session.height,
            offset=location.offset, satoshis=self.tx.outputs[vout].satoshis,
            owner=self.owner(vout), fields=merge_map({}, verdict.fields),
        )  # fmt: skip

    def reject(self, vout: int | None, verdict: Judgement) -> None:
        """Law 7: record a near miss, an output that looks like an A2B record and is not accepted. `vout` is None where
        the satoshi became part of the fee."""
        owner = self.owner(vout) if vout is not None else None
        self.add_event(EventKind.REJECTED, vout, card=verdict.card, reasons=verdict.reasons, owner=owner)

    def store_card(self, verdict: Judgement) -> None:
        """Add the card bytes of a judgement to those that are stored with the block."""
        if verdict.card is not None and verdict.body is not None:
            self.session.cards.append((verdict.card, verdict.body), len(verdict.body))

    def add_pointer(self, vout: int, parsed: pointer.Pointer) -> None:
        """Law 8: add a pointer, valid or not."""
        anchor = PointerAnchor(
            id=parsed.id, domain=parsed.domain, digest=parsed.digest, uri=parsed.uri, form=parsed.form, kind=parsed.kind
        )
        self.add_event(EventKind.POINTED, vout, valid=not parsed.reasons, reasons=parsed.reasons, pointer=anchor)

    def add_split_pointer(self) -> None:
        """Law 8, Dogecoin's form: add a pointer that is split over several outputs."""
        split = pointer.read_split([txout.script for txout in self.tx.outputs])
        if split is not None:
            self.add_pointer(split[0], split[1])


def values_unknown(missing: Iterable[Outpoint]) -> Reason:
    """The reason of an undecided update: the outpoints of unknown value."""
    return Reason("values-unknown", " ".join(str(outpoint) for outpoint in islice(missing, MISSING)))


def may_concern_a2b(script: bytes) -> bool:
    """Whether an output's script can concern A2B: a byte search, cheaper than parsing it."""
    return b"a2b" in script or b"ord" in script or b"bsv-mcp" in script


def merge_map(inherited: Mapping[str, str], update: Mapping[str, str]) -> dict[str, str]:
    """Laws 1 and 4: MAP is inherited and later keys win. At most MAP_KEYS and MAP_CHARACTERS: beyond that the newest
    keys are dropped, but never `app` and `type` for others."""
    merged = {**inherited, **update}
    fitting: dict[str, str] = {}
    room = MAP_CHARACTERS
    for key in sorted(merged, key=lambda key: key not in ("app", "type")):
        room -= len(key) + len(merged[key])
        if room < 0 or len(fitting) == MAP_KEYS:
            break
        fitting[key] = merged[key]
    return {key: fitting[key] for key in merged if key in fitting}
