"""Logs `A2BPointer(string uri, bytes32 hash)` as events: pointers, and cards that a `data:` URI carries (law 8)."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from indexer.chains import Sayings
from indexer.chains.evm.answers import Log
from indexer.facts import BlockRef, Event, EventKind, PointerAnchor, State, Status
from parsers import cards, pointer
from parsers.cards import Kind
from parsers.pointer import TOPIC, Pointer
from parsers.reasons import Reason
from parsers.strict_json import MAX_BYTES
from parsers.tx import Outpoint

REASONS = 16
"""Reasons kept for one event."""


class Pointers:
    """Reads the logs of a contract that emits `A2BPointer`."""

    topics = (TOPIC,)

    def first(self, caip2: str, contract: bytes) -> int:  # noqa: ARG002
        """0: anybody may have made the contract at any time."""
        return 0

    async def read(self, caip2: str, ref: BlockRef, logs: Sequence[Log]) -> Sayings:
        """What the logs of one block say, in their order."""
        bodies: dict[bytes, bytes] = {}
        events = tuple(_event(caip2, ref.height, position, log, bodies) for position, log in enumerate(logs))
        return Sayings(events, bodies, sum(len(log.data) for log in logs))


def place_id(caip2: str, log: Log) -> str:
    """The id of a card that a log carries in full: `eip155:<chain>:<contract>/<txhash>:<logIndex>`, in lower case."""
    return f"{caip2}:0x{log.address.hex()}/0x{log.txid[::-1].hex()}:{log.log_index}"


def _event(caip2: str, height: int, position: int, log: Log, bodies: dict[bytes, bytes]) -> Event:
    if len(log.topics) != 1:
        wrong = Reason("pointer-encoding", f"{len(log.topics)} topics: neither uri nor hash may be indexed")
        return _said(EventKind.REJECTED, position, log, reasons=(wrong,))
    found = pointer.read_evm_log(log.data)
    if found.body is not None:
        return _card(caip2, height, position, log, found, found.body, bodies)
    if not found.uri:  # it cannot be decoded, or is a data: URI that carries nothing
        return _said(EventKind.REJECTED, position, log, reasons=found.reasons)
    anchor = PointerAnchor(id=found.id, domain=found.domain, digest=found.digest, uri=found.uri, form=found.form)
    return _said(EventKind.POINTED, position, log, reasons=found.reasons, pointer=anchor)


def _card(
    caip2: str, height: int, position: int, log: Log, found: Pointer, body: bytes, bodies: dict[bytes, bytes]
) -> Event:
    """A card carried in full: a registration by the name of its place, or why it is none."""
    digest = sha256(body).digest()
    if len(body) <= MAX_BYTES:
        bodies[digest] = body
    reasons = (*found.reasons, *cards.faults(body))[:REASONS]
    if reasons:
        return _said(EventKind.REJECTED, position, log, reasons=reasons, card=digest)
    seat = Outpoint(log.txid, log.log_index)
    state = State(
        id=place_id(caip2, log),
        kind=Kind.AGENT if cards.faults(body, Kind.TOOL) else Kind.TOOL,
        status=Status.LIVE,
        outpoint=seat,
        offset=0,
        satoshis=0,
        owner=None,
        map={},
        card=digest,
        winner=seat,
        updated_height=height,
        created_height=height,
    )
    return _said(EventKind.INSCRIBED, position, log, card=digest, state=state)


def _said(
    kind: EventKind, position: int, log: Log, *, reasons: tuple[Reason, ...] = (), card: bytes | None = None,
    state: State | None = None, pointer: PointerAnchor | None = None,
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
