"""Turns the logs of one block of an ERC-8004 identity registry into events, given the prior state of its entries. Pure.

Only the registry's contract emits logs for its entries. A registration file on chain is a registration with the id of
its entry; every later file is a revision (law 4). A file elsewhere is a pointer with the same id, also for an entry
with an earlier file on chain. Each file states whether it describes an agent or a tool. The contract logs one
registration in three parts, so the owner and metadata of a transaction are applied first and become part of the event
for its URI. Metadata is stored from the first file on chain on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, NamedTuple

from indexer.chains import BlockEvents
from indexer.chains.evm.responses import Log
from indexer.model import Event, EventKind, PointerAnchor, RegistrationState, Status
from parsers import cards
from parsers.bitcoin.tx import Outpoint
from parsers.cards import Kind
from parsers.cards.strict_json import MAX_BYTES
from parsers.errors import CardError, ParseError
from parsers.pointers import erc8004
from parsers.pointers.erc8004 import InlineFile, MetadataSet, Registered, Transfer, UriUpdated
from parsers.pointers.locator import MAX_URI, Locator
from parsers.reasons import Reason

MAX_KEYS = 64
MAX_KEY, MAX_VALUE = 256, 1024
"""Longest metadata key and value that are stored, in bytes; longer ones are ignored."""

WALLET = "agentWallet"
BURNED = Reason("entry-burned")


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    """The state of an entry: its owner; its registration, if its file was ever on chain; and its pointer, unless a file
    on chain came later. `reasons` are the faults of the pointer of an entry without a registration."""

    owner: str | None = None
    state: RegistrationState | None = None
    pointer: PointerAnchor | None = None
    reasons: tuple[Reason, ...] = ()

    @classmethod
    def after(cls, event: Event | None) -> RegistryEntry:
        """The state of an entry after its newest event; an empty one if it has none."""
        return cls(event.owner, event.state, event.pointer, event.reasons) if event else cls()

    @property
    def ended(self) -> bool:
        """Whether it was burned: no more events follow."""
        return BURNED in self.reasons


def _log_outpoint(log: Log) -> Outpoint:
    """The position of a log as an outpoint: transaction id and log index."""
    return Outpoint(log.txid, log.log_index)


@dataclass(slots=True)
class _AgentChanges:
    """The logs of one transaction about one entry."""

    uris: list[tuple[Log, bytes]] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)
    owner: str | None = None
    owned: bool = False
    burned: Log | None = None
    last: Log | None = None

    def add(self, log: Log, record: erc8004.Record) -> None:
        if self.burned is not None:
            return  # the contract emits nothing more about a burned entry
        self.last = log
        match record:
            case Registered():
                self.uris.append((log, record.uri))
                self.owner, self.owned = record.owner, True
            case UriUpdated():
                self.uris.append((log, record.uri))
            case MetadataSet():
                self.metadata |= _short_metadata(record)
            case Transfer():
                self.owner, self.owned = record.owner, True
                self.burned = log if record.owner is None else None


def agent_numbers(logs: Iterable[Log]) -> Iterator[int]:
    """The agent numbers that these logs name."""
    for log in logs:
        record = _record(log)
        if record is not None and not isinstance(record, Reason):
            yield record.agent


class RegistryBlock(NamedTuple):
    """A block of a chain with a registry: CAIP-2 id, contract address, height."""

    caip2: str
    registry: str
    height: int


def resolve_logs(block: RegistryBlock, logs: Sequence[Log], entries: MutableMapping[str, RegistryEntry]) -> BlockEvents:
    """The events of the logs of a block, in order. Updates `entries`, which holds the entries by id (law 10)."""
    events: list[Event] = []
    bodies: dict[bytes, bytes] = {}
    changes_by_entry: dict[tuple[bytes, int], _AgentChanges] = {}
    for log in logs:
        record = _record(log)
        if isinstance(record, Reason):
            events.append(_event(EventKind.REJECTED, log, None, reasons=(record,), valid=False))
        elif record is not None:
            changes_by_entry.setdefault((log.txid, record.agent), _AgentChanges()).add(log, record)
    for (_, agent), changes in changes_by_entry.items():
        id_ = erc8004.entry_id(block.caip2, block.registry, agent)
        builder = _EventBuilder(id_, block.height, entries.get(id_, RegistryEntry()), changes, bodies)
        events += builder.events()
        entries[id_] = builder.entry
    numbered = tuple(replace(event, position=position) for position, event in enumerate(events))
    return BlockEvents(numbered, bodies, sum(len(log.data) + 32 * len(log.topics) for log in logs))


def _record(log: Log) -> erc8004.Record | Reason | None:
    try:
        return erc8004.read_log(log.topics, log.data)
    except ParseError as error:
        return Reason("pointer-encoding", str(error))


def _short_metadata(record: MetadataSet) -> dict[str, str]:
    """A metadata key and its value as text (other bytes as 0x and hex); empty if one of them is too long."""
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


class _EventBuilder:
    """Builds the events of one entry in one transaction, and updates the entry."""

    def __init__(
        self, id_: str, height: int, entry: RegistryEntry, changes: _AgentChanges, bodies: dict[bytes, bytes]
    ) -> None:
        self._id, self._height, self._changes, self._bodies = id_, height, changes, bodies
        self._moved = changes.owned and changes.owner != entry.owner
        keeps = not changes.owned or changes.burned is not None
        self.entry = entry if keeps else replace(entry, owner=changes.owner)

    def events(self) -> Iterator[Event]:
        if self.entry.ended:
            return
        for log, uri in self._changes.uris:
            yield self._apply(self._uri_event(log, uri))
        if self._changes.burned is not None:
            yield from map(self._apply, self._burn_events(self._changes.burned))
        elif self._changes.last is not None:
            yield from map(self._apply, self._owner_or_metadata_events(self._changes.last))

    def _apply(self, event: Event) -> Event:
        self.entry = RegistryEntry.after(event)
        return event

    def _owner_or_metadata_events(self, log: Log) -> Iterator[Event]:
        """The event for a change of owner or metadata that no event for a URI includes."""
        state, pointer = self.entry.state, self.entry.pointer
        if state is not None and _merged(state.map, self._changes.metadata) != state.map:
            yield self._registration_event(EventKind.MAP_ONLY, log, pointer)
        elif state is not None and state.owner != self.entry.owner:
            yield self._registration_event(EventKind.MOVED, log, pointer)
        elif state is None and pointer is not None and self._moved and not self._changes.uris:
            yield self._pointer_event(log, pointer, self.entry.reasons, EventKind.MOVED)

    def _burn_events(self, log: Log) -> Iterator[Event]:
        state, pointer = self.entry.state, self.entry.pointer
        if state is not None:
            burned = replace(state, status=Status.BURNED, outpoint=None, owner=None)
            more = {"pointer": pointer, "reasons": (BURNED,), "valid": pointer is None}
            yield _event(EventKind.BURNED, log, None, state=burned, spent=state.outpoint, **more)
        elif pointer is not None:
            self.entry = replace(self.entry, owner=None)
            yield self._pointer_event(log, pointer, (BURNED,), EventKind.BURNED)
        else:
            self.entry = RegistryEntry()

    def _uri_event(self, log: Log, uri: bytes) -> Event:
        target = erc8004.read_uri(uri)
        if isinstance(target, InlineFile):
            return self._file_event(log, target.body)
        if isinstance(target, Locator):
            # a bare CID is stored with its scheme, so that the anchor can be fetched
            text = target.id if target.id.startswith("ipfs:") else uri.decode("utf-8", "replace").strip()
            anchor = self._anchor(text, target.host)
            return (
                self._registration_event(EventKind.POINTED, log, anchor)
                if self.entry.state
                else self._pointer_event(log, anchor)
            )
        return self._invalid_event(log, uri[:MAX_URI].decode("utf-8", "replace"), (target,))

    def _file_event(self, log: Log, body: bytes) -> Event:
        """The event for a registration file on chain, valid or invalid (laws 4 and 12)."""
        digest = sha256(body).digest()
        try:
            kind = cards.read(body, entry=self._id).kind
        except CardError as error:
            event = self._invalid_event(log, None, error.reasons)
            if len(body) <= MAX_BYTES and event.kind is EventKind.INVALID:
                self._bodies[digest] = body
            return replace(event, card=digest)
        self._bodies[digest] = body
        if self.entry.state is not None:
            return self._registration_event(EventKind.REINSCRIBED, log, None, kind, digest)
        state = RegistrationState.begun(
            self._id, kind, digest, _log_outpoint(log), self._height,
            owner=self.entry.owner, fields=_merged({}, self._changes.metadata),
        )  # fmt: skip
        return _event(EventKind.INSCRIBED, log, self.entry.owner, state=state, card=digest)

    def _invalid_event(self, log: Log, uri: str | None, reasons: tuple[Reason, ...]) -> Event:
        """The event for a URI or file that cannot be used. A registration stays as it was; without one, the event is an
        invalid pointer."""
        if self.entry.state is None:
            return self._pointer_event(log, self._anchor(uri, ""), reasons)
        event = self._registration_event(EventKind.INVALID, log, self.entry.pointer)
        return replace(event, valid=False, reasons=reasons)

    def _registration_event(
        self,
        kind: EventKind,
        log: Log,
        pointer: PointerAnchor | None,
        card_kind: Kind | None = None,
        digest: bytes | None = None,
    ) -> Event:
        """An event of the existing registration. It moves to the position of `log`, with the new owner and metadata."""
        before = self.entry.state
        assert before is not None  # noqa: S101 - only called for entries with a registration
        after = replace(before, outpoint=_log_outpoint(log), owner=self.entry.owner)
        if kind in (EventKind.REINSCRIBED, EventKind.MAP_ONLY):
            after = replace(after, map=_merged(before.map, self._changes.metadata))
        if card_kind is not None and digest is not None:
            after = replace(after, kind=card_kind, card=digest, winner=_log_outpoint(log), updated_height=self._height)
        return _event(kind, log, self.entry.owner, state=after, pointer=pointer, card=digest, spent=before.outpoint)

    def _anchor(self, uri: str | None, host: str) -> PointerAnchor:
        return PointerAnchor(id=self._id, domain=host, digest=None, uri=uri, form=erc8004.FORM)

    def _pointer_event(
        self, log: Log, pointer: PointerAnchor, reasons: tuple[Reason, ...] = (), kind: EventKind = EventKind.POINTED
    ) -> Event:
        return _event(kind, log, self.entry.owner, pointer=pointer, reasons=reasons, valid=not reasons)


def _event(kind: EventKind, log: Log, owner: str | None, **more: Any) -> Event:
    """An event at the position of a log."""
    return Event(
        kind=kind, position=0, tx_index=log.tx_index, txid=log.txid, outpoint=_log_outpoint(log), owner=owner, **more
    )  # fmt: skip


def _merged(before: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Metadata with keys added and changed, up to `MAX_KEYS` keys."""
    merged = dict(before)
    for key, value in more.items():
        if key in merged or len(merged) < MAX_KEYS:
            merged[key] = value
    return merged
