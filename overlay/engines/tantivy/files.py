"""The files of Tantivy in the folder of one generation: opened, made, and looked at for changes."""

from __future__ import annotations

import shutil
from pathlib import Path

import tantivy

from overlay.engines.tantivy.schema import schema


def seen(meta: Path) -> tuple[int, int]:
    """What is another after each commit; zeros once the file is gone, as another generation answers."""
    try:
        found = meta.stat()
    except FileNotFoundError:
        return 0, 0
    return found.st_mtime_ns, found.st_ino


def made(folder: Path) -> tantivy.Index:
    """The index in a folder, made when there is none; one that cannot be read is made anew, for it can be rebuilt.
    Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "meta.json").exists():
        try:
            return opened(folder)
        except ValueError:
            shutil.rmtree(folder)
            folder.mkdir(parents=True)
    return _prepared(tantivy.Index(schema(), str(folder)))


def opened(folder: Path) -> tantivy.Index:
    """The index in a folder. Raises ValueError when there is none, or it cannot be read."""
    return _prepared(tantivy.Index.open(str(folder)))


def _prepared(index: tantivy.Index) -> tantivy.Index:
    index.register_tokenizer("whitespace", tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build())
    index.config_reader("manual")
    return index
