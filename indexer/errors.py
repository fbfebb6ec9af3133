"""Errors of sources: what a person must fix, and what may succeed when it is tried again."""

from __future__ import annotations


class SourceError(Exception):
    """A source that cannot be used as configured; the message gives the fault and its remedy."""


class SourceUnavailableError(SourceError):
    """A source that cannot answer at present; the request may be tried again."""


class RefusedTransactionError(Exception):
    """A node or ARC refuses a transaction; the message gives its reason."""
