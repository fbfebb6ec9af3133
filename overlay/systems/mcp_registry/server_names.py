"""Names of MCP servers: `network.a2b.<first 12 hex digits of the origin's txid>/<server's key>`.

The origin never changes, so names survive updates and transfers. All names are in this registry's own namespace and
state no other domain. Where the txids of registrations begin alike, the oldest has the short name, the others have the
whole txid.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from urllib.parse import unquote

from overlay.listings import lookup
from overlay.listings.listing import Listing
from overlay.listings.repository import ListingRepository
from overlay.systems.mcp_registry.official_rules import name_part
from parsers.cards import Kind, McpServer

NAMESPACE = "network.a2b."
MAX_NAME, MAX_SLUG = 200, 80
SHORT = 12
"""Hex digits of a txid in a name."""

MOST_ALIKE = 16
"""Tools with ids that begin alike that are compared, at most."""

_OUTPOINT = re.compile(r"([0-9a-f]{64})_([0-9]{1,10})")
_LABEL = re.compile(rf"([0-9a-f]{{{SHORT},64}})(?:\.([0-9]{{1,10}}))?")
_HASHED = re.compile(r".*-[0-9a-f]{8}")
"""Keys that look like the name of another one, with its hash."""

_ESCAPE = re.compile(r"-([0-9a-f]{2})")


def names_of(repository: ListingRepository, listings: Iterable[Listing]) -> dict[str, str]:
    """The names of tools by the ids of their listings, in one read. An id that is too long for a name is left out."""
    labels = {listing.id: _label(listing.state.id) for listing in listings}
    first = oldest(repository, labels.values())
    named = {listing.id: _name(listing, labels[listing.id], first) for listing in listings}
    return {id_: name for id_, name in named.items() if len(name) <= MAX_NAME}


def _name(listing: Listing, label: str, first: Mapping[str, str]) -> str:
    registration = listing.state.id
    if (outpoint := _OUTPOINT.fullmatch(registration)) and first.get(label, registration) != registration:
        label = outpoint[1] + label[SHORT:]
    return f"{NAMESPACE}{label}/{slug(listing)}"


def _label(registration: str) -> str:
    if outpoint := _OUTPOINT.fullmatch(registration):
        return outpoint[1][:SHORT] + ("" if outpoint[2] == "0" else f".{outpoint[2]}")
    label = "id." + "".join(
        chr(byte) if byte < 128 and (chr(byte).isalnum() or byte == ord(".")) else f"-{byte:02x}"
        for byte in registration.encode()
    )
    return f"{label[:-1]}-2e" if label.endswith(".") else label  # a namespace ends with a letter or digit


def slug(listing: Listing) -> str:
    """The part of a name after the slash. The servers of one config differ by a hash of the characters that are
    lost."""
    key = listing.card.key if isinstance(listing.card, McpServer) else ""
    text = name_part(name_part(key)[:MAX_SLUG])
    if listing.count > 1 and (text != key or _HASHED.fullmatch(key)):
        text += f"-{sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    return text


def oldest(repository: ListingRepository, labels: Iterable[str]) -> dict[str, str]:
    """The oldest tools in a block by label: a label like `0123456789ab.1` abbreviates the outpoint."""
    parsed = {label: parts for label in labels if (parts := _LABEL.fullmatch(label))}
    prefixes = (parts[1] for parts in parsed.values())
    tools = repository.store.history.with_prefixes(prefixes, Kind.TOOL, MOST_ALIKE)
    first = {}
    for label, parts in parsed.items():
        ending = f"_{parts[2] or 0}"
        first[label] = next((id_ for id_ in tools.get(parts[1], ()) if id_.endswith(ending)), "")
    return {label: id_ for label, id_ in first.items() if id_}


def listings_named(repository: ListingRepository, text: str) -> list[Listing]:
    """The listings with a name, or all of a namespace where it has no slash. Raises ListingNotFoundError."""
    namespace, separator, name = text.partition("/")
    label = namespace.removeprefix(NAMESPACE)
    registration: str | None = None
    if label != namespace:
        registration = _unescaped(label[3:]) if label.startswith("id.") else oldest(repository, [label]).get(label)
    if registration is None:
        raise lookup.ListingNotFoundError(f"no server has the name {text[:MAX_NAME]!a}")
    listings = [
        listing
        for listing in lookup.listings(repository, registration)
        if isinstance(listing.card, McpServer) and (not separator or slug(listing) == name)
    ]
    if not listings:
        raise lookup.ListingNotFoundError(f"{namespace[:MAX_NAME]!a} has no server of the name {name[:MAX_NAME]!a}")
    return listings


def _unescaped(label: str) -> str:
    raw = _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), label)
    return unquote(raw.encode("latin-1", "replace").decode("utf-8", "replace"), errors="replace") if raw else ""
