"""Listings and proofs from the local store, in the form in which a server answers."""

from __future__ import annotations

from typing import Any

from overlay.listings.lookup import card, listing
from overlay.listings.proofs import proof
from overlay.listings.repository import ListingRepository


class LocalSource:
    """A `ListingSource` over the local store. Its methods raise ListingNotFoundError."""

    def __init__(self, repository: ListingRepository) -> None:
        self.repository = repository

    def listing(self, id_: str) -> Any:
        """The item of a listing."""
        return listing(self.repository, id_)

    def card(self, id_: str) -> bytes:
        """The exact bytes of its card."""
        return card(self.repository, id_)[1]

    def proof(self, id_: str, first: int | None = None) -> Any:
        """Its proof, with headers from height `first` on."""
        return proof(self.repository, id_, first)
