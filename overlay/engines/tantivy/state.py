"""The state that every commit stores in the index: the cursor, and the changes of word counts.

One document (`meta` = `state`) has the cursor and the names of the commit's files. Each commit also stores the counts
that it changed (`meta` = `counts`), to be applied to those in the term file. A crash leaves the last complete commit.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tantivy

from overlay.engines import Cursor
from overlay.search.term_dictionary import TermChanges, TermDictionary

_MOST_COUNTS = 1_000_000
_GENERATION = "made"  # a numeric field of listings, used for the generation here


@dataclass(frozen=True, slots=True, kw_only=True)
class TantivyCommitState:
    """`generation` counts commits. The file `records` has at least `size` bytes. The file `words` has the counts as of
    generation `counted`; "" without a file."""

    epoch: str
    seq: int
    generation: int
    records: str
    size: int = 0
    words: str = ""
    counted: int = 0

    @property
    def cursor(self) -> Cursor:
        """How far the outbox has been read."""
        return Cursor(self.epoch, self.seq)


def read_state(schema: tantivy.Schema, searcher: tantivy.Searcher) -> TantivyCommitState | None:
    """The committed state; None for an index that is new, cleared or of another layout."""
    bodies = _bodies(schema, searcher, "state", 1)
    return TantivyCommitState(**bodies[0]) if bodies else None


def read_words(
    schema: tantivy.Schema, searcher: tantivy.Searcher, folder: Path, state: TantivyCommitState
) -> TermDictionary:
    """The term dictionary of a commit. Raises OSError or ValueError when its file is missing or damaged."""
    terms = TermDictionary.load(folder / state.words) if state.words else TermDictionary()
    for listings, rows in read_changes(schema, searcher, state.counted):
        terms.apply(listings, rows)
    return terms


def read_changes(schema: tantivy.Schema, searcher: tantivy.Searcher, since: int) -> list[tuple[int, list[Any]]]:
    """The changes of counts by commits after a generation, in order, for `TermDictionary.apply`."""
    later = tantivy.Query.range_query(schema, _GENERATION, tantivy.FieldType.Unsigned, since + 1, None)
    changes = sorted(_bodies(schema, searcher, "counts", _MOST_COUNTS, later))
    return [(listings, rows) for _, listings, rows in changes]


def _bodies(
    schema: tantivy.Schema, searcher: tantivy.Searcher, kind: str, limit: int, *more: tantivy.Query
) -> list[Any]:
    part = tantivy.Query.term_query(schema, "meta", kind, "basic")
    part = tantivy.Query.boolean_query([(tantivy.Occur.Must, clause) for clause in (part, *more)])
    hits = searcher.search(part, limit).hits
    return [json.loads(bytes(searcher.doc(address).get_first("body") or b"null")) for _, address in hits]


def write_state(writer: tantivy.IndexWriter, state: TantivyCommitState) -> None:
    """Replace the state at the next commit."""
    writer.delete_documents_by_term("meta", "state")
    _add(writer, "state", asdict(state))


def write_change(writer: tantivy.IndexWriter, generation: int, change: TermChanges) -> int:
    """Store the changes of counts of a commit; the number of strings changed."""
    rows = change.rows()
    if rows or change.listings:
        _add(writer, "counts", [generation, change.listings, rows], generation)
    return len(rows)


def _add(writer: tantivy.IndexWriter, kind: str, value: Any, generation: int = 0) -> None:
    document = tantivy.Document()
    document.add_unsigned(_GENERATION, generation)
    document.add_text("meta", kind)
    document.add_bytes("body", json.dumps(value, separators=(",", ":")).encode())
    writer.add_document(document)
