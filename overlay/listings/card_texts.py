"""The texts of a card that are indexed for search, and its offers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from hashlib import blake2b

from overlay.search.analysis import words
from parsers import cards
from parsers.cards import AgentCard, Kind, McpServer, ToolConfig
from parsers.cards.command_packages import installed
from parsers.cards.offers import Offer


def texts(card: AgentCard | McpServer) -> Iterator[str]:
    """All of them."""
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


@lru_cache(maxsize=256)  # the servers of one config and the revisions of one registration need the same offers
@lru_cache(maxsize=72)  # more than the earlier cards of a state, most of which the next state has, too
def card_offers(body: bytes, kind: Kind) -> dict[str, tuple[Offer, ...]]:
    """The offers of a card, of a config by server; none of an unreadable one."""
    card = cards.examine(body, kind).card
    if isinstance(card, ToolConfig):
        return {server.key: server.offers for server in card.servers}
    return {"": card.offers} if card is not None else {}
