"""Agentic Resource Discovery (ARD): the registry as a catalog."""

from __future__ import annotations

from overlay.installation import System

SYSTEM = System(name="ard", api="ard_api")
