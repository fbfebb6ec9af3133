"""The history of a registration as JSON: one event for each revision."""

from __future__ import annotations

from typing import Any

from overlay.listings.item_json import timestamp
from overlay.listings.records import HistoryEntry


def revision(shown: HistoryEntry) -> dict[str, Any]:
    """One revision: outpoint, block, kind, and whether it is valid; `reason` is the first of `reasons`, the most
    important one. Height and block are null while it is unconfirmed."""
    event = shown.event
    named = event.pointer.digest if event.pointer is not None else None
    digest = event.card if event.card is not None else named
    return {
        "outpoint": str(event.outpoint) if event.outpoint else None,
        "txid": event.txid[::-1].hex(),
        "height": shown.height,
        "txIndex": event.tx_index if shown.height is not None else None,
        "kind": event.kind.value,
        "cardSha256": digest.hex() if digest is not None else None,
        "valid": event.valid,
        "reason": event.reasons[0].sentence if event.reasons else "",
        "reasons": [{"code": reason.code, "detail": reason.explanation} for reason in event.reasons],
        "owner": event.owner,
        "signer": event.signer,
        "spent": str(event.spent) if event.spent else None,
        "blockHash": shown.hash[::-1].hex() if shown.hash else None,
        "timestamp": timestamp(shown.time),
    }
