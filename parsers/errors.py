"""The error tree of the parsers.

ParseError          bytes that are not what they claim to be; names the offset where reading stopped
├─ BlockError       a block whose framing, counts or lengths cannot be right
├─ TransactionError a transaction that is truncated or lies about a length
├─ ProofError       a proof, well-formed, that does not prove what it should
└─ CardError        a card that fails a hard rule; carries every reason, not only the first
"""

from __future__ import annotations

from parsers.reasons import Reason


class ParseError(ValueError):
    """Bytes that are not what they claim to be. `offset` is where reading stopped (bytes), if known."""

    def __init__(self, message: str, offset: int | None = None) -> None:
        super().__init__(message if offset is None else f"{message} (at byte {offset:,})")
        self.offset = offset


class BlockError(ParseError):
    """A block whose framing, counts or lengths cannot be right."""


class TransactionError(ParseError):
    """A transaction that is truncated or lies about a length."""


class ProofError(ParseError):
    """A proof, well-formed, that does not prove what it should: the message says what is not proved."""


class CardError(ParseError):
    """A card that fails a hard rule (law 12). `reasons` holds each rule broken, in order of importance."""

    def __init__(self, reasons: tuple[Reason, ...]) -> None:
        super().__init__("; ".join(reason.explanation for reason in reasons))
        self.reasons = reasons
