"""The exceptions of the parsers.

ParseError          malformed bytes; names the offset where parsing stopped
├─ BlockError       a block with impossible framing, counts or lengths
├─ TransactionError a transaction that is truncated or states a wrong length
├─ ProofError       a well-formed proof that does not prove what it should
└─ CardError        a card that fails a hard rule; carries every reason, not only the first
"""

from __future__ import annotations

from parsers.reasons import Reason


class ParseError(ValueError):
    """Malformed bytes. `offset` is the byte where parsing stopped, None if unknown."""

    def __init__(self, message: str, offset: int | None = None) -> None:
        super().__init__(message if offset is None else f"{message} (at byte {offset:,})")
        self.offset = offset


class BlockError(ParseError):
    """A block with impossible framing, counts or lengths."""


class TransactionError(ParseError):
    """A transaction that is truncated or states a wrong length."""


class ProofError(ParseError):
    """A well-formed proof that does not prove what it should; the message names the unproved statement."""


class CardError(ParseError):
    """A card that breaks hard rules (law 12). `reasons` holds all of them, in order of importance."""

    def __init__(self, reasons: tuple[Reason, ...]) -> None:
        super().__init__("; ".join(reason.explanation for reason in reasons))
        self.reasons = reasons

    def about(self, document: str) -> str:
        """The message for a document that is not a card, for example "the request"."""
        return str(self).replace("the card", document)
