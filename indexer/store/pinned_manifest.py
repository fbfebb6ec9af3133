"""The rule of pinning for the manifests of MCP endpoints: the first one is pinned, and another is refused until the
pinned one was not served for `PIN_DURATION`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from indexer.store.checks import PIN_DURATION
from parsers.claims.tool_manifest import ManifestChanges, ToolManifest, manifest_changes


class PinnedManifest(NamedTuple):
    """The manifest that is pinned for an endpoint: its SHA-256 (hex, "" for none), the digests of its tools by name,
    and when it was served last (milliseconds since 1970)."""

    sha256: str
    tools: Mapping[str, str]
    served_at: int

    def refused_changes(self, served: ToolManifest, now: int) -> ManifestChanges | None:
        """The changes of a manifest that is refused; None for one that is pinned from now on."""
        if self.sha256 in ("", served.sha256) or self.served_at <= now - PIN_DURATION:
            return None
        return manifest_changes(self.tools, served.tools)
