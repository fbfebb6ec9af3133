"""What the relay answers instead of doing it."""

from __future__ import annotations

from typing import Any

from indexer.store.ledger import InsufficientFundsError


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


def insufficient_funds(error: InsufficientFundsError, use: str) -> RelayRefusedError:
    """The refusal of what an account cannot pay. `use` says what becomes of the satoshis that are needed."""
    detail = f"{error.needed:,} are {use}, and the account has {error.balance:,}"
    return RelayRefusedError(402, "insufficient-funds", detail, required=error.needed, balance=error.balance)
