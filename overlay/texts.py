"""The texts of a card that its listing is found by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b

from overlay.search.ranking import weighed
from overlay.search.text import words
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
    """A digest of every index term of a card, of how often it is said in texts of which weight (`ranking.texts`), and
    of the skills that only prices name, by which it is found, too: 128 bits of BLAKE2b. Order and punctuation make no
    difference, and neither do prices."""
    said = sorted(f"{weight} {word}" for weight, text in weighed(card, more(card)) for word in words(text))
    named = {id_ for offer in card.offers for id_ in offer.skill_ids or ()}
    said += sorted(map(repr, named.difference(skill.id for skill in card.skills)))
    return blake2b("\n".join(said).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def more(card: AgentCard | Server) -> Iterable[str]:
    """Those beside name, description, tags and skills."""
    if isinstance(card, Server):
        yield from (card.key, *card.keywords, *card.tools, *card.prompts, *card.resources)
    yield from card.provider.values()
