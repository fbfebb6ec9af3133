"""The library Whoosh, made fit for use: quiet on Pythons newer than itself, durable, with few segments.

Whoosh 2.7.4 is from 2016, in pure Python. Pythons from 3.11 on warn when they compile it (escape sequences, `is` with a
number); all of its modules that are needed are therefore imported here, once, with warnings off.
"""

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
    """Without lengths of fields: rows hold them, and Whoosh takes a quarter of its time to look for them."""

    length_stats = False


class DurableStorage(FileStorage):  # type: ignore[misc]
    """Files in a folder. A table of contents gets its name only after all it speaks of is on the disk."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._written: set[str] = set()

    def create_file(self, name: str, **options: Any) -> Any:
        """A new file, and note to flush it."""
        self._written.add(name)
        return super().create_file(name, **options)

    def rename_file(self, oldname: str, newname: str, safe: bool = False) -> None:
        """Give a file its final name; with a table of contents, that is the commit."""
        for name in self._written:
            self.flush(name)
        self._written.clear()
        super().rename_file(oldname, newname, safe=safe)
        self.flush(".")

    def flush(self, name: str) -> None:
        """Wait until a file, or the folder (`.`), is on the disk."""
        try:
            opened = os.open(self._fpath(name), os.O_RDONLY)
        except FileNotFoundError:
            return  # a part that has been put into the file of its segment
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


class ReadStorage(FileStorage):  # type: ignore[misc]
    """Files to read. It knows which, since Whoosh leaves those open that turn out to be damaged."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._opened: list[Any] = []

    def open_file(self, name: str, **options: Any) -> Any:
        """Open a file."""
        self._opened.append(super().open_file(name, **options))
        return self._opened[-1]

    def abandon(self) -> None:
        """Close what is still open."""
        for opened in self._opened:
            if not opened.is_closed:
                opened.close()


def few_segments(writer: Any, segments: list[Any]) -> list[Any]:
    """Whoosh's merge policy: segments no larger than all smaller ones together join the new one, so that n documents
    lie in log2(n) segments at most, and each is copied as often. Empty ones go. Gives those that stay."""
    size, kept = writer.doc_count(), []
    for segment in sorted(segments, key=lambda each: each.doc_count()):
        live = segment.doc_count()
        if 0 < live <= size or 0 < live < segment.deleted_count():
            reader = SegmentReader(writer.storage, writer.schema, segment)
            writer.add_reader(reader)
            reader.close()
            size += live
        elif live:
            kept.append(segment)
    return kept
