"""Versions of MCP servers: each revision of a registration with a card is one (MCP Registry v0.1)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import NamedTuple, TypeVar

from indexer.resolution.pointer_service import PointerListing
from overlay.listings.assembler import Revisions
from overlay.listings.from_pointer import card_periods
from overlay.listings.listing import Listing
from overlay.listings.records import HistoryEntry
from overlay.listings.registrations import WINS
from overlay.listings.repository import ListingRepository
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
    the tools' registrations, if they were read before. The cards of one registration are in memory at once."""
    tools = [listing for listing in listings if isinstance(listing.card, McpServer) and listing.confirmed]
    names = names_of(repository, tools)
    histories = repository.histories({tool.state.id for tool in tools if tool.pointers is None}, revisions)
    of_registration = defaultdict[str, list[Listing]](list)
    for tool in tools:
        if tool.id in names:
            of_registration[tool.state.id].append(tool)
    rows: dict[str, list[ServerVersion]] = {}
    for id_, servers in of_registration.items():
        past = _server_history(repository, servers[0], histories.get(id_, ()))
        rows |= {server.id: _versions(server, names[server.id], past) for server in servers}
    return [rows.get(listing.id, []) for listing in listings]


class _ServerHistory(NamedTuple):
    """The revisions of a registration that are read, each with its number from 1, its cards, and when it was burned."""

    revisions: Sequence[tuple[int, HistoryEntry]]
    cards: Mapping[bytes, Mapping[str, McpServer]]
    burned_at: int | None


def _server_history(repository: ListingRepository, listing: Listing, history: Sequence[HistoryEntry]) -> _ServerHistory:
    """The past of a registration, with the servers of its earlier cards by their keys."""
    past = [entry for entry in reversed(history) if entry.time is not None]
    burned_at = next((entry.time for entry in past if entry.event.kind.value == "burned"), None)
    wins = list(enumerate((entry for entry in past if entry.event.kind in WINS and entry.event.card), 1))
    read = compared(wins)
    digests = {entry.event.card or b"" for _, entry in read} - {listing.state.card}
    portions = repository.store.content.card_portions(digests)
    servers = {digest: _servers(body) for bodies in portions for digest, body in bodies.items()}
    return _ServerHistory(read, servers, burned_at)


def _versions(listing: Listing, name: str, past: _ServerHistory) -> list[ServerVersion]:
    pointers = listing.pointers
    revisions = list(_revisions(listing, past) if pointers is None else _pointed(listing, pointers))
    pairs = list(zip(revisions, version_texts(revisions, pointed=pointers is not None), strict=True))
    pairs = pairs[-MAX_VERSIONS:]
    ends = [*(revision.time for revision, _ in pairs[1:]), revisions[-1].time] if revisions else []
    rows = [
        ServerVersion(
            name, text, revision.server, listing, revision.sha256.hex(), revision.time,
            past.burned_at or max(end, listing.notice_time or 0),
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


def _pointed(listing: Listing, pointers: PointerListing) -> Iterator[CardRevision]:
    """The one revision of a server that is listed from pointers."""
    time = listing.updated_time or listing.created_time
    if time is not None and isinstance(listing.card, McpServer):
        number = sum(1 for digest, _ in card_periods(pointers) if digest) or 1
        yield CardRevision(number, listing.card, listing.state.card, time)


def _revisions(listing: Listing, past: _ServerHistory) -> Iterator[CardRevision]:
    """The revisions of a server, oldest first."""
    current = listing.card
    for number, entry in past.revisions:
        digest, event = entry.event.card or b"", entry.event
        key = current.key if isinstance(current, McpServer) else ""
        server = current if digest == listing.state.card else past.cards.get(digest, {}).get(key)
        if isinstance(server, McpServer) and entry.time is not None:
            yield CardRevision(number, server, digest, entry.time, event.txid[::-1].hex(), entry.height)


def _servers(body: bytes) -> dict[str, McpServer]:
    """The servers in an earlier card by their keys; the first of several with one key."""
    config = cards.examine(body, Kind.TOOL).card
    servers = config.servers if isinstance(config, ToolConfig) else ()
    return {server.key: server for server in reversed(servers)}
