"""The preferences in a question (`search.preferences`) as an answer names them, with links that change them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from overlay.search.preferences import Preference, Understood, understand
from overlay.search.query import Query
from overlay.search.query_syntax import ParsedText

Pairs = Sequence[tuple[str, str]]

_OF_A_PAGE = ("cursor", "offset")


def preferences(values_by_name: Mapping[str, Any], words: ParsedText) -> Understood:
    """The text that is searched for, and the preferences in it: none with `understand=false` or beside quoted phrases.
    A parameter of the search counts instead of a phrase for it."""
    if not values_by_name.get("understand", True) or words.phrases:
        return Understood(words.text)
    plain = values_by_name.get("sort", "relevance") == "relevance"
    return understand(words.text, values_by_name.keys() - ({"q", "sort"} if plain else {"q"}))


def with_preferences(query: Query, preferences: Iterable[Preference]) -> Query:
    """The query that prefers the listings which meet these."""
    members = {name: value for preference in preferences for name, value in preference.members}
    if (operators := members.get("operators")) and query.operators:
        members["operators"] = replace(query.operators, excluded=(*query.operators.excluded, *operators.excluded))
    return query._replace(preferred=tuple(members.items()))


def with_filter(parameters: Pairs, preference: Preference) -> list[tuple[str, str]]:
    """The parameters of the search with a preference as a filter, or as the order."""
    names = {name for name, _ in preference.parameters} - {"q"}
    pairs = [pair for pair in without(parameters, preference) if pair[0] not in names]
    for name, value in preference.parameters:
        if name == "q":
            pairs = [(key, f"{text} {value}" if _is_text(key) else text) for key, text in pairs]
        else:
            pairs.append((name, value))
    return pairs


def without(parameters: Pairs, preference: Preference) -> list[tuple[str, str]]:
    """The parameters of the search without the words of a preference."""
    return [
        (name, _cut(value, preference) if _is_text(name) else value)
        for name, value in parameters
        if name not in _OF_A_PAGE
    ]


def _is_text(name: str) -> bool:
    return name in ("q", "query")


def _cut(text: str, preference: Preference) -> str:
    """A text without the last occurrence of the words of a preference."""
    plain = " ".join(text.split())
    start = max(0, plain.rfind(preference.phrase))
    return " ".join((plain[:start] + plain[start:].replace(preference.words, "", 1)).split()).rstrip(" ,;")


def answered(parameters: Pairs, preferences: Iterable[Preference]) -> list[dict[str, str]]:
    """The preferences in an answer."""
    return [
        {
            "phrase": preference.phrase,
            "parameter": preference.parameters[0][0],
            "value": preference.parameters[0][1],
            "applied": "preferred",
            "filterUrl": f"/v1/search?{urlencode(with_filter(parameters, preference))}",
            "withoutUrl": f"/v1/search?{urlencode(without(parameters, preference))}",
        }
        for preference in preferences
    ]
