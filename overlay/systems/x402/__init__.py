"""Discovery of x402 resources."""

from __future__ import annotations

from overlay.installation import System

SYSTEM = System(name="x402", api="x402_api")
