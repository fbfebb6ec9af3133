"""A snapshot's lines: records as JSON objects, and strangers' JSON as records. Hashes are hex in display order.

{"format": "a2b-snapshot/2", "chains": [{"name", "caip2", "first", "height", "hash", "stateHash"}]}
{"card": base64}                                        sorted by SHA-256
{"block": {"chain", "height", "hash", "prev", "time", "header"}}
{"event": {…}}                                          of the block above, in order
{"coinbase": {"raw", "reserved", "bump"}}               of the block, where witnesses carry envelopes
{"proof": {"txid", "raw", "bump", "witness"?}}          of transactions that say those, sorted by txid
{"end": {"cards", "blocks", "events", "proofs"}}
"""

from __future__ import annotations

import binascii
import json
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Any

from indexer.facts import BlockRef, Event, EventKind, PointerAnchor, State, Status
from indexer.snapshot_fields import Fields, SnapshotError
from indexer.store.tables import POSITION_BITS
from parsers.cards import Kind
from parsers.reasons import Reason
from parsers.tx import Outpoint

FORMAT = "a2b-snapshot/2"


@dataclass(frozen=True, slots=True)
class ChainHead:
    """What a snapshot claims of one chain: the heights it spans, the newest block (internal order), the state hash, and
    whether blocks were read from excerpts, so that there is no state hash."""

    name: str
    caip2: str
    first: int
    height: int
    hash: bytes
    state_hash: str | None
    partial: bool = False

    def as_json(self) -> dict[str, Any]:
        """The chain as an entry of the header line."""
        return {
            "name": self.name, "caip2": self.caip2, "first": self.first, "height": self.height,
            "hash": self.hash[::-1].hex(), "stateHash": self.state_hash, **({"partial": True} if self.partial else {}),
        }  # fmt: skip


def dump(value: dict[str, Any]) -> bytes:
    """One line: compact ASCII JSON with sorted keys, the same bytes for the same facts."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), sort_keys=True).encode() + b"\n"


def card_line(body: bytes) -> bytes:
    """A card as a line."""
    return dump({"card": b64encode(body).decode()})


def block_line(ref: BlockRef) -> bytes:
    """A block as a line."""
    block = {
        "chain": ref.chain, "height": ref.height, "hash": ref.hash[::-1].hex(), "prev": ref.prev[::-1].hex(),
        "time": ref.time, "header": ref.header.hex(),
    }  # fmt: skip
    return dump({"block": block})


def event_line(event: Event) -> bytes:
    """An event as a line."""
    told = {
        "kind": event.kind.value, "position": event.position, "txIndex": event.tx_index,
        "txid": event.txid[::-1].hex(), "vout": event.outpoint.vout if event.outpoint else None,
        "spent": str(event.spent) if event.spent else None, "card": event.card.hex() if event.card else None,
        "valid": event.valid, "reasons": [list(reason) for reason in event.reasons], "owner": event.owner,
        "signer": event.signer, "state": _state_json(event.state), "pointer": _pointer_json(event.pointer),
    }  # fmt: skip
    return dump({"event": told})


def _state_json(state: State | None) -> dict[str, Any] | None:
    if state is None:
        return None
    return {
        "id": state.id, "kind": state.kind.value, "status": state.status.value,
        "outpoint": str(state.outpoint) if state.outpoint else None, "offset": state.offset,
        "satoshis": state.satoshis, "owner": state.owner, "map": [list(pair) for pair in state.map.items()],
        "card": state.card.hex(), "winner": str(state.winner), "updatedHeight": state.updated_height,
        "createdHeight": state.created_height,
    }  # fmt: skip


def _pointer_json(pointer: PointerAnchor | None) -> dict[str, Any] | None:
    if pointer is None:
        return None
    digest = pointer.digest.hex() if pointer.digest is not None else None
    told = {"id": pointer.id, "domain": pointer.domain, "digest": digest, "uri": pointer.uri, "form": pointer.form}
    return told if pointer.kind is Kind.AGENT else told | {"kind": pointer.kind.value}


def load(line: bytes) -> tuple[str, Any]:
    """A line as its one key and what stands under it. Raises SnapshotError."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise SnapshotError(f"this is not JSON: {line[:60]!a}") from None
    if not isinstance(value, dict) or not value or ("format" not in value and len(value) != 1):
        raise SnapshotError(f"this is no line of a snapshot: {line[:60]!a}")
    return ("format", value) if "format" in value else next(iter(value.items()))


def read_heads(value: Any) -> tuple[ChainHead, ...]:
    """The header line."""
    told = Fields(value, "the header")
    if (written := told.take("format", str)) != FORMAT:
        raise SnapshotError(f"the format is {written[:60]!a}, and this version reads {FORMAT}")
    heads = tuple(_head(each) for each in told.take("chains", list))
    told.nothing_left()
    if len({head.name for head in heads}) != len(heads):
        raise SnapshotError("the header names a chain twice")
    return heads


def _head(value: Any) -> ChainHead:
    told = Fields(value, "a chain of the header")
    head = ChainHead(
        name=told.take("name", str),
        caip2=told.take("caip2", str),
        first=told.number("first"),
        height=told.number("height"),
        hash=told.hex("hash")[::-1],
        state_hash=told.maybe("stateHash", str),
        partial=told.has("partial") and told.take("partial", bool),
    )
    told.nothing_left()
    return head


def read_card(value: Any) -> bytes:
    """A card's bytes."""
    try:
        return b64decode(value if isinstance(value, str) else "?", validate=True)
    except (binascii.Error, ValueError):
        raise SnapshotError("a card is not base64") from None


def read_block(value: Any) -> BlockRef:
    """A block as its line says; whether that is true is another question. The text of its header may be empty."""
    told = Fields(value, "a block")
    ref = BlockRef(
        chain=told.take("chain", str),
        height=told.number("height", 2**31 - 1),
        hash=told.hex("hash")[::-1],
        prev=told.hex("prev")[::-1],
        time=told.number("time"),
        header=told.maybe_none("header", 80),
    )
    told.nothing_left()
    return ref


def read_event(value: Any) -> Event:
    """An event as its line says."""
    told = Fields(value, "an event")
    txid, vout = told.hex("txid")[::-1], told.maybe("vout", int)
    event = Event(
        kind=told.word("kind", EventKind),
        position=told.number("position", 2**POSITION_BITS - 1),
        tx_index=told.number("txIndex", 2**31 - 1),
        txid=txid,
        outpoint=_output(txid, vout),
        spent=told.maybe_outpoint("spent"),
        card=told.maybe_hex("card"),
        valid=told.take("valid", bool),
        reasons=tuple(_reason(each) for each in told.take("reasons", list)),
        owner=told.maybe("owner", str),
        signer=told.maybe("signer", str),
        state=_read_state(told.maybe("state", dict)),
        pointer=_read_pointer(told.maybe("pointer", dict)),
    )
    told.nothing_left()
    return event


def _output(txid: bytes, vout: int | None) -> Outpoint | None:
    if vout is not None and not 0 <= vout < 2**32:
        raise SnapshotError(f"vout of an event is {vout}, and must be from 0 to {2**32 - 1}")
    return Outpoint(txid, vout) if vout is not None else None


def _reason(value: Any) -> Reason:
    if not (isinstance(value, list) and len(value) == len(Reason._fields) and all(type(part) is str for part in value)):
        raise SnapshotError(f"a reason of an event is {value!a:.60}, and must be {len(Reason._fields)} strings")
    return Reason(*value)


def _read_state(value: dict[str, Any] | None) -> State | None:
    if value is None:
        return None
    told = Fields(value, "the state of an event")
    state = State(
        id=told.take("id", str),
        kind=told.word("kind", Kind),
        status=told.word("status", Status),
        outpoint=told.maybe_outpoint("outpoint"),
        offset=told.number("offset"),
        satoshis=told.number("satoshis"),
        owner=told.maybe("owner", str),
        map=dict(_pair(each) for each in told.take("map", list)),
        card=told.hex("card"),
        winner=told.outpoint("winner"),
        updated_height=told.number("updatedHeight", 2**31 - 1),
        created_height=told.number("createdHeight", 2**31 - 1),
    )
    told.nothing_left()
    return state


def _pair(value: Any) -> tuple[str, str]:
    if not (isinstance(value, list) and len(value) == 2 and all(type(part) is str for part in value)):
        raise SnapshotError(f"map of an event holds {value!a:.60}, and must hold pairs of strings")
    return value[0], value[1]


def _read_pointer(value: dict[str, Any] | None) -> PointerAnchor | None:
    if value is None:
        return None
    told = Fields(value, "the pointer of an event")
    pointer = PointerAnchor(
        id=told.maybe("id", str),
        domain=told.take("domain", str),
        digest=told.maybe_hex("digest"),
        uri=told.maybe("uri", str),
        form=told.take("form", str),
        kind=told.word("kind", Kind) if told.has("kind") else Kind.AGENT,
    )
    told.nothing_left()
    return pointer
