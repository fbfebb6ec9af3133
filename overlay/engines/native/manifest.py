"""Which files are an index: the manifest of its folder, the stamp that changes with it, and tombstones.

    manifest        JSON, replaced by each commit
    stamp           8 bytes: a counter, mapped by readers, that every commit increases
    NAME.segment    the arrays of a segment
    NAME.deleted    the tombstones of a segment as of a commit: a segment file of one array, bit i % 64 of word i / 64
                    for document i

One process writes. No name is used twice, so what a commit leaves behind that was not completed is never read.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from google_crc32c import value

from overlay.engines import EARLIER, IndexContent, IndexPosition
from overlay.engines.change_counter import ChangeCounter
from overlay.engines.native import durable, segment_file
from overlay.engines.native.segment_file import Array, SegmentError, SegmentFile
from overlay.text.compact_json import decode, encode

LAYOUT = 1

_MANIFEST, _BITS = "manifest", "deleted"
_NAME = re.compile(r"[a-z0-9_-]{1,60}")


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """A segment of an index. `is_history`: its documents have an end height. `deleted_file` names its tombstones, of
    `deleted` documents; "" without any."""

    name: str
    documents: int
    is_history: bool
    deleted_file: str
    deleted: int

    def __post_init__(self) -> None:
        names = (self.name, self.deleted_file) if self.deleted_file else (self.name,)
        if not all(_NAME.fullmatch(name) for name in names):
            raise ValueError(f"{names} are not names of files of a segment")
        if not 0 <= self.deleted <= (self.documents if self.deleted_file else 0):
            raise ValueError(f"segment {self.name} has {self.deleted:,} of {self.documents:,} documents deleted")


@dataclass(frozen=True, slots=True)
class Manifest:
    """An index as of a commit. `position`: None when it must be rebuilt. `newest`: the newest block time of its
    documents (Unix seconds). `vectors`: hash of the table that its text vectors are from; "" without any. `content`:
    what its documents were made by."""

    number: int
    position: IndexPosition | None
    newest: int
    segments: tuple[SegmentEntry, ...]
    vectors: str
    content: IndexContent = EARLIER


def commit_stamp(folder: Path) -> ChangeCounter:
    """The counter of a folder's commits: a reader that sees another value reads the manifest. A writer increases it
    when it opens the folder, too: the one before may have ended between a manifest and its stamp."""
    return ChangeCounter(folder / "stamp")


def segment_path(folder: Path, name: str) -> Path:
    """The file of a segment."""
    return folder / f"{name}.segment"


def read(folder: Path) -> Manifest | None:
    """The manifest of a folder; None without one. Raises OSError; ValueError, which names the file, when it is damaged
    or of another layout."""
    path = folder / _MANIFEST
    try:
        return _decoded(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ValueError(f"{path} {error}: rebuild the index") from error
    except (RecursionError, KeyError, AttributeError, TypeError) as error:
        raise ValueError(f"{path} is damaged: it is not a manifest; rebuild the index") from error


def _decoded(data: bytes) -> Manifest:
    try:
        content = decode(data)
    except ValueError as error:
        raise ValueError("is damaged: it is not JSON") from error
    layout, check = content.pop("layout"), content.pop("crc32c")
    if layout != LAYOUT:
        raise ValueError(f"is of layout {layout!r}, and this release reads {LAYOUT}")
    if check != value(encode(content)):
        raise ValueError("is damaged: its CRC-32C differs")
    position = content.pop("cursor")
    segments = tuple(SegmentEntry(**entry) for entry in content.pop("segments"))
    if "content" in content:
        items, projection, systems = content["content"]
        content["content"] = IndexContent(items, projection, tuple(systems))
    return Manifest(position=position and IndexPosition(*position), segments=segments, **content)


def publish(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest of a folder durably, then increase the stamp. The files that it names must be there. Raises
    OSError: then the earlier manifest is read on, or the new one where only the folder could not be synced."""
    content = asdict(manifest)
    position = content.pop("position")
    content |= {"cursor": position and list(position), "content": list(manifest.content)}
    stamp = commit_stamp(folder)
    try:
        durable.replace(folder / _MANIFEST, [encode({"layout": LAYOUT, "crc32c": value(encode(content)), **content})])
    finally:
        stamp.increase()


def sweep(folder: Path, manifest: Manifest, unpublished: Collection[str] = ()) -> None:
    """Remove segments and tombstones that neither the manifest nor `unpublished` names; mapped ones stay readable. The
    writer calls it, with the names of what it is still writing. A reader of an earlier manifest may miss a file that it
    has not opened yet: it reads the manifest again. Raises OSError."""
    used = {*unpublished, *(entry.name for entry in manifest.segments)}
    used |= {entry.deleted_file for entry in manifest.segments}
    for path in folder.iterdir():
        name, _, kind = path.name.partition(".")
        if kind.removesuffix(durable.BESIDE) in ("segment", "deleted") and name not in used:
            path.unlink(missing_ok=True)


def write_deleted(folder: Path, name: str, bits: Array) -> None:
    """Write the tombstones of a segment (u8, a bit for a document) durably, to a name that was never used. Raises
    OSError."""
    segment_file.write(folder / f"{name}.deleted", {_BITS: bits})


def read_deleted(folder: Path, entry: SegmentEntry) -> Array:
    """The tombstones of a segment (u8, read-only). Raises OSError; SegmentError, which names the file, when they are
    damaged or those of another segment."""
    words = -(-entry.documents // 64)
    if not entry.deleted_file:
        return np.zeros(words, np.uint64)
    path = folder / f"{entry.deleted_file}.deleted"
    file = SegmentFile.open(path)
    bits = file.arrays.get(_BITS, np.zeros(0, np.uint64))
    if file.damaged() or bits.dtype != np.uint64 or len(bits) != words:
        raise SegmentError(f"{path} is damaged: rebuild the index")
    if int(np.bitwise_count(bits).sum()) != entry.deleted or (words and int(bits[-1]) >> (entry.documents % 64 or 64)):
        raise SegmentError(f"{path} does not hold {entry.deleted:,} tombstones of {entry.documents:,} documents")
    return bits
