"""The page Register: from a pasted card, or the id of a listing, to an unsigned transaction that registers, updates,
deprecates, transfers or delists; a file for a wallet, and the listing. No private key is requested: a wallet signs, and
the page follows what becomes of it."""

from __future__ import annotations

import json
from asyncio import to_thread
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import segno
from aiohttp import web

from indexer.fetcher.reasons import FetchError
from indexer.headers.networks import by_caip2
from overlay.api.answers import SERVICES, body, json_answer
from overlay.api.executors import PUBLISHING, run_in
from overlay.api.problems import BadRequestError, Fault, bad_request
from overlay.api.publisher_api import findability_member, reviewed
from overlay.api.services import AppServices
from overlay.listings import lookup
from overlay.listings.local_source import LocalSource
from overlay.listings.lookup import ListingHiddenError, ListingNotFoundError
from overlay.publish import scripts
from overlay.publish.card_drafts import AGENT_PATHS, EXAMPLE, FIELDS, card_of_document, card_of_fields
from overlay.publish.coins import CoinsError, read_lines
from overlay.publish.registration_output import RegistrationError, find, name_of, registration_text
from overlay.publish.transactions import ABSURD_FEE_RATE, DEFAULT_FEE_RATE
from overlay.publish.wallet_file import (
    MAX_COINS,
    UnsignedRegistration,
    digest_to_sign,
    unsigned_change,
    unsigned_registration,
)
from overlay.web.amounts import FAMILIAR, about
from overlay.web.badges import explained
from overlay.web.cards import render_card
from overlay.web.publish_page import MAX_BYTES, previews, read_form
from overlay.web.rendering import REGISTER_BYTES, html_answer, render_within, wants_json
from parsers.bitcoin import address
from parsers.bitcoin.address import key_hash
from parsers.bitcoin.script import p2pkh
from parsers.bitcoin.signatures import compressed, hash160
from parsers.cards import Kind
from parsers.cards.deprecation import MAX_MESSAGE, Deprecation

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


REGISTER, UPDATE, DEPRECATE, UNDO = "register", "update", "deprecate", "undo"
TRANSFER, DELIST = "transfer", "delist"
ACTIONS = {
    REGISTER: "Register a new listing", UPDATE: "Update a listing", DEPRECATE: "Call a listing deprecated",
    UNDO: "Take back that a listing is deprecated", TRANSFER: "Transfer a listing to another address",
    DELIST: "Delist a listing for good",
}  # fmt: skip
"""The actions that the page prepares, with their words."""

_NEEDED = {
    REGISTER: "what (a card), app and owner (an address) are needed", UPDATE: "id and what (a card) are needed",
    DEPRECATE: "id is needed", UNDO: "id is needed",
    TRANSFER: "id and owner (an address) are needed", DELIST: "id is needed",
}  # fmt: skip

MAX_TEXT = 256

WALLETS = ("http://localhost:3321", "https://localhost:2121")
"""Where a BRC-100 wallet on the computer of a visitor answers."""

_FILE = 'attachment; filename="a2b-registration.json"'


@dataclass(frozen=True, slots=True)
class RegistrationForm:
    """The fields of the form; `action` is one of ACTIONS, `id` the listing that it changes, `owner` the address that
    will have it, `successor` and `message` are those of a notice that it is deprecated; `rate` is satoshis per 1,000
    bytes, `currency` the currency in which the cost is shown. `key` is the public key (hex) of a BRC-100 wallet, which
    owns what is registered and holds what is changed, and `tx` the transaction (BEEF, hex) that it built."""

    action: str = REGISTER
    id: str = ""
    what: str = ""
    app: str = ""
    owner: str = ""
    successor: str = ""
    message: str = ""
    coins: str = ""
    rate: str = str(DEFAULT_FEE_RATE)
    currency: str = FAMILIAR
    key: str = ""
    tx: str = ""

    @property
    def card(self) -> bytes:
        """The bytes to inscribe."""
        return self.what.encode()


@dataclass(frozen=True, slots=True)
class RegistrationOutcome:
    """The form with its outcome: the check of the card, the unsigned registration with its effect in words, or the
    fault; where no card could be made, with the `fields` that it was to be made of."""

    form: RegistrationForm
    checked: dict[str, Any] | None = None
    built: UnsignedRegistration | None = None
    purpose: str = ""
    fault: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)


async def register(request: web.Request) -> web.Response:
    """The page Register; the query may name an `action` and the `id` of a listing, whose present card an update begins
    with."""
    query = {name: request.query[name].strip()[:MAX_TEXT] for name in ("action", "id") if request.query.get(name)}
    page = await to_thread(_first_page, request.app[SERVICES], RegistrationForm(**query))
    return html_answer(page, connects=WALLETS)


def _first_page(services: AppServices, form: RegistrationForm) -> bytes:
    try:
        form = _with_present_card(services, form)
    except ListingHiddenError:
        raise
    except ListingNotFoundError:
        form = replace(form, what="")  # a wrong id is named once the form is sent
    return _page(services, RegistrationOutcome(form))


def _with_present_card(services: AppServices, form: RegistrationForm) -> RegistrationForm:
    """The form of an update with the present card of its listing. Raises ListingNotFoundError."""
    if form.action != UPDATE or not form.id:
        return form
    return replace(form, what=lookup.card(services.store, form.id)[1].decode("utf-8", "replace"))


async def _begun(request: web.Request, form: RegistrationForm, fields: Mapping[str, str]) -> RegistrationForm:
    """The form with the card that a button asks for. Raises ValueError, ListingNotFoundError."""
    match fields.get("as"):
        case "example":
            return replace(form, what=card_of_fields(EXAMPLE))
        case "fields":
            return replace(form, what=card_of_fields({name: fields.get(f"card_{name}", "") for name in FIELDS}))
        case "present":
            return await to_thread(_with_present_card, request.app[SERVICES], form)
        case "fetched":
            return replace(form, what=await _served(request, fields.get("from", "").strip()))
    return form


async def _served(request: web.Request, url: str) -> str:
    """The card that a URL serves, or its host where the URL has no path. Raises ValueError."""
    fetch = request.app[SERVICES].publishing.fetch
    if fetch is None:
        raise ValueError("this server sends no requests to hosts: paste the card")
    parts = urlsplit(url)
    bare = parts.path in ("", "/") and not parts.query
    urls = [url.rstrip("/") + path for path in AGENT_PATHS] if bare else [url]
    for candidate in urls:
        try:
            return await to_thread(card_of_document, await fetch(candidate))
        except FetchError as error:
            if candidate == urls[-1] or error.refusal.code != "fetch-missing":
                raise ValueError(f"{candidate[:200]} could not be fetched: {error.refusal.sentence}") from None
    raise ValueError("no URL is named")


async def prepare(request: web.Request) -> web.Response:
    """Check a card (`what`) and prepare its registration for the address `owner`: the page, or the file for a wallet
    as JSON with `as=file` or where Accept prefers that. `coins` are lines of `<txid>_<output> <satoshis>`."""
    fields = read_form(await body(request, MAX_BYTES))
    if not fields:
        raise bad_request("missing", "the form is empty: it needs the field what, a card", "what")
    form = RegistrationForm(**{name: fields[name].strip() for name in RegistrationForm.__slots__ if name in fields})
    try:
        form = await _begun(request, form, fields)
    except (ValueError, ListingNotFoundError) as error:
        outcome = RegistrationOutcome(form, fault=str(error), fields=fields)
    else:
        outcome = await run_in(request, PUBLISHING, _prepared, request.app[SERVICES], form)
    if outcome.built is not None and form.tx:
        return await run_in(request, PUBLISHING, _digest, outcome.built, form.tx)
    if fields.get("as") == "found" and outcome.checked and outcome.checked["ok"]:
        outcome.checked.update(
            await run_in(request, PUBLISHING, findability_member, request.app[SERVICES], form.card, None, form.id)
        )
    if wants_json(request) and outcome.built is None:
        raise BadRequestError(tuple(_faults(outcome)))
    if outcome.built is not None and (wants_json(request) or fields.get("as") == "file"):
        response = json_answer(outcome.built.as_json())
        response.headers["Content-Disposition"] = _FILE
        return response
    page = await run_in(request, PUBLISHING, _page, request.app[SERVICES], outcome)
    return html_answer(page, status=400 if outcome.fault else 200, connects=WALLETS)


def _digest(built: UnsignedRegistration, transaction: str) -> web.Response:
    """The digest that a wallet signs. Raises BadRequestError."""
    try:
        return json_answer({"digest": digest_to_sign(built, transaction).hex()})
    except ValueError as error:
        raise bad_request("not-prepared", str(error), "tx") from None


def _prepared(services: AppServices, form: RegistrationForm) -> RegistrationOutcome:
    checked: dict[str, Any] | None = None
    try:
        if form.action not in ACTIONS:
            raise ValueError(f"{form.action[:20]!a} is not an action: {', '.join(ACTIONS)}")
        if form.key:
            form = _for_wallet(services, form)
        if form.action != REGISTER:
            return _changed(services, form)
        if not form.what:
            return RegistrationOutcome(form)
        checked = reviewed(services, form.card, owner=form.owner)
        if not checked["ok"] or not form.owner:
            return RegistrationOutcome(form, checked)
        kind, coins = _kind(checked), read_lines(form.coins, MAX_COINS)
        app, rate = form.app[:MAX_TEXT], _rate(form.rate)
        built = unsigned_registration(form.card, kind, app, form.owner, coins, fee_rate=rate)
    except (CoinsError, RegistrationError, ListingNotFoundError, ValueError) as error:
        return RegistrationOutcome(form, checked, fault=str(error))
    return RegistrationOutcome(form, checked, built, registration_text(kind, name_of(form.card, kind), form.owner))


def _for_wallet(services: AppServices, form: RegistrationForm) -> RegistrationForm:
    """The form of a wallet, which chooses the coins; what it registers belongs to its key. Raises ValueError."""
    owner = form.owner
    if form.action == REGISTER:
        network = next(iter(_networks(services)), "mainnet")
        owner = address.owner(_script_of(form.key), "bsv", network) or ""
    return replace(form, owner=owner, coins="")


def _script_of(key: str) -> bytes:
    """The P2PKH script of a public key in hex. Raises ValueError."""
    with suppress(ValueError):
        raw = bytes.fromhex(key)
        if compressed(raw) == raw:
            return p2pkh(hash160(raw))
    raise ValueError(f"{key[:70]!a} is not a compressed public key in hex")


def _networks(services: AppServices) -> list[str]:
    """The networks of Bitcoin SV that are followed."""
    networks = map(by_caip2, services.chains().values())
    return [network.kind for network in networks if network is not None and network.coin == "bsv"]


def _changed(services: AppServices, form: RegistrationForm) -> RegistrationOutcome:
    """An update, notice, transfer or burn of a listing. Raises CoinsError, RegistrationError, ListingNotFoundError,
    ValueError."""
    if not form.id or (form.action == UPDATE and not form.what) or (form.action == TRANSFER and not form.owner):
        return RegistrationOutcome(form)
    registration, checked = find(LocalSource(services.store), form.id, is_trusted=True), None
    if form.key and address.lock(registration.coin.script or b"") != _script_of(form.key):
        raise RegistrationError(f"this wallet does not have the key of {form.id}, which {registration.owner} owns")
    scripts_of_outputs: list[bytes] = []
    purpose = registration.delisting_text()
    if form.action == UPDATE:
        checked = reviewed(services, form.card, registration.kind.value, registration.owner, form.id)
        if not checked["ok"]:
            return RegistrationOutcome(form, checked)
        app = form.app[:MAX_TEXT] or registration.app
        owner = p2pkh(key_hash(registration.owner) or b"")
        scripts_of_outputs.append(scripts.inscription(owner, form.card, registration.kind, app))
        purpose = registration.update_text(name_of(form.card, registration.kind))
    elif form.action in (DEPRECATE, UNDO):
        notice = Deprecation(form.successor, form.message) if form.action == DEPRECATE else None
        owner = p2pkh(key_hash(registration.owner) or b"")
        scripts_of_outputs.append(scripts.notice(owner, registration.kind, registration.app, notice))
        purpose = registration.notice_text(notice)
    elif form.action == TRANSFER:
        if (hash160 := key_hash(form.owner)) is None:
            raise ValueError(f"{form.owner[:100]!a} is not a P2PKH address of Bitcoin SV")
        scripts_of_outputs.append(p2pkh(hash160))
        purpose = registration.transfer_text(form.owner)
    coins, rate = read_lines(form.coins, MAX_COINS), _rate(form.rate)
    built = unsigned_change(registration, scripts_of_outputs, coins, fee_rate=rate, listing=form.id)
    return RegistrationOutcome(form, checked, built, purpose)


def _kind(checked: Mapping[str, Any]) -> Kind:
    """The kind of a checked card. Raises ValueError for a price list."""
    kind = checked["preview"]["type"]
    if kind not in tuple(Kind):
        raise ValueError("This is a price list: paste the card that holds it.")
    return Kind(kind)


def _rate(text: str) -> int:
    """A fee rate. Raises ValueError."""
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and 0 < int(text) <= ABSURD_FEE_RATE):
        more = "; a2b inscribe --fee-rate N --yes takes more"
        raise ValueError(f"the fee rate is {text[:20]!a}, and must be from 1 to {ABSURD_FEE_RATE:,} satoshis{more}")
    return int(text)


def _faults(outcome: RegistrationOutcome) -> list[Fault]:
    if outcome.fault:
        return [Fault("not-prepared", outcome.fault)]
    if outcome.checked is None or outcome.checked["ok"]:
        return [Fault("missing", _NEEDED.get(outcome.form.action, _NEEDED[REGISTER]))]
    return [Fault(error["code"], error["detail"], pointer=error["pointer"]) for error in outcome.checked["errors"]]


def _page(services: AppServices, outcome: RegistrationOutcome) -> bytes:
    form, built = outcome.form, outcome.built
    feed = services.store.changes(0, 0)
    currency = form.currency.upper()[:16]
    carried = len(built.outputs) if built and built.spent is None else 0
    satoshis = built.fee + carried if built else 0
    shown = previews(services, outcome.checked["preview"]) if outcome.checked else []
    values = {
        "here": "/register",
        "wallets": " ".join(WALLETS),
        "outcome": outcome,
        "form": form,
        "previews": list(map(render_card, shown)),
        "explained": explained(badge for card in shown for badge in card.badges),
        "satoshis": satoshis,
        "actions": ACTIONS,
        "card_fields": FIELDS,
        "most_message": MAX_MESSAGE,
        "about": about(str(Decimal(satoshis).scaleb(-8)), "BSV", currency, services.exchange) if built else None,
        "no_rate": services.exchange.missing(currency)[1],
        "qr": qr_code(built.draft.extended) if built and built.draft else None,
        "file": json.dumps(built.as_json()) if built else "",
        "card_sha256": sha256(form.card).hexdigest(),
        "epoch": feed.epoch,
        "seq": feed.newest_seq,
    }
    return render_within("register.html", REGISTER_BYTES, **values)
