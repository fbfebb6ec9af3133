"""A copy of one commit of an index by hard links, while another process writes to the index.

Files of segments and tombstones are never changed, so a link is a copy; only the manifest, which is replaced, is
written. A file that is removed before it is linked belongs to an earlier commit: then the newest one is copied.
"""

from __future__ import annotations

import os
from pathlib import Path

from indexer.durable_files import flush
from overlay.engines import NATIVE_LAYOUT, EngineError, IndexPosition
from overlay.engines.index_versions import IndexVersions
from overlay.engines.native import manifest as manifests

_ATTEMPTS = 20


def link_commit(root: Path, copy: Path) -> IndexPosition:
    """Copy the newest commit of the live version of the index in a folder to another folder of the same file system,
    durably; returns the position up to which the copy has read. Raises EngineError for an index that must be rebuilt,
    OSError."""
    folder = copy / NATIVE_LAYOUT
    folder.mkdir()
    for attempt in range(_ATTEMPTS):
        live = IndexVersions(root, NATIVE_LAYOUT).live()
        try:
            manifest = manifests.read(live)
            if manifest is None or manifest.position is None:
                raise EngineError(f"the index in {root} is empty or is being rebuilt: there is nothing to copy yet")
            _link(live, folder, manifest)
            manifests.publish(folder, manifest)
        except FileNotFoundError:
            if attempt == _ATTEMPTS - 1:
                raise
        except ValueError as error:
            raise EngineError(str(error)) from error
        else:
            manifests.sweep(folder, manifest)
            flush(folder)
            return manifest.position
    raise AssertionError


def _link(live: Path, folder: Path, manifest: manifests.Manifest) -> None:
    for entry in manifest.segments:
        paths = [manifests.segment_path(live, entry.name)]
        if entry.deleted_file:
            paths.append(live / f"{entry.deleted_file}.deleted")
        for path in paths:
            if not (folder / path.name).exists():  # of the attempt before
                os.link(path, folder / path.name)
