"""The texts of a card that its listing is found by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b

from overlay.search.text import words
from parsers.cards import AgentCard, Server


def texts(card: AgentCard | Server) -> Iterator[str]:
    """All of them."""
    yield from (text for _, text in _texts(card))


def wording(card: AgentCard | Server) -> bytes:
    """A digest of every index term of a card and of how often which kind of text says it: 128 bits of BLAKE2b. Order
    and punctuation make no difference."""
    said = sorted(f"{kind}\0{word}" for kind, text in _texts(card) for word in words(text))
    return blake2b("\n".join(said).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _texts(card: AgentCard | Server) -> Iterator[tuple[str, str]]:
    """Each with its kind."""
    yield "name", card.name
    yield "description", card.description
    yield from (("tag", tag) for tag in card.tags)
    for skill in card.skills:
        yield from (("skill", skill.id), ("skill name", skill.name), ("description", skill.description))
        yield from (("skill tag", tag) for tag in skill.tags)
        yield from (("example", example) for example in skill.examples)
    yield from (("word", word) for word in more(card))


def more(card: AgentCard | Server) -> Iterable[str]:
    """Those beside name, description, tags and skills."""
    if isinstance(card, Server):
        yield from (card.key, *card.keywords, *card.tools, *card.prompts, *card.resources)
    yield from card.provider.values()
