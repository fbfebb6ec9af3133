"""Read one block: which transactions matter, whose satoshis they move, what they say. Pure but for the block's bytes.

The order of things is the journey of a block (README): the walker flags transactions, their outpoints are watched in
turn until nothing new is flagged (law 3b), and then each is read in the order in which satoshis were spent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Any

from indexer.chains import Rules
from indexer.facts import BlockRef, Event, EventKind, PointerAnchor, Reading, State, Status
from indexer.lineage import Landing, Line, Unknown, is_unspendable, positions
from indexer.registry import Registry
from indexer.verdict import Verdict, fields_of, of_arrival, of_newcomer
from parsers import address, block, envelope, map_protocol, output, pointer, sigma, tx
from parsers.envelope import is_json
from parsers.errors import BlockError
from parsers.output import OutputRecord
from parsers.reasons import Reason
from parsers.tx import Outpoint, Transaction

MAP_KEYS, MAP_CHARACTERS = 64, 4096
"""How much of a merged MAP a registration carries along: every move stores it again."""

REASONS = 16
"""Reasons kept for one event."""

MISSING = 30
"""Outpoints named in one undecided update; more are asked for when these are known."""

Values = Mapping[Outpoint, int]


@dataclass(frozen=True, slots=True)
class Read:
    """A block's reading, and the outpoints whose values were wanted and not known; with those it may read otherwise."""

    reading: Reading
    wanted: frozenset[Outpoint]


def read_block(
    ref: BlockRef,
    data: memoryview | bytes,
    rules: Rules,
    network: str,
    watched: block.Watched,
    registry: Registry,
    values: Values,
) -> Read:
    """Read a block. Raises BlockError when it is not what its header says, or cannot be a block at all."""
    flagged = _flag(data, rules, watched)
    # where registrations are is always watched, so that the store need not be asked about other outpoints
    spent = {prevout for prevout in _prevouts(flagged.values()) if prevout in watched}
    session = Session(ref.height, rules, network, _seats(registry, spent), values)
    for index in spend_order(flagged):
        session.read(index, flagged[index])
    if session.events:
        _check_merkle_root(ref, data, rules)
    return Read(Reading(ref, tuple(session.events), session.cards), frozenset(session.wanted))


def read_alone(raw: Transaction, height: int, rules: Rules, network: str, registry: Registry, values: Values) -> Read:
    """Read one transaction as if the block at `height` held nothing else: for diagnosis and the mempool."""
    session = Session(height, rules, network, _seats(registry, _prevouts([raw])), values)
    session.read(0, raw)
    ref = BlockRef("", height, b"", b"", 0, b"")
    return Read(Reading(ref, tuple(session.events), session.cards), frozenset(session.wanted))


def _flag(data: memoryview | bytes, rules: Rules, watched: block.Watched) -> dict[int, Transaction]:
    """The transactions worth reading, by their number in the block; outpoints born here are watched too (law 3b)."""
    found = block.worth_reading(data, watched, segwit=rules.segwit, witness=rules.envelope == "witness")
    flagged: dict[int, Transaction] = {}
    fresh: Sequence[block.Candidate] = found
    while fresh:
        for candidate in fresh:
            raw = bytes(data[candidate.offset : candidate.offset + candidate.size])
            flagged[candidate.tx_index] = tx.read(raw, segwit=rules.segwit)
        born = block.Watched(
            outpoint for candidate in fresh for outpoint in _holdable(flagged[candidate.tx_index], rules)
        )
        if not len(born):
            break
        spending = block.spending(data, born, segwit=rules.segwit)
        fresh = [candidate for candidate in spending if candidate.tx_index not in flagged]
    return flagged


def _holdable(transaction: Transaction, rules: Rules) -> Iterator[Outpoint]:
    """The outputs in which a registration may come to rest."""
    if rules.envelope is None:
        return
    for vout, made in enumerate(transaction.outputs):
        if made.satoshis == 1 or (rules.envelope == "witness" and made.satoshis > 0):
            yield transaction.outpoint(vout)


def _prevouts(transactions: Iterable[Transaction]) -> Iterator[Outpoint]:
    return (spent.prevout for transaction in transactions for spent in transaction.inputs)


def _seats(registry: Registry, outpoints: Iterable[Outpoint]) -> dict[Outpoint, list[State]]:
    return {outpoint: list(states) for outpoint, states in registry.at(outpoints).items()}


def spend_order(flagged: Mapping[int, Transaction]) -> list[int]:
    """Numbers of transactions so that a parent stands before its child, else as in the block (BCH sorts by txid)."""
    numbers = {transaction.txid: number for number, transaction in flagged.items()}
    children: dict[int, list[int]] = {}
    waiting: dict[int, int] = {}
    for number, transaction in flagged.items():
        parents = {numbers[spent.prevout.txid] for spent in transaction.inputs if spent.prevout.txid in numbers}
        waiting[number] = len(parents)
        for parent in parents:
            children.setdefault(parent, []).append(number)
    ready = [number for number, parents_left in waiting.items() if not parents_left]
    heapify(ready)
    order = []
    while ready:
        number = heappop(ready)
        order.append(number)
        for child in children.get(number, ()):
            waiting[child] -= 1
            if not waiting[child]:
                heappush(ready, child)
    return order


def _check_merkle_root(ref: BlockRef, data: memoryview | bytes, rules: Rules) -> None:
    """Law 16: a block that holds anything of ours must hash to the merkle root of its header."""
    offsets = block.tx_offsets(data, segwit=rules.segwit)
    if block.merkle_root(data, offsets, segwit=rules.segwit) != ref.header[36:68]:
        raise BlockError(
            f"block {ref.height:,} ({ref.hash[::-1].hex()}): its transactions do not match its merkle root"
        )


@dataclass(slots=True)
class Session:
    """Transactions being read in spend order, and what they have said so far.

    `seats` holds the registrations at the outpoints that these transactions spend; it is kept up to date.
    """

    height: int
    rules: Rules
    network: str
    seats: dict[Outpoint, list[State]]
    values: Values
    events: list[Event] = field(default_factory=list)
    cards: dict[bytes, bytes] = field(default_factory=dict)
    wanted: set[Outpoint] = field(default_factory=set)
    _made: dict[Outpoint, int] = field(default_factory=dict)

    def read(self, index: int, transaction: Transaction) -> None:
        """Read transaction number `index` of the block."""
        kind = _WitnessTx if self.rules.envelope == "witness" else _OutputTx
        kind(self, index, transaction).read()
        for vout, made in enumerate(transaction.outputs):
            self._made[transaction.outpoint(vout)] = made.satoshis

    def value(self, outpoint: Outpoint) -> int | None:
        """The satoshis of an outpoint, as far as this session knows."""
        known = self._made.get(outpoint)
        if known is None:
            known = self.values.get(outpoint)
        if known is None:
            seated = self.seats.get(outpoint)
            return seated[0].satoshis if seated else None
        return known


class _Tx:
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
        """Add an event; a state that has an outpoint takes its seat."""
        state: State | None = rest.get("state")
        if state and state.outpoint:
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
        vout = landing.vout
        assert vout is not None  # noqa: S101
        assert verdict.kind is not None  # noqa: S101
        assert verdict.card is not None  # noqa: S101
        seat, owner = self.tx.outpoint(vout), self.owner(vout)
        state = State(
            id=str(seat),
            kind=verdict.kind,
            status=Status.LIVE,
            outpoint=seat,
            offset=landing.offset,
            satoshis=self.tx.outputs[vout].satoshis,
            owner=owner,
            map=merge({}, verdict.fields),
            card=verdict.card,
            winner=seat,
            updated_height=self.session.height,
            created_height=self.session.height,
        )
        self.keep(verdict)
        self.note(EventKind.INSCRIBED, vout, card=verdict.card, owner=owner, signer=signer, state=state)

    def reject(self, vout: int | None, verdict: Verdict) -> None:
        """Law 7: it looks meant for us, and is not accepted. `vout` is None where its satoshi went to the fee."""
        owner = self.owner(vout) if vout is not None else None
        self.note(EventKind.REJECTED, vout, card=verdict.card, reasons=verdict.reasons, owner=owner)

    def keep(self, verdict: Verdict) -> None:
        if verdict.card is not None and verdict.body is not None:
            self.session.cards[verdict.card] = verdict.body

    def point(self, vout: int, found: pointer.Pointer) -> None:
        """Law 8: a pointer, good or bad."""
        anchor = PointerAnchor(id=found.id, domain=found.domain, digest=found.digest, uri=found.uri, form=found.form)
        self.note(EventKind.POINTED, vout, valid=not found.reasons, reasons=found.reasons, pointer=anchor)

    def split_pointer(self) -> None:
        """Law 8, Dogecoin's form: one pointer in parts over several outputs."""
        split = pointer.read_split([made.script for made in self.tx.outputs])
        if split is not None:
            self.point(split[0], split[1])


_NOT_VALID = {EventKind.REJECTED, EventKind.INVALID, EventKind.FOREIGN_CONTENT, EventKind.UNDECIDED}


class _OutputTx(_Tx):
    """BSV: an envelope stands in an output of one satoshi (laws 1 to 4); and chains that carry pointers only."""

    def read(self) -> None:
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

    def _arrive(self, state: State, spent: Outpoint, landing: Landing) -> None:
        assert landing.vout is not None  # noqa: S101 - the fee is a burn
        record = self.record(landing.vout)
        verdict = of_arrival(state.kind, record)
        self.arrive(state, spent, landing, verdict, sigma.signer(self.tx, landing.vout))

    def _burn_reason(self, landing: Landing, seated: set[int]) -> Reason:
        if landing.vout is None:
            return Reason("burned-fee")
        for vout in range(landing.vout):
            made = self.tx.outputs[vout]
            if made.satoshis == 1 and vout not in seated and may_speak(made.script):
                verdict = of_newcomer(self.record(vout), elsewhere=False, alone=True)
                if verdict and verdict.event is EventKind.INSCRIBED:
                    return Reason("burned-displaced", str(vout))
        return Reason("burned-merged")

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
        return record.inscription is None and record.pointer is None and output.is_claim(fields_of(record))

    @staticmethod
    def _wants_map(record: OutputRecord) -> bool:
        """Whether an output has a JSON envelope without MAP: with a bare one beside it, that is one near miss."""
        said = record.inscription
        return said is not None and is_json(said.content_type) and not fields_of(record)

    def _newcomer(self, vout: int, record: OutputRecord, *, elsewhere: bool, lost: Sequence[Unknown]) -> None:
        if self.session.rules.envelope is None:
            return
        verdict = of_newcomer(record, elsewhere=elsewhere, alone=True)
        if verdict is None:
            return
        if verdict.event is EventKind.REJECTED:
            self.reject(vout, verdict)
        elif lost and self.line.may_hold(vout, lost[0].at_least):
            # a registration may be here, so this is an update or a first record; the last one lost waits for the most
            reasons = (unknown(lost[-1].missing),)
            self.note(EventKind.UNDECIDED, vout, card=verdict.card, reasons=reasons, owner=self.owner(vout))
        else:
            self.inscribe(Landing(vout, 0, burned=False), verdict, sigma.signer(self.tx, vout))


class _WitnessTx(_Tx):
    """BTC and LTC: an envelope stands in an input's tapscript and names the first satoshi of that input (law 3a)."""

    def read(self) -> None:
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
            said = self._said(number, speaks=offset == 0 and number in spoken)
            self._follow(state, spent, at, said)
        self._pointers()

    def _said(self, number: int, *, speaks: bool) -> OutputRecord:
        """What is said of a satoshi: the envelope of its input, with the MAP inside it, or else the MAP of the first
        OP_RETURN output, which is also for registrations that are moved without an envelope."""
        if speaks:
            return output.read(self.tx, 0, witness=self.tx.inputs[number].witness)
        data = next((made.script for made in self.tx.outputs if is_unspendable(made.script)), b"")
        return OutputRecord(0, 0, data, map=map_protocol.read(data))

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
                self.inscribe(landing, verdict, None)
                return
            verdict = replace(verdict, event=EventKind.REJECTED, reasons=(refusal,))
        self.reject(landing.vout, verdict)

    def _refusal(self, landing: Landing) -> Reason | None:
        if landing.vout is None:
            return Reason("burned-fee")
        if landing.burned:
            return Reason("burned-unspendable")
        seat = str(self.tx.outpoint(landing.vout))
        taken = any(event.state is not None and event.state.id == seat for event in self.session.events)
        return Reason("outpoint-taken") if taken else None

    def _pointers(self) -> None:
        for vout, made in enumerate(self.tx.outputs):
            if may_speak(made.script) and (found := self.record(vout).pointer):
                self.point(vout, found)
        self.split_pointer()


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
