"""The verdict on a subject that is checked at a host: a domain badge, the signatures of a card, the identity of a host,
an endpoint, or whatever else is in the queue of checks."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class CheckedState(StrEnum):
    """Nobody looked at the subject yet, or nobody could; or its last check that brought an answer verified it, or
    refused it."""

    UNCHECKED = "unchecked"
    VERIFIED = "verified"
    REFUSED = "refused"


class CheckVerdict(NamedTuple):
    """`reason` is a code of why a subject is not verified, or why another way to do so failed, "" for none;
    `checked_at` when its state was last established (milliseconds since 1970, 0 for never, or where that is not
    stored)."""

    state: CheckedState
    reason: str = ""
    checked_at: int = 0

    @classmethod
    def of(cls, is_verified: object, reason: str, checked_at: int) -> CheckVerdict:
        """The verdict on a subject that is verified, or else was looked at where there is a time or a reason."""
        state = CheckedState.REFUSED if checked_at or reason else CheckedState.UNCHECKED
        return cls(CheckedState.VERIFIED if is_verified else state, reason, checked_at)

    @property
    def is_verified(self) -> bool:
        """Whether the subject is verified."""
        return self.state is CheckedState.VERIFIED


class HostVerdict(NamedTuple):
    """The answer of a host: the ids that its cards name and its TXT records name, and the SHA-256 of the cards that
    give a badge by hash. `failed` are the ways (name, dns, hash) that brought no answer, `reason` a code why."""

    host: str
    named: frozenset[str]
    in_dns: frozenset[str]
    served: frozenset[bytes]
    failed: frozenset[str] = frozenset()
    reason: str = ""
