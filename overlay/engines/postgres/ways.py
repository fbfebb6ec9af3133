"""The ways to take the words of a question: what is looked for, and the points that a document then makes."""

from __future__ import annotations

from typing import NamedTuple

from overlay.engines.postgres import lexemes
from overlay.engines.postgres.layout import State
from overlay.engines.postgres.question import PLAIN, Ladder, Levels, Part, joined, taken, where
from overlay.engines.postgres.view import View
from overlay.query import Query
from overlay.search.closeness import Closeness
from overlay.search.kept import ahead
from overlay.search.matching import WORDLESS as WITHOUT_WORDS
from overlay.search.matching import Plan, plan
from overlay.search.vocabulary import Vocabulary

Found = Part
"""A SELECT of `number`, `id`, `newest`, `seniority`, `made` and `points` of the documents that are found."""


class Way(NamedTuple):
    """One way to take the words of a question, as they are planned: the lexemes asked for, and the points that a
    document then makes. `ladders` tell what each word may add, and `every` whether a document must hold each. So many
    as `known` are found at least, as the words in use tell."""

    asked: tuple[str, ...]
    points: Part
    plan: Plan = WITHOUT_WORDS
    ladders: tuple[Ladder, ...] = ()
    every: bool = False
    known: int = 0

    @property
    def closeness(self) -> Closeness | None:
        """What adds to the points of the best."""
        return self.plan.closeness

    @property
    def ahead(self) -> int:
        """How many stand before kept places."""
        return ahead(self.plan)

    def found(self, state: State, query: Query) -> Found:
        """What is found so."""
        admitted = where(query, self.asked, state.schema)
        columns = Part("SELECT d.number, d.id, d.newest, d.seniority, d.made,")
        points = self.points._replace(text=f"({self.points.text})::bigint AS points")
        source = Part(f"FROM {state.schema}.documents d WHERE {admitted.text}", admitted.given)
        return joined([columns, points, source], " ")


WORDLESS = [Way((), Part("0"))]
"""How to look for what has no words: without the words in use, which a million listings have so many of that reading
them at first takes seconds."""


def ways(view: View, state: State, query: Query) -> list[Way]:
    """Each for when the one before found nothing: all words of a text, then any of them. To be called while the words
    in use do not change; those of before do not tell what holds a term now, and at which level."""
    planned = plan(query.text, view.vocabulary)
    if not planned.words:
        return []
    counted = view.vocabulary if view.is_of(state) else None
    levels = Levels(counted, query)
    words, points, ladders = zip(*(taken(word, levels) for word in planned.words), strict=True)
    known = _known(planned, query, counted) if counted else 0
    either = Way((lexemes.either(words),), joined(points, " + "), planned, ladders, known=known)
    return [either._replace(asked=words, every=True, known=0), either] if planned.covers else [either]


def _known(planned: Plan, query: Query, vocabulary: Vocabulary) -> int:
    """How many listings hold the commonest of what stands for any word, where nothing else is asked."""
    if where(query, (), "") != PLAIN:
        return 0
    single = (choice.terms[0] for word in planned.words for choice in word.choices if len(choice.terms) == 1)
    return max(map(vocabulary.frequency, single), default=0)
