"""Functions that declare tables of further parts of the program (`indexer.store.schema`), each of which adds its own
here when it is imported: they are called before a database is opened."""

from __future__ import annotations

from collections.abc import Callable

declarations: list[Callable[[], None]] = []
