"""Accepts complaints of payers: verifies the signature and the payment, by the cards of its time, and stores them.
Counts follow later, with the ratings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, NamedTuple

from indexer.headers.networks import by_caip2
from indexer.store import Store
from overlay.listings.card_texts import card_offers
from overlay.listings.ids import parse_id
from overlay.listings.records import Registration
from overlay.listings.repository import ListingRepository
from overlay.systems.rating.chain_payments import ChainPayment, ChainPayments, PaymentProof, stored_document
from overlay.systems.rating.store import SubmittedDocument
from overlay.systems.rating.store_complaint_rows import StoredComplaint
from overlay.systems.rating.store_complaints import ComplaintQueries
from parsers.bitcoin.script import p2pkh
from parsers.bitcoin.signatures import hash160
from parsers.cards.offers import Offer
from parsers.claims.amount_due import STAGES
from parsers.claims.canonical_json import DocumentError, jcs
from parsers.claims.complaint_codes import WITHDRAWN
from parsers.claims.complaints import Complaint, read_complaint
from parsers.claims.payment_proof import PaidOffer, paid_offer

MIN_DEPTH = 6
"""Blocks from that of the payment to the newest one, both counted, from which on a complaint is accepted."""

GRACE_SECONDS = 7 * 86_400
"""Seconds after another card replaced one, in which payments still count for the offers of the older: the agent sends
the payment, and could replace its card before."""


class AcceptedComplaint(NamedTuple):
    """A stored complaint, and whether it is new or newer than the one before."""

    complaint: StoredComplaint
    new: bool

    def as_json(self) -> dict[str, Any]:
        """The answer of `POST /v1/evidence`."""
        stored = self.complaint
        return {
            "document": stored.document.hex(), "new": int(self.new), "listings": [stored.listing], "records": [],
            "bind": None, "complaint": {"listing": stored.listing, "txid": stored.payment, "code": stored.code},
        }  # fmt: skip


class ComplaintIntake:
    """Verifies and stores complaints; several threads may use it at once. `clock` gives seconds since 1970."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store, clock
        self._repository, self._complaints = ListingRepository(store), ComplaintQueries(store.engine)
        self._payments = ChainPayments(store)

    def submit(self, document: Any, payment: PaymentProof | None) -> AcceptedComplaint:
        """Store the complaint in a document, with the proof of its payment; one that the same key takes back needs
        none. Raises DocumentError with the code of its fault, StoreError."""
        now_ms = int(self._clock() * 1_000)
        complaint = read_complaint(document, now_ms)
        stored = stored_document("complaint", jcs(document), now_ms)
        if complaint.code == WITHDRAWN:
            return self._withdraw(complaint, stored)
        if payment is None:
            raise DocumentError("bad-payment", "a complaint needs the proof of the payment")
        paid = self._payments.proved(payment, now_ms)
        row = self._row(complaint, stored, paid)
        return AcceptedComplaint(row, self._complaints.submit(row, [stored, paid.document]))

    def _withdraw(self, complaint: Complaint, stored: SubmittedDocument) -> AcceptedComplaint:
        before = self._complaints.of_payment(complaint.txid)
        if before is None or before.key != complaint.key.hex():
            raise DocumentError("unknown-complaint", "no complaint about this payment is signed by this key")
        members = {name: getattr(before, name) for name in StoredComplaint.__dataclass_fields__}
        stated = {"code": complaint.code, "stated_at": complaint.stated_at, "document": stored.sha256}
        row = StoredComplaint(**{**members, **stated})
        return AcceptedComplaint(row, self._complaints.submit(row, [stored]))

    def _row(self, complaint: Complaint, stored: SubmittedDocument, paid: ChainPayment) -> StoredComplaint:
        """The row of a complaint whose payment is proved. Raises DocumentError unless its signer paid, the price of an
        offer of the listing is paid, and the block is deep enough."""
        payment = paid.payment
        if payment.txid != complaint.txid:
            raise DocumentError("payment-mismatch", f"the proof is of {payment.txid}, and not of {complaint.txid}")
        if payment.payer != p2pkh(hash160(complaint.key)):
            detail = "publicKey is not the key of the payment's first input, or `parent` is missing, which shows that"
            raise DocumentError("not-payer", detail)
        listing = parse_id(complaint.listing)[0]
        offer = self._paid_offer(listing, paid)
        if offer is None or offer.paid < offer.price:
            detail = "no offer that the listing had then, priced in this coin, nor its deposit, is paid in full"
            raise DocumentError("payment-mismatch", detail)
        tip = self._store.blocks.newest(paid.name)
        depth = 0 if tip is None else tip.height - payment.height + 1
        if depth < MIN_DEPTH:
            raise DocumentError("too-early", f"the payment is {depth} blocks deep; a complaint needs {MIN_DEPTH}")
        return StoredComplaint(
            payment=payment.txid, listing=listing, code=complaint.code, stated_at=complaint.stated_at,
            received_at=stored.received_at, key=complaint.key.hex(), document=stored.sha256,
            payer=payment.payer_address(paid.chain), proof=paid.document.sha256, paid=offer.paid, price=offer.price,
            chain=paid.name, pay_height=payment.height, pay_root=payment.root,
        )  # fmt: skip

    def _paid_offer(self, listing: str, paid: ChainPayment) -> PaidOffer | None:
        registration = self._repository.listing(listing)
        if registration is None or registration.card_body is None:
            raise DocumentError("unknown-listing", f"{listing[:200]!a} is not listed")
        network = by_caip2(registration.caip2)
        if network is None or network.kind != paid.chain.network or registration.created_time is None:
            return None
        return paid_offer(paid.payment, [*self._offers_then(registration, paid)], paid.chain, STAGES)

    def _offers_then(self, registration: Registration, paid: ChainPayment) -> Iterator[Offer]:
        """The offers of every card that a listing had when a payment was mined, or in the week before."""
        since = registration.state.created_height
        cards = [(card.body, card.replaced_at) for card in registration.previous]
        for body, replaced_at in [*cards, (registration.card_body or b"", None)]:
            if self._payments.is_later(paid, registration.chain, since) and (
                replaced_at is None
                or self._payments.time_of(registration.chain, replaced_at) + GRACE_SECONDS >= paid.time
            ):
                yield from chain.from_iterable(card_offers(body, registration.state.kind).values())
            since = replaced_at or since
