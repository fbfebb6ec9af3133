"""Completions while typing: names of listings, skills, tags and words that complete the last word of a text.

A completion after other words is one that is found together with them: the listings that hold all words, the last as a
prefix, are looked up, and what completes the text is read from the best of them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from overlay.query import Suggestion
from overlay.search.analysis import query_words, stem, words
from overlay.search.planner import Alternative, Group, QueryPlan
from overlay.search.term_dictionary import TermDictionary

MAX_WORDS, MAX_COMPLETIONS = 8, 12
MAX_LISTINGS = 60
"""Listings that completions are read from."""
LONGEST = 100
"""Characters of a completion."""


class Result(Protocol):
    """A result of an engine (`overlay.engines.Row`)."""

    @property
    def record(self) -> Any:
        """Its record (`search.records.Record`)."""
        ...


Find = Callable[[QueryPlan, int], Sequence[Result]]
"""The best results of a plan, so many at most."""


def suggest(text: str, limit: int, terms: TermDictionary, find: Find) -> list[Suggestion]:
    """At most `limit` completions: tags and skills, the commonest first, then names; of these, those that begin as the
    text does come first. Half of the places are left to names, and what is left over goes to words."""
    typed = [part for compound in query_words(text)[:MAX_WORDS] for part in compound.parts]
    if not typed or limit <= 0:
        return []
    *before, prefix = typed
    completions = [prefix, *terms.completions(prefix, MAX_COMPLETIONS)]
    groups = [_group(word, [word]) for word in before] + [_group(prefix, completions)]
    rows = find(QueryPlan(tuple(groups), all_words=True), MAX_LISTINGS)
    items = [(row.record.id, json.loads(row.record.item)) for row in rows]
    names = [Suggestion(item["name"], "listing", id_) for id_, item in items if _completes(item["name"], typed)]
    labels = _commonest(items, typed)
    room = max(limit - len(names), (limit + 1) // 2)
    begun = " ".join(typed)
    found = sorted((labels[:room] + names)[:limit], key=lambda each: not " ".join(words(each.text)).startswith(begun))
    taken = {each.text.casefold() for each in found}
    return [*found, *_words(items, before, completions, taken)][:limit]


def _group(word: str, surfaces: Sequence[str]) -> Group:
    alternatives = tuple(Alternative(term, 1.0, 1.0, "exact") for term in dict.fromkeys(map(stem, surfaces)))
    return Group(word, alternatives, 1.0, 1.0)


def _commonest(items: Sequence[tuple[str, Mapping[str, Any]]], typed: Sequence[str]) -> list[Suggestion]:
    """Skills and tags that complete the text, those that most listings have first."""
    counts: Counter[tuple[str, str]] = Counter()
    shown: dict[tuple[str, str], str] = {}
    for _, item in items:
        labels = dict.fromkeys(
            (kind, text[:LONGEST]) for kind, text in _labels(item) if _completes(text[:LONGEST], typed)
        )
        for kind, text in labels:
            key = kind, text.casefold()
            counts[key] += 1
            shown.setdefault(key, text)
    order = sorted(counts, key=lambda key: (-counts[key], key))
    return [Suggestion(shown[key], key[0]) for key in order]


def _labels(item: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for tag in item.get("tags", ()):
        yield "tag", tag
    for skill in item.get("skills", ()):
        yield "skill", skill.get("name") or skill["id"]
        for tag in skill.get("tags", ()):
            yield "tag", tag


def _completes(text: str, typed: Sequence[str]) -> bool:
    """Whether a text holds words that begin as each of those typed."""
    held = list(words(text))
    return all(any(word.startswith(part) for word in held) for part in typed)


def _words(
    items: Sequence[tuple[str, Mapping[str, Any]]], before: Sequence[str], completions: Sequence[str], taken: set[str]
) -> list[Suggestion]:
    """The text with its last word completed, where a listing holds that word, the commonest first."""
    counts: Counter[str] = Counter()
    wanted = set(completions[1:])
    for _, item in items:
        counts.update(wanted.intersection(words(" ".join((item["name"], item.get("description", ""))))))
    found = [" ".join((*before, word)) for word in completions if counts[word]]
    return [Suggestion(text, "word") for text in found if text not in taken]
