"""The library Whoosh with adaptations: no warnings on recent Pythons, durable commits, few segments.

Whoosh 2.7.4 is from 2016, in pure Python. Python 3.11 and later warn when they compile it (escape sequences, `is` with
a number), so all of its modules in use are imported here, with warnings off."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from whoosh.codec.whoosh3 import W3Codec
    from whoosh.fields import ID, KEYWORD, STORED, Schema
    from whoosh.filedb.filestore import FileStorage
    from whoosh.index import TOC, FileIndex
    from whoosh.matching import wrappers  # noqa: F401  imported when documents were deleted
    from whoosh.reading import SegmentReader, TermNotFound
    from whoosh.writing import CLEAR, LockError, SegmentWriter

__all__ = ["CLEAR", "INDEX", "SCHEMA", "TOC", "Codec", "DurableStorage", "FileIndex", "LockError",
           "ReadStorage", "SegmentReader", "SegmentWriter", "TermNotFound", "few_segments"]  # fmt: skip

INDEX = "listings"

SCHEMA = Schema(
    registration=ID(),
    id=ID(),
    name=KEYWORD(),
    keywords=KEYWORD(),
    description=KEYWORD(),
    row=STORED(),
    text=STORED(),
    record=STORED(),
)


class Codec(W3Codec):  # type: ignore[misc]
    """Without lengths of fields: `ListingFields` has them, and Whoosh spends a quarter of its time reading them."""

    length_stats = False


class DurableStorage(FileStorage):  # type: ignore[misc]
    """Files in a folder. A table of contents is renamed into place only after the files it names are synced."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._written: set[str] = set()

    def create_file(self, name: str, **options: Any) -> Any:
        """Create a file, to be synced at the commit."""
        self._written.add(name)
        return super().create_file(name, **options)

    def rename_file(self, oldname: str, newname: str, safe: bool = False) -> None:
        """Rename a file to its final name; for a table of contents this is the commit."""
        for name in self._written:
            self.flush(name)
        self._written.clear()
        super().rename_file(oldname, newname, safe=safe)
        self.flush(".")

    def flush(self, name: str) -> None:
        """Sync a file, or the folder (`.`), to disk."""
        try:
            opened = os.open(self._fpath(name), os.O_RDONLY)
        except FileNotFoundError:
            return  # merged into the file of its segment
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


class ReadStorage(FileStorage):  # type: ignore[misc]
    """Files to read. It records them, since Whoosh leaves damaged ones open."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._opened: list[Any] = []

    def open_file(self, name: str, **options: Any) -> Any:
        """Open a file."""
        self._opened.append(super().open_file(name, **options))
        return self._opened[-1]

    def abandon(self) -> None:
        """Close the files that are still open."""
        for opened in self._opened:
            if not opened.is_closed:
                opened.close()


def few_segments(writer: Any, segments: list[Any]) -> list[Any]:
    """A merge policy for Whoosh: segments no larger than all smaller ones in sum are merged into the new one, so that n
    documents are in at most log2(n) segments, and each is copied at most as often. Returns the remaining segments."""
    size, remaining = writer.doc_count(), []
    for segment in sorted(segments, key=lambda other: other.doc_count()):
        live = segment.doc_count()
        if 0 < live <= size or 0 < live < segment.deleted_count():
            reader = SegmentReader(writer.storage, writer.schema, segment)
            writer.add_reader(reader)
            reader.close()
            size += live
        elif live:
            remaining.append(segment)
    return remaining
