"""Conversion between events and rows of `events` and `pending`."""

from __future__ import annotations

import json
from typing import Any

from indexer.model import BlockRef, Event, EventKind, PointerAnchor, RegistrationState, Status
from indexer.store import map_changes
from indexer.store.queries import Row
from indexer.store.schema import POSITION_BITS
from parsers.bitcoin.tx import Outpoint
from parsers.cards import Kind
from parsers.reasons import Reason

_NO_STATE = dict.fromkeys(
    (
        "registration", "type", "status", "at_txid", "at_vout", "at_offset", "at_satoshis", "holder", "map", "map_base",
        "winner_card", "winner_txid", "winner_vout", "updated_height", "created_height",
    )
)  # fmt: skip


def event_position(height: int, position: int = 0) -> int:
    """The integer that orders the events of a chain, by height and by position in the block."""
    return height << POSITION_BITS | position


def event_row(ref: BlockRef, event: Event) -> dict[str, Any]:
    """An event of block `ref` as a row of `events`."""
    return {
        "chain": ref.chain,
        "place": event_position(ref.height, event.position),
        "height": ref.height,
        "kind": event.kind.value,
        "tx_index": event.tx_index,
        "txid": event.txid,
        "vout": event.outpoint.vout if event.outpoint else None,
        "spent_txid": event.spent.txid if event.spent else None,
        "spent_vout": event.spent.vout if event.spent else None,
        "card": event.card,
        "valid": event.valid,
        "reasons": _dump([list(reason) for reason in event.reasons]) if event.reasons else None,
        "owner": event.owner,
        "signer": event.signer,
        "pointer": _pointer_text(event.pointer),
        "anchor": event.pointer.id if event.pointer else None,
        "anchor_digest": event.pointer.digest if event.pointer and event.pointer.id is not None else None,
        **(_state_row(event.state) if event.state else _NO_STATE),
    }


def _state_row(state: RegistrationState) -> dict[str, Any]:
    outpoint = state.outpoint
    return {
        "registration": state.id,
        "type": state.kind.value,
        "status": state.status.value,
        "at_txid": outpoint.txid if outpoint else None,
        "at_vout": outpoint.vout if outpoint else None,
        "at_offset": state.offset,
        "at_satoshis": state.satoshis,
        "holder": state.owner,
        "map": map_changes.dump(state.map),
        "map_base": None,
        "winner_card": state.card,
        "winner_txid": state.winner.txid,
        "winner_vout": state.winner.vout,
        "updated_height": state.updated_height,
        "created_height": state.created_height,
    }


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def _pointer_text(pointer: PointerAnchor | None) -> str | None:
    if pointer is None:
        return None
    digest = pointer.digest.hex() if pointer.digest is not None else None
    return _dump([pointer.domain, digest, pointer.uri, pointer.form, pointer.kind.value])


def pointer(row: Row) -> PointerAnchor | None:
    """The pointer of the event in `row`, None where it has none."""
    if row["pointer"] is None:
        return None
    domain, digest, uri, form, kind = json.loads(row["pointer"])
    raw = bytes.fromhex(digest) if digest is not None else None
    return PointerAnchor(id=row["anchor"], domain=domain, digest=raw, uri=uri, form=form, kind=Kind(kind))


def state(row: Row) -> RegistrationState | None:
    """The registration's state after the event in `row`, None where the event is not about one."""
    if row["registration"] is None:
        return None
    return RegistrationState(
        id=row["registration"],
        kind=Kind(row["type"]),
        status=Status(row["status"]),
        outpoint=Outpoint(row["at_txid"], row["at_vout"]) if row["at_txid"] is not None else None,
        offset=row["at_offset"],
        satoshis=row["at_satoshis"],
        owner=row["holder"],
        map=_fields(row),
        card=row["winner_card"],
        winner=Outpoint(row["winner_txid"], row["winner_vout"]),
        updated_height=row["updated_height"],
        created_height=row["created_height"],
    )


def _fields(row: Row) -> dict[str, str]:
    """The whole map. Raises ValueError for a row that did not pass through `map_changes.with_whole_maps`."""
    if row["map_base"] is not None:
        raise ValueError(f"the event at place {row['place']} of {row['chain']} has only changes of its map")
    return row["map"] if isinstance(row["map"], dict) else json.loads(row["map"])


def event(row: Row) -> Event:
    """The event that `row` of `events` holds."""
    return Event(
        kind=EventKind(row["kind"]),
        position=row["place"] & ((1 << POSITION_BITS) - 1),
        tx_index=row["tx_index"],
        txid=row["txid"],
        outpoint=Outpoint(row["txid"], row["vout"]) if row["vout"] is not None else None,
        spent=Outpoint(row["spent_txid"], row["spent_vout"]) if row["spent_txid"] is not None else None,
        card=row["card"],
        valid=row["valid"],
        reasons=tuple(Reason(*reason) for reason in json.loads(row["reasons"])) if row["reasons"] else (),
        owner=row["owner"],
        signer=row["signer"],
        state=state(row),
        pointer=pointer(row),
    )


def block(row: Row) -> BlockRef:
    """The block that `row` of `blocks` holds."""
    return BlockRef(row["chain"], row["height"], row["hash"], row["prev"], row["time"], row["header"])
