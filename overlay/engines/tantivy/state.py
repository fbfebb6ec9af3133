"""The state that every commit stores in the index: the cursor, and the files that belong to the commit.

Word counts are in a file of their own: a line with all counts, then a line of changes for each commit. Once the changes
take more than the counts, all counts are written to a new file. A crash leaves the last complete commit, and at worst
bytes beyond its sizes.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from uuid import uuid4

import tantivy

from overlay.engines import Cursor
from overlay.search.term_dictionary import TermCounts, TermDictionary

_LEAST = 1 << 20  # bytes of changes in a file of word counts, below which no new one is written


@dataclass(frozen=True, slots=True, kw_only=True)
class TantivyCommitState:
    """The file `records` has at least `size` bytes; the word counts are the first `words_size` bytes of the file
    `words`, of which `words_base` bytes are no changes. "" is no file."""

    epoch: str
    seq: int
    records: str
    size: int = 0
    words: str = ""
    words_size: int = 0
    words_base: int = 0

    @property
    def cursor(self) -> Cursor:
        """How far the outbox has been read."""
        return Cursor(self.epoch, self.seq)


def read_state(schema: tantivy.Schema, searcher: tantivy.Searcher) -> TantivyCommitState | None:
    """The committed state; None for an index that is new, cleared or of another layout."""
    hits = searcher.search(tantivy.Query.term_query(schema, "meta", "state", "basic"), 1).hits
    bodies = [json.loads(bytes(searcher.doc(address).get_first("body") or b"null")) for _, address in hits]
    return TantivyCommitState(**bodies[0]) if bodies else None


def write_state(writer: tantivy.IndexWriter, state: TantivyCommitState) -> None:
    """Replace the state at the next commit."""
    writer.delete_documents_by_term("meta", "state")
    document = tantivy.Document()
    document.add_text("meta", "state")
    document.add_bytes("body", json.dumps(asdict(state)).encode())
    writer.add_document(document)


def read_counts(folder: Path, state: TantivyCommitState, start: int = 0) -> list[TermCounts]:
    """The word counts of a commit and the changes since, from a position in their file on. Raises OSError or ValueError
    when the file is missing or damaged."""
    if not state.words:
        return []
    with (folder / state.words).open("rb") as file:
        file.seek(start)
        data = file.read(state.words_size - start)
    if len(data) < state.words_size - start:
        raise ValueError(f"{state.words} holds less than {state.words_size:,} bytes")
    return list(map(TermCounts.decode, data.splitlines()))


def write_counts(
    folder: Path, state: TantivyCommitState, terms: TermDictionary, changes: TermCounts
) -> TantivyCommitState:
    """Write changes of `terms` durably; the state with them. Raises OSError."""
    if not changes:
        return state
    if state.words and state.words_size - state.words_base < max(_LEAST, state.words_base):
        return replace(state, words_size=_append(folder / state.words, state.words_size, changes))
    name = f"words-{uuid4().hex[:12]}"
    size = _append(folder / name, 0, TermDictionary((terms.counts, changes)).counts)
    return replace(state, words=name, words_size=size, words_base=size)


def _append(path: Path, start: int, counts: TermCounts) -> int:
    """Write a line at a position, where a commit that was not completed may have left bytes; its end."""
    with path.open("r+b" if start else "wb") as file:
        file.seek(start)
        file.truncate()
        file.write(counts.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
        return file.tell()
