"""Errors of sources: faults that a person must fix, and failures that may end when the request is repeated; and refused
transactions."""

from __future__ import annotations

PROGRAM_ERRORS = (
    ArithmeticError, AssertionError, AttributeError, BufferError, ConnectionError, EOFError, LookupError,
    RuntimeError, TimeoutError, TypeError, ValueError,
)  # fmt: skip
"""Errors that a stranger's answer may provoke where the program has a mistake; database, disk and memory raise
others."""


class SourceError(Exception):
    """A source that cannot be used as configured; the message gives the fault and its remedy."""


class SourceUnavailableError(SourceError):
    """A source that cannot answer at present; the request may be tried again."""


class SourceRefusalError(SourceUnavailableError):
    """A source that refuses a request, or answers as no source does: it is asked again, less and less often."""


class OtherNetworkError(SourceRefusalError):
    """A source that follows another network than the configured or stored one: for an hour it may be a mistake."""


class FailedBlockError(Exception):
    """A block that could not be read or stored though source, database, disk and memory work; the message names it. Its
    chain waits below it."""


class StoppedError(SourceError):
    """A contradiction that a source has repeated for an hour and that is not accepted: an operator decides, or the
    source withdraws it."""


class RefusedTransactionError(Exception):
    """A node or ARC refuses a transaction; the message gives its reason."""


class NotAdmittedError(Exception):
    """A submission that is not taken: `code` is for programs, the message a sentence with the value."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
