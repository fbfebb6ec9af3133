"""The satoshi's path from the registration to its current location, through the served transactions and by the same
laws as in the indexer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import NamedTuple

from indexer.model import EventKind
from indexer.resolution import verdict
from indexer.resolution.lineage import OutputRanges, UnknownPosition, positions
from indexer.resolution.reveals import Reveal, reveals, unbound
from indexer.resolution.session import merge_map
from overlay.verify.server_answer import NotProvedError, ServerAnswer
from overlay.verify.trusted_source import TrustedSource
from parsers.bitcoin.tx import Outpoint, Transaction
from parsers.inscriptions import output_record
from parsers.inscriptions.output_record import OutputRecord

Value = Callable[[Outpoint], int | None]
"""Returns the value of an output in satoshis, None where it is unknown."""


@dataclass(frozen=True, slots=True)
class SatoshiState:
    """A registration after a transaction: where its satoshi is (None once burned) and how far into that output, its
    merged MAP, and the outpoint and SHA-256 of its newest valid card. `is_first`: of the registrations on the satoshi,
    it is the one that later cards update (law 3a)."""

    location: Outpoint | None
    offset: int
    fields: Mapping[str, str]
    winner: Outpoint
    card: bytes
    is_first: bool = True


class InscribedRecord(NamedTuple):
    """A record of an output: its number among the inscriptions of the transaction where envelopes are in witnesses,
    and how many satoshis into the output the one is that it inscribes."""

    number: int
    record: OutputRecord
    offset: int


def inscribed(
    answer: ServerAnswer, outpoint: Outpoint, tx: Transaction, trusted: TrustedSource | None
) -> Iterator[InscribedRecord]:
    """The record that an output of `tx` inscribes: in its script, or, where envelopes are in witnesses, in the
    tapscripts of the satoshis that move there (law 3a), in order. Raises NotProvedError when that cannot be
    determined."""
    if tx.txid != outpoint.txid or outpoint.vout >= len(tx.outputs):
        raise NotProvedError(f"transaction {tx.hex_id} does not make {outpoint}")
    if answer.network.rules.envelope != "witness":
        yield InscribedRecord(0, output_record.read(tx, outpoint.vout), 0)
        return
    value, ranges = _values(answer, trusted), OutputRanges(tx.outputs, one_sat_rule=False)
    for reveal in reveals(tx):
        if not _is_bound(tx, reveal, value):
            continue
        location = ranges.locate(_position(tx, reveal, value))
        if location.vout == outpoint.vout and not location.burned:
            yield InscribedRecord(reveal.number, reveal.record, location.offset)


def _is_bound(tx: Transaction, reveal: Reveal, value: Value) -> bool:
    """Whether an envelope in a tapscript inscribes a satoshi."""
    reason = None if reveal.envelope.fault else unbound(tx, reveal, value)
    if isinstance(reason, Outpoint):
        raise NotProvedError(f"what {tx.hex_id} inscribes depends on the value of {reason}, which is not known")
    return not reveal.envelope.fault and reason is None


def _position(tx: Transaction, reveal: Reveal, value: Value) -> int:
    """The position of the satoshi that an envelope inscribes, among all satoshis."""
    if reveal.pointer is not None:
        return reveal.pointer
    position = next(positions([spent.prevout for spent in tx.inputs], [(reveal.input, 0)], value))
    if isinstance(position, UnknownPosition):
        raise NotProvedError(
            f"the target of input {reveal.input} of {tx.hex_id} depends on the values of the inputs before it"
        )
    return position


def to_winner(answer: ServerAnswer, trusted: TrustedSource | None = None) -> SatoshiState:
    """Follow the satoshi from the outpoint in the id to the winning revision, which must inscribe the card.

    Where envelopes are in outputs, none of these transactions needs its own block: the winner, which has one, commits
    to the txid that it spends, and so on back to the registration. Values that the answer lacks are read from the
    user's own source. Raises NotProvedError naming the end of the path.
    """
    if answer.before is None or answer.after is None:
        raise NotProvedError("the answer does not hold the transactions to follow the satoshi through")
    way = [*(hop.tx for hop in answer.before), answer.tx]
    state = _follow(answer, _register(answer, way[0], trusted), way[1:], trusted)
    if state.location != answer.outpoint or state.winner != answer.outpoint:
        raise NotProvedError(f"the last valid card on the way is at {state.winner}, and not at {answer.outpoint}")
    if state.card != sha256(answer.card).digest():
        raise NotProvedError(f"the card inscribed at {answer.outpoint} on the way is not the one served")
    return state


def to_now(answer: ServerAnswer, trusted: TrustedSource | None = None) -> SatoshiState:
    """Follow the satoshi to its current location; the winning revision must be the last valid card on the path. Raises
    NotProvedError naming the end of the path. Does not check that these transactions are in blocks."""
    start = to_winner(answer, trusted)
    state = _follow(answer, start, [hop.tx for hop in answer.after or ()], trusted)
    if state.winner != answer.outpoint:
        raise NotProvedError(f"the last valid card on the way is at {state.winner}, and not at {answer.outpoint}")
    if state.location != answer.location:
        raise NotProvedError(f"the satoshi ends {where(state.location)}, in the answer {where(answer.location)}")
    _check_parents(answer)
    return state


def where(location: Outpoint | None) -> str:
    """A satoshi's location in words."""
    return f"at {location}" if location else "at no output, burned"


def _register(answer: ServerAnswer, first: Transaction, trusted: TrustedSource | None) -> SatoshiState:
    if answer.origin is None or first.txid != answer.origin.txid:
        raise NotProvedError(f"the first transaction is {first.hex_id}, and not the one that the id names")
    one_sat_rule = answer.network.rules.envelope != "witness"
    offsets: set[int] = set()
    for number, record, offset in inscribed(answer, answer.origin, first, trusted):
        judged = verdict.judge_registration(record, elsewhere=False, one_sat_rule=one_sat_rule)
        if judged is None or judged.event is not EventKind.INSCRIBED or judged.card is None:
            continue
        # the first one there has the plain id, and every other one its number
        if answer.number == (number if offsets else None) and judged.kind is answer.kind:
            fields = merge_map({}, judged.fields)
            return SatoshiState(answer.origin, offset, fields, answer.origin, judged.card, offset not in offsets)
        offsets.add(offset)
    raise NotProvedError(f"output {answer.origin} does not register {answer.kind.value}")


def _follow(
    answer: ServerAnswer, state: SatoshiState, way: Sequence[Transaction], trusted: TrustedSource | None
) -> SatoshiState:
    value = _values(answer, trusted)
    for tx in way:
        if state.location is None:
            raise NotProvedError(f"the satoshi is burned before transaction {tx.hex_id}")
        state = _step(tx, state, state.location, value, answer)
    return state


def _values(answer: ServerAnswer, trusted: TrustedSource | None) -> Value:
    served = {tx.txid: tx for tx in (*answer.parents, answer.tx, *(hop.tx for hop in answer.hops))}

    def value(outpoint: Outpoint) -> int | None:
        parent = served.get(outpoint.txid)
        if parent is None:
            return trusted.satoshis(outpoint) if trusted is not None else None
        return parent.outputs[outpoint.vout].satoshis if outpoint.vout < len(parent.outputs) else None

    return value


def _step(tx: Transaction, state: SatoshiState, location: Outpoint, value: Value, answer: ServerAnswer) -> SatoshiState:
    """A registration after a transaction that spends `location`, its previous location."""
    in_witness = answer.network.rules.envelope == "witness"
    prevouts = [spent.prevout for spent in tx.inputs]
    if location not in prevouts:
        raise NotProvedError(f"transaction {tx.hex_id} does not spend {location}")
    number = prevouts.index(location)
    position = next(positions(prevouts, [(number, state.offset)], value))
    if isinstance(position, UnknownPosition):
        missing = position.missing[0]
        raise NotProvedError(
            f"the target of {location} in {tx.hex_id} depends on the value of {missing}, which is not in the answer"
        )
    target = OutputRanges(tx.outputs, one_sat_rule=not in_witness).locate(position)
    if target.burned or target.vout is None:
        return replace(state, location=None, offset=0)
    arrived = tx.outpoint(target.vout)
    here = ((number, state.offset), position)
    records = [output_record.read(tx, target.vout)]
    if in_witness:
        on_it = [reveal for reveal in reveals(tx) if state.is_first and reveal.satoshi in here]
        updates = [reveal.record for reveal in on_it if _is_bound(tx, reveal, value)]
        records = updates or [output_record.read_tape(tx)]
    state = replace(state, location=arrived, offset=target.offset)
    for record in records:
        judged = verdict.judge_update(answer.kind, record)
        if judged.fields:
            state = replace(state, fields=merge_map(state.fields, judged.fields))
        if judged.event is EventKind.REINSCRIBED and judged.card:
            state = replace(state, winner=arrived, card=judged.card)
    return state


def _check_parents(answer: ServerAnswer) -> None:
    """Check that a transaction of the path spends every parent, which is what proves a parent."""
    way = (answer.tx, *(hop.tx for hop in answer.hops))
    spent = {spending.prevout.txid for tx in way for spending in tx.inputs}
    for parent in answer.parents:
        if parent.txid not in spent:
            raise NotProvedError(f"no transaction on the way spends {parent.hex_id}, which is served as a parent")
