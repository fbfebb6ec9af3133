"""Logs `A2BPointer(string uri, bytes32 hash)` as events: pointers, and cards that a `data:` URI carries (law 8)."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from indexer.chains import BlockEvents, DeferredEvents, NewestEvents
from indexer.chains.evm.responses import Log
from indexer.model import BlockRef, Event, EventKind, PointerAnchor, RegistrationState
from parsers import cards
from parsers.bitcoin.tx import Outpoint
from parsers.cards import Kind
from parsers.cards.strict_json import MAX_BYTES
from parsers.pointers import pointer
from parsers.pointers.pointer import TOPIC, Pointer
from parsers.reasons import Reason

REASONS = 16
"""Reasons kept for one event."""


class Pointers:
    """A `LogReader` of a contract that emits `A2BPointer`."""

    topics = (TOPIC,)

    def first(self, caip2: str, contract: bytes) -> int:  # noqa: ARG002
        """0: unknown, as the contract may have been deployed at any time."""
        return 0

    def read(self, caip2: str, ref: BlockRef, logs: Sequence[Log]) -> BlockEvents:
        """The events of one block's logs, in order."""
        bodies: dict[bytes, bytes] = {}
        events = tuple(_event(caip2, ref.height, position, log, bodies) for position, log in enumerate(logs))
        return BlockEvents(events, bodies, sum(len(log.data) for log in logs))

    def resolve(self, caip2: str, deferred: DeferredEvents, newest: NewestEvents) -> BlockEvents:  # noqa: ARG002
        """Nothing is deferred: a pointer's meaning does not depend on earlier ones."""
        raise AssertionError("pointers are never deferred")


def place_id(caip2: str, log: Log) -> str:
    """The id of a card that a log carries in full: `eip155:<chain>:<contract>/<txhash>:<logIndex>`, in lower case."""
    return f"{caip2}:0x{log.address.hex()}/0x{log.txid[::-1].hex()}:{log.log_index}"


def _event(caip2: str, height: int, position: int, log: Log, bodies: dict[bytes, bytes]) -> Event:
    if len(log.topics) != 1:
        fault = Reason("pointer-encoding", f"{len(log.topics)} topics: neither uri nor hash may be indexed")
        return _log_event(EventKind.REJECTED, position, log, reasons=(fault,))
    parsed = pointer.read_evm_log(log.data)
    if parsed.body is not None:
        return _card(caip2, height, position, log, parsed, parsed.body, bodies)
    if not parsed.uri:  # it cannot be decoded, or is a data: URI that carries nothing
        return _log_event(EventKind.REJECTED, position, log, reasons=parsed.reasons)
    anchor = PointerAnchor(id=parsed.id, domain=parsed.domain, digest=parsed.digest, uri=parsed.uri, form=parsed.form)
    return _log_event(EventKind.POINTED, position, log, reasons=parsed.reasons, pointer=anchor)


def _card(
    caip2: str, height: int, position: int, log: Log, parsed: Pointer, body: bytes, bodies: dict[bytes, bytes]
) -> Event:
    """The event of a card in full: a registration with the id of its log, or a rejection."""
    digest = sha256(body).digest()
    if len(body) <= MAX_BYTES:
        bodies[digest] = body
    reasons = (*parsed.reasons, *cards.faults(body))[:REASONS]
    if reasons:
        return _log_event(EventKind.REJECTED, position, log, reasons=reasons, card=digest)
    kind = Kind.AGENT if cards.faults(body, Kind.TOOL) else Kind.TOOL
    state = RegistrationState.begun(place_id(caip2, log), kind, digest, Outpoint(log.txid, log.log_index), height)
    return _log_event(EventKind.INSCRIBED, position, log, card=digest, state=state)


def _log_event(
    kind: EventKind, position: int, log: Log, *, reasons: tuple[Reason, ...] = (), card: bytes | None = None,
    state: RegistrationState | None = None, pointer: PointerAnchor | None = None,
) -> Event:  # fmt: skip
    return Event(
        kind=kind,
        position=position,
        tx_index=log.tx_index,
        txid=log.txid,
        outpoint=Outpoint(log.txid, log.log_index),
        card=card,
        valid=not reasons and kind is not EventKind.REJECTED,
        reasons=reasons,
        state=state,
        pointer=pointer,
    )
