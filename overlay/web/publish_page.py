"""The page Check & track: traces a transaction, shows the listings of it or the cards that it would be listed with, and
checks and previews a card."""

from __future__ import annotations

import re
from asyncio import to_thread
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from aiohttp import web
from markupsafe import Markup

from indexer.diagnosis.source_lookup import MOST_PARTS
from indexer.model import LOGO_BYTES
from overlay.api import publisher_api
from overlay.api.answers import SERVICES, body, json_answer
from overlay.api.executors import LOOKUPS, PUBLISHING, run_in
from overlay.api.problems import bad_request
from overlay.api.protocol_requests import read_item
from overlay.api.publisher_api import reviewed
from overlay.api.request_bodies import WantedTransaction
from overlay.api.services import AppServices
from overlay.listings import lookup
from overlay.web.amounts import worth
from overlay.web.assets import addresses
from overlay.web.badges import Badge, explained
from overlay.web.cards import Result, preview, render_card, result
from overlay.web.rendering import PAGE_BYTES, cut, html_answer, render_within, wants_json
from parsers.bitcoin import tx
from parsers.bitcoin.tx import transaction_name
from parsers.errors import ParseError
from parsers.inscriptions import tapscript
from parsers.inscriptions.envelope import Inscription, is_json, read

MOST = 8
"""Listings that are shown of a transaction."""

_NAME = 60


class Leads(NamedTuple):
    """A listing of a transaction: id, name, result card, badges, and the summary of a pending update, "" for none."""

    id: str
    name: str
    card: Markup
    badges: tuple[Badge, ...]
    waiting: str


def leads(services: AppServices, ids: Sequence[str]) -> list[Leads]:
    """The listings with these ids, one for each server; without those that cannot be shown yet."""
    return [_lead(services, item) for item in _items(services, ids)][:MOST]


def _items(services: AppServices, ids: Sequence[str]) -> Iterator[dict[str, Any]]:
    for id_ in ids[:MOST]:
        with suppress(lookup.ListingNotFoundError):
            item = read_item(services, id_)
            server_ids = item["servers"][:MOST] if "servers" in item else ()
            yield from (read_item(services, server) for server in server_ids) if server_ids else (item,)


def _lead(services: AppServices, item: dict[str, Any]) -> Leads:
    cheapest = item["cheapest"]
    logo = addresses(services.logos, [item]).get(item["logo"], "")
    shown = result(item, cheapest, worth(cheapest, services.exchange), {}, logo=logo)
    waiting = item["pending"]["summary"] if "pending" in item else ""
    return Leads(item["id"], cut(item["name"], _NAME), render_card(shown), shown.badges, waiting)


def previews(services: AppServices, preview_json: dict[str, Any] | None) -> list[Result]:
    """The result cards of a checked card file; empty for prices alone."""
    if preview_json is None or preview_json["type"] == "prices":
        return []
    return [preview(server, services.exchange) for server in preview_json.get("servers", [preview_json])[:10]]


def previews_of(services: AppServices, raw: bytes) -> list[Result]:
    """The result cards of the inscriptions in a raw transaction; empty for bytes that cannot be parsed."""
    bodies = [inscription.body for inscription in _inscriptions(raw) if is_json(inscription.content_type)]
    return [card for body in bodies[:MOST] for card in previews(services, reviewed(services, body)["preview"])][:MOST]


def _inscriptions(raw: bytes) -> Iterator[Inscription]:
    """The inscriptions in outputs and witnesses: the bytes do not show their chain."""
    for segwit in (False, True):
        with suppress(ParseError):
            transaction = tx.read_exactly(raw, segwit=segwit, max_items=MOST_PARTS)
            yield from (
                inscription for output in transaction.outputs if (inscription := read(output.script)) is not None
            )
            for spent in transaction.inputs:
                yield from (envelope.inscription for envelope in tapscript.read(spent.witness) if not envelope.fault)
            return


MAX_BYTES = 5 << 20
"""Bytes of a form: a card of 1 MiB, percent-encoded, or a transaction as hex."""

_TXID = re.compile(r"(?:(?i:ord)://)?(?:0x)?([0-9a-fA-F]{64})(?:[_:.i][0-9]{1,10})?")
_RAW = re.compile(r"(?:[0-9a-fA-F]{2}){60,}")
_FIELDS = 32

STEPS = {
    "requested": "Requested", "seen": "Seen", "mined": "Mined", "envelope": "Envelope", "map": "MAP", "json": "JSON",
    "card": "Card", "satoshi": "Satoshi", "pointer": "Pointer", "fetched": "Fetched", "hash": "Hash",
    "newest": "Newest", "listed": "Listed", "more": "More",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TraceOutcome:
    """The result for a pasted text: a trace, a check, or the fault."""

    text: str = ""
    trace: dict[str, Any] | None = None
    checked: dict[str, Any] | None = None
    fault: str = ""


async def publish(request: web.Request) -> web.Response:
    """The page Check & track, with the step trace of the transaction `tx`; the trace as JSON when Accept prefers
    that."""
    text = request.query.get("tx", "").strip()
    outcome = await run_in(request, LOOKUPS, _traced, request.app[SERVICES], text) if text else TraceOutcome()
    if not wants_json(request):
        return await _answer(request, outcome)
    if outcome.trace is None:
        detail = outcome.fault or "tx is needed: a txid or an outpoint"
        raise bad_request("not-a-transaction-id", detail, "tx")
    return json_answer(outcome.trace)


async def publish_pasted(request: web.Request) -> web.Response:
    """The page Check & track for a form: `what` is a txid, a raw transaction or a card. With `fetch`, the txid is
    requested as by /v1/ingest."""
    form = read_form(await body(request, MAX_BYTES))
    if "what" not in form:
        raise bad_request("missing", "the form has no field what: a transaction or a card", "what")
    text = form["what"].strip()
    txid = _TXID.fullmatch(text)
    if txid and form.get("fetch"):
        await publisher_api.request_transaction(request, WantedTransaction(txid=txid[1]))
    if txid and not wants_json(request):
        # so that the URL is the state of the page
        return web.Response(status=303, headers={"Location": f"/publish?tx={text}", "Cache-Control": "no-store"})
    outcome = await run_in(request, PUBLISHING, _of, request.app[SERVICES], text)
    if wants_json(request):
        return json_answer(outcome.trace or outcome.checked or {"ok": False, "detail": outcome.fault})
    return await _answer(request, outcome)


def read_form(document: bytes) -> dict[str, str]:
    """The fields of a form. Raises BadRequestError."""
    try:
        pairs = parse_qsl(document.decode(), keep_blank_values=True, errors="strict", max_num_fields=_FIELDS)
    except (UnicodeError, ValueError):
        raise bad_request("not-a-form", "the body is not a form in UTF-8 of a few fields") from None
    return {name: value.replace("\r\n", "\n") for name, value in pairs}


def _of(services: AppServices, text: str) -> TraceOutcome:
    """A trace for a txid or raw transaction, a check for any other text."""
    if not text:
        return TraceOutcome()
    if _TXID.fullmatch(text) or _RAW.fullmatch(text):
        return _traced(services, text)
    return TraceOutcome(text, checked=reviewed(services, text.encode("utf-8", "replace")))


def _traced(services: AppServices, text: str) -> TraceOutcome:
    try:
        if _is_raw(text):
            return TraceOutcome(text, trace=services.publishing.diagnose(bytes.fromhex(text)))
        return TraceOutcome(text, trace=services.publishing.diagnose(transaction_name(text)))
    except ParseError as error:
        return TraceOutcome(text, fault=f"these bytes are not a transaction: {error}")
    except ValueError:
        return TraceOutcome(
            text[:200], fault="this is neither a txid (64 hex digits) nor an outpoint (<txid>_<number>)"
        )


def _is_raw(text: str) -> bool:
    return _RAW.fullmatch(text) is not None and not _TXID.fullmatch(text)


async def _answer(request: web.Request, outcome: TraceOutcome) -> web.Response:
    services = request.app[SERVICES]
    is_blank = outcome.trace is None and outcome.checked is None
    page = await (
        to_thread(_page, services, outcome) if is_blank else run_in(request, PUBLISHING, _page, services, outcome)
    )
    return html_answer(page, status=400 if outcome.fault else 200)


def _page(services: AppServices, outcome: TraceOutcome) -> bytes:
    feed = services.store.changes(0, 0)
    trace = outcome.trace
    linked = leads(services, trace["listed"] or _registrations_of(trace)) if trace else []
    shown = _previews(services, outcome)
    values = {
        "here": "/publish",
        "outcome": outcome,
        "words": STEPS,
        "epoch": feed.epoch,
        "seq": feed.newest_seq,
        "ids": sorted({record["id"] for record in trace["records"] if record.get("id")} | set(trace["listed"]))[:16]
        if trace
        else [],
        "can_ask": bool(
            trace and not trace["found"] and all(record["step"] != "requested" for record in trace["steps"])
        ),
        "leads": linked,
        "explained": explained(
            badge for badges in [lead.badges for lead in linked] + [card.badges for card in shown] for badge in badges
        ),
        "previews": list(map(render_card, shown)),
    }
    return render_within("publish.html", PAGE_BYTES - len(linked) * LOGO_BYTES, **values)


def _registrations_of(trace: dict[str, Any]) -> list[str]:
    """The registrations with a valid record in a transaction, also where a later one replaced it."""
    return list(dict.fromkeys(record["id"] for record in trace["records"] if record["valid"] and record.get("id")))


def _previews(services: AppServices, outcome: TraceOutcome) -> list[Result]:
    """Result cards of a pasted card, or of a raw transaction that is not listed."""
    if outcome.checked:
        return previews(services, outcome.checked["preview"])
    if outcome.trace and not outcome.trace["listed"] and _is_raw(outcome.text):
        return previews_of(services, bytes.fromhex(outcome.text))
    return []
