"""One listing: its item, its history, and the exact bytes of its card."""

from __future__ import annotations

from base64 import b64encode
from contextlib import suppress
from typing import Any
from urllib.parse import quote, unquote

from aiohttp import web

from overlay import items
from overlay.aging import aged
from overlay.api.answers import EDGE, REVALIDATE, SERVICES, Answer, json_bytes, not_modified, unchanged, weak_etag
from overlay.api.executor import RECORDS, RECORDS_SECONDS
from overlay.api.problems import NotFoundError
from overlay.api.reading import READERS
from overlay.compact import encode
from overlay.duplicates.status import with_indexed
from overlay.pointed import why_not
from overlay.ports import Listing, Services, Store
from overlay.revisions import revision
from parsers import cards
from parsers.tx import Outpoint

MAX_ID_LENGTH = 4_096
_CARD_POLICY = "sandbox; default-src 'none'; frame-ancestors 'none'"


async def listing(request: web.Request) -> web.Response:
    """One item, with all offers and warnings, or the ids of the servers it holds."""
    services = request.app[SERVICES]
    found = await request.app[READERS].read(shown, services, request.match_info["id"])
    return _revalidated(request, aged(found, services.heights(), services.change_blocks))


async def history(request: web.Request) -> web.Response:
    """Every revision, newest first."""
    store, client = request.app[SERVICES].store, request.app[EDGE].clients.of(request)
    run = request.app[RECORDS].run
    return _answered(request, await run(client, RECORDS_SECONDS, _history, store, request.match_info["id"]))


async def card(request: web.Request) -> web.Response:
    """The card's exact bytes, as the chain or the domain gave them."""
    store = request.app[SERVICES].store
    digest, body = await request.app[READERS].read(card_of, store, request.match_info["id"])
    headers = {
        "Content-Type": "application/json",
        "ETag": f'"{digest.hex()}"',
        "Content-Digest": f"sha-256=:{b64encode(digest).decode()}:",
        "Cache-Control": f"{REVALIDATE}, no-transform",
        "Content-Security-Policy": _CARD_POLICY,
    }
    if unchanged(request, headers["ETag"]):
        return not_modified(headers)
    return Answer(body=body, headers=headers)


def shown(services: Services, text: str) -> dict[str, Any]:
    """What a listing's id answers with, and what the index knows of others like it. Raises NotFoundError."""
    found = one(services.store, text)
    return found if "servers" in found else with_indexed(found, services.engine.get(found["id"]))


def one(store: Store, text: str) -> dict[str, Any]:
    """What a listing's id answers with. Raises NotFoundError."""
    plain, key = split(text)
    subjects = _subjects(text, find(store, plain, text))
    if key is None:
        return items.whole(subjects)
    wanted = f"{plain}#{key}"
    for subject in subjects:
        if subject.id == wanted:
            return items.item(subject) | {"cheapest": items.cheapest(subject.card.offers)}
    known = ", ".join(subject.id for subject in subjects[:64])
    raise NotFoundError(f"no listing has the id {_quoted(text)}; this registration lists {known}")


def split(text: str) -> tuple[str, str | None]:
    """A listing's id as (registration, server key): outpoints and contracts in the usual spelling, keys percent-encoded
    as law 6 says, also when the client decoded them."""
    plain, separator, key = text.partition("#")
    if plain.startswith("eip155:"):
        plain = plain.lower()  # the checksum in an address is in the case of its letters
    with suppress(ValueError):  # a pointer's id is a domain or a URL
        plain = str(Outpoint.parse(plain))
    return plain, quote(unquote(key), safe="") if separator else None


def find(store: Store, plain: str, text: str) -> Listing:
    """The listing of a plain id, asked for as `text`. Raises NotFoundError."""
    well_formed = _is_id(plain)
    found = store.listing(plain) if well_formed else None
    if found is None and well_formed and (pointing := store.pointing(plain)) is not None:
        raise NotFoundError(f"{_quoted(text)} is not listed: {why_not(pointing)}")
    if found is None:
        raise NotFoundError(f"no listing has the id {_quoted(text)}; /v1/diagnose tells what became of a transaction")
    return found


def _is_id(plain: str) -> bool:
    return len(plain) <= MAX_ID_LENGTH and plain.isprintable()  # lone surrogates are not printable


def _subjects(text: str, found: Listing) -> tuple[items.Subject, ...]:
    if found.card_body is None:
        raise NotFoundError(f"the card of {_quoted(text)} has not been fetched yet")
    return items.subjects(found, cards.read_of(found.state.id, found.card_body, found.state.kind))


def revisions(store: Store, text: str) -> dict[str, Any]:
    """A registration's history, newest first. Raises NotFoundError."""
    plain, _ = split(text)
    history = store.history(plain) if _is_id(plain) else []
    if not history:
        find(store, plain, text)
    told = {"id": plain, "revisions": [revision(each) for each in history]}
    drifts = [
        {"cardSha256": each.sha256.hex(), "since": items.milliseconds(each.since)} for each in store.drifts(plain)
    ]
    return told | {"drifts": drifts} if drifts else told


def card_of(store: Store, text: str) -> tuple[bytes, bytes]:
    """The SHA-256 of a listing's card, and its bytes. Raises NotFoundError."""
    found = find(store, split(text)[0], text)
    body = found.card_body if found.card_body is not None else store.card(found.state.card)
    if body is None:
        raise NotFoundError(f"the card of {_quoted(text)} has not been fetched yet")
    return found.state.card, body


def _quoted(text: str) -> str:
    return ascii(text[:200])


def _history(store: Store, text: str) -> bytes:
    return encode(revisions(store, text))


def _revalidated(request: web.Request, value: dict[str, Any]) -> web.Response:
    return _answered(request, encode(value))


def _answered(request: web.Request, body: bytes) -> web.Response:
    headers = {"ETag": weak_etag(body), "Cache-Control": REVALIDATE}
    return not_modified(headers) if unchanged(request, headers["ETag"]) else json_bytes(body, headers=headers)
