"""What completions look up in Tantivy."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock

from overlay.engines import Suggestion
from overlay.engines.tantivy import queries
from overlay.engines.tantivy.pages import by_seniority, page
from overlay.engines.tantivy.view import View
from overlay.search.suggesting import suggest as complete


def suggest(view: View, counting: Lock, text: str, limit: int) -> list[Suggestion]:
    """Completions of what is being typed; `counting` is held while the vocabulary is read."""
    return complete(Hints(view, counting), text, limit) if view.records is not None else []


@dataclass(frozen=True, slots=True)
class Hints:
    """See `overlay.search.suggesting.Hinting`."""

    view: View
    counting: Lock

    def completions(self, beginning: str, limit: int) -> list[str]:
        """The commonest words that begin so."""
        with self.counting:
            return self.view.vocabulary.completions(beginning, limit)

    def beginning(self, prefix: str, limit: int) -> list[tuple[str, int]]:
        """The commonest hints that begin so."""
        return self.view.ask.hints(prefix, limit)

    def is_given(self, hint: str) -> bool:
        """Whether a listing has a hint."""
        return bool(self.view.ask.searcher.search(self.view.ask.term("hint", hint), 1, count=False).hits)

    def named(self, every: list[str], either: list[str], limit: int) -> list[tuple[str, bytes]]:
        """The most senior listings with such names."""
        ask = self.view.ask
        part = queries.every([*(ask.term("names", word) for word in every), ask.any_of("names", either)])
        rows = page(by_seniority(ask.searcher, part), self.view.read, 0, limit)
        return [(record.id, record.item) for _, record in rows]
