"""A client of an overlay's HTTP API, synchronous and asynchronous: search, follow changes, verify locally, pay.

`OverlayClient` and `AsyncOverlayClient` have the same methods; docs/client.md shows them.
"""

from __future__ import annotations

from overlay.client.async_client import AsyncOverlayClient
from overlay.client.calls import SearchFilters
from overlay.client.errors import (
    ClientError,
    HiddenError,
    NotThereError,
    NotVerifiedError,
    RefusedError,
    RemoteError,
    RemoteProblemError,
    UrlError,
)
from overlay.client.event_stream import Position
from overlay.client.exchange import ClientLimits
from overlay.client.sync_client import OverlayClient

__all__ = [
    "AsyncOverlayClient", "ClientError", "ClientLimits", "HiddenError", "NotThereError", "NotVerifiedError",
    "OverlayClient", "Position", "RefusedError", "RemoteError", "RemoteProblemError", "SearchFilters", "UrlError",
]  # fmt: skip
