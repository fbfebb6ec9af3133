"""Accepts receipts: verifies a document, the payment of its task and the consent of its key, and stores them.
Ratings follow later, in the process that indexes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from indexer.headers.networks import by_caip2
from indexer.store import Store
from overlay.listings.card_texts import card_offers
from overlay.listings.ids import parse_id
from overlay.listings.listing import Listing
from overlay.listings.records import Registration
from overlay.listings.repository import ListingRepository
from overlay.systems.rating.chain_payments import ChainPayment, ChainPayments, PaymentProof, stored_document
from overlay.systems.rating.complaint_intake import AcceptedComplaint, ComplaintIntake
from overlay.systems.rating.listing_facts import agent_of, host_key, stated_key
from overlay.systems.rating.receipt_json import ReceiptReader
from overlay.systems.rating.store import KeyBind, ReceiptQueries, StoredReceipt, SubmittedDocument
from parsers.cards import AgentCard
from parsers.cards.offers import Offer
from parsers.claims.canonical_json import DocumentError, jcs
from parsers.claims.motebit.bearer_token import without_scheme
from parsers.claims.payment_proof import paid_offer
from parsers.claims.work_receipts import WorkReceipt, bound_key, receipts_in


class BindRefusedError(DocumentError):
    """A token that binds no key to the listing."""


class AcceptedReceipts(NamedTuple):
    """The stored records of a document: its SHA-256, the records that it holds (new or not), and how many are new or
    have a new payment."""

    document: bytes | None
    rows: Sequence[StoredReceipt]
    new: int
    bind: KeyBind | None

    def as_json(self) -> dict[str, Any]:
        """The answer of `POST /v1/evidence`."""
        return {
            "document": self.document.hex() if self.document else None,
            "new": self.new,
            "listings": sorted({row.listing for row in self.rows}),
            "records": [
                {
                    "digest": row.digest.hex(),
                    "listing": row.listing,
                    "worker": row.worker,
                    "counterSigner": row.counter_signer or None,
                    "outcome": row.outcome,
                    "payment": row.payment or None,
                }
                for row in self.rows
            ],
            "bind": {"key": self.bind.key, "listing": self.bind.listing} if self.bind else None,
        }


class ReceiptIntake:
    """Verifies and stores receipts; several threads may use it at once. `clock` gives seconds since 1970, and `reader`
    reads the store."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self.reader = ReceiptReader(store)
        self._store, self._clock = store.on_primary(), clock
        self._repository, self._receipts = ListingRepository(self._store), ReceiptQueries(self._store.engine)
        self._payments = ChainPayments(self._store)
        self._complaints = ComplaintIntake(self._store, clock)

    def submit(
        self,
        kind: str,
        document: Any,
        *,
        listing: str | None = None,
        bind: str | None = None,
        payment: PaymentProof | None = None,
    ) -> AcceptedReceipts:
        """Store the receipts in a document of a kind of `work_receipts`; a repeated document changes nothing. `listing`
        names the agent that a key of the document works for, where the key is not bound to it yet; `bind` is the token
        by which it consents. Without a document (None) only the key is bound. Raises DocumentError with the code of its
        fault, StoreError."""
        now_ms = int(self._clock() * 1_000)
        agent = None if listing is None else self._agent(listing)
        held = None if agent is None else self._bind(agent, bind, now_ms)
        if document is None:
            if held is None:
                raise DocumentError("not-bound", "without a document, a listing with a key in its card is needed")
            return AcceptedReceipts(None, (), 0, held)
        works = receipts_in(kind, document, now_ms, _keys(agent))
        stored = stored_document(kind, jcs(document), now_ms)
        bound = self._receipts.bound({work.record.worker for work in works})
        known_works = [work for work in works if work.record.worker in bound]
        if not known_works:
            raise DocumentError("not-bound", "no key that signed as the worker is bound to a listing")
        proof = None if payment is None else self._payments.proved(payment, now_ms)
        rows = [self._row(work, bound[work.record.worker].listing, stored, proof) for work in known_works]
        if proof is not None and not any(row.payment for row in rows):
            detail = (
                f"no task is named bsv:tx:{proof.payment.txid}, or nothing is paid for an offer in its coin, at an "
                "address that the card had then"
            )
            raise DocumentError("payment-mismatch", detail)
        documents = [stored, *([proof.document] if proof else [])]
        return AcceptedReceipts(stored.sha256, rows, self._receipts.submit(documents, rows), held)

    def complain(self, document: Any, payment: PaymentProof | None) -> AcceptedComplaint:
        """Store the complaint of a payer, or take it back. Raises DocumentError, StoreError."""
        return self._complaints.submit(document, payment)

    def _agent(self, listing: str) -> Listing:
        agent = agent_of(self._repository.listing(parse_id(listing)[0]))
        if agent is None:
            raise DocumentError("unknown-listing", f"{listing[:200]!a} is not a listed agent")
        return agent

    def _bind(self, agent: Listing, token: str | None, now_ms: int) -> KeyBind | None:
        """The bind of the key in an agent's card, by a token or by what its host serves; None without consent."""
        id_, document = agent.state.id, None
        if token is not None:
            try:
                key = bound_key(token, stated_key(agent), id_, now_ms)
            except DocumentError as error:
                raise BindRefusedError(error.code, error.detail) from None
            document = stored_document("bind", without_scheme(token).encode(), now_ms)
        else:
            key = host_key(agent)
        if not key:
            return None
        bind = KeyBind(key, id_, document.sha256 if document else None, now_ms)
        held = self._receipts.bind(bind, document)
        if held.listing != id_:
            raise DocumentError("key-bound", f"the key works for {held.listing[:200]}")
        return held

    def _row(
        self, work: WorkReceipt, listing: str, document: SubmittedDocument, proof: ChainPayment | None
    ) -> StoredReceipt:
        record = work.record
        row = StoredReceipt(
            digest=bytes.fromhex(record.digest), counter_signer=record.counter_signer, document=document.sha256,
            listing=listing, worker=record.worker, task=record.task, outcome=record.outcome,
            completed_at=min(record.completed_at, document.received_at), received_at=document.received_at,
        )  # fmt: skip
        if proof is None or work.txid != proof.payment.txid or not record.counter_signer:
            return row
        paid = paid_offer(proof.payment, self._payable(listing, proof), proof.chain)
        return proof.on(row, paid) if paid else row

    def _payable(self, listing: str, proof: ChainPayment) -> list[Offer]:
        """The offers of an agent that named their address when the payment was mined, on a chain with real money where
        the agent's own chain has real money. Otherwise earlier payments by others to an address would count for the
        agent."""
        registration = self._repository.listing(listing)
        agent = agent_of(registration)
        network = by_caip2(agent.caip2) if agent else None
        if registration is None or agent is None or network is None or network.kind != proof.chain.network:
            return []
        return [
            offer
            for offer in agent.card.offers
            if (since := _named_since(registration, offer.address.strip())) is not None
            and self._payments.is_later(proof, registration.chain, since)
        ]


def _named_since(registration: Registration, address: str) -> int | None:
    """The height from which on every card of an agent has named an address; None while it is unconfirmed."""
    if registration.created_time is None:
        return None
    for before in reversed(registration.previous):
        offers = card_offers(before.body, registration.state.kind).get("", ())
        if address not in {offer.address.strip() for offer in offers}:
            return before.replaced_at
    return registration.state.created_height


def _keys(agent: Listing | None) -> Mapping[str, bytes]:
    """The key that the card of an agent has for its identity, which may be one that does not follow from the key."""
    statement = agent.card.motebit if agent is not None and isinstance(agent.card, AgentCard) else None
    return {statement.motebit_id: bytes.fromhex(statement.public_key)} if statement else {}
