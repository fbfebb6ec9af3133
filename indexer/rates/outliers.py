"""Which rates of several feeds are accepted: a vote of one opinion a feed, checked against its own past and against the
median of the last hours. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import NamedTuple

from parsers.cards.rate_table import RateTable

APART = Decimal("1.5")
"""Rates that differ by a larger factor contradict each other."""

FAR = Decimal(2)
"""A rate that differs by a larger factor from the median of the last hours is not accepted."""

REFUSALS = {
    "contradicted": "other feeds contradict it, and no majority agrees with it",
    "leap": "it differs by more than half from the last accepted one of its feed",
    "newcomer": "its feed was silent for too long, and agrees with no other one yet",
    "median": "it is more than twice or less than half the median of the last six hours",
}
"""Why a rate is not accepted."""

Median = Callable[[str, str], Decimal | None]
"""The median of the accepted rates of the last hours: units of the second currency for one of the first."""


class FeedOpinion(NamedTuple):
    """The table of a feed (None: no answer now), its accepted rates that are not too old, which replace an answer, and
    the currencies in which it has a vote since it was last silent for too long."""

    table: RateTable | None
    past: RateTable
    voting: frozenset[str] = frozenset()

    def rate(self, currency: str, into: str) -> Decimal | None:
        """Units of `into` for one of `currency`."""
        return (self.table or self.past).rate(currency, into)


class FeedJudgement(NamedTuple):
    """The accepted rates of a feed, the codes of REFUSALS of the others, and the currencies in which it has a vote."""

    accepted: dict[str, Decimal]
    refused: dict[str, str]
    voting: frozenset[str]


def judge(opinions: Sequence[FeedOpinion], median: Median) -> list[FeedJudgement]:
    """The judgement on each feed. A rate is accepted when more feeds agree with it, its own included, than contradict
    it; its own past, where that contradicts it, counts as one more. In a tie neither is accepted: nothing shows which
    of two feeds is right, and one that climbs in small steps carries its past along.

    A feed that was silent has no vote until it agrees with one that has; where none has, all have.
    """
    return [
        _judged(number, opinion.table, opinions, median) if opinion.table else FeedJudgement({}, {}, opinion.voting)
        for number, opinion in enumerate(opinions)
    ]


def _judged(number: int, table: RateTable, opinions: Sequence[FeedOpinion], median: Median) -> FeedJudgement:
    _, past, voting = opinions[number]
    accepted, refused, votes = {}, {}, set(voting)
    for currency, rate in table.rates.items():
        voters = _voters(table.base, currency, opinions)
        past_rate = past.rate(table.base, currency)
        leaps = past_rate is not None and not agrees(rate, past_rate)
        agree = sum(agrees(rate, other) for other in voters.values())
        if number in voters:
            votes.add(currency)
        if number not in voters:
            refused[currency] = "newcomer"
        elif agree <= len(voters) - agree + leaps:
            refused[currency] = "leap" if leaps and agree == len(voters) else "contradicted"
        elif is_far(rate, median(table.base, currency)):
            refused[currency] = "median"
        else:
            accepted[currency] = rate
    return FeedJudgement(accepted, refused, frozenset(votes))


def _voters(base: str, currency: str, opinions: Sequence[FeedOpinion]) -> dict[int, Decimal]:
    """The rates of the feeds that have a vote on a currency, by their numbers."""
    rates = {number: opinion.rate(base, currency) for number, opinion in enumerate(opinions)}
    quoted = {number: rate for number, rate in rates.items() if rate is not None}
    settled = {number: rate for number, rate in quoted.items() if {base, currency} <= opinions[number].voting}
    if not settled:
        return quoted
    return {
        number: rate
        for number, rate in quoted.items()
        if number in settled or any(agrees(rate, other) for other in settled.values())
    }


def agrees(left: Decimal, right: Decimal) -> bool:
    """Whether two rates differ by no larger factor than APART."""
    return max(left, right) <= APART * min(left, right)


def is_far(rate: Decimal, median: Decimal | None) -> bool:
    """Whether a rate differs by a larger factor than FAR from a median, where there is one."""
    return median is not None and max(rate, median) > FAR * min(rate, median)
