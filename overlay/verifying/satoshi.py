"""The satoshi's way from the registration to where it is said to be now, followed through the transactions served, and
judged by the same laws as the indexer's."""

from __future__ import annotations

from collections.abc import Callable

from indexer import verdict
from indexer.facts import EventKind
from indexer.lineage import Line, Unknown, positions
from overlay.verifying.claim import Claim, NotProvedError
from overlay.verifying.own import OwnSource
from parsers import envelope, output
from parsers.output import OutputRecord
from parsers.tx import Outpoint, Transaction


def inscribed(tx: Transaction, vout: int, where: str | None) -> OutputRecord:
    """What stands on an output: in its script, or, where envelopes stand in a witness, in the tapscript of the input
    whose first satoshi lands there (law 3a). Raises NotProvedError when that cannot be told."""
    if vout >= len(tx.outputs):
        raise NotProvedError(f"transaction {tx.hex_id} has no output {vout}")
    if where != "witness":
        return output.read(tx, vout)
    line, prevouts = Line(tx.outputs, alone=False), [each.prevout for each in tx.inputs]
    for number, spent in enumerate(tx.inputs):
        if not envelope.read_witness(spent.witness):
            continue
        at = next(positions(prevouts, [(number, 0)], lambda _: None))
        if isinstance(at, Unknown):
            raise NotProvedError(f"where input {number} of {tx.hex_id} lands depends on the values of those before it")
        if line.land(at).vout == vout:
            return output.read(tx, vout, witness=spent.witness)
    return output.read(tx, vout, witness=())


def follow(claim: Claim, own: OwnSource | None = None) -> str:
    """Follow the satoshi from the outpoint that the id names to where it is said to be now; the winning revision must
    be the last valid word on the way. Values that the answer lacks are asked of the user's own source.

    Gives a sentence, or raises NotProvedError saying where the way ends.
    """
    if claim.before is None or claim.after is None:
        raise NotProvedError("the answer does not hold the transactions to follow the satoshi through")
    way = [*claim.before, claim.tx, *claim.after]
    where = claim.network.rules.envelope
    _check_registration(claim, way[0], where)
    known = {tx.txid: tx for tx in (*claim.parents, *way)}

    def value(outpoint: Outpoint) -> int | None:
        parent = known.get(outpoint.txid)
        if parent is None:
            return own.satoshis(outpoint) if own is not None else None
        return parent.outputs[outpoint.vout].satoshis if outpoint.vout < len(parent.outputs) else None

    seat: Outpoint | None = claim.origin
    newest, offset = claim.origin, 0
    for tx in way[1:]:
        if seat is None:
            raise NotProvedError(f"the satoshi is burned before transaction {tx.hex_id}")
        seat, offset = _step(tx, seat, offset, value, alone=where != "witness")
        if seat and verdict.of_arrival(claim.kind, inscribed(tx, seat.vout, where)).event is EventKind.REINSCRIBED:
            newest = seat
    if newest != claim.outpoint:
        raise NotProvedError(f"the last valid card on the way is at {newest}, and not at {claim.outpoint}")
    if seat != claim.seat:
        raise NotProvedError(f"the satoshi ends {_at(seat)}, and is said to be {_at(claim.seat)}")
    if not way[1:]:
        return "the transaction is the registration itself, and the satoshi is still there"
    return f"followed from the registration, the satoshi is {_at(seat)} after {len(way):,} transactions"


def _at(seat: Outpoint | None) -> str:
    return f"at {seat}" if seat else "at no output, burned"


def _check_registration(claim: Claim, first: Transaction, where: str | None) -> None:
    if first.txid != claim.origin.txid:
        raise NotProvedError(f"the first transaction is {first.hex_id}, and not the one that the id names")
    record = inscribed(first, claim.origin.vout, where)
    found = verdict.of_newcomer(record, elsewhere=False, alone=where != "witness")
    if found is None or found.event is not EventKind.INSCRIBED or found.kind is not claim.kind:
        raise NotProvedError(f"output {claim.origin} does not register {claim.kind.value}")


def _step(
    tx: Transaction, seat: Outpoint, offset: int, value: Callable[[Outpoint], int | None], *, alone: bool
) -> tuple[Outpoint | None, int]:
    """Where a satoshi is after a transaction; None when that burns it."""
    prevouts = [spent.prevout for spent in tx.inputs]
    if seat not in prevouts:
        raise NotProvedError(f"transaction {tx.hex_id} does not spend {seat}")
    at = next(positions(prevouts, [(prevouts.index(seat), offset)], value))
    if isinstance(at, Unknown):
        raise NotProvedError(
            f"where {seat} goes in {tx.hex_id} depends on the value of {at.missing[0]}, which is not in the answer"
        )
    landing = Line(tx.outputs, alone=alone).land(at)
    if landing.burned or landing.vout is None:
        return None, 0
    return tx.outpoint(landing.vout), landing.offset
