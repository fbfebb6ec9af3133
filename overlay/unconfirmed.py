"""What is not in a block yet, as it is shown: newcomers, and what would change of a listing that is in one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from indexer.facts import Event, EventKind, State, Status
from overlay.ports import Listing, Pending
from parsers import cards
from parsers.cards import ToolConfig, summary

WINS = (EventKind.INSCRIBED, EventKind.REINSCRIBED)
"""The events whose card is shown from then on."""


def newcomer(events: Sequence[Event], chain: str, caip2: str, body: bytes | None) -> Listing:
    """A registration that is in no block yet, as its events so far say it would stand; `body` is its card's."""
    state = _state(events)
    winner = next((event for event in reversed(events) if event.kind in WINS), events[0])
    return Listing(
        state=state,
        chain=chain,
        caip2=caip2,
        card_body=body,
        updated_time=None,
        created_time=None,
        signer=winner.signer,
        undecided=events[-1].reasons[0] if state.status is Status.UNDECIDED and events[-1].reasons else None,
    )


def beside(events: Sequence[Event], bodies: Mapping[bytes, bytes]) -> Pending | None:
    """What these unconfirmed events would change of a listing; None when there are none."""
    if not events:
        return None
    state = _state(events)
    outpoint = str(state.outpoint) if state.outpoint else None
    body = bodies.get(state.card)
    if body is None:  # evicted since it was asked for
        return Pending(outpoint=outpoint, summary="")
    card = cards.read(body, state.kind)
    if isinstance(card, ToolConfig):
        servers = {server.key: summary(server.description) for server in card.servers}
        return Pending(outpoint=outpoint, summary=next(iter(servers.values())), servers=servers)
    return Pending(outpoint=outpoint, summary=summary(card.description))


def _state(events: Sequence[Event]) -> State:
    state = events[-1].state
    if state is None:
        raise ValueError("these events are not of a registration")
    return state
