"""The state of each account of a program, and the events that a new snapshot adds (law 8). Pure.

An account is its own location: the "transaction" of its events is its address, the output number is 0. A card in full
is a registration with the account's id. A pointer that the account no longer holds is withdrawn by an event at the same
place; another valid pointer there replaces it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256

from indexer.chains import BlockEvents
from indexer.chains.solana.accounts import Snapshot
from indexer.model import Event, EventKind, PointerAnchor, RegistrationState, Status
from parsers import cards
from parsers.bitcoin import base58
from parsers.bitcoin.tx import Outpoint
from parsers.cards import Kind
from parsers.cards.strict_json import MAX_BYTES
from parsers.pointers import pointer
from parsers.pointers.pointer import SOLANA_MARK, Pointer
from parsers.reasons import Reason

WITHDRAWN = Reason("pointer-withdrawn")
_CLOSED = Reason("account-closed")
_POINTS = Reason("account-points")
_WITH_BODY = frozenset({EventKind.INSCRIBED, EventKind.REINSCRIBED, EventKind.INVALID})


@dataclass(slots=True)
class Account:
    """The newest state of an account: the SHA-256 of its data if known, the live registration it carries, and its
    pointer with the reasons why that is invalid."""

    digest: bytes | None = None
    state: RegistrationState | None = None
    pointer: PointerAnchor | None = None
    reasons: tuple[Reason, ...] = ()


class AccountState:
    """The state of every account of a program after `events`. `caip2` is the chain's CAIP-2 id."""

    def __init__(self, caip2: str, events: Iterable[Event] = ()) -> None:
        self._caip2 = caip2
        self._accounts: dict[bytes, Account] = {}
        self.apply(events)

    def apply(self, events: Iterable[Event]) -> None:
        """Apply events in order; the last one about an account determines its state."""
        for event in events:
            if event.kind is EventKind.BURNED or WITHDRAWN in event.reasons:
                self._accounts.pop(event.txid, None)
            else:
                self._accounts[event.txid] = Account(event.card, event.state, event.pointer, event.reasons)

    def compare(self, snapshot: Snapshot) -> BlockEvents:
        """The events of a snapshot, in order of addresses; they are not applied yet."""
        events: list[Event] = []
        bodies: dict[bytes, bytes] = {}
        changed = 0
        for address in sorted(snapshot.accounts.keys() | self._accounts.keys()):
            body = snapshot.accounts.get(address)
            new = list(self._events(address, body, snapshot.slot))
            events += [
                replace(event, position=len(events) + index, tx_index=changed) for index, event in enumerate(new)
            ]
            changed += bool(new)
            if new and body is not None and len(body) <= MAX_BYTES and new[-1].kind in _WITH_BODY:
                bodies[sha256(body).digest()] = body
        return BlockEvents(tuple(events), bodies, sum(map(len, snapshot.accounts.values())))

    def missing(self, snapshot: Snapshot) -> list[bytes]:
        """The accounts with a live registration or valid pointer that are not in a snapshot."""
        return [
            address
            for address, account in self._accounts.items()
            if address not in snapshot.accounts
            and (account.state is not None or (account.pointer and not account.reasons))
        ]

    def _events(self, address: bytes, body: bytes | None, slot: int) -> Iterator[Event]:
        account = self._accounts.get(address, Account())
        if body is None:
            # a rejected body stays known, so that the same body again makes no event, before and after a restart
            yield from _end(address, account, _CLOSED)
            return
        digest = sha256(body).digest()
        if digest == account.digest:
            return
        parsed = pointer.read_solana_account(SOLANA_MARK + body)
        if parsed is not None and parsed.body is None:
            yield from _point(address, account, parsed, digest)
            return
        if account.state is None:
            yield from _end(address, account, _CLOSED)
        yield self._card(address, account, body, digest, slot)

    def _card(self, address: bytes, account: Account, body: bytes, digest: bytes, slot: int) -> Event:
        """The event of a card in full, valid or not (laws 4 and 12)."""
        before = account.state
        faults = cards.faults(body, before.kind if before else None)
        if before is None:
            if faults:
                return _event(EventKind.REJECTED, address, card=digest, valid=False, reasons=faults)
            # checking a valid card as a tool takes a tenth of the time of parsing it
            kind = Kind.AGENT if cards.faults(body, Kind.TOOL) else Kind.TOOL
            identity = f"{self._caip2}:{base58.encode(address)}"
            state = RegistrationState.begun(identity, kind, digest, Outpoint(address, 0), slot)
            return _event(EventKind.INSCRIBED, address, card=digest, state=state)
        if not faults:
            after = replace(before, card=digest, updated_height=slot)
            return _event(EventKind.REINSCRIBED, address, card=digest, spent=before.outpoint, state=after)
        event_kind = EventKind.INVALID
        if not cards.faults(body):
            event_kind = EventKind.FOREIGN_CONTENT
            faults = (Reason("kind-changed", f"it was registered as {before.kind}"),)
        return _event(
            event_kind, address, card=digest, valid=False, reasons=faults, spent=before.outpoint, state=before
        )  # fmt: skip


def _point(address: bytes, account: Account, parsed: Pointer, digest: bytes) -> Iterator[Event]:
    """The events of a pointer, valid or not."""
    anchor = PointerAnchor(id=parsed.id, domain=parsed.domain, digest=parsed.digest, uri=parsed.uri, form=parsed.form)
    if (anchor, parsed.reasons) == (account.pointer, account.reasons):
        account.digest = digest  # loaded from the store, or formatted differently: skip the parsing next time
        return
    if parsed.reasons or account.state is not None:
        yield from _end(address, account, _POINTS)
    yield _event(EventKind.POINTED, address, valid=not parsed.reasons, reasons=parsed.reasons, pointer=anchor)


def _end(address: bytes, account: Account, reason: Reason) -> Iterator[Event]:
    """The event that ends a registration or withdraws a valid pointer; nothing for an account with neither."""
    if account.state is not None:
        after = replace(account.state, status=Status.BURNED, outpoint=None, offset=0, satoshis=0, owner=None)
        yield _event(EventKind.BURNED, address, spent=account.state.outpoint, reasons=(reason,), state=after)
    elif account.pointer is not None and not account.reasons:
        yield _event(EventKind.POINTED, address, valid=False, reasons=(WITHDRAWN,), pointer=account.pointer)


def _event(
    kind: EventKind,
    address: bytes,
    *,
    card: bytes | None = None,
    valid: bool = True,
    reasons: tuple[Reason, ...] = (),
    spent: Outpoint | None = None,
    state: RegistrationState | None = None,
    pointer: PointerAnchor | None = None,
) -> Event:
    return Event(
        kind=kind, position=0, tx_index=0, txid=address, outpoint=Outpoint(address, 0), spent=spent, card=card,
        valid=valid, reasons=reasons, state=state, pointer=pointer,
    )  # fmt: skip
