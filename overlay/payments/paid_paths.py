"""Which requests a gate lets through without payment: those of other paths, and preflights of browsers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from posixpath import normpath


def covering(path: str, paths: Collection[str]) -> str | None:
    """The longest of the paid paths that a path is, or is below, as a mounted application serves them all; "/" covers
    everything. Slashes and dots are read as a router may read them."""
    clean = normpath(f"/{path.lstrip('/')}")
    covered = (one for one in paths if clean == (base := one.rstrip("/")) or clean.startswith(f"{base}/"))
    return max(covered, key=len, default=None)


def is_preflight(method: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether a request is what a browser sends before another one, and asks for nothing itself: the only one for which
    nothing is paid on a paid path."""
    named = headers.get("Origin"), headers.get("Access-Control-Request-Method")
    return method == "OPTIONS" and all(named) and not body
