"""What an index knows of itself, committed with it: how far it has read, and the counts of its words.

One document (`meta` = `state`) holds the cursor and names the files that go with the commit. Since counting all words
anew would take long, each commit also keeps what it changed (`meta` = `counts`); the file of words holds all that came
before. A crash leaves the last commit, with all of it.
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
_GENERATION = "made"  # the field of numbers that listings are sorted by, used for the commit here


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """`generation` counts commits. The file `records` has `size` bytes at least. `words` holds the counts as of
    generation `counted`; empty: there is no file yet."""

    epoch: str
    seq: int
    generation: int
    records: str
    size: int = 0
    words: str = ""
    counted: int = 0

    @property
    def cursor(self) -> Cursor:
        """How far the store's changes have been read."""
        return Cursor(self.epoch, self.seq)


def read_state(schema: tantivy.Schema, searcher: tantivy.Searcher) -> State | None:
    """The state that was committed, None for an index that is new, cleared or of another kind."""
    found = _bodies(schema, searcher, "state", 1)
    return State(**found[0]) if found else None


def read_words(schema: tantivy.Schema, searcher: tantivy.Searcher, folder: Path, state: State) -> TermDictionary:
    """The vocabulary as of a commit. Raises OSError or ValueError when its file is missing or damaged."""
    vocabulary = TermDictionary.load(folder / state.words) if state.words else TermDictionary()
    for listings, rows in read_changes(schema, searcher, state.counted):
        vocabulary.apply(listings, rows)
    return vocabulary


def read_changes(schema: tantivy.Schema, searcher: tantivy.Searcher, since: int) -> list[tuple[int, list[Any]]]:
    """What commits after a generation changed in the counts, in their order, as `TermDictionary.apply` takes it."""
    later = tantivy.Query.range_query(schema, _GENERATION, tantivy.FieldType.Unsigned, since + 1, None)
    changes = sorted(_bodies(schema, searcher, "counts", _MOST_COUNTS, later))
    return [(listings, rows) for _, listings, rows in changes]


def _bodies(
    schema: tantivy.Schema, searcher: tantivy.Searcher, kind: str, limit: int, *more: tantivy.Query
) -> list[Any]:
    part = tantivy.Query.term_query(schema, "meta", kind, "basic")
    part = tantivy.Query.boolean_query([(tantivy.Occur.Must, each) for each in (part, *more)])
    hits = searcher.search(part, limit).hits
    return [json.loads(bytes(searcher.doc(address).get_first("body") or b"null")) for _, address in hits]


def write_state(writer: tantivy.IndexWriter, state: State) -> None:
    """Put a state in the place of the one before, at the next commit."""
    writer.delete_documents_by_term("meta", "state")
    _add(writer, "state", asdict(state))


def write_change(writer: tantivy.IndexWriter, generation: int, change: TermChanges) -> int:
    """Keep what a commit changes in the counts; how many strings it touches."""
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
