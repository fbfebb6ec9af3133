"""The library Whoosh with adaptations: no warnings on recent Pythons, durable commits, few segments.

Whoosh 2.7.4 is from 2016, in pure Python. Python 3.11 and later warn when they compile it (escape sequences, `is` with
a number), so all of its modules in use are imported here, with warnings off."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from indexer.durable_files import flush
from overlay.engines import BusyError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from whoosh.codec import whoosh3  # noqa: F401  imported by writers
    from whoosh.fields import KEYWORD, STORED, Schema
    from whoosh.filedb.filestore import FileStorage, RamStorage
    from whoosh.index import TOC
    from whoosh.matching import wrappers  # noqa: F401  imported when documents were deleted
    from whoosh.reading import SegmentReader, TermNotFound
    from whoosh.writing import CLEAR, LockError, SegmentWriter

__all__ = ["CLEAR", "TermNotFound", "WhooshFiles", "few_segments"]

_INDEX = "listings"
_BUFFER = 32  # megabytes of postings, by Whoosh's estimate, before it sorts on disk
_SCHEMA = Schema(name=KEYWORD(), keywords=KEYWORD(), description=KEYWORD(), row=STORED(), cursor=STORED())

log = logging.getLogger(__name__)


class WhooshFiles(FileStorage):  # type: ignore[misc]
    """The files of an index, with the methods that Whoosh's writer needs of an index and of its storage. They are read
    whole: no file stays open and a commit can be read at its end."""

    indexname = _INDEX

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.path, self.storage = path, self

    def rename_file(self, oldname: str, newname: str, safe: bool = False) -> None:
        """Rename a file to its final name; for a table of contents this is the commit, once all files are synced."""
        for path in self.path.iterdir():
            with suppress(FileNotFoundError):  # merged into the file of its segment
                flush(path)
        super().rename_file(oldname, newname, safe=safe)
        flush(self.path)

    def generation(self) -> int:
        """The number of the newest commit; -1 before the first. Raises OSError."""
        return int(TOC._latest_generation(self, _INDEX))  # noqa: SLF001  Whoosh's own way opens files

    def read(self, before: Mapping[str, bytes]) -> tuple[int, list[Any], dict[str, bytes]]:
        """The newest commit: its generation, a reader for each segment, and the contents of the segments' files. These
        never change, so those read `before` are reused. Raises any error when damaged."""
        files = {path.name: before.get(path.name) or path.read_bytes() for path in self.path.glob("*.seg")}
        memory = RamStorage()
        toc = self._toc()
        memory.files.update(files)
        return toc.generation, [SegmentReader(memory, _SCHEMA, segment) for segment in toc.segments], files

    def _toc(self) -> Any:
        memory = RamStorage()
        memory.files.update((path.name, path.read_bytes()) for path in self.path.glob("*.toc"))
        return TOC.read(memory, _INDEX, schema=_SCHEMA)

    @contextmanager
    def writing(self) -> Iterator[Any]:
        """A writer for the block to commit; uncommitted changes are dropped. Raises BusyError."""
        try:
            writer = SegmentWriter(self, limitmb=_BUFFER)
        except LockError:
            raise BusyError(f"another process writes to {self.path}: stop it, or name another in A2B_SEARCH") from None
        try:
            for left in self.path.glob("*.toc.*"):  # by a writer that was killed
                left.unlink()
            yield writer
        finally:
            if not writer.is_closed:
                writer.cancel()

    def _read_toc(self) -> Any:
        """The table of contents; an empty one where it is missing or cannot be read."""
        try:
            return self._toc()
        except Exception:  # Whoosh unpickles and unpacks unchecked
            if self.generation() >= 0:
                log.warning("the index in %s is unreadable and is created again", self.path, exc_info=True)
            return TOC(_SCHEMA, [], self.generation())


def few_segments(writer: Any, segments: list[Any]) -> list[Any]:
    """A merge policy for Whoosh: segments no larger than all smaller ones in sum are merged into the new one. So n
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
