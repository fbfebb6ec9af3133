"""The texts of a card that its listing is found by."""

from __future__ import annotations

from collections.abc import Iterable

from parsers.cards import AgentCard, Server


def texts(card: AgentCard | Server) -> Iterable[str]:
    """All of them."""
    yield card.name
    yield card.description
    yield from card.tags
    for skill in card.skills:
        yield from (skill.id, skill.name, skill.description, *skill.tags, *skill.examples)
    yield from more(card)


def more(card: AgentCard | Server) -> Iterable[str]:
    """Those beside name, description, tags and skills."""
    if isinstance(card, Server):
        yield from (card.key, *card.keywords, *card.tools, *card.prompts, *card.resources)
    yield from card.provider.values()
