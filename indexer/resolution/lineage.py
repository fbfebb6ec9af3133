"""Follow the satoshi: first in, first out, through one transaction at a time (laws 3 and 3a). Pure.

The satoshis of a transaction's inputs are laid end to end in order, and its outputs cut the same line. A satoshi's
*position* on that line is the sum of the inputs before its own plus its offset in its own output. Source: the
1Sat ordinals README (one-satoshi rule), ord's handbook (ordinal theory).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from parsers.bitcoin.script import is_unspendable
from parsers.bitcoin.tx import Outpoint, TxOutput


class SatLocation(NamedTuple):
    """Where a satoshi is after a transaction: the output (None: the fee), its offset in satoshis, and whether it is
    burned."""

    vout: int | None
    offset: int
    burned: bool


@dataclass(frozen=True, slots=True)
class UnknownPosition:
    """A position that depends on the unknown values of the outputs `missing`; it is `at_least` this many satoshis."""

    missing: tuple[Outpoint, ...]
    at_least: int


def positions(
    prevouts: Sequence[Outpoint], sats: Iterable[tuple[int, int]], value: Callable[[Outpoint], int | None]
) -> Iterator[int | UnknownPosition]:
    """The position of each satoshi in `sats`, each (input number, offset in satoshis), in order of input number.

    `value` returns an output's satoshis, or None; it is called only for inputs before one of these satoshis.
    """
    total, first_unread = 0, 0
    missing: list[Outpoint] = []
    for number, offset in sats:
        for prevout in prevouts[first_unread:number]:
            amount = value(prevout)
            if amount is None:
                missing.append(prevout)
            elif not missing:
                total += amount
        first_unread = number
        yield UnknownPosition(tuple(missing), total) if missing else total + offset


class OutputRanges:
    """A transaction's outputs as ranges of satoshi positions, by BSV's `one_sat_rule` or by ordinal theory.

    By the one-satoshi rule a satoshi lives on only in an output of exactly one satoshi (law 3); by ordinal theory in
    any output but one that can never be spent (law 3a). Outputs of no satoshi hold none.
    """

    def __init__(self, outputs: Sequence[TxOutput], *, one_sat_rule: bool) -> None:
        ends = list(accumulate(max(output.satoshis, 0) for output in outputs))
        self._starts = [0, *ends[:-1]]
        self._total = ends[-1] if ends else 0
        self._outputs = outputs
        self._alone = one_sat_rule

    @property
    def total(self) -> int:
        """All satoshis of the outputs."""
        return self._total

    def locate(self, position: int) -> SatLocation:
        """Where the satoshi at `position` is after this transaction."""
        if position >= self._total:
            return SatLocation(None, 0, burned=True)
        vout = bisect_right(self._starts, position) - 1
        output = self._outputs[vout]
        burned = output.satoshis != 1 if self._alone else is_unspendable(output.script)
        return SatLocation(vout, position - self._starts[vout], burned)

    def may_hold(self, vout: int, at_least: int) -> bool:
        """Whether a satoshi at an unknown position, `at_least` or later, may be in output `vout`."""
        return self._starts[vout] + max(self._outputs[vout].satoshis, 0) > at_least
