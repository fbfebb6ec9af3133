"""The page of the receipts behind a rating, as a tree; its URL answers JSON where that is preferred."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from overlay.systems.rating.receipt_intake import ReceiptIntake
from overlay.web.rendering import PAGE_BYTES, render_within
from parsers.claims.canonical_json import jcs

MAX_DOCUMENTS, MAX_NODES = 25, 64
"""Documents that are shown, those that weigh most, and receipts of a document."""

REASONS = {
    "claimed": "only the agent itself signed it",
    "own-key": "the second signature is by the owner's own key",
    "not-bound": "its key does not work for this listing now",
    "previous-owner": "from before the listing changed hands",
    "denied": "the agent declined the task, which is neutral",
    "payment-reused": "another receipt names the same payment",
}
"""Why a record does not count, or not higher, in words."""


COMPLAINTS = {
    "nothing-delivered": "Paid, and nothing was delivered",
    "wrong-result": "Paid, and the result was wrong",
    "too-late": "Paid, and the result came too late",
    "withdrawn": "Withdrawn",
}
"""The codes of complaints in words."""


class ReceiptLine(NamedTuple):
    """A receipt in a document: its task, signer and outcome, its records that count for the listing, and the receipts
    that it nests."""

    task: str
    signer: str
    outcome: str
    records: tuple[Mapping[str, Any], ...]
    nested: tuple[ReceiptLine, ...] = ()


class ShownDocument(NamedTuple):
    """A document as a tree, by its SHA-256, with its kind and when it was received (milliseconds since 1970)."""

    sha256: str
    kind: str
    received_at: int
    root: ReceiptLine


def page(intake: ReceiptIntake, text: str) -> bytes:
    """The receipts behind the rating of the agent with an id, as a tree with what each of them counts for. Raises
    ListingNotFoundError."""
    answer = intake.reader.receipts_json(text)
    documents = list(_documents(intake, answer["records"]))
    values = {"answer": answer, "documents": documents, "reasons": REASONS, "complaints": COMPLAINTS}
    return render_within("receipts.html", PAGE_BYTES, **values)


def _documents(intake: ReceiptIntake, records: list[dict[str, Any]]) -> Iterator[ShownDocument]:
    """The documents by which the receipts of these records count, those that weigh most first, else the first accepted:
    anybody can repeat a receipt in a newer document."""
    by_document: dict[str, list[dict[str, Any]]] = {}
    shown = set[str]()
    for record in sorted(records, key=_strongest_first):
        if record["digest"] not in shown:
            shown.add(record["digest"])
            by_document.setdefault(record["document"], []).append(record)
    for name, of_document in list(by_document.items())[:MAX_DOCUMENTS]:
        body = intake.reader.document(bytes.fromhex(name))
        document = json.loads(body) if body else {}
        kind = next((kind for kind in ("attestation", "envelope") if kind in document), "receipt")
        statement = document.get(kind, document)
        yield ShownDocument(
            name, kind, of_document[0]["receivedAt"], _line(statement, _by_digest(of_document), [MAX_NODES])
        )


def _strongest_first(record: Mapping[str, Any]) -> tuple[Any, ...]:
    payment = record["payment"]
    is_paid = payment is not None and payment["proved"] and payment["payer"] is not None
    return -record["weight"], not is_paid, record["counterSigner"] is None, record["receivedAt"]


def _by_digest(records: list[dict[str, Any]]) -> dict[str, tuple[dict[str, Any], ...]]:
    digests: dict[str, tuple[dict[str, Any], ...]] = {}
    for record in records:
        digests[record["digest"]] = (*digests.get(record["digest"], ()), record)
    return digests


def _line(
    statement: Mapping[str, Any], records: Mapping[str, tuple[dict[str, Any], ...]], room: list[int]
) -> ReceiptLine:
    """A statement with those that it nests, `room` of them at most. All were verified when they were stored."""
    room[0] -= 1
    of_statement = records.get(sha256(jcs(statement)).hexdigest(), ())
    nested = [receipt for receipt in statement.get("delegation_receipts", ()) if isinstance(receipt, dict)]
    return ReceiptLine(
        task=str(statement.get("task_id") or statement.get("contractId") or statement.get("msg_id") or ""),
        signer=str(
            statement.get("public_key") or statement.get("principal") or statement.get("sender", {}).get("id", "")
        ),
        outcome=str(statement.get("status") or (of_statement[0]["outcome"] if of_statement else "")),
        records=of_statement,
        nested=tuple(_line(receipt, records, room) for receipt in nested if room[0] > 0),
    )
