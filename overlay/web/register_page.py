"""The page Register: from a pasted card to an unsigned transaction, a file for a wallet, and the listing. No private
key is requested: a wallet signs, and the page follows what becomes of it."""

from __future__ import annotations

import json
from asyncio import to_thread
from dataclasses import dataclass
from decimal import Decimal
from hashlib import sha256
from typing import Any, NamedTuple

import segno
from aiohttp import web

from overlay.api.answers import SERVICES, body, json_answer
from overlay.api.executors import PUBLISHING, run_in
from overlay.api.problems import BadRequestError, Fault
from overlay.api.publisher_api import reviewed
from overlay.api.services import AppServices
from overlay.publish.coins import CoinsError, read_lines
from overlay.publish.transactions import DEFAULT_FEE_RATE
from overlay.publish.wallet_file import MAX_COINS, UnsignedRegistration, unsigned_registration
from overlay.web.amounts import FAMILIAR, about
from overlay.web.badges import explained
from overlay.web.cards import render_card
from overlay.web.publish_page import MAX_BYTES, previews, read_form
from overlay.web.rendering import PAGE_BYTES, Measure, html_answer, render, render_within, wants_json
from parsers.cards import Kind

MAX_QR_BYTES = 2_000
"""Bytes that are put into a code: as upper-case hex, they are within the 4,296 characters of the largest one."""


class QrModules(NamedTuple):
    """A code of `size` × `size` modules; `bits` has a 1 for each dark one, row by row, as hex padded at its end."""

    size: int
    bits: str


def qr_code(data: bytes) -> QrModules | None:
    """The code of some bytes as hex; None where they are too many."""
    if len(data) > MAX_QR_BYTES:
        return None
    matrix = segno.make_qr(data.hex().upper(), error="l").matrix
    dark = "".join("1" if module & 1 else "0" for row in matrix for module in row)
    dark += "0" * (-len(dark) % 4)
    return QrModules(len(matrix), f"{int(dark, 2):0{len(dark) // 4}x}")


MAX_FEE_RATE = 1_000_000
MAX_TEXT = 256
_FILE = 'attachment; filename="a2b-registration.json"'


@dataclass(frozen=True, slots=True)
class RegistrationForm:
    """What is filled in; `rate` is satoshis per 1,000 bytes, `currency` what the cost is shown in."""

    what: str = ""
    app: str = ""
    owner: str = ""
    coins: str = ""
    rate: str = str(DEFAULT_FEE_RATE)
    currency: str = FAMILIAR

    @property
    def card(self) -> bytes:
        """The bytes to inscribe."""
        return self.what.encode()


@dataclass(frozen=True, slots=True)
class RegistrationOutcome:
    """The form with what came of it: the check of the card, the unsigned registration, or the fault."""

    form: RegistrationForm
    checked: dict[str, Any] | None = None
    built: UnsignedRegistration | None = None
    fault: str = ""


async def register(request: web.Request) -> web.Response:
    """The page Register, for a new registration."""
    page = await to_thread(_page, request.app[SERVICES], RegistrationOutcome(RegistrationForm()))
    return html_answer(page)


async def prepare(request: web.Request) -> web.Response:
    """Check a card (`what`) and prepare its registration for the address `owner`: the page, or the file for a wallet
    as JSON with `as=file` or where Accept prefers that. `coins` are lines of `<txid>_<output> <satoshis>`."""
    fields = read_form(await body(request, MAX_BYTES))
    form = RegistrationForm(**{name: fields[name].strip() for name in RegistrationForm.__slots__ if name in fields})
    outcome = await run_in(request, PUBLISHING, _prepared, request.app[SERVICES], form)
    if wants_json(request) and outcome.built is None:
        raise BadRequestError(tuple(_faults(outcome)))
    if outcome.built is not None and (wants_json(request) or fields.get("as") == "file"):
        response = json_answer(outcome.built.as_json())
        response.headers["Content-Disposition"] = _FILE
        return response
    page = await run_in(request, PUBLISHING, _page, request.app[SERVICES], outcome)
    return html_answer(page, status=400 if outcome.fault else 200)


def _prepared(services: AppServices, form: RegistrationForm) -> RegistrationOutcome:
    if not form.what:
        return RegistrationOutcome(form)
    checked = reviewed(services, form.card, owner=form.owner)
    if not checked["ok"]:
        return RegistrationOutcome(form, checked)
    kind = checked["preview"]["type"]
    if kind not in tuple(Kind):
        return RegistrationOutcome(form, checked, fault="This is a price list: paste the card that holds it.")
    if not form.owner and not form.app:
        return RegistrationOutcome(form, checked)
    try:
        coins = read_lines(form.coins, MAX_COINS)
        built = unsigned_registration(
            form.card, Kind(kind), form.app[:MAX_TEXT], form.owner, coins, fee_rate=_rate(form.rate)
        )
    except (CoinsError, ValueError) as error:
        return RegistrationOutcome(form, checked, fault=str(error))
    return RegistrationOutcome(form, checked, built)


def _rate(text: str) -> int:
    """A fee rate. Raises ValueError."""
    if not (text.isascii() and text.isdigit() and 0 < int(text[:9]) <= MAX_FEE_RATE):
        raise ValueError(f"the fee rate is {text[:20]!a}, and must be from 1 to {MAX_FEE_RATE:,} satoshis")
    return int(text)


def _faults(outcome: RegistrationOutcome) -> list[Fault]:
    if outcome.fault:
        return [Fault("not-prepared", outcome.fault)]
    if outcome.checked is None or outcome.checked["ok"]:
        return [Fault("missing", "what (a card), app and owner (an address) are needed")]
    return [Fault(error["code"], error["detail"], pointer=error["pointer"]) for error in outcome.checked["errors"]]


def _page(services: AppServices, outcome: RegistrationOutcome) -> bytes:
    form, built = outcome.form, outcome.built
    feed = services.store.changes(0, 0)
    currency = form.currency.upper()[:16]
    satoshis = built.fee + 1 if built else 0
    shown = previews(services, outcome.checked["preview"]) if outcome.checked else []
    values = {
        "here": "/register",
        "outcome": outcome,
        "form": form,
        "previews": list(map(render_card, shown)),
        "explained": explained(badge for card in shown for badge in card.badges),
        "satoshis": satoshis,
        "about": about(str(Decimal(satoshis).scaleb(-8)), "BSV", currency, services.exchange) if built else None,
        "no_rate": services.exchange.missing(currency)[1],
        "qr": qr_code(built.draft.extended) if built and built.draft else None,
        "file": json.dumps(built.as_json()) if built else "",
        "card_sha256": sha256(form.card).hexdigest(),
        "epoch": feed.epoch,
        "seq": feed.newest_seq,
    }

    def render_page(measure: Measure) -> bytes:
        return render("register.html", m=measure, **values)

    return render_within(render_page, PAGE_BYTES)
