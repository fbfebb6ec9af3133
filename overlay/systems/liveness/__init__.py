"""Liveness: public endpoints of listings are visited once a day, and items say whether they answer."""

from __future__ import annotations

from overlay.installation import System

SYSTEM = System(
    name="liveness",
    api="liveness_api",
    tables="store",
    indexing="probe_targets",
    visits="liveness_checks",
    facts="health_facts",
)
