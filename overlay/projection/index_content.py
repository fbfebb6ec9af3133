"""The content that the documents of an index are made by: an index with another content is rebuilt."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from hashlib import sha256

from overlay.answers.items import StoredItem
from overlay.answers.record import schema_digest
from overlay.engines import IndexContent
from overlay.installation import NAMES, installed
from overlay.search.facts import CUSTOMERS, FILTERS, FLAGS, STATED
from overlay.search.sorting import NUMBERS

PROJECTION = 2
"""The version of the documents that the same facts give, with their words, filter terms and values of members: a
release that changes them increases it. New members of items, filters and orders need no version: the schema of items
and the names of facts are compared."""

NAMES_OF_FACTS = (*FILTERS, *FLAGS, *STATED, CUSTOMERS, *NUMBERS)
"""The names of the facts by which documents are filtered, and of the columns by which they are ordered."""


def content_digest(names: Iterable[str] = NAMES_OF_FACTS) -> str:
    """The SHA-256 of the schema of items and of the names of facts, in hex."""
    return sha256(" ".join((schema_digest(StoredItem), *names)).encode()).hexdigest()


@cache
def index_content(systems: tuple[str, ...] = NAMES) -> IndexContent:
    """The content of an index by this program with these systems; only systems that add to items count."""
    names = [member.name for member in installed() if member.facts and member.name in systems]
    return IndexContent(content_digest(), PROJECTION, tuple(sorted(names)))
