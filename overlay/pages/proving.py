"""What a browser is told to check the proof of a listing by itself, and why it cannot where it cannot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from indexer.networks import SCRYPT, by_caip2, mined


@dataclass(frozen=True, slots=True)
class Provable:
    """What to check: `holds` says what the transaction must hold (card, hash, or nothing), `work` how the chain's work
    can be checked by who has SHA-256 alone: header, or none. `regtest`: work means nothing there."""

    holds: str
    work: str
    segwit: bool
    regtest: bool


def provable(item: Mapping[str, Any], *, proved: bool) -> Provable | None:
    """What can be checked of a listing; None where no proof is kept."""
    network = by_caip2(item["caip2"])
    if not proved or network is None or not mined(item["caip2"]):
        return None
    holds = {"inscribed": "card", "hash-verified": "hash", "drifted": "hash"}.get(item["integrity"], "")
    work = "none" if network.coin in SCRYPT else "header"
    return Provable(holds, work, network.rules.segwit, network.kind == "regtest")


def why_not(item: Mapping[str, Any]) -> str:
    """Why there is no proof of a listing."""
    if not mined(item["caip2"]):
        return "Its chain is told by an endpoint, without proof of work: what it says is believed."
    if item["updatedHeight"] is None:
        return "It is in no block yet. There is a proof once it is mined."
    return "No proof of its transaction is kept here."
