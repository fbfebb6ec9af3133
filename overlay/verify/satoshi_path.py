"""The satoshi's path from the registration to its current location, through the served transactions and by the same
laws as in the indexer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from indexer.model import EventKind
from indexer.resolution import verdict
from indexer.resolution.lineage import OutputRanges, UnknownPosition, positions
from indexer.resolution.session import merge_map
from indexer.resolution.witness_envelopes import record_of
from overlay.verify.server_claim import NotProvedError, ServerClaim
from overlay.verify.trusted_source import TrustedSource
from parsers.bitcoin.tx import Outpoint, Transaction
from parsers.cards import Kind
from parsers.inscriptions import envelope, output_record
from parsers.inscriptions.output_record import OutputRecord

Value = Callable[[Outpoint], int | None]
"""Returns the value of an output in satoshis, None where it is unknown."""


@dataclass(frozen=True, slots=True)
class SatoshiState:
    """A registration after a transaction: where its satoshi is (None once burned) and how far into that output, its
    merged MAP, and the outpoint and SHA-256 of its newest valid card."""

    location: Outpoint | None
    offset: int
    fields: Mapping[str, str]
    winner: Outpoint
    card: bytes


def inscribed(
    claim: ServerClaim, outpoint: Outpoint, tx: Transaction, trusted: TrustedSource | None
) -> tuple[OutputRecord, int]:
    """What an output of `tx` inscribes, and how many satoshis into that output: in its script, or, where envelopes are
    in a witness, in the tapscript of the input whose first satoshi moves there (law 3a). Raises NotProvedError when
    that cannot be determined."""
    if tx.txid != outpoint.txid or outpoint.vout >= len(tx.outputs):
        raise NotProvedError(f"transaction {tx.hex_id} does not make {outpoint}")
    if claim.network.rules.envelope != "witness":
        return output_record.read(tx, outpoint.vout), 0
    ranges, value = OutputRanges(tx.outputs, one_sat_rule=False), _values(claim, trusted)
    prevouts = [spent.prevout for spent in tx.inputs]
    for number, spent in enumerate(tx.inputs):
        if not envelope.read_witness(spent.witness):
            continue
        position = next(positions(prevouts, [(number, 0)], value))
        if isinstance(position, UnknownPosition):
            raise NotProvedError(
                f"where input {number} of {tx.hex_id} goes depends on the values of the inputs before it"
            )
        location = ranges.locate(position)
        if location.vout == outpoint.vout:
            return output_record.read(tx, outpoint.vout, witness=spent.witness), location.offset
    return output_record.read(tx, outpoint.vout, witness=()), 0


def to_winner(claim: ServerClaim, trusted: TrustedSource | None = None) -> SatoshiState:
    """Follow the satoshi from the outpoint that the id names to the winning revision, which must inscribe the card.

    Where envelopes are in outputs, none of these transactions needs a block of its own: the winner, which has one,
    commits to the txid that it spends, and so on back to the registration. Values that the answer lacks are read from
    the user's own source. Raises NotProvedError naming the end of the path.
    """
    if claim.before is None or claim.after is None:
        raise NotProvedError("the answer does not hold the transactions to follow the satoshi through")
    way = [*(hop.tx for hop in claim.before), claim.tx]
    place = _follow(claim, _register(claim, way[0], trusted), way[1:], trusted)
    if place.location != claim.outpoint or place.winner != claim.outpoint:
        raise NotProvedError(f"the last valid card on the way is at {place.winner}, and not at {claim.outpoint}")
    if place.card != sha256(claim.card).digest():
        raise NotProvedError(f"the card inscribed at {claim.outpoint} on the way is not the one served")
    return place


def to_now(claim: ServerClaim, trusted: TrustedSource | None = None) -> SatoshiState:
    """Follow the satoshi to its current location; the winning revision must be the last valid card on the path. Raises
    NotProvedError naming the end of the path. Does not check that these transactions are in blocks."""
    start = to_winner(claim, trusted)
    place = _follow(claim, start, [hop.tx for hop in claim.after or ()], trusted)
    if place.winner != claim.outpoint:
        raise NotProvedError(f"the last valid card on the way is at {place.winner}, and not at {claim.outpoint}")
    if place.location != claim.location:
        raise NotProvedError(f"the satoshi ends {where(place.location)}, and is said to be {where(claim.location)}")
    _check_parents(claim)
    return place


def where(location: Outpoint | None) -> str:
    """A satoshi's location in words."""
    return f"at {location}" if location else "at no output, burned"


def _register(claim: ServerClaim, first: Transaction, trusted: TrustedSource | None) -> SatoshiState:
    if claim.origin is None or first.txid != claim.origin.txid:
        raise NotProvedError(f"the first transaction is {first.hex_id}, and not the one that the id names")
    record, offset = inscribed(claim, claim.origin, first, trusted)
    judged = verdict.judge_registration(record, elsewhere=False, one_sat_rule=claim.network.rules.envelope != "witness")
    is_first = judged is not None and judged.event is EventKind.INSCRIBED and judged.kind is claim.kind
    if judged is None or judged.card is None or not is_first:
        raise NotProvedError(f"output {claim.origin} does not register {claim.kind.value}")
    return SatoshiState(claim.origin, offset, merge_map({}, judged.fields), claim.origin, judged.card)


def _follow(
    claim: ServerClaim, place: SatoshiState, way: Sequence[Transaction], trusted: TrustedSource | None
) -> SatoshiState:
    value = _values(claim, trusted)
    for tx in way:
        if place.location is None:
            raise NotProvedError(f"the satoshi is burned before transaction {tx.hex_id}")
        place = _step(tx, place, place.location, value, claim.kind, claim.network.rules.envelope)
    return place


def _values(claim: ServerClaim, trusted: TrustedSource | None) -> Value:
    served = {tx.txid: tx for tx in (*claim.parents, claim.tx, *(hop.tx for hop in claim.hops))}

    def value(outpoint: Outpoint) -> int | None:
        parent = served.get(outpoint.txid)
        if parent is None:
            return trusted.satoshis(outpoint) if trusted is not None else None
        return parent.outputs[outpoint.vout].satoshis if outpoint.vout < len(parent.outputs) else None

    return value


def _step(
    tx: Transaction, place: SatoshiState, location: Outpoint, value: Value, kind: Kind, envelope_in: str | None
) -> SatoshiState:
    """A registration after a transaction that spends `location`, its previous location."""
    prevouts = [spent.prevout for spent in tx.inputs]
    if location not in prevouts:
        raise NotProvedError(f"transaction {tx.hex_id} does not spend {location}")
    number = prevouts.index(location)
    position = next(positions(prevouts, [(number, place.offset)], value))
    if isinstance(position, UnknownPosition):
        missing = position.missing[0]
        raise NotProvedError(
            f"where {location} goes in {tx.hex_id} depends on the value of {missing}, which is not in the answer"
        )
    target = OutputRanges(tx.outputs, one_sat_rule=envelope_in != "witness").locate(position)
    if target.burned or target.vout is None:
        return replace(place, location=None, offset=0)
    arrived = tx.outpoint(target.vout)
    if envelope_in == "witness":
        has_envelope = place.offset == 0 and bool(envelope.read_witness(tx.inputs[number].witness))
        record = record_of(tx, number, has_envelope=has_envelope)
    else:
        record = output_record.read(tx, target.vout)
    judged = verdict.judge_update(kind, record)
    fields = merge_map(place.fields, judged.fields) if judged.fields else place.fields
    place = replace(place, location=arrived, offset=target.offset, fields=fields)
    if judged.event is EventKind.REINSCRIBED and judged.card:
        place = replace(place, winner=arrived, card=judged.card)
    return place


def _check_parents(claim: ServerClaim) -> None:
    """Check that a transaction of the path spends every parent, which is what proves a parent."""
    way = (claim.tx, *(hop.tx for hop in claim.hops))
    spent = {spending.prevout.txid for tx in way for spending in tx.inputs}
    for parent in claim.parents:
        if parent.txid not in spent:
            raise NotProvedError(f"no transaction on the way spends {parent.hex_id}, which is served as a parent")
