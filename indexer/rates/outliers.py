"""Which rates of several feeds are accepted: a vote of one opinion a feed, checked against its own past. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from parsers.cards.rate_table import RateTable

APART = Decimal("1.5")
"""Rates that differ by a larger factor contradict each other."""


def accepted_rates(tables: Sequence[RateTable | None], past: Sequence[RateTable]) -> list[dict[str, Decimal]]:
    """The accepted rates of each of `tables`, one a feed (None: no answer now), the preferred feed first.

    `past` holds each feed's accepted rates that are not too old; it replaces a feed without an answer. A rate is
    accepted when more feeds agree with it, its own included, than contradict it; its own past, where that contradicts
    it, counts as one more. In a tie, the feed that agrees with its own past wins, or without a past the preferred one:
    a single feed that leaps is refused until its past is too old to be used. The past never outvotes another feed,
    since a manipulated feed that climbs in small steps would carry its past along.
    """
    opinions = [table or accepted for table, accepted in zip(tables, past, strict=True)]
    return [_accepted(number, opinions, past[number]) if tables[number] else {} for number in range(len(tables))]


def _accepted(number: int, opinions: Sequence[RateTable], past: RateTable) -> dict[str, Decimal]:
    table = opinions[number]
    others = [(feed, opinion) for feed, opinion in enumerate(opinions) if feed != number]
    accepted = {}
    for currency, rate in table.rates.items():
        agree, against, wins_ties = 1, 0, True
        for feed, opinion in others:
            other = opinion.rate(table.base, currency)
            if other is None:
                continue
            if agrees(rate, other):
                agree += 1
            else:
                against += 1
                wins_ties = wins_ties and number < feed
        past_rate = past.rate(table.base, currency)
        if past_rate is not None:
            wins_ties = agrees(rate, past_rate)
            against += not wins_ties
        if agree > against or (agree == against and wins_ties):
            accepted[currency] = rate
    return accepted


def agrees(left: Decimal, right: Decimal) -> bool:
    """Whether two rates differ by no larger factor than APART."""
    return max(left, right) <= APART * min(left, right)
