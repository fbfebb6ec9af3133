"""The texts of a card that its listing is found by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b

from overlay.search.analysis import words
from parsers.cards import AgentCard, Server


def texts(card: AgentCard | Server) -> Iterator[str]:
    """All of them."""
    yield card.name
    yield card.description
    yield from card.tags
    for skill in card.skills:
        yield from (skill.id, skill.name, skill.description, *skill.tags, *skill.examples)
    yield from more(card)


def wording(card: AgentCard | Server) -> bytes:
    """A digest of every word of a card, of how often it is in the name and in other texts, and of the skills that only
    prices name, by which it is found, too: 128 bits of BLAKE2b. Order and punctuation make no difference, and neither
    do prices."""
    name, *others = texts(card)
    said = sorted([f"name {word}" for word in words(name)] + [word for text in others for word in words(text)])
    named = {id_ for offer in card.offers for id_ in offer.skill_ids or ()}
    said += sorted(map(repr, named.difference(skill.id for skill in card.skills)))
    return blake2b("\n".join(said).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def more(card: AgentCard | Server) -> Iterable[str]:
    """Those beside name, description, tags and skills."""
    if isinstance(card, Server):
        yield from (card.key, *card.keywords, *card.tools, *card.prompts, *card.resources)
    yield from card.provider.values()
