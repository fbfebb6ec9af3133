"""Revisions of the store become registrations. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from itertools import accumulate, groupby, pairwise
from operator import itemgetter
from typing import Any, NamedTuple

from indexer import store
from indexer.model import Event, EventKind, RegistrationState, Status
from indexer.resolution.pointer_service import PointerListing
from indexer.store.event_codec import event_position
from overlay.listings.card_texts import card_offers, read_card
from overlay.listings.records import PendingRevision, PreviousCard, Registration
from parsers.bitcoin.tx import Outpoint
from parsers.cards import Kind, ToolConfig
from parsers.cards.deprecation import from_map, states_status
from parsers.cards.strict_json import MAX_BYTES
from parsers.reasons import UNPROVED

WINS = (EventKind.INSCRIBED, EventKind.REINSCRIBED)
"""Kinds of events that replace the card of a registration."""

MAX_PREVIOUS = 64
"""Earlier cards with which the current one is compared, at most: those after which an offer or the owner changed."""

MAX_REVISIONS = 1_024
"""Revisions that are searched for these cards."""

CARD_BYTES = 32 << 20
"""Bytes of cards of one registration that are read for its listing, the newest first: of 1 MB, those of 32 revisions.
States with other cards are only in its history."""


class ChainHistory(NamedTuple):
    """The confirmed revisions of a registration on one chain, oldest first, and its unconfirmed events there."""

    chain: str
    confirmed: list[store.Revision]
    waiting: list[Event]


def by_chain(record: store.RegistrationHistory) -> Iterator[ChainHistory]:
    """A registration's confirmed and unconfirmed revisions, chain by chain."""
    for chain in dict.fromkeys(
        [*(past.chain for past in record.confirmed), *(revision.chain for revision in record.pending)]
    ):
        history = [past for past in record.confirmed if past.chain == chain]
        yield ChainHistory(chain, history, [revision.event for revision in record.pending if revision.chain == chain])


def leads_elsewhere(record: store.RegistrationHistory, pointers: PointerListing) -> bool:
    """Whether the newest event of a registration, a registry entry, is a pointer to a fetched card."""
    if not record.confirmed or record.confirmed[-1].event.pointer is None or pointers.resolution is None:
        return False
    winner = winner_of(record.confirmed) or record.confirmed[0]
    return pointers.resolution.anchor.position > event_position(winner.height, winner.event.position)


def winner_of(history: Sequence[store.Revision]) -> store.Revision | None:
    """The winning revision, None where it is in a block before the first stored one."""
    return next((past for past in reversed(history) if past.event.kind in WINS), None)


def cards_to_read(history: ChainHistory) -> dict[bytes, None]:
    """The cards of a history: of its newest state first, then the first one, then the others from the newest on."""
    confirmed = [past.event for past in history.confirmed]
    events = [*reversed(history.waiting), *confirmed[-1:], *confirmed[:1], *reversed(confirmed)]
    return dict.fromkeys(event.state.card for event in events if event.state)


def may_be_too_many(cards: Sized) -> bool:
    """Whether cards may have more than CARD_BYTES together."""
    return len(cards) * MAX_BYTES > CARD_BYTES


def fitting(cards: Iterable[bytes], sizes: Mapping[bytes, int]) -> set[bytes]:
    """The first of these cards that together have CARD_BYTES at most, by the bytes of each."""
    totals = accumulate(sizes.get(card, 0) for card in cards)
    return {card for card, total in zip(cards, totals, strict=True) if total <= CARD_BYTES}


def previous_cards(
    history: Sequence[store.Revision],
    bodies: Mapping[bytes, bytes],
    offers_of: Callable[[bytes, Kind], object] = card_offers,
) -> tuple[PreviousCard, ...]:
    """The earlier cards, oldest first. Of many, neighbours of one owner with the same offers count as one card:
    harmless updates do not displace cards with other offers."""
    winners = [past for past in history if past.event.kind in WINS and past.event.card]
    if len(winners) > MAX_REVISIONS:  # no number of updates drops the first card
        winners = [winners[0], *winners[-MAX_REVISIONS:]]
    previous = [
        (PreviousCard(body=body, owner=before.event.state.owner, replaced_at=after.height), before.event.state.kind)
        for before, after in pairwise(winners)
        if before.event.state is not None and (body := bodies.get(before.event.card or b"")) is not None
    ]
    if len(previous) <= MAX_PREVIOUS:
        return tuple(card for card, _ in previous)
    runs = groupby(previous, lambda row: (row[0].owner, offers_of(row[0].body, row[1])))
    cards = [list(run)[-1][0] for _, run in runs]
    return tuple(cards if len(cards) <= MAX_PREVIOUS else [cards[0], *cards[-MAX_PREVIOUS + 1 :]])


def _card(events: Sequence[Event], bodies: Mapping[bytes, bytes]) -> bytes | None:
    """The card's bytes after these events."""
    state = events[-1].state
    return bodies.get(state.card) if state else None


def newest_registration(
    history: Sequence[store.Revision],
    waiting: Sequence[Event],
    chain: str,
    chains: dict[str, str],
    bodies: Mapping[bytes, bytes],
    checked: Mapping[Outpoint, int],
) -> Registration:
    """The newest state of a registration on a chain, with its unconfirmed events (`waiting`)."""
    if not history:
        return unconfirmed_registration(waiting, chain, chains.get(chain, chain), _card(waiting, bodies))
    body = _card([past.event for past in history], bodies)
    pending, previous = pending_revision(waiting, bodies), previous_cards(history, bodies)
    return registration_at(history, chains, body, checked, pending=pending, previous=previous)


def registration_at(
    history: Sequence[store.Revision],
    chains: dict[str, str],
    body: bytes | None,
    checked: Mapping[Outpoint, int],
    **members: Any,
) -> Registration:
    """The state of a registration after these revisions (oldest first, not empty); `checked` are times at which
    outpoints were seen unspent, `members` further ones of it."""
    newest = history[-1]
    state = newest.event.state
    if state is None:
        raise ValueError("these revisions are not of a registration")
    winner = winner_of(history)
    if winner is None and newest.event.kind is EventKind.UNDECIDED and newest.event.card is not None:
        winner = newest  # its card is shown until the update is attributed to an owner
    return Registration(
        state=state,
        chain=newest.chain,
        caip2=chains.get(newest.chain, newest.chain),
        card_body=body,
        updated_time=winner.time if winner else None,
        # an account that was closed and opened again is a first record again
        created_time=next((past.time for past in history if past.height >= state.created_height), history[0].time),
        signer=winner.event.signer if winner else None,
        undecided=newest.event.reasons[0] if state.status is Status.UNDECIDED and newest.event.reasons else None,
        owner_checked=checked.get(state.outpoint) if state.outpoint else None,
        notice_time=_notice_time(history),
        **members,
    )


def _notice_time(history: Sequence[store.Revision]) -> int | None:
    """The time of the first of these revisions since which the MAP has said that it is deprecated, or that it is not
    any more; None where it says neither."""
    maps = ((past.event.state.map if past.event.state is not None else {}, past.time) for past in reversed(history))
    stated = ((from_map(fields) is not None if states_status(fields) else None, time) for fields, time in maps)
    says, since = next(groupby(stated, itemgetter(0)))
    return None if says is None else min(time for _, time in since)


def unconfirmed_registration(events: Sequence[Event], chain: str, caip2: str, body: bytes | None) -> Registration:
    """The state of a registration without a confirmed event, after its events so far; `body` is its card."""
    state = _state(events)
    winner = next((event for event in reversed(events) if event.kind in WINS), events[0])
    undecided = next((reason for event in events for reason in event.reasons if reason.code == UNPROVED), None)
    if state.status is Status.UNDECIDED and events[-1].reasons:
        undecided = events[-1].reasons[0]
    return Registration(
        state=state,
        chain=chain,
        caip2=caip2,
        card_body=body,
        updated_time=None,
        created_time=None,
        signer=winner.signer,
        undecided=undecided,
    )


def pending_revision(events: Sequence[Event], bodies: Mapping[bytes, bytes]) -> PendingRevision | None:
    """The change that these unconfirmed events would make to a confirmed registration; None without events."""
    if not events:
        return None
    state = _state(events)
    body = bodies.get(state.card)  # None: evicted meanwhile
    card = read_card(state.id, body, state.kind) if body is not None else None
    return PendingRevision(
        outpoint=str(state.outpoint) if state.outpoint else None,
        owner=state.owner,
        is_burned=state.status is Status.BURNED,
        map=state.map,
        cards=card.servers if isinstance(card, ToolConfig) else (card,) if card else None,
    )


def _state(events: Sequence[Event]) -> RegistrationState:
    state = events[-1].state
    if state is None:
        raise ValueError("these events are not of a registration")
    return state
