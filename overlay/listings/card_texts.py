"""A card read from its bytes, the texts of it that are indexed for search, and its offers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from hashlib import blake2b

from overlay.search.analysis import words
from overlay.search.memo import cached_if
from parsers import cards
from parsers.cards import AgentCard, Card, Kind, McpServer, ToolConfig, is_entry
from parsers.cards.command_packages import installed
from parsers.cards.offers import Offer


def texts(card: AgentCard | McpServer) -> Iterator[str]:
    """All texts of a card that are searched."""
    yield card.name
    yield card.description
    yield from card.tags
    for skill in card.skills:
        yield from (skill.id, skill.name, skill.description, *skill.tags, *skill.examples)
    yield from more(card)


def wording(card: AgentCard | McpServer) -> bytes:
    """A digest of the words of a card with their counts in the name and in other texts, and of the skills that only
    offers name, which are searchable, too: 128 bits of BLAKE2b. Word order, punctuation and prices make no
    difference."""
    name, *others = texts(card)
    digests = sorted([f"name {word}" for word in words(name)] + [word for text in others for word in words(text)])
    named = {id_ for offer in card.offers for id_ in offer.skill_ids or ()}
    digests += sorted(map(repr, named.difference(skill.id for skill in card.skills)))
    return blake2b("\n".join(digests).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def more(card: AgentCard | McpServer) -> Iterable[str]:
    """The texts of a card other than name, description, tags and skills."""
    if isinstance(card, McpServer):
        yield from (card.key, *card.keywords, *card.tools, *card.prompts, *card.resources)
        if run := installed(card.command, card.args):
            yield run.name
    yield from card.provider.values()


CACHED_CARD, CACHED_CARDS = 16_384, 256
"""Bytes of a card that is kept parsed, and how many are. Parsing takes 40 % of the time of a page of ten tools of the
MCP Registry API (2026-11-25); the servers of one config and the revisions of one registration have the same card."""

LARGE_CARDS = 32
"""Larger cards whose offers are kept, with the bytes of the cards: of 1 MB as many as one listing is read with
(`registrations.CARD_BYTES`), since each of its states is compared with all earlier ones."""


def read_card(id_: str, body: bytes, kind: Kind) -> Card:
    """The card of a registration. How a registry entry is parsed depends on its id, any other card only on its bytes.
    Raises CardError."""
    return _read(id_ if is_entry(id_) else "", body, kind)


_read = cached_if(lambda _id, body, _kind: len(body) <= CACHED_CARD, CACHED_CARDS)(cards.read_of)


def card_offers(body: bytes, kind: Kind) -> dict[str, tuple[Offer, ...]]:
    """The offers of a card, for a config by server; empty for an unreadable card."""
    return (_offers_again if len(body) <= CACHED_CARD else _large_offers_again)(body, kind)


def _offers(body: bytes, kind: Kind) -> dict[str, tuple[Offer, ...]]:
    card = cards.examine(body, kind).card
    if isinstance(card, ToolConfig):
        return {server.key: server.offers for server in card.servers}
    return {"": card.offers} if card is not None else {}


_offers_again, _large_offers_again = lru_cache(CACHED_CARDS)(_offers), lru_cache(LARGE_CARDS)(_offers)
