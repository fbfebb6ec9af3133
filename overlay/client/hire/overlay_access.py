"""The overlay of a hire, as `AsyncOverlayClient` queries it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from overlay.answers.payments import ListingPayment
from overlay.answers.verdicts import SubmittedReceipts
from overlay.client.calls import Call

T = TypeVar("T")


class OverlayAccess(Protocol):
    """An overlay at a base URL. Its methods raise ClientError."""

    base: str

    async def ask(self, call: Call[Any], *, is_checked: bool = True) -> Any:
        """The answer to a call as JSON."""
        ...

    async def ask_at(self, url: str, call: Call[Any]) -> Any:
        """The answer of another overlay as JSON."""
        ...

    async def send(self, call: Call[T]) -> T:
        """The answer to a call as its model."""
        ...

    async def payment(self, id_: str, txid: str) -> ListingPayment:
        """A payment to a listing that is in a block, with its proof."""
        ...

    async def rate(
        self, id_: str, receipt: Mapping[str, Any], signing_key: bytes, *, node: str | None = None
    ) -> SubmittedReceipts:
        """Submit a receipt, countersigned, with the proof of its payment."""
        ...
