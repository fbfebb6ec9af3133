"""What completions look up in Tantivy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from overlay.engines import Suggestion
from overlay.engines.tantivy.pages import Found, Key, Order, page
from overlay.engines.tantivy.queries import every
from overlay.engines.tantivy.view import View
from overlay.search.records import Record
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
        order = Order(self._senior(every, either), lambda seniority: -seniority, _key, reverse=False, ties=None)
        return [(record.id, record.item) for _, record in page(order, self.view.read, 0, limit)]

    def _senior(self, words: list[str], last: list[str]) -> Callable[[int, bool], Found]:
        ask = self.view.ask
        part = every([*(ask.term("names", word) for word in words), ask.any_of("names", last)])

        def top(number: int, _: bool) -> Found:
            hits = ask.searcher.search(part, number, count=False, order_by_field="seniority").hits
            return Found([value for value, _ in hits], [address for _, address in hits], len(hits) < number)

        return top


def _key(seniority: int, record: Record) -> Key:
    return -seniority, record.id
