"""The satoshi's way from the registration to where it is now, followed through the transactions served, and judged by
the same laws as the indexer's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from indexer import verdict
from indexer.facts import EventKind
from indexer.lineage import Line, Unknown, positions
from indexer.session import merge
from indexer.tapscripts import record_of
from overlay.verifying.claim import Claim, NotProvedError
from overlay.verifying.own import OwnSource
from parsers import envelope, output
from parsers.cards import Kind
from parsers.output import OutputRecord
from parsers.tx import Outpoint, Transaction

Value = Callable[[Outpoint], int | None]
"""The satoshis of an output, None where they are not known."""


@dataclass(frozen=True, slots=True)
class Place:
    """A registration after a transaction: where its satoshi is (None once burned) and how far into that output, its
    merged MAP, and the outpoint and SHA-256 of its newest valid card."""

    seat: Outpoint | None
    offset: int
    fields: Mapping[str, str]
    winner: Outpoint
    card: bytes


def inscribed(claim: Claim, outpoint: Outpoint, tx: Transaction, own: OwnSource | None) -> tuple[OutputRecord, int]:
    """What an output of `tx` inscribes, and how many satoshis into that output: in its script, or, where envelopes are
    in a witness, in the tapscript of the input whose first satoshi lands there (law 3a). Raises NotProvedError when
    that cannot be told."""
    if tx.txid != outpoint.txid or outpoint.vout >= len(tx.outputs):
        raise NotProvedError(f"transaction {tx.hex_id} does not make {outpoint}")
    if claim.network.rules.envelope != "witness":
        return output.read(tx, outpoint.vout), 0
    line, value = Line(tx.outputs, alone=False), _values(claim, own)
    prevouts = [spent.prevout for spent in tx.inputs]
    for number, spent in enumerate(tx.inputs):
        if not envelope.read_witness(spent.witness):
            continue
        position = next(positions(prevouts, [(number, 0)], value))
        if isinstance(position, Unknown):
            raise NotProvedError(f"where input {number} of {tx.hex_id} lands depends on the values of those before it")
        landing = line.land(position)
        if landing.vout == outpoint.vout:
            return output.read(tx, outpoint.vout, witness=spent.witness), landing.offset
    return output.read(tx, outpoint.vout, witness=()), 0


def to_winner(claim: Claim, own: OwnSource | None = None) -> Place:
    """Follow the satoshi from the outpoint that the id names to the winning revision, which must inscribe the card.

    Where envelopes are in outputs, none of these transactions needs a block of its own: the winner, which has one,
    commits to the txid that it spends, and so on back to the registration. Values that the answer lacks are asked of
    the user's own source. Raises NotProvedError saying where the way ends.
    """
    if claim.before is None or claim.after is None:
        raise NotProvedError("the answer does not hold the transactions to follow the satoshi through")
    way = [*(hop.tx for hop in claim.before), claim.tx]
    place = _follow(claim, _register(claim, way[0], own), way[1:], own)
    if place.seat != claim.outpoint or place.winner != claim.outpoint:
        raise NotProvedError(f"the last valid card on the way is at {place.winner}, and not at {claim.outpoint}")
    if place.card != sha256(claim.card).digest():
        raise NotProvedError(f"the card inscribed at {claim.outpoint} on the way is not the one served")
    return place


def to_now(claim: Claim, own: OwnSource | None = None) -> Place:
    """Follow the satoshi on to where it is now; the winning revision must be the last valid card on the way. Raises
    NotProvedError saying where the way ends. Whether these transactions are in blocks is another question."""
    start = to_winner(claim, own)
    place = _follow(claim, start, [hop.tx for hop in claim.after or ()], own)
    if place.winner != claim.outpoint:
        raise NotProvedError(f"the last valid card on the way is at {place.winner}, and not at {claim.outpoint}")
    if place.seat != claim.seat:
        raise NotProvedError(f"the satoshi ends {where(place.seat)}, and is said to be {where(claim.seat)}")
    _check_parents(claim)
    return place


def where(seat: Outpoint | None) -> str:
    """A satoshi's place in words."""
    return f"at {seat}" if seat else "at no output, burned"


def _register(claim: Claim, first: Transaction, own: OwnSource | None) -> Place:
    if claim.origin is None or first.txid != claim.origin.txid:
        raise NotProvedError(f"the first transaction is {first.hex_id}, and not the one that the id names")
    record, offset = inscribed(claim, claim.origin, first, own)
    judged = verdict.of_newcomer(record, elsewhere=False, alone=claim.network.rules.envelope != "witness")
    is_first = judged is not None and judged.event is EventKind.INSCRIBED and judged.kind is claim.kind
    if judged is None or judged.card is None or not is_first:
        raise NotProvedError(f"output {claim.origin} does not register {claim.kind.value}")
    return Place(claim.origin, offset, merge({}, judged.fields), claim.origin, judged.card)


def _follow(claim: Claim, place: Place, way: Sequence[Transaction], own: OwnSource | None) -> Place:
    value = _values(claim, own)
    for tx in way:
        if place.seat is None:
            raise NotProvedError(f"the satoshi is burned before transaction {tx.hex_id}")
        place = _step(tx, place, place.seat, value, claim.kind, claim.network.rules.envelope)
    return place


def _values(claim: Claim, own: OwnSource | None) -> Value:
    served = {tx.txid: tx for tx in (*claim.parents, claim.tx, *(hop.tx for hop in claim.hops))}

    def value(outpoint: Outpoint) -> int | None:
        parent = served.get(outpoint.txid)
        if parent is None:
            return own.satoshis(outpoint) if own is not None else None
        return parent.outputs[outpoint.vout].satoshis if outpoint.vout < len(parent.outputs) else None

    return value


def _step(tx: Transaction, place: Place, seat: Outpoint, value: Value, kind: Kind, envelope_in: str | None) -> Place:
    """A registration after a transaction that spends `seat`, its place so far."""
    prevouts = [spent.prevout for spent in tx.inputs]
    if seat not in prevouts:
        raise NotProvedError(f"transaction {tx.hex_id} does not spend {seat}")
    number = prevouts.index(seat)
    position = next(positions(prevouts, [(number, place.offset)], value))
    if isinstance(position, Unknown):
        missing = position.missing[0]
        raise NotProvedError(
            f"where {seat} goes in {tx.hex_id} depends on the value of {missing}, which is not in the answer"
        )
    landing = Line(tx.outputs, alone=envelope_in != "witness").land(position)
    if landing.burned or landing.vout is None:
        return replace(place, seat=None, offset=0)
    arrived = tx.outpoint(landing.vout)
    if envelope_in == "witness":
        speaks = place.offset == 0 and bool(envelope.read_witness(tx.inputs[number].witness))
        record = record_of(tx, number, speaks=speaks)
    else:
        record = output.read(tx, landing.vout)
    judged = verdict.of_arrival(kind, record)
    fields = merge(place.fields, judged.fields) if judged.fields else place.fields
    place = replace(place, seat=arrived, offset=landing.offset, fields=fields)
    if judged.event is EventKind.REINSCRIBED and judged.card:
        place = replace(place, winner=arrived, card=judged.card)
    return place


def _check_parents(claim: Claim) -> None:
    """A parent is authentic because a transaction of the way spends it; another one would prove nothing."""
    way = (claim.tx, *(hop.tx for hop in claim.hops))
    spent = {spending.prevout.txid for tx in way for spending in tx.inputs}
    for parent in claim.parents:
        if parent.txid not in spent:
            raise NotProvedError(f"no transaction on the way spends {parent.hex_id}, which is served as a parent")
