"""MRP, the Moltrouter Protocol (0.1)."""

from __future__ import annotations

from overlay.installation import System

SYSTEM = System(name="mrp", api="mrp_api", tables="store", visits="mrp_manifests", commands=("mrp_sign",), signs=True)
