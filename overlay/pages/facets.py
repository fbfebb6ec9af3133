"""Facets as links: each leads to the search with one filter more, or one less."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from overlay.api.params import SEARCH
from overlay.pages.links import Pairs, adding, link, name_of, named, setting, without
from overlay.periods import per
from overlay.query import Query
from overlay.search import query_syntax
from overlay.search.facets import prices_it, without_own
from overlay.search.facts import MOST_VALUES

TITLES = {
    "type": "What", "skillId": "Skill", "acceptedCurrency": "Takes", "interval": "Paid", "tag": "Tag",
    "chain": "Chain", "status": "Status",
}  # fmt: skip
_SHOWN, _MORE, _LONGEST = 6, 18, 80
_BUDGET = 20_000
"""Characters of URLs: each link carries the whole search along."""

_NOT_FILTERS = frozenset({"q", "sort", "limit", "offset", "cursor", "facets", "explain", "priceCurrency"})
_LABELS = {
    **TITLES, "maxPrice": "At most", "minPrice": "At least", "domain": "Domain", "owner": "Owner",
    "duplicatesOf": "Duplicates of", "verified": "Verified", "fromBlock": "From block", "toBlock": "To block",
    "updatedSince": "Updated since",
    "asOfHeight": "As of block",
}  # fmt: skip
_MOST_CHIPS, _CHIPS_BUDGET = 20, 10_000
_TYPED = {"tag": "tags", "skillId": "skills"}
"""Facets whose values may be typed there, as `tag:pay`."""


class Choice(NamedTuple):
    """A value of a facet: what it is called, how many listings have it (None: not counted), where it leads, and whether
    it is chosen."""

    label: str
    listings: int | None
    url: str
    chosen: bool


class Group(NamedTuple):
    """A facet: its choices, and those that are shown on request."""

    name: str
    title: str
    choices: Sequence[Choice]
    more: Sequence[Choice]


class Chip(NamedTuple):
    """A filter in use, and the search without it."""

    label: str
    value: str
    url: str


def groups(given: Pairs, query: Query, found: Mapping[str, Sequence[tuple[str, int]]]) -> list[Group]:
    """The facets of an answer as links, those of one value alone left out unless that is chosen."""
    room = _BUDGET // (len(link(given)) + 60)
    made = []
    for name, title in TITLES.items():
        chosen = _chosen(query, name)
        counted = found.get(name)
        values: dict[str, int | None] = {value: count for value, count in counted or () if len(value) <= _LONGEST}
        rarer = 0 if counted is not None and len(counted) < MOST_VALUES else None
        values = {**dict.fromkeys(chosen, rarer), **values}
        if not chosen and len(values) < 2:
            continue
        ordered = sorted(values, key=lambda value: value not in chosen)
        most = min(_SHOWN + _MORE, room)
        room -= min(len(ordered), most)
        choices = [_choice(given, query, name, value, values[value], value in chosen) for value in ordered[:most]]
        if choices:
            made.append(Group(name, title, choices[:_SHOWN], choices[_SHOWN:]))
    return [*made, _verified(given, query)]


def _verified(given: Pairs, query: Query) -> Group:
    """The filter that indexes do not count."""
    chosen = query.verified is True
    leads = without(given, "verified") if chosen else setting(given, "verified", "true")
    return Group("verified", "Verified", (Choice("domain or hash", None, link(leads), chosen),), ())


def _choice(given: Pairs, query: Query, name: str, value: str, count: int | None, chosen: bool) -> Choice:
    if chosen:
        leads = _unchosen(given, name, value)
    else:
        alone = name in ("type", "status") or prices_it(without_own(query, name), name)
        leads = setting(given, name, value) if alone else adding(given, name, value)
    label = per(value) if name == "interval" else f"{value}s" if name == "type" else value
    return Choice(label, count, link(leads), chosen)


def _unchosen(given: Pairs, name: str, value: str) -> Pairs:
    """Without a value of a facet, typed in `q` or not."""
    kind, rest = _TYPED.get(name, ""), without(given, name, value)
    if len(rest) == len(given) and not kind:  # it is called otherwise there: a chain by its CAIP-2 id, `status=all`
        return without(given, name)
    if not kind:
        return rest
    return [(key, query_syntax.without(said, kind, value) if name_of(key) == "q" else said) for key, said in rest]


def _chosen(query: Query, name: str) -> tuple[str, ...]:
    """The values of a facet that are asked for; those that hold anyway are none."""
    asked: dict[str, Any] = {
        "type": (query.kind,) if query.kind else (), "skillId": query.skills, "acceptedCurrency": query.currencies,
        "interval": query.intervals, "tag": query.tags, "chain": query.chains,
        "status": () if set(query.statuses) == {"live", "pending"} else query.statuses,
    }  # fmt: skip
    return tuple(asked[name])


def chips(given: Pairs) -> list[Chip]:
    """The filters of a search, each with the search without it: as many as there is room for."""
    most = max(1, _CHIPS_BUDGET // (len(link(given)) + 60))
    return list(islice(_chips(given), min(most, _MOST_CHIPS)))


def _chips(given: Pairs) -> Iterator[Chip]:
    for number, (key, value) in enumerate(given):
        known = SEARCH.names.get(key)
        if known is None or known.name in _NOT_FILTERS or not value.strip() or (known.name, value) == ("type", "all"):
            continue
        shown = _shown(given, known.name, value)
        rest = [*given[:number], *given[number + 1 :]]
        yield Chip(_LABELS.get(known.name, known.name), shown, link(rest))


def _shown(given: Pairs, name: str, value: str) -> str:
    """A filter's value in words; prices with the currency that they are in, where the URL says one."""
    short = value if len(value) <= _LONGEST else f"{value[:_LONGEST]}…"
    if name in ("maxPrice", "minPrice"):
        return " ".join([short, *(each.strip().upper()[:20] for each in named(given, "priceCurrency")[:1])])
    return per(short) if name == "interval" else short


def told(given: Pairs, name: str) -> str:
    """A filter in words, with its values: `Tag “rust” or “go”`."""
    values = " or ".join(f"“{_shown(given, name, value)}”" for value in named(given, name)[:_MOST_CHIPS])
    return f"{_LABELS.get(name, name)} {values}".rstrip()


def cleared(given: Pairs) -> str:
    """The search without any filter: the words and the order alone."""
    kept = {"q", "sort", "limit", "priceCurrency"}
    return link([(k, v) for k, v in given if (known := SEARCH.names.get(k)) is not None and known.name in kept])
