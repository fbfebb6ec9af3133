"""Ratings: receipts are verified and stored, listings are rated, and both are published for anyone to recompute."""

from __future__ import annotations

from overlay.installation import System

SYSTEM = System(
    name="rating",
    api="receipt_api",
    tables="store_trust",
    indexing="rating_loop",
    facts="rating_facts",
    forgetting="store",
    commands=("block_worker",),
)
