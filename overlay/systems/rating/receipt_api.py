"""Routes of receipts: submit them, and read the receipts behind a rating."""

from __future__ import annotations

from functools import partial
from typing import Any

from aiohttp import web

from overlay.api.answers import Answer, body, conditional, json_answer
from overlay.api.executors import PUBLISHING, RECORDS, read_json, run_in
from overlay.api.parameters import RECEIPTS, read_query
from overlay.api.problems import BadRequestError, NotFoundError, bad_request
from overlay.api.request_bodies import Body, Hex, body_schemas, checked
from overlay.api.routes import HTML, JSON, Route
from overlay.api.shared_services import RECEIPTS as SHARED_INTAKE
from overlay.api.shared_services import TRUST
from overlay.api.systems import Parts, Services, SystemApi
from overlay.systems.rating import receipt_page
from overlay.systems.rating.chain_payments import PaymentProof
from overlay.systems.rating.complaint_intake import AcceptedComplaint
from overlay.systems.rating.receipt_intake import AcceptedReceipts, BindRefusedError, ReceiptIntake
from overlay.systems.rating.receipt_json import ForeignPositionError
from overlay.systems.rating.store_trust import TrustGraph
from overlay.web.rendering import html_answer, wants_json
from parsers.claims.canonical_json import DocumentError, read

COMPLAINT = "complaint"
"""The kind of a document by which a payer complains."""

MAX_BODY = 2 << 20
"""Bytes of a body: a document, and the proof of a payment in hex."""

_POINTERS = {
    **dict.fromkeys(("bad-payment", "not-proved", "payment-mismatch", "not-payer", "too-early"), "/payment"),
    **dict.fromkeys(("unknown-listing", "key-bound"), "/listing"),
    "unknown-kind": "/kind",
}


INTAKE: web.AppKey[ReceiptIntake] = web.AppKey("receipt intake of ratings", ReceiptIntake)


class PaymentBody(Body):
    """The proof of a payment as hex: a BEEF, and the transaction that its first input spends if that is not in it."""

    beef: Hex
    parent: Hex | None = None


class ReceiptBody(Body):
    """Receipts of work: a document of a kind, its payment, and the consent of its key to work for a listing. `document`
    is a receipt of Motebit, `{attestation, contract}` of DelegateOS, `{envelope, keys, request}` of MRP, or for the
    kind `complaint` the statement of a payer; without one only the key is bound. `bind` is a bearer token of Motebit
    for the audience `custom:a2b-bind`; its member `origin` is the id of the listing. `payment` is that of the task
    named `bsv:tx:<txid>`, or of a complaint."""

    kind: str | None = None
    document: Any = None
    listing: str | None = None
    bind: str | None = None
    payment: PaymentBody | None = None


async def submit(request: web.Request) -> web.Response:
    """Submit a signed document with receipts of work, and the proof of its payment: it is verified, and stored once."""
    return json_answer(await run_in(request, PUBLISHING, _submit, _intake(request), await body(request, MAX_BODY)))


async def evidence(request: web.Request) -> web.Response:
    """The receipts behind the rating of an agent: its records with rung and reason, and all data to compute the rating
    again."""
    after = read_query(request, RECEIPTS).get("after")
    work = _intake(request).reader.receipts_json
    try:
        return conditional(await read_json(request, work, request.match_info["id"], after))
    except ForeignPositionError as error:
        raise bad_request("bad-cursor", str(error), "after") from None


async def document(request: web.Request) -> web.Response:
    """A document that receipts are read from, by the SHA-256 of its bytes."""
    name = request.match_info["sha256"]
    digest = bytes.fromhex(name) if len(name) == 64 and not set(name) - set("0123456789abcdef") else b""
    stored = await run_in(request, RECORDS, _intake(request).reader.document, digest)
    if stored is None:
        raise NotFoundError(f"no document has the SHA-256 {name[:100]!a}")
    headers = {"Content-Security-Policy": "sandbox; default-src 'none'", "Cache-Control": "public, max-age=31536000"}
    return Answer(body=stored, headers={"Content-Type": "application/json", **headers})


def _intake(request: web.Request) -> ReceiptIntake:
    intake = request.app.get(INTAKE)
    if intake is None:
        raise NotFoundError("this server stores no receipts")
    return intake


def _submit(intake: ReceiptIntake, data: bytes) -> dict[str, Any]:
    try:
        value = read(data, max_bytes=MAX_BODY)
    except DocumentError as error:
        raise _refused(error, "") from None
    submitted = checked(ReceiptBody, value)
    if submitted.document is None and (submitted.listing is None or submitted.payment is not None):
        raise _refused(DocumentError("missing", "there is no document"), "/document")
    if submitted.bind is not None and submitted.listing is None:
        raise _refused(DocumentError("missing", "a token binds a key to a listing"), "/listing")
    proof = None
    if submitted.payment is not None:
        parent = submitted.payment.parent
        beef = bytes.fromhex(submitted.payment.beef)
        proof = PaymentProof(beef=beef, parent=bytes.fromhex(parent) if parent else None)
    try:
        accepted = _accepted(intake, submitted, proof)
    except DocumentError as error:
        usual = "/listing" if submitted.document is None else "/document"
        usual = "/bind" if isinstance(error, BindRefusedError) else usual
        raise _refused(error, _POINTERS.get(error.code, usual)) from None
    return accepted.as_json()


def _accepted(
    intake: ReceiptIntake, submitted: ReceiptBody, proof: PaymentProof | None
) -> AcceptedReceipts | AcceptedComplaint:
    if submitted.kind == COMPLAINT:
        return intake.complain(submitted.document, proof)
    return intake.submit(
        submitted.kind or "", submitted.document, listing=submitted.listing, bind=submitted.bind, payment=proof
    )


def _refused(error: DocumentError, pointer: str) -> BadRequestError:
    return bad_request(error.code, error.detail, pointer=pointer)


async def page(request: web.Request) -> web.Response:
    """The receipts behind a rating as a tree, with what each of them counts for, or the same as JSON."""
    if wants_json(request):
        return await evidence(request)
    return html_answer(await run_in(request, RECORDS, receipt_page.page, _intake(request), request.match_info["id"]))


def bring(parts: Parts) -> Services:
    """The intake of receipts, and the trust graph that follows from them."""
    intake = ReceiptIntake(parts.store)
    return {INTAKE: intake, SHARED_INTAKE: intake, TRUST: TrustGraph(parts.store.primary)}


_documents = partial(Route, tag="claims")
API = SystemApi(
    schemas=body_schemas({"EvidenceOfWork": ReceiptBody}),
    routes=(
        Route(
            "/v1/listings/{id}/evidence", evidence, "Evidence", tag="listings", parameters=RECEIPTS, errors=(404, 451),
            conditional=True, action="search",
        ),
        _documents(
            "/v1/evidence", submit, "AcceptedEvidence", method="POST", body="EvidenceOfWork", limit="costly",
            errors=(400, 404, 408, 413, 415, 503), action="rate",
        ),
        _documents("/v1/evidence/{sha256}", document, "ClaimDocument", errors=(404, 451), action="search"),
        Route(
            "/listings/{id}/evidence", page, "Evidence", tag="pages", media=(HTML, JSON), errors=(404, 451),
            conditional=True,
        ),
    ),
    bring=bring,
)  # fmt: skip
