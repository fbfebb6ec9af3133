"""What the logs of one block say about the entries of an identity registry, given where they stood before. Pure.

An entry is a place of its own: only the registry's contract writes under its name. A registration file on chain is a
registration by that name, with every later file a revision (law 4); a file elsewhere is a pointer by that name, also of
an entry that once carried its file on chain. Whether it is an agent or a tool each file says for itself. Within a
transaction, who owns an entry and what metadata it has is settled first, and told with what the transaction says of its
URI: the contract logs one registration in three parts. Metadata is kept from when an entry carries its file on chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, NamedTuple

from indexer.chains import Sayings
from indexer.chains.evm.answers import Log
from indexer.facts import Event, EventKind, PointerAnchor, State, Status
from parsers import cards, erc8004
from parsers.cards import Kind
from parsers.erc8004 import Carried, MetadataSet, Registered, Transfer, UriUpdated
from parsers.errors import CardError, ParseError
from parsers.locator import MAX_URI, Locator
from parsers.reasons import Reason
from parsers.strict_json import MAX_BYTES
from parsers.tx import Outpoint

MAX_KEYS = 64
MAX_KEY, MAX_VALUE = 256, 1024
"""Bytes of a metadata key and value that are kept; longer ones stay on chain."""

WALLET = "agentWallet"
BURNED = Reason("entry-burned")


@dataclass(frozen=True, slots=True)
class Entry:
    """Where an entry stands: its owner; its registration, if it ever carried its file on chain; and its pointer, unless
    a file on chain came after it, with what is wrong with that where there is no registration."""

    owner: str | None = None
    state: State | None = None
    pointer: PointerAnchor | None = None
    reasons: tuple[Reason, ...] = ()

    @classmethod
    def after(cls, event: Event | None) -> Entry:
        """Where the entry stands that `event` was the last to speak of; None: nothing has been said of it."""
        return cls(event.owner, event.state, event.pointer, event.reasons) if event else cls()

    @property
    def ended(self) -> bool:
        """Whether it was burned: nothing is said of it any more."""
        return BURNED in self.reasons


def _place(log: Log) -> Outpoint:
    """Where a log stands, as an outpoint."""
    return Outpoint(log.txid, log.log_index)


@dataclass(slots=True)
class _Step:
    """What one transaction said of one entry."""

    uris: list[tuple[Log, bytes]] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)
    owner: str | None = None
    owned: bool = False
    burned: Log | None = None
    last: Log | None = None

    def take(self, log: Log, record: erc8004.Record) -> None:
        if self.burned is not None:
            return  # the contract has nothing more to say of it
        self.last = log
        match record:
            case Registered():
                self.uris.append((log, record.uri))
                self.owner, self.owned = record.owner, True
            case UriUpdated():
                self.uris.append((log, record.uri))
            case MetadataSet():
                self.metadata |= _told(record)
            case Transfer():
                self.owner, self.owned = record.owner, True
                self.burned = log if record.owner is None else None


def agents(logs: Iterable[Log]) -> Iterator[int]:
    """The numbers of the entries that these logs speak of."""
    for log in logs:
        record = _record(log)
        if record is not None and not isinstance(record, Reason):
            yield record.agent


class Block(NamedTuple):
    """A block of a chain with a registry: CAIP-2 name, address of the contract, height."""

    caip2: str
    registry: str
    height: int


def say(block: Block, logs: Sequence[Log], stood: MutableMapping[str, Entry]) -> Sayings:
    """What the logs of a block say, in order; `stood` (by id, law 10) is brought up to date with it."""
    events: list[Event] = []
    bodies: dict[bytes, bytes] = {}
    steps: dict[tuple[bytes, int], _Step] = {}
    for log in logs:
        record = _record(log)
        if isinstance(record, Reason):
            events.append(_event(EventKind.REJECTED, log, None, reasons=(record,), valid=False))
        elif record is not None:
            steps.setdefault((log.txid, record.agent), _Step()).take(log, record)
    for (_, agent), step in steps.items():
        id_ = erc8004.entry_id(block.caip2, block.registry, agent)
        teller = _Teller(id_, block.height, stood.get(id_, Entry()), step, bodies)
        events += teller.events()
        stood[id_] = teller.entry
    told = tuple(replace(event, position=at) for at, event in enumerate(events))
    return Sayings(told, bodies, sum(len(log.data) + 32 * len(log.topics) for log in logs))


def _record(log: Log) -> erc8004.Record | Reason | None:
    try:
        return erc8004.read_log(log.topics, log.data)
    except ParseError as error:
        return Reason("pointer-encoding", str(error))


def _told(record: MetadataSet) -> dict[str, str]:
    """A key and its value as text, where they are short enough to be kept: bytes that are no text as 0x and hex."""
    key = _text(record.key)
    if key is None or not 0 < len(record.key) <= MAX_KEY or len(record.value) > MAX_VALUE:
        return {}
    text = None if key == WALLET and record.value else _text(record.value)
    return {key: f"0x{record.value.hex()}" if text is None else text}


def _text(raw: bytes) -> str | None:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() else None


class _Teller:
    """Tells what a transaction said of an entry as events."""

    def __init__(self, id_: str, height: int, entry: Entry, step: _Step, bodies: dict[bytes, bytes]) -> None:
        self._id, self._height, self._step, self._bodies = id_, height, step, bodies
        self._moved = step.owned and step.owner != entry.owner
        keeps = not step.owned or step.burned is not None
        self.entry = entry if keeps else replace(entry, owner=step.owner)

    def events(self) -> Iterator[Event]:
        if self.entry.ended:
            return
        for log, uri in self._step.uris:
            yield self._take(self._of_uri(log, uri))
        if self._step.burned is not None:
            yield from map(self._take, self._burn(self._step.burned))
        elif self._step.last is not None:
            yield from map(self._take, self._settle(self._step.last))

    def _take(self, event: Event) -> Event:
        self.entry = Entry.after(event)
        return event

    def _settle(self, log: Log) -> Iterator[Event]:
        """What changed hands or metadata and was not told with a URI."""
        state, pointer = self.entry.state, self.entry.pointer
        if state is not None and _merged(state.map, self._step.metadata) != state.map:
            yield self._revised(EventKind.MAP_ONLY, log, pointer)
        elif state is not None and state.owner != self.entry.owner:
            yield self._revised(EventKind.MOVED, log, pointer)
        elif state is None and pointer is not None and self._moved and not self._step.uris:
            yield self._pointed(log, pointer, self.entry.reasons, EventKind.MOVED)

    def _burn(self, log: Log) -> Iterator[Event]:
        state, pointer = self.entry.state, self.entry.pointer
        if state is not None:
            gone = replace(state, status=Status.BURNED, outpoint=None, owner=None)
            more = {"pointer": pointer, "reasons": (BURNED,), "valid": pointer is None}
            yield _event(EventKind.BURNED, log, None, state=gone, spent=state.outpoint, **more)
        elif pointer is not None:
            self.entry = replace(self.entry, owner=None)
            yield self._pointed(log, pointer, (BURNED,), EventKind.BURNED)
        else:
            self.entry = Entry()

    def _of_uri(self, log: Log, uri: bytes) -> Event:
        found = erc8004.read_uri(uri)
        if isinstance(found, Carried):
            return self._of_file(log, found.body)
        if isinstance(found, Locator):
            # a CID without its scheme is kept with it, so that the anchor can be fetched
            text = found.id if found.id.startswith("ipfs:") else uri.decode("utf-8", "replace").strip()
            anchor = self._anchor(text, found.host)
            return self._revised(EventKind.POINTED, log, anchor) if self.entry.state else self._pointed(log, anchor)
        return self._broken(log, uri[:MAX_URI].decode("utf-8", "replace"), (found,))

    def _of_file(self, log: Log, body: bytes) -> Event:
        """A registration file on chain, good or bad (laws 4 and 12)."""
        digest = sha256(body).digest()
        try:
            kind = cards.read(body, entry=self._id).kind
        except CardError as error:
            event = self._broken(log, None, error.reasons)
            if len(body) <= MAX_BYTES and event.kind is EventKind.INVALID:
                self._bodies[digest] = body
            return replace(event, card=digest)
        self._bodies[digest] = body
        if self.entry.state is not None:
            return self._revised(EventKind.REINSCRIBED, log, None, kind, digest)
        state = State(
            id=self._id, kind=kind, status=Status.LIVE, outpoint=_place(log), offset=0, satoshis=0,
            owner=self.entry.owner, map=_merged({}, self._step.metadata), card=digest, winner=_place(log),
            updated_height=self._height, created_height=self._height,
        )  # fmt: skip
        return _event(EventKind.INSCRIBED, log, self.entry.owner, state=state, card=digest)

    def _broken(self, log: Log, uri: str | None, reasons: tuple[Reason, ...]) -> Event:
        """What leads to no file: it does not silence a registration, and else is a pointer that is not valid."""
        if self.entry.state is None:
            return self._pointed(log, self._anchor(uri, ""), reasons)
        event = self._revised(EventKind.INVALID, log, self.entry.pointer)
        return replace(event, valid=False, reasons=reasons)

    def _revised(
        self,
        kind: EventKind,
        log: Log,
        pointer: PointerAnchor | None,
        card_kind: Kind | None = None,
        digest: bytes | None = None,
    ) -> Event:
        """An event of a registration that there is: it moves to the place of `log`, with its owner and metadata."""
        before = self.entry.state
        assert before is not None  # noqa: S101 - asked for where there is one
        after = replace(before, outpoint=_place(log), owner=self.entry.owner)
        if kind in (EventKind.REINSCRIBED, EventKind.MAP_ONLY):
            after = replace(after, map=_merged(before.map, self._step.metadata))
        if card_kind is not None and digest is not None:
            after = replace(after, kind=card_kind, card=digest, winner=_place(log), updated_height=self._height)
        return _event(kind, log, self.entry.owner, state=after, pointer=pointer, card=digest, spent=before.outpoint)

    def _anchor(self, uri: str | None, host: str) -> PointerAnchor:
        return PointerAnchor(id=self._id, domain=host, digest=None, uri=uri, form=erc8004.FORM)

    def _pointed(
        self, log: Log, pointer: PointerAnchor, reasons: tuple[Reason, ...] = (), kind: EventKind = EventKind.POINTED
    ) -> Event:
        return _event(kind, log, self.entry.owner, pointer=pointer, reasons=reasons, valid=not reasons)


def _event(kind: EventKind, log: Log, owner: str | None, **more: Any) -> Event:
    """An event at the place of a log."""
    return Event(
        kind=kind, position=0, tx_index=log.tx_index, txid=log.txid, outpoint=_place(log), owner=owner, **more
    )  # fmt: skip


def _merged(before: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Metadata with keys added and changed; at most 64 keys."""
    merged = dict(before)
    for key, value in more.items():
        if key in merged or len(merged) < MAX_KEYS:
            merged[key] = value
    return merged
