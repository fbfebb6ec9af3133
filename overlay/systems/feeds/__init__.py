"""Feeds of any search: Atom and JSON Feed."""

from __future__ import annotations

from overlay.installation import System

SYSTEM = System(name="feeds", api="feed_api")
