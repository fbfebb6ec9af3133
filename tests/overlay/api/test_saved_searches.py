"""Where a search can be followed."""

from __future__ import annotations

from overlay.api.saved_searches import follow


def test_a_search_is_followed_by_its_words_and_filters() -> None:
    parameters = [
        ("query", "plumber & sink"),
        ("limit", "5"),
        ("sort", "name"),
        ("facets", "type"),
        ("tag", "home"),
        ("owner", ""),
    ]
    assert follow(parameters, ("feeds", "webhooks")) == {
        "atom": "/v1/feeds/search.atom?query=plumber+%26+sink&tag=home",
        "json": "/v1/feeds/search.json?query=plumber+%26+sink&tag=home",
        "webhook": "/v1/subscriptions",
    }


def test_only_what_is_served_is_named() -> None:
    assert follow([], ("feeds",)) == {"atom": "/v1/feeds/search.atom", "json": "/v1/feeds/search.json"}
    assert follow([("q", "x")], ()) == {}
