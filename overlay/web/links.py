"""The URL of a search as the state of its page: links that add, remove or replace a parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from overlay.api.parameters import SEARCH
from overlay.api.values import ValueRefusedError

Pairs = Sequence[tuple[str, str]]

_PAGE_POSITION = frozenset({"offset", "cursor"})


def named(parameters: Pairs, name: str) -> list[str]:
    """The values of a parameter in the URL, under any of its names, without blank ones."""
    return [value for key, value in parameters if value.strip() and name_of(key) == name]


def name_of(key: str) -> str:
    """The canonical name of a parameter; an unknown key unchanged."""
    parameter = SEARCH.names.get(key)
    return parameter.name if parameter else key


def link(parameters: Pairs, page: Mapping[str, str] | None = None) -> str:
    """The address of the search page with these parameters, at a position (`offset` or `cursor`)."""
    remaining = [(key, value) for key, value in parameters if key not in _PAGE_POSITION and value.strip()]
    query_string = urlencode([*remaining, *(page or {}).items()])
    return f"/?{query_string}" if query_string else "/"


def without(parameters: Pairs, name: str, value: str | None = None) -> Pairs:
    """The parameters without one, or without its values that mean the same as `value`."""
    unwanted = None if value is None else _read(name, value)
    return [
        pair
        for pair in parameters
        if name_of(pair[0]) != name or (value is not None and _read(name, pair[1]) != unwanted)
    ]


def setting(parameters: Pairs, name: str, value: str) -> Pairs:
    """The parameters, where one has this value alone."""
    return [*without(parameters, name), (name, value)]


def _read(name: str, text: str) -> object:
    try:
        return SEARCH.names[name].read(text)
    except ValueRefusedError:
        return None
