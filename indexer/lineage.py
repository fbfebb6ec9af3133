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

from parsers.script import is_unspendable
from parsers.tx import Outpoint, TxOutput


class Landing(NamedTuple):
    """Where a satoshi went: the output (None: the fee), how far into it (satoshis), and whether it is burned."""

    vout: int | None
    offset: int
    burned: bool


@dataclass(frozen=True, slots=True)
class Unknown:
    """Where a satoshi went cannot be told until the values of `missing` are known; it is at `at_least` or later."""

    missing: tuple[Outpoint, ...]
    at_least: int


def positions(
    prevouts: Sequence[Outpoint], sats: Iterable[tuple[int, int]], value: Callable[[Outpoint], int | None]
) -> Iterator[int | Unknown]:
    """The position of each satoshi in `sats`, given as (input number, offset in satoshis) in order of input number.

    `value` gives an output's satoshis if they are known; only inputs that stand before a wanted one are asked for.
    """
    total, at = 0, 0
    missing: list[Outpoint] = []
    for number, offset in sats:
        for prevout in prevouts[at:number]:
            amount = value(prevout)
            if amount is None:
                missing.append(prevout)
            elif not missing:
                total += amount
        at = number
        yield Unknown(tuple(missing), total) if missing else total + offset


class Line:
    """A transaction's outputs as cuts of the line of satoshis. `alone`: BSV's one-satoshi rule, else ordinal theory.

    By the one-satoshi rule a satoshi lives on only in an output of exactly one satoshi (law 3); by ordinal theory in
    any output but one that can never be spent (law 3a). Outputs of no satoshi hold none.
    """

    def __init__(self, outputs: Sequence[TxOutput], *, alone: bool) -> None:
        ends = list(accumulate(max(output.satoshis, 0) for output in outputs))
        self._starts = [0, *ends[:-1]]
        self._total = ends[-1] if ends else 0
        self._outputs = outputs
        self._alone = alone

    def land(self, at: int) -> Landing:
        """Where the satoshi at position `at` is after this transaction."""
        if at >= self._total:
            return Landing(None, 0, burned=True)
        vout = bisect_right(self._starts, at) - 1
        output = self._outputs[vout]
        burned = output.satoshis != 1 if self._alone else is_unspendable(output.script)
        return Landing(vout, at - self._starts[vout], burned)

    def may_hold(self, vout: int, at_least: int) -> bool:
        """Whether a satoshi at an unknown position, `at_least` or later, may be in output `vout`."""
        return self._starts[vout] + max(self._outputs[vout].satoshis, 0) > at_least
