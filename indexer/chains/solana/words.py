"""What each account says, and what it said before: a difference between two snapshots is an event (law 8). Pure.

An account is a place of its own: the "transaction" of its events is its address, and the output number is 0. A card in
full is a registration by the name of that place. A pointer that the account holds no longer is taken back by an event
at the same place; another valid pointer there replaces it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256

from indexer.chains import Sayings
from indexer.chains.solana.accounts import Snapshot, shown
from indexer.facts import Event, EventKind, PointerAnchor, State, Status
from parsers import cards, pointer
from parsers.cards import Kind
from parsers.pointer import SOLANA_MARK, Pointer
from parsers.reasons import Reason
from parsers.strict_json import MAX_BYTES
from parsers.tx import Outpoint

WITHDRAWN = Reason("pointer-withdrawn")
_CLOSED = Reason("account-closed")
_POINTS = Reason("account-points")
_KEPT = frozenset({EventKind.INSCRIBED, EventKind.REINSCRIBED, EventKind.INVALID})


@dataclass(slots=True)
class Word:
    """The newest word of an account: the SHA-256 of what it holds where that is known, the live registration that it
    carries, and its pointer with what is wrong with that."""

    digest: bytes | None = None
    state: State | None = None
    pointer: PointerAnchor | None = None
    reasons: tuple[Reason, ...] = ()


class Words:
    """The newest word of every account of a program, as `events` said them. `caip2` is the chain's CAIP-2 id."""

    def __init__(self, caip2: str, events: Iterable[Event] = ()) -> None:
        self._caip2 = caip2
        self._words: dict[bytes, Word] = {}
        self.take(events)

    def take(self, events: Iterable[Event]) -> None:
        """Count these events as happened, in order: the last one about an account tells all."""
        for event in events:
            if event.kind is EventKind.BURNED or WITHDRAWN in event.reasons:
                self._words.pop(event.txid, None)
            else:
                self._words[event.txid] = Word(event.card, event.state, event.pointer, event.reasons)

    def compare(self, seen: Snapshot) -> Sayings:
        """What a snapshot says that was not said before, in order of addresses. It is not counted as happened yet."""
        events: list[Event] = []
        bodies: dict[bytes, bytes] = {}
        changed = 0
        for account in sorted(seen.accounts.keys() | self._words.keys()):
            body = seen.accounts.get(account)
            said = list(self._said(account, body, seen.slot))
            events += [replace(each, position=len(events) + at, tx_index=changed) for at, each in enumerate(said)]
            changed += bool(said)
            if said and body is not None and len(body) <= MAX_BYTES and said[-1].kind in _KEPT:
                bodies[sha256(body).digest()] = body
        return Sayings(tuple(events), bodies, sum(map(len, seen.accounts.values())))

    def missing(self, seen: Snapshot) -> list[bytes]:
        """The accounts that said something that stands, and are not in a snapshot."""
        return [
            account
            for account, word in self._words.items()
            if account not in seen.accounts and (word.state is not None or (word.pointer and not word.reasons))
        ]

    def _said(self, account: bytes, body: bytes | None, slot: int) -> Iterator[Event]:
        word = self._words.get(account, Word())
        if body is None:
            # what was rejected stays known, so that the same again is no news, before and after a restart
            yield from _ended(account, word, _CLOSED)
            return
        digest = sha256(body).digest()
        if digest == word.digest:
            return
        found = pointer.read_solana_account(SOLANA_MARK + body)
        if found is not None and found.body is None:
            yield from _pointed(account, word, found, digest)
            return
        if word.state is None:
            yield from _ended(account, word, _CLOSED)
        yield self._carried(account, word, body, digest, slot)

    def _carried(self, account: bytes, word: Word, body: bytes, digest: bytes, slot: int) -> Event:
        """A card in full, good or bad (laws 4 and 12)."""
        before = word.state
        broken = cards.faults(body, before.kind if before else None)
        if before is None:
            if broken:
                return _event(EventKind.REJECTED, account, card=digest, valid=False, reasons=broken)
            # what is a card at all is a tool when it is one as a tool: a tenth of the time that reading it takes
            kind = Kind.AGENT if cards.faults(body, Kind.TOOL) else Kind.TOOL
            state = self._born(account, kind, digest, slot)
            return _event(EventKind.INSCRIBED, account, card=digest, state=state)
        if not broken:
            after = replace(before, card=digest, updated_height=slot)
            return _event(EventKind.REINSCRIBED, account, card=digest, spent=before.outpoint, state=after)
        said = EventKind.INVALID
        if not cards.faults(body):
            said, broken = EventKind.FOREIGN_CONTENT, (Reason("kind-changed", f"it was registered as {before.kind}"),)
        return _event(
            said, account, card=digest, valid=False, reasons=broken, spent=before.outpoint, state=before
        )  # fmt: skip

    def _born(self, account: bytes, kind: Kind, digest: bytes, slot: int) -> State:
        place = Outpoint(account, 0)
        return State(
            id=f"{self._caip2}:{shown(account)}", kind=kind, status=Status.LIVE, outpoint=place, offset=0, satoshis=0,
            owner=None, map={}, card=digest, winner=place, updated_height=slot, created_height=slot,
        )  # fmt: skip


def _pointed(account: bytes, word: Word, found: Pointer, digest: bytes) -> Iterator[Event]:
    """A pointer, good or bad."""
    anchor = PointerAnchor(id=found.id, domain=found.domain, digest=found.digest, uri=found.uri, form=found.form)
    if (anchor, found.reasons) == (word.pointer, word.reasons):
        word.digest = digest  # taken from the store, or written another way: it need not be read again
        return
    if found.reasons or word.state is not None:
        yield from _ended(account, word, _POINTS)
    yield _event(
        EventKind.POINTED, account, valid=not found.reasons, reasons=found.reasons, pointer=anchor
    )  # fmt: skip


def _ended(account: bytes, word: Word, why: Reason) -> Iterator[Event]:
    """The end of what an account said: nothing where that was not accepted anyway."""
    if word.state is not None:
        after = replace(word.state, status=Status.BURNED, outpoint=None, offset=0, satoshis=0, owner=None)
        yield _event(EventKind.BURNED, account, spent=word.state.outpoint, reasons=(why,), state=after)
    elif word.pointer is not None and not word.reasons:
        yield _event(EventKind.POINTED, account, valid=False, reasons=(WITHDRAWN,), pointer=word.pointer)


def _event(
    kind: EventKind,
    account: bytes,
    *,
    card: bytes | None = None,
    valid: bool = True,
    reasons: tuple[Reason, ...] = (),
    spent: Outpoint | None = None,
    state: State | None = None,
    pointer: PointerAnchor | None = None,
) -> Event:
    return Event(
        kind=kind, position=0, tx_index=0, txid=account, outpoint=Outpoint(account, 0), spent=spent, card=card,
        valid=valid, reasons=reasons, state=state, pointer=pointer,
    )  # fmt: skip
