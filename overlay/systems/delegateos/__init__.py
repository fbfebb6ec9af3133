"""Capability tokens of DelegateOS: the permissions of a presented token, and the units that it is charged."""

from __future__ import annotations

from overlay.installation import System

SYSTEM = System(name="delegateos", api="revocation_api", tables="store", commands=("dct",))
