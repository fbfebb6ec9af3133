"""The publisher's page: a transaction traced, a card checked and previewed, and both followed while they are typed."""

from __future__ import annotations

import re
from asyncio import to_thread
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import web
from markupsafe import Markup

from indexer.fetching.thumbnail import LOGO_BYTES
from overlay.api import ingest_api
from overlay.api.answers import SERVICES, body, json_answer
from overlay.api.bodies import WantedTransaction
from overlay.api.problems import BadRequestError, Fault
from overlay.api.publisher_api import look_up, run
from overlay.check import check
from overlay.pages.badges import explained
from overlay.pages.measures import PAGE_BYTES, Measure, measured
from overlay.pages.pasted import leads, previews, previews_of
from overlay.pages.rendering import html_answer, render, wants_json
from overlay.ports import Services
from parsers.errors import ParseError
from parsers.tx import Outpoint

MAX_BYTES = 5 << 20
"""Of a form: a card of 1 MiB, percent-encoded, or a transaction as hex."""

_TXID = re.compile(r"(?:0x)?([0-9a-fA-F]{64})(?:[_:.i][0-9]{1,10})?")
_RAW = re.compile(r"(?:[0-9a-fA-F]{2}){60,}")
_FIELDS = 8

STEPS = {
    "requested": "Asked for", "seen": "Seen", "mined": "Mined", "envelope": "Envelope", "map": "MAP", "json": "JSON",
    "card": "Card", "satoshi": "Satoshi", "pointer": "Pointer", "fetched": "Fetched", "hash": "Hash",
    "newest": "Newest", "listed": "Listed", "more": "More",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of what was pasted: a trace, or a check, or why there is neither."""

    text: str = ""
    trace: dict[str, Any] | None = None
    checked: dict[str, Any] | None = None
    fault: str = ""


async def publish(request: web.Request) -> web.Response:
    """The publisher's page, with the step trace of the transaction `tx`; the trace as JSON when Accept prefers that."""
    text = request.query.get("tx", "").strip()
    outcome = await look_up(request, _traced, request.app[SERVICES], text) if text else Outcome()
    if not wants_json(request):
        return await _answer(request, outcome)
    if outcome.trace is None:
        detail = outcome.fault or "tx is needed: a txid or an outpoint"
        raise BadRequestError((Fault("not-a-transaction-id", detail, "tx"),))
    return json_answer(outcome.trace)


async def publish_pasted(request: web.Request) -> web.Response:
    """What a form holds: a txid, a raw transaction or a card in `what`. With `fetch`, the txid is asked for as by
    /v1/ingest."""
    form = _form(await body(request, MAX_BYTES))
    text = form.get("what", "").strip()
    found = _TXID.fullmatch(text)
    if found and form.get("fetch"):
        await ingest_api.wanted(request, WantedTransaction(txid=found[1]))
    if found and not wants_json(request):
        # so that the URL is the state of the page
        return web.Response(status=303, headers={"Location": f"/publish?tx={text}", "Cache-Control": "no-store"})
    outcome = await run(request, _of, request.app[SERVICES], text)
    if wants_json(request):
        return json_answer(outcome.trace or outcome.checked or {"ok": False, "detail": outcome.fault})
    return await _answer(request, outcome)


def _form(document: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(document.decode(), keep_blank_values=True, errors="strict", max_num_fields=_FIELDS)
    except (UnicodeError, ValueError):
        raise BadRequestError((Fault("not-a-form", "the body is no form in UTF-8 of a few fields"),)) from None
    return {name: value.replace("\r\n", "\n") for name, value in pairs}


def _of(services: Services, text: str) -> Outcome:
    """A trace for what looks like a transaction, a check of all else."""
    if not text:
        return Outcome()
    if _TXID.fullmatch(text) or _RAW.fullmatch(text):
        return _traced(services, text)
    return Outcome(text, checked=check(text.encode("utf-8", "replace")))


def _traced(services: Services, text: str) -> Outcome:
    try:
        if _is_raw(text):
            return Outcome(text, trace=services.diagnose(bytes.fromhex(text)))
        return Outcome(text, trace=services.diagnose(_name(text)))
    except ParseError as error:
        return Outcome(text, fault=f"these bytes are no transaction: {error}")
    except ValueError:
        return Outcome(text[:200], fault="this is neither a txid (64 hex digits) nor an outpoint (<txid>_<number>)")


def _is_raw(text: str) -> bool:
    return _RAW.fullmatch(text) is not None and not _TXID.fullmatch(text)


def _name(text: str) -> str:
    """A txid or outpoint as it is asked for. Raises ValueError."""
    text = text.removeprefix("0x")
    return str(Outpoint.parse(f"{text}_0"))[:64] if len(text) == 64 else str(Outpoint.parse(text))


async def _answer(request: web.Request, outcome: Outcome) -> web.Response:
    services = request.app[SERVICES]
    is_blank = outcome.trace is None and outcome.checked is None
    page = await (to_thread(_page, services, outcome) if is_blank else run(request, _page, services, outcome))
    return html_answer(page, status=400 if outcome.fault else 200)


def _page(services: Services, outcome: Outcome) -> bytes:
    feed = services.store.changes(0, 0)
    trace = outcome.trace
    found = leads(services, trace["listed"] or _spoken_of(trace)) if trace else []
    values = {
        "here": "/publish",
        "outcome": outcome,
        "words": STEPS,
        "epoch": feed.epoch,
        "seq": feed.newest_seq,
        "ids": sorted({each["id"] for each in trace["records"] if each.get("id")} | set(trace["listed"]))[:16]
        if trace
        else [],
        "can_ask": bool(trace and not trace["found"] and all(each["step"] != "requested" for each in trace["steps"])),
        "leads": found,
        "explained": explained(badge for each in found for badge in each.badges),
        "previews": _previews(services, outcome),
    }

    def made(measure: Measure) -> bytes:
        return render("publish.html", m=measure, **values)

    return measured(made, PAGE_BYTES - len(found) * LOGO_BYTES)


def _spoken_of(trace: dict[str, Any]) -> list[str]:
    """The registrations that a transaction said something valid about, though what it said is not what is listed."""
    return list(dict.fromkeys(each["id"] for each in trace["records"] if each["valid"] and each.get("id")))


def _previews(services: Services, outcome: Outcome) -> list[Markup]:
    """How what was pasted would look among results: a card, or a transaction that is not listed."""
    if outcome.checked:
        return previews(services, outcome.checked["preview"])
    if outcome.trace and not outcome.trace["listed"] and _is_raw(outcome.text):
        return previews_of(services, bytes.fromhex(outcome.text))
    return []
