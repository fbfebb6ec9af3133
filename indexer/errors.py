"""Errors of sources: what a person must fix, and what may succeed when it is tried again; and refused transactions."""

from __future__ import annotations


class SourceError(Exception):
    """A source that cannot be used as configured; the message gives the fault and its remedy."""


class SourceUnavailableError(SourceError):
    """A source that cannot answer at present; the request may be tried again."""


class RefusedTransactionError(Exception):
    """A node or ARC refuses a transaction; the message gives its reason."""


class NotAdmittedError(Exception):
    """A submission that is not taken: `code` is for programs, the message a sentence with the value."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
