"""The manifest of the tools of an MCP server: the SHA-256 of the RFC 8785 form of the sorted list of [name,
description, inputSchema] (Motebit, delegation: identity verification)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

from parsers.claims.canonical_json import DocumentError, jcs

MAX_TOOLS, MAX_NAME, MOST_NAMED = 512, 256, 8


@dataclass(frozen=True, slots=True)
class ToolManifest:
    """The SHA-256 (hex) of a manifest, and the first 16 hex digits of that of each tool by name."""

    sha256: str
    tools: Mapping[str, str]


class ManifestChanges(NamedTuple):
    """Names of tools that are new, removed, or have another description or schema, sorted."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]

    @property
    def words(self) -> str:
        """The differences in words, of each kind the first `MOST_NAMED` names; "" for none."""
        lists = ((kind, names) for kind, names in self._asdict().items() if names)
        return "; ".join(f"{kind} {_listed(names)}" for kind, names in lists)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    listed = ", ".join(name[:64] for name in names[:MOST_NAMED])
    return f"{listed} and {more:,} more" if more > 0 else listed


def tool_manifest(tools: Sequence[Any]) -> ToolManifest:
    """The manifest of the tools that `tools/list` gives. Raises DocumentError: bad-manifest."""
    if len(tools) > MAX_TOOLS:
        raise DocumentError("bad-manifest", f"{len(tools):,} tools; at most {MAX_TOOLS} are pinned")
    rows = sorted((_row(tool) for tool in tools), key=lambda row: str(row[0]))
    names = [row[0] for row in rows]
    if len(set(names)) < len(names):
        raise DocumentError("bad-manifest", "two tools have the same name")
    return ToolManifest(sha256(jcs(rows)).hexdigest(), {row[0]: sha256(jcs(row)).hexdigest()[:16] for row in rows})


def _row(tool: Any) -> list[Any]:
    name = tool.get("name") if isinstance(tool, dict) else None
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME or not name.isprintable():
        raise DocumentError("bad-manifest", f"a tool has no name of 1 to {MAX_NAME} characters")
    return [name, tool.get("description"), tool.get("inputSchema")]


def manifest_changes(pinned: Mapping[str, str], current: Mapping[str, str]) -> ManifestChanges:
    """The difference of two manifests, by the digests of their tools."""
    both = pinned.keys() & current.keys()
    return ManifestChanges(
        tuple(sorted(current.keys() - both)),
        tuple(sorted(pinned.keys() - both)),
        tuple(sorted(name for name in both if pinned[name] != current[name])),
    )
