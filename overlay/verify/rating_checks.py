"""Compute the rating of a listing again from the receipts that a server publishes.

Each record must follow from a document with its hash, signed by the key that the proved card names, and each payment
from a transaction in a block of the chain. The owners of other keys, the rated payers, and the completeness of the
receipts are not verified: they are the server's statements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Protocol

from overlay.verify.header_chain import Fetch, HeaderLinks
from overlay.verify.server_answer import HEADER, MinedBlock, NotCheckedError, NotProvedError, ServerAnswer
from parsers.bitcoin.tx import sha256d
from parsers.cards import AgentCard, read_of
from parsers.claims.canonical_json import DocumentError, read
from parsers.claims.payment import UtxoChain
from parsers.claims.payment_proof import MAX_PROOF_BYTES, ProvedPayment, read_payment
from parsers.claims.rating import RatedListing, ReceiptRecord, rate, stars
from parsers.claims.work_receipts import bound_key, receipts_in

MAX_PAGES, MAX_BLOCKS = 128, 500
"""Pages of receipts that are read, and blocks of payments that are linked."""

MAX_PROOF = 4 * MAX_PROOF_BYTES + 1_000
"""Bytes of the proof of a payment: a BEEF and a parent as hex."""


_ADDED = frozenset(("failed", "paidTasks", "customers", "stars"))
"""The members of a rating that overlays of release 0.2 do not answer."""


class ReceiptSource(Protocol):
    """A source of receipts: a running overlay or the local store."""

    def evidence(self, id_: str, after: str | None = None) -> Any:
        """A page of the receipts of a listing."""
        ...

    def document(self, sha256: str) -> bytes:
        """A document by its SHA-256."""
        ...


@dataclass(slots=True)
class RatingCheck:
    """The published receipts of a listing, and the rating that follows from their documents. `blocks` are the blocks of
    payments."""

    answer: ServerAnswer
    source: ReceiptSource
    fetch: Fetch
    blocks: list[MinedBlock] = field(default_factory=list)
    _first: Mapping[str, Any] = field(default_factory=dict)
    _records: list[ReceiptRecord] = field(default_factory=list)
    _works: dict[str, dict[tuple[Any, ...], int]] = field(default_factory=dict)
    _sentence: str = ""
    _problem: NotProvedError | NotCheckedError | None = None

    def read(self) -> None:
        """Read the receipts and their documents, and compute the rating. `check` raises their faults."""
        try:
            self._read()
            self._sentence = self._compared()
        except (NotProvedError, NotCheckedError) as error:
            self._problem = error
        except DocumentError as error:
            self._problem = NotProvedError(str(error))
        except (LookupError, TypeError, ValueError, AttributeError):
            self._problem = NotProvedError("the answer about the rating has another form")

    def check(self, links: HeaderLinks) -> str:
        """A sentence about the computed rating. Raises NotProvedError, NotCheckedError."""
        if self._problem is not None:
            raise self._problem
        for block in self.blocks:
            links.sentence(block)
        return self._sentence

    def _compared(self) -> str:
        """The rating computed from the records, which must be that of the listing. Raises NotProvedError."""
        facts, rating = self._first["facts"], self.answer.item["rating"]
        listing = RatedListing(
            frozenset(facts["keys"]), facts["owner"], facts["ownerOf"], frozenset(facts["ratedPayers"])
        )
        again = rate(self._records, listing, self._first["asOf"])
        score = None if again.score is None else again.score / 1_000
        evidence = again.completed + again.failed
        computed = {
            "score": score, "rung": f"E{again.rung}", "evidence": evidence, "failed": again.failed,
            "paidTasks": again.paid_tasks, "customers": again.customers,
            "stars": None if again.score is None else stars(again.score, again.customers),
        }  # fmt: skip
        for name, value in computed.items():
            if (rating.get(name, value) if name in _ADDED else rating[name]) != value:
                raise NotProvedError(
                    f"{name} of the rating is {str(rating.get(name))[:40]}, and the receipts give {value}"
                )
        return (
            f"{len(self._records):,} records from {len(self._works):,} documents, paid in {len(self.blocks):,} blocks, "
            f"come to {score}; owners of other keys, rated payers, and what is left out are the server's word"
        )

    def _read(self) -> None:
        card = read_of(self.answer.registration, self.answer.card, self.answer.kind)
        if self.answer.item["rating"]["score"] is None:
            raise NotCheckedError("no receipt counts, and complaints are the server's word")
        if not isinstance(card, AgentCard) or card.motebit is None:
            raise NotProvedError("the card names no key, and only one that it names is rated")
        page = self._first = self.source.evidence(self.answer.id)
        self._check_facts(card, page["facts"], page["binds"])
        for _ in range(MAX_PAGES):
            for record in page["records"]:
                if record["receivedAt"] <= self._first["asOf"]:
                    self._records.append(self._record(card, record))
            if page["next"] is None:
                return
            page = self.source.evidence(self.answer.id, page["next"])
        raise NotCheckedError(f"there are more than {MAX_PAGES} pages of receipts")

    def _check_facts(self, card: AgentCard, facts: Mapping[str, Any], binds: list[Any]) -> None:
        key = card.motebit.public_key if card.motebit else ""
        addresses = {offer.address.strip() for offer in card.offers} - {""}
        if set(facts["keys"]) - {key} != addresses or facts["owner"] != (self.answer.item.get("owner") or ""):
            raise NotProvedError("the keys and addresses that are rated are not those of the card")
        for bind in binds:
            if bind["key"] == key and bind["token"] is not None:
                token = self._document(bind["token"]).decode()
                bound_key(token, key, self.answer.registration, bind["receivedAt"])

    def _record(self, card: AgentCard, record: Mapping[str, Any]) -> ReceiptRecord:
        counter_signer = record["counterSigner"] or ""
        expected = (*(record[name] for name in ("digest", "worker", "outcome", "task")), counter_signer)
        completed_at = self._works_of(card, record["document"], record["receivedAt"]).get(expected)
        if completed_at is None:
            raise NotProvedError(f"the document {str(record['document'])[:100]!a} does not prove a record")
        payment = record["payment"]
        if payment and payment["proved"]:
            latest = self._check_payment(payment)
        else:
            latest = record["completedAt"] if payment else record["receivedAt"]
        if record["completedAt"] != min(completed_at, latest):
            raise NotProvedError(f"the record {record['digest']} ages from another time")
        paid = payment if payment and payment["proved"] else {}
        return ReceiptRecord(
            record["digest"], record["worker"], counter_signer, paid.get("payer") or "", paid.get("txid", ""),
            paid.get("paid", 0), paid.get("price", 0), record["outcome"], record["completedAt"],
            record["beforeTransfer"], record["task"], record["receivedAt"],
        )  # fmt: skip

    def _works_of(self, card: AgentCard, name: str, received_at: int) -> dict[tuple[Any, ...], int]:
        """The work in a document and the time of its completion, verified as of the time it was received."""
        if name not in self._works:
            document = read(self._document(name))
            kind = {"attestation": "attestation", "envelope": "mrp-evidence"}
            own_kind = next((kind[member] for member in kind if member in document), "receipt")
            keys = {card.motebit.motebit_id: bytes.fromhex(card.motebit.public_key)} if card.motebit else {}
            self._works[name] = {
                (work.digest, work.worker, work.outcome, work.task, work.counter_signer): work.completed_at
                for work, _ in receipts_in(own_kind, document, received_at, keys)
            }
        return self._works[name]

    def _check_payment(self, payment: Mapping[str, Any]) -> int:
        """The time of the payment's block, in milliseconds since 1970. Raises NotProvedError."""
        proof = read(self._document(payment["proof"]), max_bytes=MAX_PROOF)
        parent = proof.get("parent")
        proved = read_payment(bytes.fromhex(proof["beef"]), bytes.fromhex(parent) if parent else None)
        chain = UtxoChain(self.answer.network.coin, self.answer.network.kind)
        payer, funding = proved.payer_address(chain) or None, proved.funding
        if (proved.txid, payer, funding) != (payment["txid"], payment["payer"], payment["funding"]):
            raise NotProvedError(f"the proof of {payment['txid']} is of another payment")
        received = proved.received(chain)
        if payment["paid"] not in {received.get(key, 0) for key in self._first["facts"]["keys"]}:
            raise NotProvedError(f"{payment['txid']} does not pay {payment['paid']:,} satoshis to the listing")
        return int.from_bytes(self._add_block(proved).header[68:72], "little") * 1_000

    def _add_block(self, payment: ProvedPayment) -> MinedBlock:
        block = next((block for block in self.blocks if block.height == payment.height), None)
        if block is None:
            if len(self.blocks) >= MAX_BLOCKS:
                raise NotProvedError(f"the payments are in more than {MAX_BLOCKS:,} blocks")
            headers = self.fetch(payment.height)
            if not headers:
                raise NotProvedError(f"the header of block {payment.height:,}, which has a payment, is not served")
            block = MinedBlock(b"", sha256d(headers[0][:HEADER]), payment.height, headers[0])
            self.blocks.append(block)
        if block.header[36:68] != payment.root:
            raise NotProvedError(f"the block {payment.height:,} of a payment is not in the chain that is served")
        return block

    def _document(self, name: str) -> bytes:
        """The bytes of a document, which are not kept: a listing may have 100,000, of 256 kB each."""
        body = self.source.document(name)
        if sha256(body).hexdigest() != name:
            raise NotProvedError(f"the document {name[:100]!a} has another hash")
        return body
