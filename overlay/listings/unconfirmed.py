"""Unconfirmed events: new registrations, and pending changes of confirmed ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from indexer.model import Event, EventKind, RegistrationState, Status
from overlay.listings.card_texts import read_card
from overlay.listings.records import PendingRevision, Registration
from parsers.cards import ToolConfig
from parsers.reasons import UNPROVED, Reason

WINS = (EventKind.INSCRIBED, EventKind.REINSCRIBED)
"""Kinds of events that replace the card of a registration."""


def unconfirmed_registration(events: Sequence[Event], chain: str, caip2: str, body: bytes | None) -> Registration:
    """The state of a registration without a confirmed event, after its events so far; `body` is its card."""
    state = _state(events)
    winner = next((event for event in reversed(events) if event.kind in WINS), events[0])
    return Registration(
        state=state,
        chain=chain,
        caip2=caip2,
        card_body=body,
        updated_time=None,
        created_time=None,
        signer=winner.signer,
        undecided=_undecided(events, state),
    )


def _undecided(events: Sequence[Event], state: RegistrationState) -> Reason | None:
    """Why it is unknown where the registration is, or whether it will ever be in a block; else None."""
    if state.status is Status.UNDECIDED and events[-1].reasons:
        return events[-1].reasons[0]
    return next((reason for event in events for reason in event.reasons if reason.code == UNPROVED), None)


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
        cards=card.servers if isinstance(card, ToolConfig) else (card,) if card else None,
    )


def _state(events: Sequence[Event]) -> RegistrationState:
    state = events[-1].state
    if state is None:
        raise ValueError("these events are not of a registration")
    return state
