"""Does an event continue what was known? The laws of registration and update, as far as events alone show them.

Whether the transactions really said so only their bytes can tell; this finds events that cannot be true.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from indexer.model import Event, EventKind, RegistrationState, Status
from parsers import cards
from parsers.cards import is_entry
from parsers.errors import CardError

_LOOSE = frozenset({EventKind.REJECTED, EventKind.POINTED})
_ENDS = {EventKind.BURNED: Status.BURNED, EventKind.UNDECIDED: Status.UNDECIDED}
_NEVER_VALID = frozenset({EventKind.REJECTED, EventKind.INVALID, EventKind.FOREIGN_CONTENT, EventKind.UNDECIDED})
_OF_A_PLACE = re.compile(r"(?:eip155:[0-9]{1,20}:0x[0-9a-f]{40}/|solana:)[0-9A-Za-z:]{1,150}\Z", re.ASCII)
"""Ids that name a place which is not an output: a log, an entry of a registry, an account (laws 8 and 10)."""
_SHOWS_A_CARD = frozenset({EventKind.INSCRIBED, EventKind.REINSCRIBED})


class ContradictionError(Exception):
    """An event that cannot have followed on what was before it."""


def check_event(event: Event, height: int, before: RegistrationState | None, bodies: Mapping[bytes, bytes]) -> None:
    """Check an event of the block at `height` against its registration's state `before` it (None: there was none).

    `bodies` are cards by SHA-256. Raises ContradictionError.
    """
    if event.valid and event.kind in _NEVER_VALID:
        raise ContradictionError(f"{event.kind} is never valid")
    if event.kind in _LOOSE - _of_entries(event) or (event.pointer is not None and event.state is None):
        _expect("state", event.state, None)
        _expect("spent", event.spent, None)
        return
    if event.state is None:
        raise ContradictionError(f"{event.kind} without the state after it")
    if event.kind is EventKind.INSCRIBED and before is not None and not _begins_anew(before):
        raise ContradictionError(f"{before.id} is inscribed a second time")
    expected = _newcomer(event, height) if event.kind is EventKind.INSCRIBED else _successor(event, height, before)
    for name in RegistrationState.__slots__:
        _expect(name, getattr(event.state, name), getattr(expected, name))
    _check_card(event, bodies)


def _expect(name: str, result: object, expected: object) -> None:
    if result != expected:
        raise ContradictionError(f"{name} is {_short(result)}, and follows to be {_short(expected)}")


def _short(value: object) -> str:
    text = value.hex() if isinstance(value, bytes) else str(value)
    return ascii(text[:150])


def _of_entries(event: Event) -> frozenset[EventKind]:
    """Kinds that tell the state after them of entries of registries only: those may have carried their card before."""
    return frozenset({EventKind.POINTED}) if event.state and is_entry(event.state.id) else frozenset()


def _begins_anew(before: RegistrationState) -> bool:
    """An account of Solana that was closed may be opened again, and is then a new registration by the same name."""
    return before.status is Status.BURNED and before.id.startswith("solana:")


def _newcomer(event: Event, height: int) -> RegistrationState:
    """The state that a first record must have; what only the transaction tells is taken from the event."""
    state, outpoint = event.state, event.outpoint
    if state is None or outpoint is None or event.card is None or not event.valid:
        raise ContradictionError("a first record without output or card")
    _expect("spent", event.spent, None)
    id_ = state.id if _OF_A_PLACE.match(state.id) else str(outpoint)
    return replace(
        state, id=id_, status=Status.LIVE, outpoint=outpoint, owner=event.owner, card=event.card, winner=outpoint,
        updated_height=height, created_height=height,
    )  # fmt: skip


def _successor(event: Event, height: int, before: RegistrationState | None) -> RegistrationState:
    """The state that must follow on `before`; the place of the satoshi and its MAP are taken from the event."""
    state = event.state
    if before is None or state is None:
        raise ContradictionError(f"{event.kind} of a registration that is not known")
    if before.status is not Status.LIVE:
        raise ContradictionError(f"{event.kind} after {before.id} was {before.status}")
    _expect("spent", event.spent, before.outpoint)
    if event.kind in _ENDS:
        owner = before.owner if event.kind is EventKind.UNDECIDED else None
        return replace(before, status=_ENDS[event.kind], outpoint=None, offset=0, satoshis=0, owner=owner)
    if event.outpoint is None:
        raise ContradictionError(f"{event.kind} into no output")
    after = replace(
        before, outpoint=event.outpoint, offset=state.offset, satoshis=state.satoshis, owner=event.owner,
        map=_merged(event, state, before),
    )  # fmt: skip
    if event.kind is EventKind.REINSCRIBED:
        if event.card is None:
            raise ContradictionError("a re-inscription without a card")
        kind = state.kind if is_entry(state.id) else before.kind
        return replace(after, kind=kind, card=event.card, winner=event.outpoint, updated_height=height)
    return after


def _merged(event: Event, state: RegistrationState, before: RegistrationState) -> dict[str, str]:
    """MAP as it must be: unchanged where nothing valid was said, else what was there with keys added or changed."""
    if event.kind not in (EventKind.REINSCRIBED, EventKind.MAP_ONLY):
        return before.map
    if not before.map.keys() <= state.map.keys():
        raise ContradictionError("keys of the MAP are lost")
    return state.map


def _check_card(event: Event, bodies: Mapping[bytes, bytes]) -> None:
    """Law 12 is consensus: a card that counts meets every hard rule, and one that is called invalid does not."""
    if event.card is None or event.state is None:
        return
    body = bodies.get(event.card)
    if body is None:
        if event.kind in _SHOWS_A_CARD:
            raise ContradictionError(f"the card {event.card.hex()} is missing")
        return
    try:
        cards.read_of(event.state.id, body, event.state.kind)
    except CardError as error:
        if event.kind in _SHOWS_A_CARD:
            raise ContradictionError(f"the card {event.card.hex()} breaks a rule: {error}") from None
    else:
        if event.kind is EventKind.INVALID:
            raise ContradictionError(f"the card {event.card.hex()} is called invalid and is not")
