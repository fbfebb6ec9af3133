"""The prices of a listing that changed across its revisions, as lines over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from overlay.listings.card_texts import card_offers
from overlay.text.interval_words import per
from overlay.text.timestamps import timestamp
from overlay.web.amounts import short
from overlay.web.line_chart import Drawing, Point, line_chart
from overlay.web.rendering import cut, moment
from parsers.cards import Kind
from parsers.cards.offers import Offer

MAX_LINES = 4
MAX_CHANGES = 6
"""Amounts that the words of a line name; earlier ones are counted."""

_DAY = 86_400

_Price = tuple[str, str, str]
_Step = tuple[int, Decimal | None]


def price_lines(
    item: Mapping[str, Any], revisions: Sequence[Mapping[str, Any]], bodies: Mapping[str, bytes], now: int
) -> list[Drawing]:
    """Lines of the prices with more than one amount, in the order of the newest card, at most MAX_LINES; amounts are
    compared in one currency and interval. `revisions` are the newest ones, newest first, `bodies` their cards by
    SHA-256 (hex). A line ends on the day of `now` (seconds since 1970)."""
    cards = _cards(item, revisions, bodies)
    lines: list[Drawing] = []
    for price, offer in cards[-1][1].items() if cards else ():
        steps = [(time, prices[price].amount if price in prices else None) for time, prices in cards]
        first = next(number for number, (_, amount) in enumerate(steps) if amount is not None)
        steps = steps[first:]
        if len({amount for _, amount in steps} - {None}) > 1 and len(lines) < MAX_LINES:
            lines.append(_drawing(offer, steps, now - now % _DAY, f"price-{len(lines)}"))
    return lines


def _cards(
    item: Mapping[str, Any], revisions: Sequence[Mapping[str, Any]], bodies: Mapping[str, bytes]
) -> list[tuple[int, dict[_Price, Offer]]]:
    """The time of each valid mined revision after the newest whose card was not read, oldest first, and its prices."""
    kind = Kind(item["type"])
    cards: list[tuple[int, dict[_Price, Offer]]] = []
    for revision in reversed(revisions):
        digest, mined_at = revision["cardSha256"], revision["timestamp"]
        if not (revision["valid"] and digest and mined_at):
            continue
        if digest not in bodies:
            cards.clear()
            continue
        prices: dict[_Price, Offer] = {}
        for offer in card_offers(bodies[digest], kind).get(item["serverName"] if kind is Kind.TOOL else "", ()):
            prices.setdefault((offer.id, offer.currency, offer.interval_key), offer)
        cards.append((int(datetime.fromisoformat(mined_at).timestamp()), prices))
    return cards


def _drawing(offer: Offer, steps: Sequence[_Step], today: int, name: str) -> Drawing:
    currency, (first, last) = offer.currency[:20], (steps[0][0], steps[-1][0])
    end = max(today, last + (last - first) // 20)  # so that the last amount has a width
    points = [
        Point(time, None if amount is None else Fraction(amount)) for time, amount in (*steps, (end, steps[-1][1]))
    ]
    amounts = [amount for _, amount in steps if amount is not None]
    since = moment(timestamp(first))
    caption = f"{cut(offer.name or offer.id, 80)}, in {currency} {per(offer.interval_key)[:40]}"
    svg = line_chart(
        points, name=name, title=f"Price of {caption}, since {since}", text=_words(steps, currency), floor=0
    )
    return Drawing(caption, svg, short(max(amounts)), "0", since, "today")


def _words(steps: Sequence[_Step], currency: str) -> str:
    """The changes in words: `2 BSV from 2025-04-20 12:00 UTC; 5 BSV from 2025-05-01 08:00 UTC.`"""
    changes = [step for number, step in enumerate(steps) if number == 0 or step[1] != steps[number - 1][1]]
    words = [
        f"{'no price' if amount is None else f'{short(amount)} {currency}'} from {moment(timestamp(time))}"
        for time, amount in changes[-MAX_CHANGES:]
    ]
    earlier = len(changes) - len(words)
    return f"{f'{earlier} earlier changes; ' if earlier else ''}{'; '.join(words)}."
