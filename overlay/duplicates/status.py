"""What follows for a listing from the claims of others, and how its item tells."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from overlay.compact import encode
from overlay.duplicates.claims import ADDRESS, NAME, URL
from parsers.reasons import Reason

if TYPE_CHECKING:
    from overlay.document import Document

WARNED = {NAME: ("same-name", "/name"), URL: ("same-url", "/url"), ADDRESS: ("same-address", "")}
_WARNINGS = frozenset(code for code, _ in WARNED.values())


class DuplicateStatus(NamedTuple):
    """`hidden_in` are the views (`facts`) in which another listing is shown in the place of this one; `group` is the id
    of the listing that is shown for it and others, its own if that is this one and there are `duplicates` of it;
    `earlier` names, by the kind of claim, the id of the listing that had the same first, and whether it has the same
    owner."""

    hidden_in: tuple[str, ...] = ()
    duplicates: int = 0
    group: str = ""
    earlier: tuple[tuple[str, str, bool], ...] = ()


def with_status(item: dict[str, Any], status: DuplicateStatus) -> dict[str, Any]:
    """An item with what follows for it."""
    warnings = list(map(_warning, status.earlier))
    item = item | {"duplicates": status.duplicates} if status.duplicates else item
    return item | {"warnings": [*item["warnings"], *warnings]} if warnings else item


def _warning(earlier: tuple[str, str, bool]) -> dict[str, str]:
    kind, id_, same_owner = earlier
    code, pointer = WARNED[kind]
    detail = f"{id_}, of the same owner" if same_owner else id_
    return {"code": code, "pointer": pointer, "detail": Reason(code, detail).sentence}


def with_indexed(item: dict[str, Any], indexed: bytes | None) -> dict[str, Any]:
    """An item made from the store, with what its stored item in an index says of others."""
    if indexed is None:
        return item
    stored = json.loads(indexed)
    warnings = [each for each in stored["warnings"] if each["code"] in _WARNINGS]
    count = {"duplicates": stored["duplicates"]} if "duplicates" in stored else {}
    return {**item, "warnings": [*item["warnings"], *warnings], **count} if warnings or count else item


def document_with_status(document: Document, statuses: Mapping[tuple[str, str], DuplicateStatus]) -> Document:
    """A document with what follows for its listing; those that are not current say nothing of it."""
    status = statuses.get((document.id, document.chain))
    if document.likeness is None or status is None:
        return document
    item = encode(with_status(json.loads(document.item), status))
    return replace(document, hidden_in=status.hidden_in, group=status.group, item=item)
