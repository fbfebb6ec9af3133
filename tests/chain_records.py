"""The contents of a store, in the terms of the sample chain's README, for comparison with an oracle."""

from __future__ import annotations

import json
from typing import Any

from indexer.model import EventKind
from indexer.store import DueLocator, Revision, Store
from indexer.store.schema import events

Record = dict[str, Any]


def due_locators(store: Store, now: int, limit: int) -> list[DueLocator]:
    """The locators that should be fetched at a time, those due longest first."""
    queued = store.fetches.queued(now, limit, (-1, ""))
    return [due for one in queued if (due := store.fetches.get_due(one.locator)) is not None]


def registrations(store: Store, chain: str) -> list[Record]:
    """Every registration with its revisions, in the order in which they were first inscribed."""
    ids = [id_ for name, id_ in store.registrations.ids(None, 1_000_000) if name == chain]
    results = [_registration(store, [past for past in store.history.of(id_) if past.chain == chain]) for id_ in ids]
    return sorted(results, key=_born)


def _born(registration: Record) -> tuple[int, int, int, str]:
    first = registration["revisions"][0]
    return first["height"], first["txIndex"], int(first["outpoint"][65:]), registration["id"]


def _registration(store: Store, history: list[Revision]) -> Record:
    now = history[-1].event.state
    assert now is not None
    return {
        "id": now.id,
        "type": now.kind.value,
        "map": now.map,
        "status": now.status.value,
        "outpoint": str(now.outpoint) if now.outpoint else None,
        "owner": now.owner,
        "lastHeight": history[-1].height,
        "winner": str(now.winner),
        "cardSha256": now.card.hex(),
        "updatedHeight": now.updated_height,
        "card": json.loads(store.content.cards([now.card])[now.card]),
        "revisions": [_revision(past) for past in history],
    }


def _position(past: Revision) -> Record:
    event = past.event
    return {
        "outpoint": str(event.outpoint) if event.outpoint else None,
        "txid": event.txid[::-1].hex(),
        "height": past.height,
        "txIndex": event.tx_index,
    }


def _reason(past: Revision) -> str:
    return past.event.reasons[0].sentence if past.event.reasons else ""


def _revision(past: Revision) -> Record:
    event = past.event
    return {
        **_position(past),
        "kind": event.kind.value,
        "cardSha256": event.card.hex() if event.card else None,
        "valid": event.valid,
        "reason": _reason(past),
        "owner": event.owner,
        "signer": event.signer,
    }


def loose(store: Store, chain: str, kind: EventKind) -> list[Revision]:
    """The events of a kind, as they stand in the chain."""
    result = store.history.select(events.c.chain == chain, events.c.kind == kind.value)
    return sorted(result, key=lambda past: (past.height, past.event.tx_index, past.event.outpoint or (b"", 0)))


def pointers(store: Store, chain: str) -> list[Record]:
    """Every pointer, valid or not."""
    results = []
    for past in loose(store, chain, EventKind.POINTED):
        pointer = past.event.pointer
        assert pointer is not None
        results.append(
            {
                **_position(past),
                "domain": pointer.domain,
                "hash": pointer.digest.hex() if pointer.digest is not None else None,
                "form": pointer.form,
                "uri": pointer.uri,
                "valid": past.event.valid,
                "reason": _reason(past),
            }
        )
    return results


def anchors(store: Store, pointer_id: str) -> list[Revision]:
    """The anchors of a pointer id (law 10), oldest first."""
    return store.history.select(events.c.anchor == pointer_id)


def rejected(store: Store, chain: str) -> list[Record]:
    """Every near miss with its first reason."""
    return [{**_position(past), "reason": _reason(past)} for past in loose(store, chain, EventKind.REJECTED)]


def everything(store: Store, chain: str) -> dict[str, list[Record]]:
    """All of it."""
    return {
        "registrations": registrations(store, chain),
        "pointers": pointers(store, chain),
        "rejected": rejected(store, chain),
    }
