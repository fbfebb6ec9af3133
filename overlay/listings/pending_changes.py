"""Changes by an unconfirmed revision to the members of a listing that a reader looks at before paying or running
anything."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from overlay.listings.listing import Listing, Shown, notice_of
from parsers.cards import McpServer
from parsers.cards.deprecation import Deprecation
from parsers.cards.price_changes import changed_addresses, changed_prices, price_text

SUBJECTS = {
    "address": "pay-to address", "owner": "owner", "deprecated": "deprecation", "url": "URL", "command": "command",
    "price": "price", "skills": "skills",
}  # fmt: skip
"""The subjects that are compared, with their words, in the order in which changes are listed: many prices hide no
address."""

MAX_CHANGES, MAX_TEXT = 64, 1_000
"""Changes of an item, and characters of a value in one."""

MAX_IN_SENTENCE, MAX_WORD = 8, 120


class PendingChange(NamedTuple):
    """A value that would change, as texts; None where there is none before or after it."""

    what: str
    before: str | None
    after: str | None


def pending_changes(listings: Sequence[Listing]) -> tuple[PendingChange, ...]:
    """The changes by the unconfirmed revision of a registration's listings."""
    changes = (change for listing in listings for change in _changes(listing))
    return tuple(sorted(dict.fromkeys(changes), key=lambda change: list(SUBJECTS).index(change.what)))


def summary_of(changes: Sequence[PendingChange], *, is_burned: bool) -> str:
    """The changes in a sentence."""
    if is_burned:
        return "It ends the listing: the registration is burned."
    if not changes:
        return f"It changes no {', '.join(list(SUBJECTS.values())[:-1])} or skills."
    more = len(changes) - MAX_IN_SENTENCE
    return f"It {'; '.join(map(_phrase, changes[:MAX_IN_SENTENCE]))}{f'; and {more} more changes' if more > 0 else ''}."


def _phrase(change: PendingChange) -> str:
    subject, before, after = SUBJECTS[change.what], _cut(change.before, MAX_WORD), _cut(change.after, MAX_WORD)
    if before and after:
        return f"changes the {subject} from {before} to {after}"
    return f"adds the {subject} {after}" if after else f"drops the {subject} {before}"


def _changes(listing: Listing) -> Iterator[PendingChange]:
    pending = listing.pending
    if pending is None:
        return
    values = [("owner", listing.owner, pending.owner)]
    if pending.cards is not None and not pending.is_burned:
        card = _same(listing, pending.cards)
        values += _of_cards(listing.card, card)
        values.append(("deprecated", notice_text(listing.deprecation), notice_text(notice_of(pending.map, card))))
    yield from _differing(values)


def _differing(values: Iterable[tuple[str, str | None, str | None]]) -> Iterator[PendingChange]:
    for what, before, after in values:
        if (before or None) != (after or None):
            yield PendingChange(what, _cut(before, MAX_TEXT), _cut(after, MAX_TEXT))


def card_changes(before: Sequence[Shown], after: Sequence[Shown]) -> Iterator[PendingChange]:
    """The changes from the agent or the servers of a card to those of a later one; servers are compared by their keys,
    unless each card has one."""
    keys = {_key(card, len(after)): card for card in after}
    for card in before:
        yield from _differing(_of_cards(card, keys.pop(_key(card, len(before)), None)))
    for card in keys.values():
        yield from _differing((("url", None, card.url), ("command", None, _command(card))))


def _key(card: Shown, count: int) -> str:
    return card.key if isinstance(card, McpServer) and count > 1 else ""


def _same(listing: Listing, cards: Sequence[Shown]) -> Shown | None:
    """The card of a revision that the listing would have, None for a server that is removed."""
    if len(cards) == listing.count == 1:
        return cards[0]
    key = listing.card.key if isinstance(listing.card, McpServer) else ""
    return next((card for card in cards if isinstance(card, McpServer) and card.key == key), None)


def _of_cards(before: Shown, after: Shown | None) -> Iterator[tuple[str, str | None, str | None]]:
    offers = after.offers if after else ()
    removed, added = changed_addresses(before.offers, offers)
    yield "address", ", ".join(removed), ", ".join(added)
    yield "url", before.url, after.url if after else None
    yield "command", _command(before), _command(after)
    for old, new in changed_prices(before.offers, offers):
        yield "price", price_text(old) if old else None, price_text(new) if new else None
    old_skills, new_skills = _skills(before), _skills(after)
    if set(old_skills) != set(new_skills):
        yield "skills", ", ".join(old_skills), ", ".join(new_skills)


def notice_text(notice: Deprecation | None) -> str | None:
    """A notice of deprecation in words, None without one."""
    if notice is None:
        return None
    return ": ".join(filter(None, (f"use {notice.successor}" if notice.successor else "", notice.message))) or "yes"


def _command(card: Shown | None) -> str | None:
    return shlex.join([card.command, *card.args]) if isinstance(card, McpServer) and card.command else None


def _skills(card: Shown | None) -> list[str]:
    return [skill.id for skill in card.skills] if card else []


def _cut(value: str | None, most: int) -> str | None:
    return f"{value[:most]}…" if value and len(value) > most else value or None
