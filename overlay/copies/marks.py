"""What follows for a listing from the claims of others, and how its item tells."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from overlay.compact import encode
from overlay.copies.claims import ADDRESS, NAME, URL
from parsers.reasons import Reason

if TYPE_CHECKING:
    from overlay.document import Document

CODES = {NAME: ("same-name", "/name"), URL: ("same-url", "/url"), ADDRESS: ("same-address", "")}


class Marks(NamedTuple):
    """`behind` are the views in which an identical listing goes before this one ("" for all, the names of chains, and
    `facts.HERE`); `duplicates` is how many go behind this one; `earlier` names, by the kind of claim, the id of the
    listing that had the same first, and whether it has the same owner."""

    behind: tuple[str, ...] = ()
    duplicates: int = 0
    earlier: tuple[tuple[str, str, bool], ...] = ()


_WARNINGS = frozenset(code for code, _ in CODES.values())


def marked(item: dict[str, Any], marks: Marks) -> dict[str, Any]:
    """An item with what follows for it."""
    warnings = list(map(_warning, marks.earlier))
    item = item | {"duplicates": marks.duplicates} if marks.duplicates else item
    return item | {"warnings": [*item["warnings"], *warnings]} if warnings else item


def _warning(earlier: tuple[str, str, bool]) -> dict[str, str]:
    kind, id_, same_owner = earlier
    code, pointer = CODES[kind]
    detail = f"{id_}, of the same owner" if same_owner else id_
    return {"code": code, "pointer": pointer, "detail": Reason(code, detail).sentence}


def told(item: dict[str, Any], indexed: bytes | None) -> dict[str, Any]:
    """An item made from the store, with what its stored item in an index says of others."""
    if indexed is None:
        return item
    known = json.loads(indexed)
    more = [each for each in known["warnings"] if each["code"] in _WARNINGS]
    counted = {name: known[name] for name in ("duplicates",) if name in known}
    return {**item, "warnings": [*item["warnings"], *more], **counted} if more or counted else item


def marked_document(document: Document, marks: Mapping[str, Marks]) -> Document:
    """A document with what follows for its listing; those that are not current say nothing of it."""
    found = marks.get(document.id)
    if document.likeness is None or found is None:
        return document
    return replace(document, behind=found.behind, item=encode(marked(json.loads(document.item), found)))
