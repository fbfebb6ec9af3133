"""Payments that clients prove: in which block of a followed chain they are, and whether they are older than another
block."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

from indexer.headers.networks import by_caip2
from indexer.store import Store
from overlay.systems.rating.store import StoredReceipt, SubmittedDocument
from parsers.claims.canonical_json import MAX_BYTES, DocumentError, jcs
from parsers.claims.payment import UtxoChain
from parsers.claims.payment_proof import PaidOffer, ProvedPayment, read_payment


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentProof:
    """A BEEF with a merkle path of its newest transaction, and the raw transaction that its first input spends, where
    that is not in the BEEF."""

    beef: bytes
    parent: bytes | None = None

    def document(self, now_ms: int) -> SubmittedDocument:
        """The proof in its stored form."""
        parent = {} if self.parent is None else {"parent": self.parent.hex()}
        return stored_document("payment", jcs({"beef": self.beef.hex(), **parent}), now_ms)


class ChainPayments:
    """Looks payments up in the headers of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def proved(self, proof: PaymentProof, now_ms: int) -> ChainPayment:
        """The payment in a block of a chain that is followed. Raises DocumentError."""
        payment = read_payment(proof.beef, proof.parent)
        for name, caip2 in self._store.chains().items():
            network = by_caip2(caip2)
            headers = self._store.headers.run(name, payment.height, 1) if network else []
            if network and headers and headers[0][36:68] == payment.root:
                chain, stored = UtxoChain(network.coin, network.kind), proof.document(now_ms)
                return ChainPayment(payment, name, chain, stored, _time(headers[0]))
        detail = f"no chain here has a block {payment.height:,} with the merkle root {payment.root[::-1].hex()}"
        raise DocumentError("not-proved", detail)

    def is_later(self, proof: ChainPayment, chain: str, height: int) -> bool:
        """Whether a payment is not older than a block: by height, on another chain by time."""
        if chain == proof.name:
            return proof.payment.height >= height
        return 0 < self.time_of(chain, height) <= proof.time

    def time_of(self, chain: str, height: int) -> int:
        """The time of a block in seconds since 1970; 0 for one that is not stored."""
        headers = self._store.headers.run(chain, height, 1)
        return _time(headers[0]) if headers else 0


class ChainPayment(NamedTuple):
    """A payment, the configured name of the chain that it is on, the chain, and the time of its block (seconds since
    1970)."""

    payment: ProvedPayment
    name: str
    chain: UtxoChain
    document: SubmittedDocument
    time: int

    def on(self, row: StoredReceipt, paid: PaidOffer) -> StoredReceipt:
        """A record with this payment. It ages from the payment's block on, as a receipt can be signed again at any
        time."""
        members = {name: getattr(row, name) for name in StoredReceipt.__dataclass_fields__}
        payment = self.payment
        payment_members = {
            "payer": payment.payer_address(self.chain), "payment": payment.txid, "proof": self.document.sha256,
            "funding": payment.funding, "paid": paid.paid, "price": paid.price, "chain": self.name,
            "pay_height": payment.height, "pay_root": payment.root, "is_proved": True,
            "completed_at": min(row.completed_at, self.time * 1_000),
        }  # fmt: skip
        return StoredReceipt(**{**members, **payment_members})


def _time(header: bytes) -> int:
    return int.from_bytes(header[68:72], "little")


def stored_document(kind: str, body: bytes, now_ms: int) -> SubmittedDocument:
    """A document in its stored form, at a time in milliseconds since 1970. Raises DocumentError: too-large."""
    if len(body) > 4 * MAX_BYTES:
        raise DocumentError("too-large", f"{len(body):,} bytes; at most {4 * MAX_BYTES:,} are stored")
    return SubmittedDocument(sha256(body).digest(), kind, body, now_ms)
