"""Autocompletion: names of listings, skills, tags and words that complete the last word of a text.

After other words, completions are limited to what occurs with them: a search for the listings that contain all words,
the last as a prefix, and the completions are read from the best of these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from typing import Any

from overlay.search.analysis import query_words, stem, words
from overlay.search.planner import Alternative, QueryPlan, TermGroup
from overlay.search.query import EngineHit, Suggestion
from overlay.search.stop_words import stop_words
from overlay.search.term_dictionary import Terms
from overlay.text.compact_json import decode

MAX_WORDS, MAX_COMPLETIONS = 8, 12
MAX_LISTINGS = 60
"""Listings whose texts completions are taken from."""
LONGEST = 100
"""Characters of a completion."""

Find = Callable[[QueryPlan, int], Sequence[EngineHit]]
"""Returns the best results of a plan, up to a limit."""


def suggest(text: str, limit: int, terms: Terms, find: Find) -> list[Suggestion]:
    """At most `limit` completions: tags and skills by frequency, then names, with those that start with the text first.
    Names get at least half of the limit; words fill what remains."""
    typed = [part for compound in query_words(text)[:MAX_WORDS] for part in compound.parts]
    if not typed or limit <= 0:
        return []
    *before, prefix = typed
    completions = [prefix, *terms.completions(prefix, MAX_COMPLETIONS)]
    stop = stop_words(typed)
    groups = [_group(word, [word], is_stop=word in stop) for word in before] + [_group(prefix, completions)]
    rows = find(QueryPlan(tuple(groups), all_words=True), MAX_LISTINGS)
    items = [(row.record.id, decode(row.record.item)) for row in rows]
    completes = cache(partial(_completes, [f" {part}" for part in typed]))  # texts repeat across listings
    names = [Suggestion(item["name"], "listing", id_) for id_, item in items if completes(item["name"])]
    labels = _commonest(items, completes)
    room = max(limit - len(names), (limit + 1) // 2)
    begun = " ".join(typed)
    suggestions = sorted(
        (labels[:room] + names)[:limit], key=lambda suggestion: not " ".join(words(suggestion.text)).startswith(begun)
    )
    taken = {suggestion.text.casefold() for suggestion in suggestions}
    return [*suggestions, *_words(rows, items, before, completions, taken)][:limit]


def _group(word: str, surfaces: Sequence[str], *, is_stop: bool = False) -> TermGroup:
    alternatives = tuple(Alternative(term, 1.0, 1.0, "exact") for term in dict.fromkeys(map(stem, surfaces)))
    return TermGroup(word, alternatives, 1.0, is_stop)


def _commonest(items: Sequence[tuple[str, Mapping[str, Any]]], completes: Callable[[str], bool]) -> list[Suggestion]:
    """Skills and tags that complete the text, the most frequent first."""
    counts: Counter[tuple[str, str]] = Counter()
    spellings: Counter[Suggestion] = Counter()
    for _, item in items:
        labels = (label for label in _labels(item) if completes(label.text) or completes(label.id or ""))
        distinct = set(labels)
        spellings.update(distinct)
        counts.update({(label.kind, label.text.casefold()) for label in distinct})
    rarest_first = sorted(spellings, key=lambda label: (spellings[label], label.id or "", label.text))
    shown = {(label.kind, label.text.casefold()): label for label in rarest_first}
    return [shown[key] for key in sorted(counts, key=lambda key: (-counts[key], key))]


def _labels(item: Mapping[str, Any]) -> Iterator[Suggestion]:
    for tag in item.get("tags", ()):
        yield Suggestion(tag[:LONGEST], "tag")
    for skill in item.get("skills", ()):
        yield Suggestion((skill.get("name") or skill["id"])[:LONGEST], "skill", skill["id"])
        for tag in skill.get("tags", ()):
            yield Suggestion(tag[:LONGEST], "tag")


def _completes(beginnings: Sequence[str], text: str) -> bool:
    """Whether a text contains a word with each of these beginnings, which are preceded by a space."""
    joined = _joined_words(text)
    return all(beginning in joined for beginning in beginnings)


@lru_cache(maxsize=8_192)  # tags and names of skills repeat across listings
def _joined_words(text: str) -> str:
    """The words of a text, with a space before each of them."""
    return "".join(f" {word}" for word in words(text))


def _words(
    rows: Sequence[EngineHit],
    items: Sequence[tuple[str, Mapping[str, Any]]],
    before: Sequence[str],
    completions: Sequence[str],
    taken: set[str],
) -> list[Suggestion]:
    """The text with its last word completed by each word that a name or description of these listings contains."""
    missing, contained = set(completions[1:]), set[str]()
    for row, (_, item) in zip(rows, items, strict=True):
        if missing and row.record.has_any(missing):
            contained |= missing.intersection(words(f"{item['name']} {item.get('description', '')}"))
            missing -= contained
    texts = [" ".join((*before, word)) for word in completions if word in contained]
    return [Suggestion(text, "word") for text in texts if text not in taken]
