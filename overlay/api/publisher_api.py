"""Routes for publishers: diagnose a transaction, check a card before paying for it, request a fetch."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from aiohttp import web

from indexer.fetcher.reasons import SENTENCES, Refusal
from overlay.answers.record import as_json
from overlay.api import findability_searches, request_bodies
from overlay.api.answers import SERVICES, body, json_answer, json_bytes
from overlay.api.executors import LOOKUPS, PUBLISHING, run_in
from overlay.api.parameters import CHECK, read_query
from overlay.api.problems import ProblemError, bad_request
from overlay.api.request_context import CONTEXT
from overlay.api.request_cost import in_thread
from overlay.api.services import AppServices
from overlay.duplicates.earlier_listings import EarlierListings
from overlay.engines import EngineError
from overlay.listings import card_check as checks
from overlay.listings.ids import parse_id
from overlay.listings.lookup import check_hidden, check_transaction, registration
from overlay.text.compact_json import encode
from overlay.text.timestamps import timestamp
from parsers.bitcoin.tx import transaction_name
from parsers.errors import ParseError

if TYPE_CHECKING:
    from indexer.store.host_topics import Recheck
    from indexer.store.requests import TransactionRequest

log = logging.getLogger(__name__)

MAX_CHECK_BYTES = 2 << 20
MAX_RAW_BYTES = 4 << 20  # a transaction with a card of 1 MiB is a little over 2 MiB of hex
MAX_BYTES = 4_096

RETRY_AFTER = 60
"""Seconds after which a client with too many open requests may try again: most have ended by then."""


_NAMES = frozenset("_:.ix")
"""Characters of outpoints and of `0x`, which raw bytes as hex do not have."""


async def diagnose(request: web.Request) -> web.Response:
    """The step trace of a transaction or of one of its outputs."""
    return json_answer(await _diagnosis_by_id(request, request.match_info["what"].strip()))


async def _diagnosis_by_id(request: web.Request, text: str) -> dict[str, Any]:
    return await run_in(request, LOOKUPS, _diagnosed_by_id, request.app[SERVICES], _what(text))


def _diagnosed_by_id(services: AppServices, name: str) -> dict[str, Any]:
    check_transaction(services.store, name[:64])
    return services.publishing.diagnose(name)


async def diagnose_raw(request: web.Request) -> web.Response:
    """The step trace of a raw transaction."""
    return json_answer(
        await run_in(request, PUBLISHING, _diagnosed, request.app[SERVICES], await body(request, MAX_RAW_BYTES))
    )


async def diagnosis(request: web.Request, transaction: str) -> dict[str, Any]:
    """The diagnosis (schema `Diagnosis`) of a txid, an outpoint or a raw transaction as hex. Raises ProblemError."""
    if len(transaction) <= 64 or not _NAMES.isdisjoint(transaction):
        return await _diagnosis_by_id(request, transaction)
    raw = request_bodies.checked(request_bodies.RawTransaction, {"rawTx": transaction}).rawTx
    return await run_in(request, PUBLISHING, _diagnosis_of, request.app[SERVICES], raw)


async def check(request: web.Request) -> web.Response:
    """Errors, warnings and a preview of a card, an MCP config or a price list. The body is the file itself."""
    parameters = read_query(request, CHECK)
    document = await body(request, MAX_CHECK_BYTES)
    if not document:
        raise bad_request("empty", "the body is empty: it is a card, an MCP config or a price list", pointer="")
    return json_bytes(
        await run_in(request, PUBLISHING, _checked, request.app[SERVICES], document, parameters),
        headers={"Cache-Control": "no-store"},
    )


def _diagnosed(services: AppServices, document: bytes) -> dict[str, Any]:
    return _diagnosis_of(services, request_bodies.read(request_bodies.RawTransaction, document).rawTx)


def _diagnosis_of(services: AppServices, raw: str) -> dict[str, Any]:
    try:
        return services.publishing.diagnose(bytes.fromhex(raw))
    except ParseError as error:
        raise bad_request("not-a-transaction", f"rawTx is not a transaction: {error}", pointer="/rawTx") from None


def _checked(services: AppServices, document: bytes, parameters: Mapping[str, Any]) -> bytes:
    owner, id_ = parameters.get("owner") or "", parameters.get("id") or ""
    review = reviewed(services, document, parameters.get("type"), owner, id_)
    if parameters.get("findability") and review["preview"] is not None and review["compared"]:
        review |= findability_member(services, document, parameters.get("type"), id_)
    return encode(review)


def findability_member(services: AppServices, document: bytes, kind: str | None, id_: str) -> dict[str, Any]:
    """The member `findability` of the check of a card; without it while the index does not answer."""
    try:
        card_findability = findability_searches.of_card(services, document, kind, id_)
    except EngineError as error:
        log.warning("a card was checked without how it is found: %s", error)
        return {}
    return {} if card_findability is None else {"findability": as_json(card_findability)}


def reviewed(
    services: AppServices, document: bytes, kind: str | None = None, owner: str = "", id_: str = ""
) -> dict[str, Any]:
    """The check of a card compared with the listings, for an owner and the listing that it updates. While the index
    cannot be searched the comparison is left out, and the member `compared` is false."""
    earlier = EarlierListings(services.engine.search, owner, id_)
    try:
        return checks.check(document, kind, earlier.reasons) | {"compared": True}
    except EngineError as error:
        log.warning("a card was checked without its duplicates: %s", error)
        return checks.check(document, kind) | {"compared": False}


def _what(text: str) -> str:
    """A txid or an outpoint, normalised. Raises BadRequestError."""
    try:
        return transaction_name(text)
    except ValueError:
        detail = f"{text[:100]!a} is neither a txid (64 hex digits) nor an outpoint (<txid>_<output number>)"
        raise bad_request("not-a-transaction-id", detail, "what") from None


async def ingest(request: web.Request) -> web.Response:
    """Request that a transaction be fetched: at once, and then with doubling delay for an hour. Repeating it changes
    nothing. `GET /v1/diagnose/{what}` reports its state."""
    transaction_request = await request_transaction(
        request, request_bodies.read_strictly(request_bodies.WantedTransaction, await body(request, MAX_BYTES))
    )
    txid = transaction_request.txid[::-1].hex()
    headers = {"Location": f"/v1/diagnose/{txid}", "Cache-Control": "no-store"}
    return json_answer(_request_json(transaction_request), status=202, headers=headers)


async def request_transaction(
    request: web.Request, transaction: request_bodies.WantedTransaction
) -> TransactionRequest:
    """Request a transaction for the client of an HTTP request. Raises ProblemError (429)."""
    from indexer.store.requests import TooManyRequestsError

    services, txid = request.app[SERVICES], bytes.fromhex(transaction.txid)[::-1]
    client = request.app[CONTEXT].clients.of(request)
    try:
        transaction_request = await in_thread(services.process.requests.add, txid, client, int(time.time()))
    except TooManyRequestsError as error:
        headers = {"Retry-After": str(RETRY_AFTER)}
        raise ProblemError(429, f"{error}; try again when some of them are found", headers=headers) from None
    services.publishing.on_request()
    return transaction_request


def _request_json(transaction_request: TransactionRequest) -> dict[str, Any]:
    return {
        "txid": transaction_request.txid[::-1].hex(),
        "state": transaction_request.state.value,
        "askedAt": timestamp(transaction_request.requested_at),
        "tries": transaction_request.tries,
        "nextTryAt": timestamp(transaction_request.next_at or None),
        "detail": transaction_request.detail or "about to be looked for",
    }


async def recheck(request: web.Request) -> web.Response:
    """Request that the card of a pointer, or the domain of an agent, be fetched again: after the minute in which it
    was fetched last. Repeating it changes nothing."""
    services, text = request.app[SERVICES], request.match_info["id"]
    plain, _ = parse_id(text)
    await in_thread(check_hidden, services.store, [plain] if plain.isprintable() else (), text)
    rechecks = (
        await in_thread(services.publishing.recheck, plain, int(time.time() * 1000)) if plain.isprintable() else []
    )
    if not rechecks:
        await in_thread(registration, services.store, plain, text)
        detail = (
            "nothing is fetched for this listing: it is inscribed and names no host, or this server fetches nothing"
        )
        raise ProblemError(409, detail)
    headers = {"Location": f"/v1/listings/{quote(plain, safe='')}", "Cache-Control": "no-store"}
    return json_answer({"id": plain, "checks": [_check_json(check) for check in rechecks]}, status=202, headers=headers)


def _check_json(recheck: Recheck) -> dict[str, Any]:
    refusal = Refusal(recheck.reason, recheck.detail)
    return {
        "what": recheck.what,
        "name": recheck.name,
        "state": recheck.state,
        "code": recheck.reason or None,
        "detail": refusal.sentence if recheck.reason in SENTENCES else "",
        "lastAt": timestamp(None if recheck.last_at is None else recheck.last_at // 1000),
        "nextAt": timestamp(recheck.next_at // 1000),
    }
