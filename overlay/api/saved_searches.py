"""Where a search can be followed: feeds and webhooks report the listings that meet it from now on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from urllib.parse import urlencode

from overlay.api.parameters import ONLY_OVER_HTTP, SEARCH

Pairs = Sequence[tuple[str, str]]

_NOT_SAVED = ONLY_OVER_HTTP - {"understand"} | {"offset", "cursor", "sort", "status", "limit"}
"""The parameters that a feed or a webhook does not take."""

FORMATS = ("atom", "json")


def feeds(parameters: Pairs) -> dict[str, str]:
    """The address of the feed of a search in each format."""
    saved = [(name, value) for name, value in parameters if _canonical(name) not in _NOT_SAVED and value.strip()]
    return {name: f"/v1/feeds/search.{name}?{urlencode(saved)}".rstrip("?") for name in FORMATS}


def follow(parameters: Pairs, systems: Collection[str]) -> dict[str, str]:
    """Where a search with these parameters is followed, by the systems that are served: its feeds, and the address at
    which a webhook is set up."""
    by_feed = feeds(parameters) if "feeds" in systems else {}
    return by_feed | ({"webhook": "/v1/subscriptions"} if "webhooks" in systems else {})


def _canonical(name: str) -> str:
    parameter = SEARCH.names.get(name)
    return parameter.name if parameter else name
