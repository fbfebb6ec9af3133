"""Facts in readable names: block `4a`, registration `a` moved to `a2`. For tests of stores of facts."""

from __future__ import annotations

from dataclasses import replace

from indexer.model import BlockFacts, BlockRef, Event, EventKind, RegistrationState, Status
from parsers.bitcoin.tx import Outpoint
from parsers.cards import Kind
from parsers.reasons import Reason

CARD = b"\xca" * 32


def name(text: str) -> bytes:
    """32 bytes that can be read: `4a`, `alice`."""
    return text.encode().ljust(32, b"\0")


def ref(label: str, prev: str = "", chain: str = "demo") -> BlockRef:
    """Block `4a`: height 4, of fork a."""
    height = int(label.rstrip("abcdefgh"))
    return BlockRef(chain, height, name(label), name(prev or str(height - 1)), 1_700_000_000 + height, b"h" * 80)


def outpoint_of(text: str, vout: int = 0) -> Outpoint:
    return Outpoint(name(text), vout)


def state(id_: str, where: str | None, height: int, **more: object) -> RegistrationState:
    outpoint = outpoint_of(where) if where else None
    created = RegistrationState(
        id=str(outpoint_of(id_)),
        kind=Kind.AGENT,
        status=Status.LIVE if where else Status.BURNED,
        outpoint=outpoint,
        offset=0,
        satoshis=1 if where else 0,
        owner="alice" if where else None,
        map={"app": "test", "type": "a2b-agent"},
        card=CARD,
        winner=outpoint_of(id_),
        updated_height=height,
        created_height=height,
    )
    return replace(created, **more)  # type: ignore[arg-type]


def born(id_: str, position: int = 0, height: int = 2, **more: object) -> Event:
    """A registration by that name appears."""
    return Event(
        kind=EventKind.INSCRIBED,
        position=position,
        tx_index=position + 1,
        txid=name(id_),
        outpoint=outpoint_of(id_),
        card=CARD,
        owner="alice",
        state=state(id_, id_, height, **more),
    )


def moved(id_: str, source: str, target: str, position: int = 0, height: int = 2) -> Event:
    """It goes from one transaction's output to another's."""
    return Event(
        kind=EventKind.MOVED,
        position=position,
        tx_index=position + 1,
        txid=name(target),
        outpoint=outpoint_of(target),
        spent=outpoint_of(source),
        owner="bob",
        state=state(id_, target, height, owner="bob"),
    )


def burned(id_: str, source: str, target: str, position: int = 0, height: int = 2) -> Event:
    return Event(
        kind=EventKind.BURNED,
        position=position,
        tx_index=position + 1,
        txid=name(target),
        outpoint=None,
        spent=outpoint_of(source),
        reasons=(Reason("burned-fee"),),
        state=state(id_, None, height),
    )


def near_miss(txid: str, position: int = 0) -> Event:
    return Event(
        kind=EventKind.REJECTED,
        position=position,
        tx_index=position + 1,
        txid=name(txid),
        outpoint=outpoint_of(txid),
        valid=False,
        reasons=(Reason("satoshis", "two satoshis"), Reason("card-json")),
    )


def undecided(id_: str, source: str, target: str) -> Event:
    return replace(
        burned(id_, source, target),
        kind=EventKind.UNDECIDED,
        valid=False,
        reasons=(Reason("values-unknown", str(outpoint_of("else"))),),
        state=state(id_, None, 2, status=Status.UNDECIDED),
    )


def says(
    label: str, *messages: Event, prev: str = "", chain: str = "demo", cards: dict[bytes, bytes] | None = None
) -> BlockFacts:
    return BlockFacts(ref(label, prev, chain), messages, cards or {})
