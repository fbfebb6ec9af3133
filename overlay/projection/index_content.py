"""The content that the documents of an index are made by: an index with another content is rebuilt."""

from __future__ import annotations

from functools import cache

from overlay.answers.items import StoredItem
from overlay.answers.record import schema_digest
from overlay.engines import IndexContent
from overlay.installation import NAMES, installed

PROJECTION = 2
"""The version of the documents that the same facts give, with their words, filter terms and values of members: a
release that changes them increases it. Members of items need no version, as their schema is compared."""


@cache
def index_content(systems: tuple[str, ...] = NAMES) -> IndexContent:
    """The content of an index by this program with these systems; only systems that add to items count."""
    names = [member.name for member in installed() if member.facts and member.name in systems]
    return IndexContent(schema_digest(StoredItem), PROJECTION, tuple(sorted(names)))
