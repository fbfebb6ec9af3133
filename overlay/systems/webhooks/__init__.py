"""Webhooks: listings that meet saved searches are reported to URLs."""

from __future__ import annotations

from overlay.installation import System

SYSTEM = System(name="webhooks", api="webhook_api", tables="store", jobs="delivery_jobs", signs=True)
