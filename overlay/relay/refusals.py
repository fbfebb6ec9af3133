"""What the relay answers instead of doing it."""

from __future__ import annotations

from typing import Any


class RelayRefusedError(Exception):
    """A request that is refused: the HTTP status, a stable code, a sentence for people, and more members of the
    answer.

    Codes: those of bearer tokens, receipts and successions, and bad-request, unauthorized, forbidden, not-registered,
    expired, capability-missing, insufficient-funds, too-many, too-dear, key-mismatch, not-bound, not-a-deposit,
    bad-destination, no-coins, no-deposits.
    """

    def __init__(self, status: int, code: str, detail: str, **members: Any) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.members = status, code, detail, members
