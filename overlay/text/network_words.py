"""The sentence that a listing, quote or page is of a test network, for whoever might pay or trust it."""

from __future__ import annotations

from indexer.chains import network_kind


def network_note(*caip2s: str) -> str:
    """A sentence that names the test networks among these (CAIP-2 ids); "" where all are main networks."""
    named = sorted({caip2 for caip2 in caip2s if network_kind(caip2) != "mainnet"})
    if not named:
        return ""
    is_one = len(named) == 1
    what = "is a test network: its work proves nothing" if is_one else "are test networks: their work proves nothing"
    return f"{', '.join(named)} {what}, and {'its' if is_one else 'their'} coins have no value"
