"""The agent card that the host of an inscribed agent serves now, and in what it differs from the inscribed one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from indexer.fetcher.host_names import named_in
from overlay.listings.records import Registration
from parsers import cards
from parsers.cards import AgentCard, Kind
from parsers.cards.offers import Offer
from parsers.cards.price_changes import price_text

MOST = 3
"""Values of each side that a difference names."""

MAX_VALUE = 120
"""Characters of a value."""


def differences(registration: Registration, served: bytes) -> tuple[str, ...]:
    """In what a served card differs from the inscribed one of an agent that its host names: URL, prices, pay-to
    addresses and skills, each with both values. None for a card that cannot be read or may be of another agent of the
    host, and for pointers, whose card is the served one."""
    card = cards.examine(served, Kind.AGENT).card
    if registration.card_body is None or registration.pointers is not None or not isinstance(card, AgentCard):
        return ()
    id_ = registration.state.id
    inscribed = cards.read_of(id_, registration.card_body, registration.state.kind)
    if not isinstance(inscribed, AgentCard):
        return ()
    ids = named_in(served)
    is_of_it = ids == {id_} or (card.url == inscribed.url and (id_ in ids or not ids))
    return tuple(_differences(inscribed, card)) if is_of_it else ()


def paid_elsewhere(registration: Registration, payees: Sequence[str]) -> tuple[str, ...]:
    """In what the addresses that the 402 of an agent names differ from those of its card: none where all are in it."""
    if registration.card_body is None or not payees:
        return ()
    card = cards.read_of(registration.state.id, registration.card_body, registration.state.kind)
    inscribed = _addresses(card.offers) if isinstance(card, AgentCard) else []
    new = [payee for payee in payees if payee not in {address.strip() for address in inscribed}]
    return (f"address: {_text(inscribed)} inscribed, {_text(new)} in its 402",) if new else ()


def _differences(inscribed: AgentCard, served: AgentCard) -> Iterator[str]:
    for what, before, after in (
        ("URL", [inscribed.url], [served.url]),
        ("price", _prices(inscribed.offers), _prices(served.offers)),
        ("address", _addresses(inscribed.offers), _addresses(served.offers)),
        ("skills", sorted({skill.id for skill in inscribed.skills}), sorted({skill.id for skill in served.skills})),
    ):
        gone = [value for value in before if value not in after]
        new = [value for value in after if value not in before]
        if gone or new:
            yield f"{what}: {_text(gone)} inscribed, {_text(new)} served"


def _prices(offers: Sequence[Offer]) -> list[str]:
    return list(dict.fromkeys(map(price_text, offers)))


def _addresses(offers: Sequence[Offer]) -> list[str]:
    return list(dict.fromkeys(offer.address for offer in offers if offer.address))


def _text(values: Sequence[str]) -> str:
    """Some values as text."""
    shown = ", ".join(value[:MAX_VALUE] for value in values[:MOST])
    more = f" and {len(values) - MOST} more" if len(values) > MOST else ""
    return f"{shown}{more}" if values else "nothing else"
