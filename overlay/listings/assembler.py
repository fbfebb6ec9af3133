"""Registrations assembled from the store: their events and cards, and further stored facts, in a few statements a
batch.

The API reads newest states here, and the index the states of all heights: a further fact about a registration is added
to `RegistrationFacts`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from indexer import store
from indexer.headers.networks import ticker_of
from indexer.resolution.pointer_service import PointerListing, is_outpoint, pointer_listings
from indexer.store.badges import DomainBadge
from indexer.store.card_signatures import StoredSignature
from indexer.store.observed_tools import ObservedTools
from overlay.installation import NAMES
from overlay.listings import from_pointer
from overlay.listings.records import PreviousCard, Registration
from overlay.listings.registrations import (
    ChainHistory,
    cards_to_read,
    fitting,
    leads_elsewhere,
    may_be_too_many,
    newest_registration,
)
from overlay.listings.system_facts import Facts, facts_of
from parsers.bitcoin.tx import Outpoint, read
from parsers.claims.card_signature import SIGNATURES
from parsers.inscriptions import ordlock
from parsers.inscriptions.ordlock import Sale

SALE_BYTES = 4 << 20
"""Bytes of a transaction that is read for a sale, at most."""

Revisions = Mapping[str, store.RegistrationHistory]
"""The revisions of registrations by id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationFacts:
    """Stored facts of registrations besides their events: badges, observed tools and the facts of systems by id,
    results of checking signatures by the SHA-256 of the card, when outpoints were seen unspent (seconds since 1970),
    and the sales that they offer."""

    badges: Mapping[str, DomainBadge]
    systems: Callable[[str], Facts]
    signatures: Mapping[bytes, StoredSignature]
    checked: Mapping[Outpoint, int]
    sales: Mapping[Outpoint, Sale]
    observed: Mapping[str, Mapping[str, ObservedTools]]

    def with_facts(self, registration: Registration, *, is_pointed: bool = False) -> Registration:
        """A registration with its stored facts. A registration that is listed from pointers has no badge."""
        id_, outpoint = registration.state.id, registration.state.outpoint
        return replace(
            registration,
            badge=None if is_pointed else self.badges.get(id_),
            facts=self.systems(id_),
            signature=self.signatures.get(registration.state.card),
            sale=self.sales.get(outpoint) if outpoint else None,
            observed=self.observed.get(id_, {}),
        )


class Assembler:
    """Reads registrations from the store, with the facts that these systems add. Thread-safe."""

    def __init__(self, source: store.Store, systems: tuple[str, ...] = NAMES) -> None:
        self._store, self._systems = source, systems

    def pointed(self, ids: Iterable[str], records: Revisions) -> Iterator[Registration]:
        """The registrations with these ids that are listed from pointers, unless a registry entry in `records` counts
        instead."""
        for pointers in pointer_listings(self._store, (id_ for id_ in ids if not is_outpoint(id_))):
            record = records.get(pointers.id)
            if record is None or leads_elsewhere(record, pointers):
                shown = self._from_pointers(pointers)
                if shown is not None:
                    yield shown

    def newest(self, histories: Mapping[str, ChainHistory]) -> dict[str, Registration]:
        """The newest states of registrations by id."""
        named = [cards_to_read(history) for history in histories.values()]
        many = (cards for cards in named if may_be_too_many(cards))
        sizes = self._store.content.card_sizes(chain.from_iterable(many))
        bodies = self._store.content.cards(set().union(*(fitting(cards, sizes) for cards in named)))
        facts, chains = self.facts(histories, histories.values(), bodies), self._store.chains()
        return {
            id_: facts.with_facts(
                newest_registration(history.confirmed, history.waiting, history.chain, chains, bodies, facts.checked)
            )
            for id_, history in histories.items()
        }

    def facts(
        self,
        ids: Iterable[str],
        histories: Iterable[ChainHistory],
        bodies: Mapping[bytes, bytes],
        pointed: Mapping[str, str] | None = None,
    ) -> RegistrationFacts:
        """Stored facts of registrations with these ids, histories and cards. `pointed` has the hosts of registrations
        that are listed from pointers; the host of an inscribed card is the one of its badge."""
        requested, of_chains = list(ids), list(histories)
        badges = self._store.badges.get(requested)
        hosts = {id_: badges[id_].host if id_ in badges else "" for id_ in requested} | dict(pointed or {})
        signed = [digest for digest, body in bodies.items() if SIGNATURES in body]
        return RegistrationFacts(
            badges=badges,
            systems=facts_of(self._store, hosts, self._systems),
            signatures=self._store.signatures.get(signed) if signed else {},
            checked=self._checked(of_chains),
            sales=self._sales(of_chains),
            observed=self._store.tools.of_registrations(requested),
        )

    def _from_pointers(self, pointers: PointerListing) -> Registration | None:
        """The registration from pointers, with its earlier cards; None while nothing is listed."""
        shown = from_pointer.registration_of(pointers, self._store.chains())
        resolution = pointers.resolution
        if shown is None or resolution is None or shown.card_body is None:
            return None
        host = from_pointer.host(resolution.anchor.locator or "")
        facts = self.facts([pointers.id], (), {shown.state.card: shown.card_body}, {pointers.id: host})
        shown = facts.with_facts(shown, is_pointed=True)
        unproved, previous = self._store.is_unproved(shown.chain), self._previous_of_pointers(shown)
        return replace(shown, headers_unproved=unproved, previous=previous)

    def _previous_of_pointers(self, registration: Registration) -> tuple[PreviousCard, ...]:
        """The earlier cards of a registration from pointers."""
        resolution = registration.pointers.resolution if registration.pointers else None
        if resolution is None or resolution.anchor.locator is None:
            return ()
        if resolution.anchor.digest is None:
            facts = self._store.pointers.facts([resolution.anchor.locator])
            served = from_pointer.served_before(resolution, facts.get(resolution.anchor.locator, ()))
            heights = [
                (digest, registration.state.owner, self._store.blocks.height_at(registration.chain, until))
                for digest, until in served
            ]
            # a card served before the first block gives no warning
            previous = [(digest, owner, height) for digest, owner, height in heights if height is not None]
        else:
            previous = from_pointer.listed_before(resolution)
        bodies = self._store.content.cards({digest for digest, _, _ in previous})
        return tuple(
            PreviousCard(body=bodies[digest], owner=owner, replaced_at=height)
            for digest, owner, height in previous
            if digest in bodies
        )

    def _sales(self, histories: Iterable[ChainHistory]) -> dict[Outpoint, Sale]:
        """The sales that outputs on BSV offer to which no address is the key, by their outpoints. They are read from
        the stored transactions, so that a state hash does not depend on which contracts are known."""
        chains, outpoints_by_chain = self._store.chains(), defaultdict[str, set[Outpoint]](set)
        for history in histories:
            if ticker_of(chains.get(history.chain, "")) == "BSV":
                states = (past.event.state for past in history.confirmed)
                unlocked = (state.outpoint for state in states if state and state.owner is None and state.outpoint)
                outpoints_by_chain[history.chain].update(unlocked)
        sales: dict[Outpoint, Sale] = {}
        for name, outpoints in outpoints_by_chain.items():
            sizes = self._store.proofs.sizes(name, {outpoint.txid for outpoint in outpoints})
            proofs = self._store.proofs.get_many(name, [txid for txid, size in sizes.items() if size <= SALE_BYTES])
            for outpoint in outpoints:
                proved = proofs.get(outpoint.txid)
                sale = ordlock.read(read(proved.proof.raw).outputs[outpoint.vout]) if proved else None
                sales |= {outpoint: sale} if sale else {}
        return sales

    def _checked(self, histories: Iterable[ChainHistory]) -> dict[Outpoint, int]:
        """When the outpoints of registrations were last reported unspent, on chains where queries find moves."""
        outpoints_by_chain: dict[str, list[Outpoint]] = {}
        for history in histories:
            state = history.confirmed[-1].event.state if history.confirmed else None
            if state is not None and state.outpoint is not None:
                outpoints_by_chain.setdefault(history.chain, []).append(state.outpoint)
        checked_at: dict[Outpoint, int] = {}
        for name, outpoints in outpoints_by_chain.items():
            if self._store.is_partial(name):
                checked_at |= self._store.spend_checks.unspent_at(name, outpoints)
        return checked_at
