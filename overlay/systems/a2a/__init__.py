"""The A2A protocol: this overlay as an agent that searches."""

from __future__ import annotations

from overlay.installation import System

SYSTEM = System(name="a2a", api="a2a_api", signs=True)
