"""Motebit agents: discovery, identities, and the market by trust."""

from __future__ import annotations

from overlay.installation import System

SYSTEM = System(
    name="motebit",
    api="motebit_api",
    tables="store",
    visits="host_identity",
    facts="identity_facts",
    diagnosis="identity_steps",
    commands=("motebit_lookup", "motebit_sign", "motebit_key", "motebit_token"),
    signs=True,
)
