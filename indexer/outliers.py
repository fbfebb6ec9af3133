"""Which of the rates that feeds tell are believed: each feed is one voice, and its own past speaks against it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from parsers.rates import Rates

APART = Decimal("1.5")
"""Rates that differ by a larger factor contradict each other."""


def believed(told: Sequence[Rates | None], before: Sequence[Rates]) -> list[dict[str, Decimal]]:
    """The rates to believe of each table told now, by feed; the preferred feed first.

    `before` is what was believed of each feed and is not too old; it speaks for a feed that tells nothing now. A rate
    is believed when more feeds agree with it, itself included, than contradict it, where its own past that contradicts
    it counts as one more. A tie goes to a feed whose own past agrees with it, or that is preferred, never against its
    own past: so a feed alone is not believed when it leaps, until what it told before is too old to be used anyway.
    The past never outvotes another feed: who climbs by small steps would carry it along.
    """
    voices = [now or past for now, past in zip(told, before, strict=True)]
    return [_believed(number, voices, before[number]) if told[number] else {} for number in range(len(told))]


def _believed(number: int, voices: Sequence[Rates], past: Rates) -> dict[str, Decimal]:
    table = voices[number]
    others = [(at, voice) for at, voice in enumerate(voices) if at != number]
    found = {}
    for currency, rate in table.rates.items():
        agree, against, wins_ties = 1, 0, True
        for at, voice in others:
            other = voice.rate(table.base, currency)
            if other is None:
                continue
            if agrees(rate, other):
                agree += 1
            else:
                against += 1
                wins_ties = wins_ties and number < at
        own = past.rate(table.base, currency)
        if own is not None:
            wins_ties = agrees(rate, own)
            against += not wins_ties
        if agree > against or (agree == against and wins_ties):
            found[currency] = rate
    return found


def agrees(one: Decimal, other: Decimal) -> bool:
    """Whether two rates are near enough to be of the same market."""
    return max(one, other) <= APART * min(one, other)


def left_out(told: Mapping[str, Decimal], kept: Mapping[str, Decimal]) -> list[str]:
    """The currencies whose rates were not believed, in order."""
    return sorted(told.keys() - kept.keys())
