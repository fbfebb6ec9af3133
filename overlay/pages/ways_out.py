"""Where to go from a search that found nothing: links that find something."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from overlay.api.extras import helped
from overlay.pages.facets import told
from overlay.pages.links import Pairs, link, setting, without

if TYPE_CHECKING:
    from overlay.api.asked import Asked
    from overlay.index import SearchIndex


class WayOut(NamedTuple):
    """A link, what it is called, what it is about, and how many listings are there."""

    label: str
    text: str
    href: str
    total: int


def ways_out(engine: SearchIndex, given: Pairs, asked: Asked) -> list[WayOut]:
    """Other spellings first, then the filters that emptied the answer, those in the words left to their typist."""
    found = helped(engine, asked)
    ways = [
        WayOut("Did you mean", each["q"], link(setting(given, "q", each["q"])), each["total"])
        for each in found.get("didYouMean", ())
    ]
    for each in found.get("emptiedBy", ()):
        left = given
        for name in each["parameters"]:
            left = without(left, name)
        if list(left) != list(given):
            words = " and ".join(told(given, name) for name in each["parameters"])
            ways.append(WayOut("Leave out", words, link(left), each["total"]))
    return ways
