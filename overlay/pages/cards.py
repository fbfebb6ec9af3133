"""A listing as a result card: what of its item is shown, how much of it, and what is made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from overlay.exchange import Exchange
from overlay.pages.amounts import FAMILIAR, About, about
from overlay.pages.badges import Badge, badges
from overlay.pages.marking import Excerpt, Places, excerpt, marked
from overlay.pages.marks import Mark, mark
from overlay.pages.rendering import fragment, segment

_NAME, _SUMMARY, _COMMAND, _TAGS, _TAG = 120, 160, 160, 5, 40
"""Characters of a name, a summary and a command that are shown; how many tags, and how long ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a card shows. `url` is "" for a listing that has no page yet, `cheapest` a mapping with amount, currency and
    interval, `logo` the address of its picture here, "" for none; `tags` are names with what is shown of them, `says`
    is what else was asked for and stands elsewhere in the listing."""

    item: Mapping[str, Any]
    name: Markup
    summary: Markup
    command: str
    tags: tuple[tuple[str, Markup], ...]
    says: Excerpt | None
    url: str
    place: str
    mark: Mark
    logo: str
    badges: tuple[Badge, ...]
    cheapest: Mapping[str, Any] | None
    about: About | None


def result(
    item: Mapping[str, Any],
    cheapest: Mapping[str, Any] | None,
    worth: About | None,
    places: Places,
    *,
    proved: bool,
    logo: str = "",
) -> Result:
    """The card of a listing, with `places` marked in its name and summary."""
    return Result(
        item=item,
        place=_place(item),
        badges=tuple(badges(item, proved=proved)),
        url=f"/listings/{segment(item['id'])}",
        mark=mark(item["id"], item["name"]),
        cheapest=cheapest,
        about=worth,
        logo=logo,
        **_texts(item, places),
    )


def preview(shown: Mapping[str, Any], exchange: Exchange) -> Result:
    """The card that a listing will have once it is published."""
    cheapest = shown["cheapest"]
    return Result(
        item={**shown, "rating": None},
        place="",
        badges=(),
        url="",
        mark=mark(shown["name"], shown["name"]),
        cheapest=cheapest,
        about=about(cheapest["amount"], cheapest["currency"], FAMILIAR, exchange) if cheapest else None,
        logo="",
        **_texts(shown, {}),
    )


def _place(item: Mapping[str, Any]) -> str:
    """When the revision that is shown was mined, and where; the chain alone while none is."""
    if "blockHeight" not in item:
        return str(item["chain"])
    word = "registered" if item["updatedHeight"] == item["createdHeight"] else "updated"
    day = f" {item['timestamp'][:10]}" if item["timestamp"] else ""
    return f"{word}{day} in block {item['blockHeight']:,} of {item['chain']}"


def _texts(item: Mapping[str, Any], places: Places) -> dict[str, Any]:
    name, summary = cut(item["name"], _NAME), cut(item["summary"], _SUMMARY)
    tags = [(number, tag) for number, tag in enumerate(item["tags"][:_TAGS]) if len(tag) <= _TAG]
    shown = ["/name", "/summary", "/serverName", *(f"/tags/{number}" for number, _ in tags)]
    return {
        "name": marked(name, places.get("/name", ())),
        "summary": marked(summary, places.get("/summary", ())),
        "command": cut(" ".join([item["command"], *item["args"][:16]]), _COMMAND),
        "tags": tuple((tag, marked(tag, places.get(f"/tags/{number}", ()))) for number, tag in tags),
        "says": excerpt(item, places, shown) if places else None,
    }


def cut(text: str, most: int) -> str:
    """A text of at most so many characters, ending in an ellipsis where there was more."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def drawn(shown: Result) -> Markup:
    """The card's HTML."""
    return fragment("card.html", result=shown)
