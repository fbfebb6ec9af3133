"""Autocompletion: names of listings, skills, tags and words that complete the last word of a text.

After other words, completions are limited to what occurs with them: a search for the listings that contain all words,
the last as a prefix, and the completions are read from the best of these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from itertools import chain
from typing import NamedTuple

from overlay.search.analysis import query_words, stem, words
from overlay.search.memo import memoized
from overlay.search.planner import Alternative, QueryPlan, TermGroup
from overlay.search.query import EngineHit, Suggestion
from overlay.search.stop_words import stop_words
from overlay.search.term_dictionary import Terms
from overlay.text.compact_json import decode
from parsers.cards import Skill

MAX_WORDS, MAX_COMPLETIONS = 8, 12
MAX_LISTINGS = 60
"""Listings with texts that completions are taken from: the latest that hold the words."""
LONGEST = 100
"""Characters of a completion."""


class Typed(NamedTuple):
    """A text to complete. `plan` finds the listings that contain all its words; of their names, skills and tags, those
    complete it that `complete` all `beginnings`. `completions` are words that complete its last one."""

    plan: QueryPlan
    beginnings: tuple[str, ...]
    completions: tuple[str, ...]


class Completed(NamedTuple):
    """The completions of a text in the latest `MAX_LISTINGS` listings of its plan: names, the latest first; for each
    listing its skills and tags; and the words that the name or the description of one contains."""

    names: Sequence[Suggestion]
    labels: Sequence[Set[Suggestion]]
    words: Set[str]


def suggest(text: str, limit: int, terms: Terms, complete: Callable[[Typed], Completed]) -> list[Suggestion]:
    """At most `limit` completions: tags and skills by frequency, then names, with those that start with the text first.
    Names get at least half of the limit; words fill what remains."""
    parts = [part for compound in query_words(text)[:MAX_WORDS] for part in compound.parts]
    if not parts or limit <= 0:
        return []
    *before, prefix = parts
    completions = tuple(terms.completions(prefix, MAX_COMPLETIONS))
    stop = stop_words(parts)
    groups = [_group(word, [word], is_stop=word in stop) for word in before] + [_group(prefix, [prefix, *completions])]
    beginnings = tuple(f" {part}" for part in parts)
    names, labels, contained = complete(Typed(QueryPlan(tuple(groups), all_words=True), beginnings, completions))
    room = max(limit - len(names), (limit + 1) // 2)
    suggestions = [*_commonest(labels)[:room], *names][:limit]
    suggestions.sort(key=lambda suggestion: not joined_words(suggestion.text).startswith("".join(beginnings)))
    taken = {suggestion.text.casefold() for suggestion in suggestions}
    texts = [" ".join((*before, word)) for word in completions if word in contained]
    return [*suggestions, *(Suggestion(text, "word") for text in texts if text not in taken)][:limit]


def _group(word: str, surfaces: Sequence[str], *, is_stop: bool = False) -> TermGroup:
    alternatives = tuple(Alternative(term, 1.0, 1.0, "exact") for term in dict.fromkeys(map(stem, surfaces)))
    return TermGroup(word, alternatives, 1.0, is_stop)


def _commonest(labels: Sequence[Set[Suggestion]]) -> list[Suggestion]:
    """Skills and tags by the number of listings that have them, in any case; of several spellings the commonest."""
    counts = Counter(chain.from_iterable(labels))
    spellings: dict[tuple[str, str], list[Suggestion]] = {}
    for label in counts:
        spellings.setdefault((label.kind, label.text.casefold()), []).append(label)

    def rank(key: tuple[str, str]) -> tuple[int, tuple[str, str]]:
        same = spellings[key]
        return -(counts[same[0]] if len(same) == 1 else sum(not names.isdisjoint(same) for names in labels)), key

    return [
        max(spellings[key], key=lambda label: (counts[label], label.id or "", label.text))
        for key in sorted(spellings, key=rank)
    ]


def labels_of(tags: Iterable[str], skills: Iterable[Skill]) -> Iterator[Suggestion]:
    """The skills and tags of a listing, with repeats."""
    for tag in tags:
        yield Suggestion(tag[:LONGEST], "tag")
    for skill in skills:
        yield Suggestion((skill.name or skill.id)[:LONGEST], "skill", skill.id)
        yield from labels_of(skill.tags, ())


def completes(joined: str, beginnings: Sequence[str]) -> bool:
    """Whether a text contains a word with each of these beginnings, which are preceded by a space. It is passed as its
    `joined_words`. A skill completes by its text or by its id."""
    return all(beginning in joined for beginning in beginnings)


@memoized  # tags and names of skills repeat across listings
def joined_words(text: str) -> str:
    """The words of a text, with a space before each of them."""
    return "".join(f" {word}" for word in words(text))


def completed_by_items(rows: Sequence[EngineHit], typed: Typed) -> Completed:
    """The completions of a text in the items of listings, for engines that store no labels."""
    names, labels, contained = [], [], set[str]()
    for row in rows:
        item = decode(row.record.item)
        name, description = item["name"], item.get("description", "")
        if completes(joined_words(name), typed.beginnings):
            names.append(Suggestion(name, "listing", row.record.id))
        skills = [
            Skill(skill["id"], skill.get("name") or "", tags=skill.get("tags", ())) for skill in item.get("skills", ())
        ]
        item_labels = set(labels_of(item.get("tags", ()), skills))
        spelt = {label: (joined_words(label.text), joined_words(label.id or "")) for label in item_labels}
        labels.append(
            {label for label, forms in spelt.items() if any(completes(form, typed.beginnings) for form in forms)}
        )
        contained.update(words(name), words(description))
    return Completed(names, labels, contained)
