"""The library Whoosh with adaptations: no warnings on recent Pythons, durable commits, few segments.

Whoosh 2.7.4 is from 2016, in pure Python. Python 3.11 and later warn when they compile it (escape sequences, `is` with
a number), so all of its modules in use are imported here, with warnings off."""

from __future__ import annotations

import logging
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

from overlay.engines.index_versions import flush

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from whoosh.codec import whoosh3  # noqa: F401  imported by writers
    from whoosh.fields import KEYWORD, STORED, Schema
    from whoosh.filedb.filestore import FileStorage
    from whoosh.index import TOC
    from whoosh.matching import wrappers  # noqa: F401  imported when documents were deleted
    from whoosh.reading import SegmentReader, TermNotFound
    from whoosh.writing import CLEAR, LockError, SegmentWriter

__all__ = ["CLEAR", "SCHEMA", "IndexFiles", "LockError", "Storage", "TermNotFound", "few_segments", "new_writer",
           "open_segments"]  # fmt: skip

INDEX = "listings"
_BUFFER = 32  # megabytes of postings, by Whoosh's estimate, before it sorts on disk

SCHEMA = Schema(name=KEYWORD(), keywords=KEYWORD(), description=KEYWORD(), row=STORED(), cursor=STORED())

log = logging.getLogger(__name__)


class Storage(FileStorage):  # type: ignore[misc]
    """Files in a folder. A table of contents is renamed into place only after all files are synced. Files that were
    opened are recorded, since Whoosh leaves damaged ones open."""

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

    def rename_file(self, oldname: str, newname: str, safe: bool = False) -> None:
        """Rename a file to its final name; for a table of contents this is the commit."""
        for path in Path(self.folder).iterdir():
            with suppress(FileNotFoundError):  # merged into the file of its segment
                flush(path)
        super().rename_file(oldname, newname, safe=safe)
        flush(Path(self.folder))


class IndexFiles:
    """An index, for Whoosh's writer. A table of contents that is missing or cannot be read has no segments."""

    indexname = INDEX

    def __init__(self, folder: Path) -> None:
        self.folder, self.storage = folder, Storage(folder)

    def lock(self, name: str) -> Any:
        """The lock of a name."""
        return self.storage.lock(f"{INDEX}_{name}")

    def generation(self) -> int:
        """The number of the newest commit; -1 before the first. Raises OSError."""
        return int(TOC._latest_generation(self.storage, INDEX))  # noqa: SLF001  Whoosh's own way opens files

    def _read_toc(self) -> Any:
        storage = Storage(self.folder)
        try:
            return TOC.read(storage, INDEX, schema=SCHEMA)
        except Exception:  # Whoosh unpickles and unpacks unchecked
            if self.generation() >= 0:
                log.warning("the index in %s is unreadable and is created again", self.folder, exc_info=True)
            return TOC(SCHEMA, [], self.generation())
        finally:
            storage.abandon()


def open_segments(storage: Storage) -> tuple[int, list[Any]]:
    """The newest commit: its generation, and a reader for each of its segments. Raises any error when damaged."""
    toc = TOC.read(storage, INDEX, schema=SCHEMA)
    return toc.generation, [SegmentReader(storage, SCHEMA, segment) for segment in toc.segments]


def new_writer(index: IndexFiles) -> Any:
    """A writer for one commit. Raises LockError while another one writes."""
    return SegmentWriter(index, limitmb=_BUFFER)


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
