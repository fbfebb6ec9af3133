"""A registration's history as it is shown: one event a revision, in the words of the sample chain's oracle."""

from __future__ import annotations

from typing import Any

from overlay.items import timestamp
from overlay.ports import Revision


def revision(shown: Revision) -> dict[str, Any]:
    """One revision: where it stands, what it was, whether it counted and why not; `reason` is the first of `reasons`,
    the most important. Unconfirmed: no height, no block."""
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
