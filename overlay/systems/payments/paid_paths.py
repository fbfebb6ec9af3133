"""The requests that a gate passes without payment: requests for other paths, and preflights of browsers."""

from __future__ import annotations

from collections.abc import Collection, Mapping


class AmbiguousPathError(ValueError):
    """A path with dots or empty segments that routers read as below one paid path or another."""


def covering(path: str, paths: Collection[str], *, mounted: bool = False) -> str | None:
    """The longest of the paid paths that a path is, or is below, as a mounted application serves them all; "/" covers
    everything. Where routers differ in how they read dots and slashes, each place that one may come by counts:
    `/paid/../free` is below `/paid` for those that do not resolve it. `mounted`: paid paths count after any prefix, the
    first one that is met. Raises AmbiguousPathError."""
    bases = [(paid_path, [segment for segment in paid_path.split("/") if segment]) for paid_path in paths]
    segments, met = list[str](), dict[str, tuple[int, int]]()
    for segment in path.split("/"):
        if segment == "..":
            del segments[-1:]
        elif segment not in ("", "."):
            segments.append(segment)
        for paid_path, base in bases:
            start = len(segments) - len(base) if mounted else 0
            if len(segments) - start == len(base) and segments[start:] == base:
                met.setdefault(paid_path, (start, -len(base)))
    if len(met) > 1 and any(segment in ("", ".", "..") for segment in path.split("/")[1:-1]):
        raise AmbiguousPathError(f"the path {path[:200]!a} has dots or empty segments, and more than one price")
    return min(met, key=met.__getitem__, default=None)


def is_preflight(method: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether a request is a browser's preflight: it requests no work, and is the only free request on a paid path."""
    named = headers.get("Origin"), headers.get("Access-Control-Request-Method")
    return method == "OPTIONS" and all(named) and not body
