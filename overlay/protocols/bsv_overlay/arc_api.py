"""The route `/arc-ingest`, at which ARC reports what became of submitted transactions."""

from __future__ import annotations

import hmac
from typing import Any

from aiohttp import hdrs, web

from indexer.admission.admission import Admissions
from indexer.admission.refusal import NotAdmittedError
from overlay.api.answers import SERVICES, body, json_answer
from overlay.api.executors import run_in
from overlay.api.problems import ProblemError, bad_request
from overlay.api.request_bodies import ArcCallback, read
from overlay.api.schemas import record
from overlay.protocols.bsv_overlay.express_routes import express_route
from overlay.protocols.bsv_overlay.submit_api import SUBMISSIONS

MAX_BODY = 256 * 1024
REJECTED = "REJECTED"


async def arc_ingest(request: web.Request) -> web.Response:
    """Take what ARC reports of a transaction (overlay-express): a merkle path is verified, and a submitted transaction
    that ARC rejects is deleted with its descendants. Needs the token of the operator."""
    _authorize(request)
    callback = read(ArcCallback, await body(request, MAX_BODY))
    admissions = request.app[SERVICES].admissions
    if admissions is None:
        raise ProblemError(503, "this server takes no reports: its database cannot be written")
    txid = bytes.fromhex(callback.txid)[::-1]
    if callback.txStatus == REJECTED:
        count = await run_in(request, SUBMISSIONS, Admissions.reject, admissions, txid)
        return _done(f"{count} submitted transactions deleted")
    if not callback.merklePath:
        return _done("nothing to do for this status")
    try:
        is_mined = await run_in(request, SUBMISSIONS, Admissions.is_mined, admissions, txid, callback.merklePath)
    except NotAdmittedError as error:
        raise bad_request(error.code, str(error), pointer="/merklePath") from None
    later = "the block is not known here yet; it is read once the chain's source has it"
    return _done("Transaction status updated" if is_mined else later)


def _authorize(request: web.Request) -> None:
    """Raise ProblemError (401) unless the client sends the configured token."""
    token = request.app[SERVICES].arc_callback_token
    if not token:
        raise ProblemError(401, "this server takes no reports: A2B_ARC_CALLBACK_TOKEN is not configured")
    sent = request.headers.get(hdrs.AUTHORIZATION, "").removeprefix("Bearer ")
    sent = sent or request.headers.get("X-Callback-Token", "")
    if not hmac.compare_digest(sent.encode(errors="replace"), token.encode()):
        headers = {"WWW-Authenticate": "Bearer"}
        raise ProblemError(401, "the callback token is missing or another one", headers=headers)


def _done(message: str) -> web.Response:
    return json_answer({"status": "success", "message": message})


_TEXT = {"type": "string"}
ROUTES = (
    express_route(
        "/arc-ingest", arc_ingest, "ArcAnswer", method="POST", body="ArcCallback", limit="ingest",
        errors=(400, 401, 408, 413, 415, 503),
    ),
)  # fmt: skip
SCHEMAS: dict[str, Any] = {
    "ArcCallback": record(
        {"txid": {"type": "string", "pattern": "^[0-9a-fA-F]{64}$"}},
        {"txStatus": {"type": ["string", "null"]}, "merklePath": {"type": ["string", "null"]}},
    ),
    "ArcAnswer": record({"status": {"const": "success"}, "message": _TEXT}),
}
