"""Which warnings of an earlier listing a card would have, by the index as it is now: before it is published."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from overlay.duplicates.duplicate_status import WARNED, brings_nothing, earlier_reason
from overlay.duplicates.text_keys import URL, Key, command_keys, command_keys_of, keys_of, other_keys
from overlay.search.facts import same_fact
from overlay.search.query import Hits, Query
from overlay.text.compact_json import decode
from parsers.cards import McpServer

if TYPE_CHECKING:
    from overlay.listings.listing import Shown
    from parsers.reasons import Reason

HINT = (
    "readers see a red badge, unless the domain of the listing names it by its id: x-a2b-id in its "
    "/.well-known/agent.json, or DNS _a2b TXT id=<id>"
)

_CANDIDATES = 50
"""Listings with a name, URL or address among which the first to have it is looked for."""

MOST_SERVERS = 16
"""Servers of a config that are compared."""


class EarlierListings:
    """Compares cards with the listings that a search finds. `owner` is the address that will own the card's listing,
    `registration` the id of the registration that it updates; "" where they are not known."""

    def __init__(self, search: Callable[[Query], Hits], owner: str = "", registration: str = "") -> None:
        self._search, self._owner, self._registration = search, owner, registration
        self._compared = 0

    def reasons(self, card: Shown) -> Sequence[Reason]:
        """A warning for each of name, URL and pay-to addresses that an earlier listing has. Raises EngineError."""
        self._compared += 1
        if self._compared > MOST_SERVERS:
            return ()
        key = card.key.replace("~", "~0").replace("/", "~1") if isinstance(card, McpServer) else None
        return tuple(self._reasons(card, None if key is None else f"/mcpServers/{key}"))

    def _reasons(self, card: Shown, pointer: str | None) -> Iterator[Reason]:
        warned: set[str] = set()
        keys, mine = tuple(other_keys(card)), {*other_keys(card), *command_keys(card)}
        for key in keys:
            item, is_own = (None, False) if key[0] in warned else self._first(key)
            if item is None or (is_own and brings_nothing(key[0], mine, _keys(item))):
                continue
            warned.add(key[0])
            reason = earlier_reason(key[0], item["id"], same_owner=is_own)
            detail = f"{reason.detail} ({HINT})"
            yield reason._replace(detail=detail, pointer=reason.pointer if pointer is None else pointer)

    def _first(self, key: Key) -> tuple[dict[str, Any] | None, bool]:
        """The listing that has a key longest, and whether the card's owner holds it: the earliest registration without
        a warning about the key. None where that is the card's own, or there is none. Items say when a listing was
        registered, not since when it has a key: of two of one owner, the older registration counts."""
        facts = ((same_fact(key[1]),),)
        query = Query(more_facts=facts, with_duplicates=True, sort="created", descending=False, limit=_CANDIDATES)
        items = [item for hit in self._search(query).hits if key in _keys(item := decode(bytes(hit.item)))]
        code, _ = WARNED[key[0]]
        unwarned = [item for item in items if code not in {warning["code"] for warning in item["warnings"]}]
        updated = next((item for item in unwarned if self._is_updated(item)), None)
        owner = self._owner or (updated or {}).get("owner")
        if updated is None:
            first = next((item for item in unwarned or items if not self._is_updated(item)), None)
        elif _is_vouched_for(updated, key[0]):
            first = None
        else:  # an earlier one of its owner has the key longer; it has no warning as it brought nothing, until now
            before = unwarned[: unwarned.index(updated)]
            first = next((item for item in before if owner and item.get("owner") == owner), None)
        return first, first is not None and bool(owner) and first.get("owner") == owner

    def _is_updated(self, item: dict[str, Any]) -> bool:
        return bool(item["id"].partition("#")[0] == self._registration)


def _is_vouched_for(item: dict[str, Any], kind: str) -> bool:
    """Whether the domain of a listing keeps it from warnings about a kind of text key."""
    domain = item["domain"] or {}
    return bool(domain.get("verified")) and (kind == URL or domain.get("by") in ("name", "dns"))


def _keys(item: dict[str, Any]) -> set[Key]:
    keys = keys_of(item["name"], item["url"], (offer["address"] for offer in item["offers"]))
    return {*keys, *command_keys_of(item["command"], item["args"])}
