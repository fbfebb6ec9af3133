"""The envelopes that a transaction reveals, and the satoshis that they inscribe (law 3a, by ordinals). Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from indexer.resolution.lineage import OutputRanges
from parsers.bitcoin.tx import Outpoint, Transaction
from parsers.inscriptions import output_record, tapscript
from parsers.inscriptions.output_record import OutputRecord
from parsers.inscriptions.tapscript import TapscriptEnvelope
from parsers.reasons import Reason

Satoshi = int | tuple[int, int]
"""A satoshi by its position among all of a transaction, or by input number and offset there."""


class Reveal(NamedTuple):
    """An envelope in the tapscript of input number `input`. `number` counts the inscriptions of the transaction from 0,
    as ordinals do; `pointer` is the position among the outputs' satoshis that counts, None for the first satoshi of the
    input."""

    number: int
    input: int
    envelope: TapscriptEnvelope
    record: OutputRecord
    pointer: int | None

    @property
    def satoshi(self) -> Satoshi:
        """The satoshi that it inscribes where it is bound to one."""
        return (self.input, 0) if self.pointer is None else self.pointer


def reveals(tx: Transaction) -> Iterator[Reveal]:
    """The envelopes of a transaction in order, also those that are not inscriptions."""
    tape, total = output_record.read_tape(tx), OutputRanges(tx.outputs, one_sat_rule=False).total
    number = 0
    for index, spent in enumerate(tx.inputs):
        for envelope in tapscript.read(spent.witness) if spent.witness else ():
            pointer = envelope.pointer if envelope.pointer is not None and envelope.pointer < total else None
            yield Reveal(number, index, envelope, output_record.read_revealed(envelope, tape), pointer)
            number += envelope.is_numbered


def unbound(tx: Transaction, reveal: Reveal, value: Callable[[Outpoint], int | None]) -> Reason | Outpoint | None:
    """Why an envelope is bound to no satoshi; or the outpoint of unknown value that decides it; None where it is bound.
    `value` returns an output's satoshis, or None."""
    if reveal.envelope.unknown_tag is not None:
        tag = reveal.envelope.unknown_tag[:16].hex()
        return Reason("unbound", f"the envelope has the unknown even tag {tag}")
    last = len(tx.inputs) - 1
    if last == 0 or (reveal.pointer is None and reveal.input == last):
        return None  # a satoshi of the outputs can only be of this input, or else it is one of the fee
    spent = tx.inputs[reveal.input].prevout
    amount = value(spent)
    if amount is None:
        return spent
    return Reason("unbound", f"input {reveal.input} has no satoshis") if amount == 0 else None
