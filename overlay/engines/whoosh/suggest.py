"""What completions look up in Whoosh."""

from __future__ import annotations

from dataclasses import dataclass

from overlay.engines.whoosh.view import View


@dataclass(frozen=True, slots=True)
class Hints:
    """See `overlay.search.suggesting.Hinting`."""

    view: View

    def completions(self, beginning: str, limit: int) -> list[str]:
        """The commonest words that begin so."""
        return self.view.vocabulary.completions(beginning, limit)

    def beginning(self, prefix: str, limit: int) -> list[tuple[str, int]]:
        """The commonest hints that begin so."""
        found = self.view.beginning("hints", prefix)
        return sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))[:limit]

    def is_given(self, hint: str) -> bool:
        """Whether a listing has a hint."""
        return next(self.view.postings("hints", hint), None) is not None

    def named(self, every: list[str], either: list[str], limit: int) -> list[tuple[str, bytes]]:
        """The most senior listings with such names."""
        view = self.view
        found = {document for word in either for document, _ in view.postings("names", word)}
        for word in every:
            found &= {document for document, _ in view.postings("names", word)}
        senior = sorted(found, key=lambda document: (-view.row(document).seniority, view.row(document).id))[:limit]
        return [(view.row(document).id, view.stored(document)["item"]) for document in senior]
