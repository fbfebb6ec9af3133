"""Why a submission is not admitted."""

from __future__ import annotations


class NotAdmittedError(Exception):
    """A submission that is not taken: `code` is for programs, the message a sentence with the value."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
