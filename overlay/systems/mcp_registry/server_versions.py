"""Versions of MCP servers: each revision of a registration with a card is one (MCP Registry v0.1)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import NamedTuple, TypeVar

from overlay.listings.assembler import Revisions
from overlay.listings.from_pointer import card_periods
from overlay.listings.listing import Listing
from overlay.listings.records import HistoryEntry
from overlay.listings.repository import ListingRepository
from overlay.listings.unconfirmed import WINS
from overlay.systems.mcp_registry.official_rules import is_version
from overlay.systems.mcp_registry.server_names import names_of
from parsers import cards
from parsers.cards import Kind, McpServer, ToolConfig

MAX_VERSIONS = 64
"""Versions of a server that are listed: the newest."""

T = TypeVar("T")


class ServerVersion(NamedTuple):
    """One version of a server: the server by its revision, and when it was published and last changed status (seconds
    since 1970). `txid` and `height` are those of the revision, None for the card of a pointer."""

    name: str
    version: str
    server: McpServer
    listing: Listing
    sha256: str
    published: int
    changed: int
    latest: bool
    txid: str | None = None
    height: int | None = None

    @property
    def deleted(self) -> bool:
        """Whether the registration is burned."""
        return self.listing.status == "burned"


class CardRevision(NamedTuple):
    """A revision with the server in its card: its number from 1, when it was published (seconds since 1970), and its
    transaction and block, None for the card of a pointer."""

    number: int
    server: McpServer
    sha256: bytes
    time: int
    txid: str | None = None
    height: int | None = None


def versions(
    repository: ListingRepository, listings: Sequence[Listing], revisions: Revisions | None = None
) -> list[list[ServerVersion]]:
    """The versions of each of these tools, the newest first; empty for an unconfirmed tool. `revisions` are those of
    the tools' registrations, if they were read before."""
    tools = [listing for listing in listings if isinstance(listing.card, McpServer) and listing.confirmed]
    names = names_of(repository, tools)
    named = {tool.state.id for tool in tools if tool.pointers is None and tool.id in names}
    histories = repository.histories(named, revisions)
    return [
        _versions(repository, listing, names[listing.id], listing.card, histories.get(listing.state.id, ()))
        if listing.id in names and isinstance(listing.card, McpServer)
        else []
        for listing in listings
    ]


def _versions(
    repository: ListingRepository, listing: Listing, name: str, server: McpServer, history: Sequence[HistoryEntry]
) -> list[ServerVersion]:
    revisions, burned_at = _revisions(repository, listing, server, history)
    pairs = list(zip(revisions, version_texts(revisions, pointed=listing.pointers is not None), strict=True))
    pairs = pairs[-MAX_VERSIONS:]
    ends = [*(revision.time for revision, _ in pairs[1:]), revisions[-1].time] if revisions else []
    rows = [
        ServerVersion(
            name, text, revision.server, listing, revision.sha256.hex(), revision.time, burned_at or end,
            revision is revisions[-1], revision.txid, revision.height,
        )
        for (revision, text), end in zip(pairs, ends, strict=True)
    ]  # fmt: skip
    return rows[::-1]


def version_texts(revisions: Sequence[CardRevision], *, pointed: bool) -> list[str]:
    """The version of each revision: no two are the same, and none changes when others follow.

    It is the text of the card where no earlier revision has the same text, else `0.0.` and its number, or the next free
    number. From the 65th revision on, not all predecessors are compared: the version is the text and the number, or the
    text and the card's hash where a pointer had other cards before.
    """
    texts: list[str] = []
    for revision in revisions:
        text = revision.server.version if is_version(revision.server.version) else ""
        if revision.number > (1 if pointed else MAX_VERSIONS):
            suffix = revision.sha256.hex()[:12] if pointed else str(revision.number)
            text = f"{text or '0.0.0'}{'.' if '+' in text else '+'}{suffix}"
            while text in texts:
                text += f".{suffix}"
        elif not text or text in texts:
            text = next(free for n in count(revision.number) if (free := f"0.0.{n}") not in texts)
        texts.append(text)
    return texts


def compared(revisions: Sequence[T]) -> Sequence[T]:
    """The revisions that are read: the oldest, which may have any version, and the newest, which are listed."""
    return [*revisions[:MAX_VERSIONS], *revisions[MAX_VERSIONS:][-MAX_VERSIONS:]]


def _revisions(
    repository: ListingRepository, listing: Listing, server: McpServer, history: Sequence[HistoryEntry]
) -> tuple[Sequence[CardRevision], int | None]:
    """The revisions of a server, oldest first, and when its registration was burned."""
    if listing.pointers is not None:
        time = listing.updated_time or listing.created_time
        number = sum(1 for digest, _ in card_periods(listing.pointers) if digest) or 1
        return [CardRevision(number, server, listing.state.card, time)] if time is not None else [], None
    past = [entry for entry in reversed(history) if entry.time is not None]
    burned_at = next((entry.time for entry in past if entry.event.kind.value == "burned"), None)
    wins = list(enumerate((entry for entry in past if entry.event.kind in WINS and entry.event.card), 1))
    read = compared(wins)
    bodies = repository.cards({entry.event.card or b"" for _, entry in read} - {listing.state.card})
    revisions = []
    for number, entry in read:
        digest, event = entry.event.card or b"", entry.event
        version = server if digest == listing.state.card else _server(bodies.get(digest), server.key)
        if version is not None and entry.time is not None:
            revisions.append(CardRevision(number, version, digest, entry.time, event.txid[::-1].hex(), entry.height))
    return revisions, burned_at


def _server(body: bytes | None, key: str) -> McpServer | None:
    """The server with a key in an earlier card."""
    config = cards.examine(body, Kind.TOOL).card if body is not None else None
    servers = config.servers if isinstance(config, ToolConfig) else ()
    return next((server for server in servers if server.key == key), None)
