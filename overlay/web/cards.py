"""A listing as a result card: which members of its item are shown, how much of them, and its identicon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

from markupsafe import Markup

from overlay.pricing.exchange_rates import ExchangeRates
from overlay.web.amounts import About, worth
from overlay.web.badges import Badge, badges, warned
from overlay.web.highlight import Excerpt, RangesByPointer, excerpt, marked
from overlay.web.rendering import cut, fragment, segment

HUES = 12


class Identicon(NamedTuple):
    """A picture for a listing without a logo: the number of its hue, two quarter circles (SVG path data in a 40 by
    40 box), and a letter."""

    hue: int
    path: str
    letter: str


_QUARTERS = (
    "M0,0L20,0A20,20,0,0,1,0,20Z",
    "M40,0L40,20A20,20,0,0,1,20,0Z",
    "M40,40L20,40A20,20,0,0,1,40,20Z",
    "M0,40L0,20A20,20,0,0,1,20,40Z",
)
"""A quarter circle in each corner."""


def mark(id_: str, name: str) -> Identicon:
    """The identicon of a listing: the quarters are chosen by the id, the letter by the name."""
    digest = blake2b(id_.encode("utf-8", "surrogatepass"), digest_size=3).digest()
    first = digest[1] % 4
    second = (first + 1 + digest[2] % 3) % 4
    letter = next((letter.upper()[:1] for letter in name[:200] if letter.isalnum()), "·")
    return Identicon(digest[0] % HUES, f"{_QUARTERS[first]} {_QUARTERS[second]}", letter)


_NAME, _SUMMARY, _COMMAND, _TAGS, _TAG = 120, 160, 160, 5, 40
"""Limits: characters of a name, a summary and a command; number and length of tags."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The contents of a result card. `url` is "" for a preview; `cheapest` a mapping with amount, currency and
    interval; `logo` the address of the thumbnail, "" without one; `tags` are pairs of a tag and its HTML; `says` is an
    excerpt with query words that the rest of the card does not show."""

    item: Mapping[str, Any]
    name: Markup
    summary: Markup
    command: str
    tags: tuple[tuple[str, Markup], ...]
    says: Excerpt | None
    url: str
    mined: str
    mark: Identicon
    logo: str
    badges: tuple[Badge, ...]
    cheapest: Mapping[str, Any] | None
    about: About | None
    by_meaning: bool = False
    may_be_compared: bool = False


def result(
    item: Mapping[str, Any],
    cheapest: Mapping[str, Any] | None,
    about: About | None,
    ranges: RangesByPointer,
    *,
    logo: str = "",
    by_meaning: bool = False,
    may_be_compared: bool = False,
) -> Result:
    """The card of a listing, with the ranges of words marked in its name and summary."""
    return Result(
        item=item,
        mined=_mined(item),
        badges=tuple(badges(item)),
        url=f"/listings/{segment(item['id'])}",
        mark=mark(item["id"], item["name"]),
        cheapest=cheapest,
        about=about,
        logo=logo,
        by_meaning=by_meaning,
        may_be_compared=may_be_compared,
        **_texts(item, ranges),
    )


def preview(shown: Mapping[str, Any], exchange: ExchangeRates) -> Result:
    """The card that a checked card file would be listed with."""
    return Result(
        item={**shown, "rating": None},
        mined="",
        badges=tuple(warned(shown["warnings"])),
        url="",
        mark=mark(shown["name"], shown["name"]),
        cheapest=shown["cheapest"],
        about=worth(shown["cheapest"], exchange),
        logo="",
        **_texts(shown, {}),
    )


def _mined(item: Mapping[str, Any]) -> str:
    """When and where the shown revision was mined; the chain alone while it is unconfirmed."""
    if "blockHeight" not in item:
        return str(item["chain"])
    word = "registered" if item["updatedHeight"] == item["createdHeight"] else "updated"
    day = f" {item['timestamp'][:10]}" if item["timestamp"] else ""
    return f"{word}{day} in block {item['blockHeight']:,} of {item['chain']}"


def _texts(item: Mapping[str, Any], ranges: RangesByPointer) -> dict[str, Any]:
    name, summary = cut(item["name"], _NAME), cut(item["summary"], _SUMMARY)
    tags = [(number, tag) for number, tag in enumerate(item["tags"][:_TAGS]) if len(tag) <= _TAG]
    shown = ["/name", "/summary", "/serverName", *(f"/tags/{number}" for number, _ in tags)]
    return {
        "name": marked(name, ranges.get("/name", ())),
        "summary": marked(summary, ranges.get("/summary", ())),
        "command": cut(" ".join([item["command"], *item["args"][:16]]), _COMMAND),
        "tags": tuple((tag, marked(tag, ranges.get(f"/tags/{number}", ()))) for number, tag in tags),
        "says": excerpt(item, ranges, shown) if ranges else None,
    }


def render_card(shown: Result) -> Markup:
    """The card's HTML."""
    return fragment("card.html", result=shown)
