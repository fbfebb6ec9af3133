"""The id of the HTTP request that is being answered, for log lines. Imports nothing, as every command logs."""

from __future__ import annotations

from contextvars import ContextVar

REQUEST_ID: ContextVar[str] = ContextVar("request", default="")
"""The id of the request, in whichever thread works for it; empty elsewhere."""
