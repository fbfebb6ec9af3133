"""The URL of a search as the state of its page: what a link adds to it, takes from it, or replaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from overlay.api.params import SEARCH
from overlay.api.values import ValueRefusedError

Pairs = Sequence[tuple[str, str]]

_PLACE = frozenset({"offset", "cursor"})


def named(given: Pairs, name: str) -> list[str]:
    """The values that the URL gives a parameter, under any of its names, without blank ones."""
    return [value for key, value in given if value.strip() and name_of(key) == name]


def name_of(key: str) -> str:
    """The parameter that a key of the URL means, or the key where it means none."""
    known = SEARCH.names.get(key)
    return known.name if known else key


def link(given: Pairs, place: Mapping[str, str] | None = None) -> str:
    """The search page with these parameters, from a place on."""
    kept = [(key, value) for key, value in given if key not in _PLACE and value.strip()]
    asked = urlencode([*kept, *(place or {}).items()])
    return f"/?{asked}" if asked else "/"


def adding(given: Pairs, name: str, value: str) -> Pairs:
    """One more value: any of them will do."""
    return [*given, (name, value)]


def without(given: Pairs, name: str, value: object = None) -> Pairs:
    """Without a parameter, or without those of its values that are read as `value`."""
    return [pair for pair in given if name_of(pair[0]) != name or (value is not None and _read(name, pair[1]) != value)]


def setting(given: Pairs, name: str, value: str) -> Pairs:
    """With this value of a parameter and no other."""
    return [*without(given, name), (name, value)]


def _read(name: str, text: str) -> object:
    try:
        return SEARCH.names[name].read(text)
    except ValueRefusedError:
        return None
