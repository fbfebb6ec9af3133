"""The route `/submit` (BRC-22): a transaction with its BEEF in, the admitted outputs by topic out; and `/arc-ingest`,
at which ARC reports what became of submitted transactions."""

from __future__ import annotations

import hmac
from typing import Any

from aiohttp import hdrs, web

from indexer.admission.admission import MAX_BEEF_BYTES, Admission, Admissions
from indexer.errors import NotAdmittedError
from indexer.store.submissions import FullError
from overlay.answers.schema_parts import TEXT, array_of, record
from overlay.api.answers import body, json_answer
from overlay.api.counters import SharedLoad
from overlay.api.executors import BoundedExecutor, run_in
from overlay.api.parameters import parameter
from overlay.api.problems import ProblemError, bad_request
from overlay.api.request_bodies import OpenBody, Txid, body_schemas, read
from overlay.api.request_context import CONTEXT
from overlay.api.routes import BINARY
from overlay.api.values import shown
from overlay.systems.bsv_overlay.express_routes import express_route
from overlay.systems.bsv_overlay.service_names import TOPICS, by_name
from parsers.byte_reader import ByteReader
from parsers.cards import strict_json
from parsers.errors import ParseError
from parsers.json_records import convert

MAX_TOPICS = 16

SUBMISSIONS = web.AppKey("SUBMISSIONS", BoundedExecutor)
SUBMIT_SECONDS = 60.0
"""The seconds that a submission may take, waiting included; its scripts of other kinds than P2PKH may take half of
it."""

_FULL_SECONDS = 600
"""Seconds until a client retries when too much is pending: about one block."""


def submission_executor(load: SharedLoad) -> BoundedExecutor:
    """The threads that admit submissions: a large one takes seconds, in which checks and diagnoses are not held up.
    Create it in an event loop."""
    return BoundedExecutor("submission", load, workers=2, waiting=16, per_client=4, seconds=SUBMIT_SECONDS)


async def submit(request: web.Request) -> web.Response:
    """Admit a transaction (BRC-22): its BEEF (BRC-62, BRC-95 or BRC-96) is verified, and the outputs that it adds to
    each topic are answered once they are stored. A repeated submission gets the same answer."""
    topics = _topics(request.headers.get("X-Topics"))
    received = await body(request, MAX_BEEF_BYTES)
    if request.headers.get("X-Includes-Off-Chain-Values") == "true":
        received = _without_off_chain_values(received)
    admission = await admit(request, received)
    return json_answer({topic: admission.as_json() for topic in topics})


ADMISSIONS: web.AppKey[Admissions] = web.AppKey("admissions", Admissions)
ARC_TOKEN: web.AppKey[str] = web.AppKey("ARC callback token", str)
"""The secret that authorizes reports on transactions, "" for none."""


async def admit(request: web.Request, beef: bytes) -> Admission:
    """Submit a BEEF. Raises BadRequestError with the reason, ProblemError (429, 503)."""
    admissions = request.app.get(ADMISSIONS)
    if admissions is None:
        raise ProblemError(503, "this server takes no submissions: its database cannot be written")
    try:
        return await run_in(
            request, SUBMISSIONS, Admissions.submit, admissions, beef, request.app[CONTEXT].clients.of(request)
        )
    except NotAdmittedError as error:
        raise bad_request(error.code, str(error)) from None
    except FullError as error:
        raise ProblemError(429, str(error), headers={"Retry-After": str(_FULL_SECONDS)}) from None


def _topics(header: str | None) -> list[str]:
    """The topics that a client names, as JSON or separated by commas: both are in use. Raises BadRequestError."""
    if header is None:
        raise bad_request(
            "missing-topics", 'the header X-Topics is missing: a JSON array such as ["tm_agent_registry"]'
        )
    names = [name.strip() for name in header.split(",")]
    if header.lstrip()[:1] in ("[", "{", '"'):
        try:
            names = convert(strict_json.answer(header.encode("utf-8", "surrogateescape")), list[str])
        except ParseError:
            names = []
    if not all(names) or not names:
        raise bad_request("bad-topics", f"X-Topics is {shown(header)}: a JSON array of at least one topic")
    if len(names) > MAX_TOPICS:
        raise bad_request("bad-topics", f"X-Topics names {len(names)} topics: at most {MAX_TOPICS}")
    for name in names:
        if by_name(TOPICS, name) is None:
            topics = ", ".join(topic.name for topic in TOPICS)
            raise bad_request("unknown-topic", f"{shown(name)} is not a topic of this overlay: one of {topics}")
    return list(dict.fromkeys(names))


def _without_off_chain_values(received: bytes) -> bytes:
    """The BEEF of a body with off-chain values, `VarInt(length) || BEEF || values` (BRC-22): the registry uses no
    values. Raises BadRequestError."""
    try:
        reader = ByteReader(received)
        return reader.take(reader.varint("the length of the BEEF"), "the BEEF")
    except ParseError as error:
        raise bad_request("not-a-beef", str(error)) from None


MAX_BODY = 256 * 1024
REJECTED = "REJECTED"


class ArcCallback(OpenBody):
    """The report of ARC about a transaction: its status, and its merkle path (BRC-74, hex) once it is in a block."""

    txid: Txid
    txStatus: str | None = None  # noqa: N815 - the members' names in JSON
    merklePath: str | None = None  # noqa: N815


async def arc_ingest(request: web.Request) -> web.Response:
    """Take what ARC reports of a transaction (overlay-express): a merkle path is verified, and a submitted transaction
    that ARC rejects is deleted with its descendants. Needs the token of the operator."""
    _authorize(request)
    callback = read(ArcCallback, await body(request, MAX_BODY))
    admissions = request.app.get(ADMISSIONS)
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
    token = request.app.get(ARC_TOKEN, "")
    if not token:
        raise ProblemError(401, "this server takes no reports: A2B_ARC_CALLBACK_TOKEN is not configured")
    sent = request.headers.get(hdrs.AUTHORIZATION, "").removeprefix("Bearer ")
    sent = sent or request.headers.get("X-Callback-Token", "")
    if not hmac.compare_digest(sent.encode(errors="replace"), token.encode()):
        headers = {"WWW-Authenticate": "Bearer"}
        raise ProblemError(401, "the callback token is missing or another one", headers=headers)


def _done(message: str) -> web.Response:
    return json_answer({"status": "success", "message": message})


_HEADERS = (
    parameter("X-Topics", "Topics, as a JSON array or separated by commas.", required=True),
    parameter("X-Includes-Off-Chain-Values", "`true`: the BEEF has its length before it, and values after it."),
)
ROUTES = (
    express_route(
        "/submit", submit, "OverlaySteak", method="POST", body="OverlayBeef", body_media=BINARY, headers=_HEADERS,
        limit="ingest", action="submit",
    ),
    express_route(
        "/arc-ingest", arc_ingest, "ArcAnswer", method="POST", body="ArcCallback", limit="ingest",
        errors=(400, 401, 408, 413, 415, 503),
    ),
)  # fmt: skip

_NUMBERS = array_of({"type": "integer", "minimum": 0})
_ADMITTED = record({"outputsToAdmit": _NUMBERS, "coinsToRetain": _NUMBERS})
SCHEMAS: dict[str, Any] = {
    "OverlayBeef": {"description": "A BEEF (BRC-62, BRC-95 or BRC-96) as bytes."},
    "OverlaySteak": {"type": "object", "additionalProperties": _ADMITTED},
    **body_schemas({"ArcCallback": ArcCallback}),
    "ArcAnswer": record({"status": {"const": "success"}, "message": TEXT}),
}
