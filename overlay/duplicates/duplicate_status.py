"""The duplicate status of a listing, and its members in the item."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from overlay.duplicates.text_keys import ADDRESS, COMMAND, NAME, SIMILAR, URL, Key
from overlay.listings import lookup
from overlay.listings.item_json import warning_json
from overlay.text.compact_json import decode, encode
from overlay.text.severity_words import SAME_OWNER
from parsers.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from overlay.listings.repository import ListingRepository
    from overlay.search.document import Document

WARNED = {
    NAME: ("same-name", "/name"),
    URL: ("same-url", "/url"),
    ADDRESS: ("same-address", ""),
    SIMILAR: ("same-text", ""),
}
"""The code and the pointer of the warning that another listing had a text key before, by its kind."""


_WARNINGS = frozenset(code for code, _ in WARNED.values())


class DuplicateStatus(NamedTuple):
    """`hidden_in` are the views (`facts`) in which another listing is shown instead of this one; `duplicates` is the
    number of listings that this one is shown for; `group` is the id of the shown listing of the group, "" without one;
    `earlier` holds (kind, id of the first holder, same owner) for each kind of text key that another listing had
    before."""

    hidden_in: tuple[str, ...] = ()
    duplicates: int = 0
    group: str = ""
    earlier: tuple[tuple[str, str, bool], ...] = ()


_NOTHING = DuplicateStatus()


def brings_nothing(kind: str, mine: Set[Key], other: Set[Key]) -> bool:
    """Whether a listing needs no warning that one of the same owner has its text key of a kind, by the text keys of
    both. Anyone can register for the address of another: that must not add a pay-to address unnoticed, nor a URL or a
    command under a name or with a text that is listed."""
    new = {held for held, _ in mine - other}
    return new.isdisjoint((ADDRESS, URL, COMMAND) if kind in (NAME, SIMILAR) else (ADDRESS,))


def earlier_reason(kind: str, id_: str, *, same_owner: bool) -> Reason:
    """The warning that the listing with this id was the first to have a text key of a kind."""
    code, pointer = WARNED[kind]
    return Reason(code, id_ + SAME_OWNER if same_owner else id_, pointer)


def document_with_status(document: Document, statuses: Mapping[tuple[str, str], DuplicateStatus]) -> Document:
    """A document with its duplicate status, and its item with the count of duplicates and the warnings; documents that
    are not current have none."""
    status = statuses.get((document.id, document.chain))
    if document.fingerprint is None or status in (None, _NOTHING):
        return document
    item = document.item
    if status.earlier:
        members = decode(item)
        members["warnings"] += [
            warning_json(earlier_reason(kind, id_, same_owner=same_owner)) for kind, id_, same_owner in status.earlier
        ]
        item = encode(members)
    if status.duplicates:
        item = b'%b,"duplicates":%d}' % (item[:-1], status.duplicates)
    return replace(document, hidden_in=status.hidden_in, group=status.group, item=item)


def listing_with_duplicates(
    repository: ListingRepository, stored_item: Callable[[str], bytes | None], text: str
) -> dict[str, Any]:
    """`listing`, with the duplicates and warnings of its item in the index, which `stored_item` returns. Raises
    ListingNotFoundError."""
    item = lookup.listing(repository, text)
    indexed = None if "servers" in item else stored_item(item["id"])
    if indexed is not None:
        stored = decode(indexed)
        item["warnings"] = item["warnings"] + [
            warning for warning in stored["warnings"] if warning["code"] in _WARNINGS
        ]
        item |= {"duplicates": stored["duplicates"]} if "duplicates" in stored else {}
    return item
