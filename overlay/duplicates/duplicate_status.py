"""The duplicate status of a listing, and its members in the item."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from overlay.duplicates.claims import ADDRESS, NAME, URL
from overlay.listings import lookup
from overlay.text.compact_json import encode
from parsers.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from overlay.listings.repository import ListingRepository
    from overlay.search.document import Document

WARNED = {NAME: ("same-name", "/name"), URL: ("same-url", "/url"), ADDRESS: ("same-address", "")}
_WARNINGS = frozenset(code for code, _ in WARNED.values())


class DuplicateStatus(NamedTuple):
    """`hidden_in` are the views (`facts`) in which another listing is shown instead of this one; `duplicates` is the
    number of listings that this one is shown for; `group` is the id of the shown listing of the group, "" without one;
    `earlier` holds for each kind of claim (kind, id of the listing with the earliest such claim, same owner)."""

    hidden_in: tuple[str, ...] = ()
    duplicates: int = 0
    group: str = ""
    earlier: tuple[tuple[str, str, bool], ...] = ()


_NOTHING = DuplicateStatus()


def with_status(item: dict[str, Any], status: DuplicateStatus) -> dict[str, Any]:
    """An item with its count of duplicates and its warnings."""
    warnings = list(map(_warning, status.earlier))
    item = item | {"duplicates": status.duplicates} if status.duplicates else item
    return item | {"warnings": [*item["warnings"], *warnings]} if warnings else item


def _warning(earlier: tuple[str, str, bool]) -> dict[str, str]:
    kind, id_, same_owner = earlier
    code, pointer = WARNED[kind]
    detail = f"{id_}, of the same owner" if same_owner else id_
    return {"code": code, "pointer": pointer, "detail": Reason(code, detail).sentence}


def with_indexed(item: dict[str, Any], indexed: bytes | None) -> dict[str, Any]:
    """An item rendered from the store, with the count and the warnings of its item in the index."""
    if indexed is None:
        return item
    stored = json.loads(indexed)
    warnings = [warning for warning in stored["warnings"] if warning["code"] in _WARNINGS]
    count = {"duplicates": stored["duplicates"]} if "duplicates" in stored else {}
    return {**item, "warnings": [*item["warnings"], *warnings], **count} if warnings or count else item


def document_with_status(document: Document, statuses: Mapping[tuple[str, str], DuplicateStatus]) -> Document:
    """A document with its duplicate status; documents that are not current have none."""
    status = statuses.get((document.id, document.chain))
    if document.fingerprint is None or status in (None, _NOTHING):
        return document
    item = document.item
    if status.duplicates or status.earlier:
        item = encode(with_status(json.loads(item), status))
    return replace(document, hidden_in=status.hidden_in, group=status.group, item=item)


def listing_with_duplicates(
    repository: ListingRepository, stored_item: Callable[[str], bytes | None], text: str
) -> dict[str, Any]:
    """`listing`, with the duplicates and warnings of its item in the index, which `stored_item` returns. Raises
    ListingNotFoundError."""
    item = lookup.listing(repository, text)
    return item if "servers" in item else with_indexed(item, stored_item(item["id"]))
