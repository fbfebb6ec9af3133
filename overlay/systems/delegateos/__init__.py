"""Capability tokens of DelegateOS: what a presented token allows, and what it is charged."""

from __future__ import annotations

from overlay.installation import System

SYSTEM = System(name="delegateos", api="revocation_api", tables="store", commands=("dct",))
