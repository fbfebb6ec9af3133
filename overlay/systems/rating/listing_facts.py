"""The facts of a rating besides the receipts: the keys that work for a listing, its owner and those of the payers, when
it last changed owner, and which payers are rated themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

from indexer.store import Store
from overlay.listings.listing import Listing, listings_of
from overlay.listings.records import HistoryEntry, Registration
from overlay.listings.repository import ListingRepository
from overlay.systems.rating.store import KeyBind, ReceiptQueries, StoredReceipt
from parsers import cards
from parsers.cards import AgentCard
from parsers.claims.rating import RATED_AT, RatedListing, ReceiptRecord


class ListingTransfer(NamedTuple):
    """The block in which a listing got its present owner: its chain, height and time (seconds since 1970)."""

    chain: str
    height: int
    time: int


class ListingFacts(NamedTuple):
    """The facts of a listing by which its records are judged."""

    rated: RatedListing
    transfer: ListingTransfer | None

    def record(self, row: StoredReceipt) -> ReceiptRecord:
        """A stored row as the record that is rated. The owner at that time follows from the block of the payment, else
        from when the receipt was first received, and never from a time that the worker states."""
        return ReceiptRecord(
            row.digest.hex(),
            row.worker,
            counter_signer=row.counter_signer,
            payer=row.payer,
            payment=row.payment if row.is_proved else "",
            paid=row.paid,
            price=row.price,
            outcome=row.outcome,
            completed_at=row.completed_at,
            before_transfer=self._is_before_transfer(row),
            task=row.task,
            received_at=row.received_at,
        )

    def without_rated(self) -> RatedListing:
        """The listing with no payer that is rated itself."""
        return replace(self.rated, rated=frozenset())

    def _is_before_transfer(self, row: StoredReceipt) -> bool:
        if self.transfer is None:
            return False
        if row.is_proved and row.pay_height is not None and row.chain == self.transfer.chain:
            return row.pay_height < self.transfer.height
        return row.received_at < self.transfer.time * 1_000

    def as_json(self) -> dict[str, Any]:
        """The facts as they are published."""
        transfer = self.transfer
        return {
            "keys": sorted(self.rated.keys),
            "owner": self.rated.owner,
            "ownerOf": dict(sorted(self.rated.owner_of.items())),
            "ratedPayers": sorted(self.rated.rated),
            "transfer": {"chain": transfer.chain, "height": transfer.height} if transfer else None,
        }


def listing_of(registration: Registration | None) -> Listing | None:
    """The listing of a registration, of several tools the first; None without a card."""
    if registration is None or registration.card_body is None:
        return None
    card = cards.read_of(registration.state.id, registration.card_body, registration.state.kind)
    return listings_of(registration, card)[0]


def agent_of(registration: Registration | None) -> Listing | None:
    """The agent of a registration; None for tools, and without a card."""
    listing = listing_of(registration)
    return listing if listing is not None and isinstance(listing.card, AgentCard) else None


def host_key(listing: Listing) -> str:
    """The key of an agent that consents through its host: the key that its card states, where the domain confirms the
    listing and its host signs for this key; else ""."""
    key = stated_key(listing) if listing.is_confirmed_by_domain else ""
    return key if key in {source.host_key(listing, value) for source, value in listing.facts.values()} else ""


def stated_key(listing: Listing) -> str:
    """The key that an agent's card states; "" without one."""
    statement = listing.card.motebit if isinstance(listing.card, AgentCard) else None
    return statement.public_key if statement else ""


def last_transfer(history: Sequence[HistoryEntry]) -> ListingTransfer | None:
    """The newest change of the owner in a history (newest first); None where there was none."""
    states = [(entry, entry.event.state) for entry in history if entry.event.state and entry.time is not None]
    for (entry, state), (_, before) in pairwise(states):
        if state and before and state.owner != before.owner and entry.height is not None and entry.time is not None:
            return ListingTransfer("", entry.height, entry.time)
    return None


class FactsReader:
    """Reads the facts of listings from a store."""

    def __init__(self, store: Store) -> None:
        self._store, self._repository = store, ListingRepository(store)
        self._receipts = ReceiptQueries(store.engine)

    def facts(self, listing: Listing, rows: Sequence[StoredReceipt]) -> ListingFacts:
        """The facts by which these records of an agent are judged."""
        id_, owner = listing.state.id, listing.owner or ""
        transfer = last_transfer(self._repository.history(id_))
        transfer = transfer and transfer._replace(chain=listing.chain)
        keys = {bind.key for bind in self._receipts.keys_of(id_) if self._holds(bind, listing, transfer)}
        addresses = {offer.address.strip() for offer in listing.card.offers if offer.address.strip()}
        binds = self._receipts.bound({row.counter_signer for row in rows} - {""})
        owners = self._owners(bind.listing for bind in binds.values())
        owner_of = {key: owners[bind.listing] for key, bind in binds.items()} | _funders(rows)
        rated = self._rated_payers(rows, binds)
        owner_of |= {payer: listing_owner for payer, listing_owner in rated.items() if listing_owner}
        return ListingFacts(RatedListing(frozenset(keys | addresses), owner, owner_of, frozenset(rated)), transfer)

    def _holds(self, bind: KeyBind, listing: Listing, transfer: ListingTransfer | None) -> bool:
        """Whether a key works for a listing now: its card states the key, and the key consents. A token from before a
        transfer consented to work for another owner."""
        if bind.key != stated_key(listing):
            return False
        if bind.document is None:
            return bind.key == host_key(listing)
        return transfer is None or bind.received_at >= transfer.time * 1_000

    def _owners(self, ids: Iterable[str]) -> dict[str, str]:
        """The owner of each listing, else a name for it alone."""
        requested = sorted(set(ids))
        owners = {id_: f"listing:{id_}" for id_ in requested}
        for chain in self._store.chains():
            for id_, event in self._store.registrations.newest_events(chain, requested).items():
                if event.state is not None and event.state.owner:
                    owners[id_] = event.state.owner
        return owners

    def _rated_payers(self, rows: Sequence[StoredReceipt], binds: dict[str, KeyBind]) -> dict[str, str]:
        """The payers that are an address of a rated listing and paid for receipts that a key of this listing
        counter-signed, each with the owner of that listing."""
        ratings = self._receipts.ratings(bind.listing for bind in binds.values())
        is_rated = {id_ for id_, rating in ratings.items() if (rating.base_score or 0) >= RATED_AT}
        addresses: dict[str, tuple[str, set[str]]] = {}
        payers: dict[str, str] = {}
        for row in rows:
            bind = binds.get(row.counter_signer)
            if not row.payer or bind is None or bind.listing not in is_rated:
                continue
            if bind.listing not in addresses:
                addresses[bind.listing] = self._addresses(bind.listing)
            owner, own_addresses = addresses[bind.listing]
            if row.payer in own_addresses:
                payers[row.payer] = owner
        return payers

    def _addresses(self, listing_id: str) -> tuple[str, set[str]]:
        """The owner of a listing, and the addresses that are its own."""
        listing = agent_of(self._repository.listing(listing_id))
        if listing is None:
            return "", set()
        owner = listing.owner or ""
        return owner, {owner, *(offer.address.strip() for offer in listing.card.offers)} - {""}


def _funders(rows: Sequence[StoredReceipt]) -> dict[str, str]:
    """One name for all payers that the same transactions funded, or that a payment of one of them did: the first of
    them, sorted."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    payers = {row.payer for row in rows if row.payer}
    for row in rows:
        for txid in (row.funding, row.payment) if row.payer else ():
            first, second = sorted((root(row.payer), root(f"tx:{txid}")))
            parent[second] = first
    groups: dict[str, list[str]] = {}
    for payer in sorted(payers):
        groups.setdefault(root(payer), []).append(payer)
    return {payer: group[0] for group in groups.values() if len(group) > 1 for payer in group}
