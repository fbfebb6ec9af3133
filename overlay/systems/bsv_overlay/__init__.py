"""The BSV overlay services protocol (BRC-22, BRC-24, BRC-88, BRC-136, GASP)."""

from __future__ import annotations

from overlay.installation import System

SYSTEM = System(name="bsv_overlay", api="overlay_api", indexing="pulling", signs=True)
