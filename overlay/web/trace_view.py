"""Result cards beside a trace: the listings of a transaction, or the cards it would be listed with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from markupsafe import Markup

from indexer.diagnosis.diagnoser import MOST_PARTS
from overlay.api.services import AppServices
from overlay.duplicates.duplicate_status import listing_with_duplicates
from overlay.listings import lookup
from overlay.listings.card_check import check
from overlay.listings.recent_changes import aged
from overlay.web.amounts import FAMILIAR, about
from overlay.web.assets import addresses
from overlay.web.badges import Badge
from overlay.web.cards import cut, preview, render_card, result
from parsers.bitcoin import tx
from parsers.errors import ParseError
from parsers.inscriptions.envelope import Inscription, is_json, read, read_witness

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
            item = listing_with_duplicates(services.store, services.engine.get, id_)
            server_ids = item["servers"][:MOST] if "servers" in item else ()
            yield from (
                (listing_with_duplicates(services.store, services.engine.get, server) for server in server_ids)
                if server_ids
                else (item,)
            )


def _lead(services: AppServices, item: dict[str, Any]) -> Leads:
    item = aged(item, services.heights(), services.change_blocks)
    cheapest = item["cheapest"]
    worth = about(cheapest["amount"], cheapest["currency"], FAMILIAR, services.exchange) if cheapest else None
    proved = item["txid"] in services.store.proved([item["txid"]])
    logo = addresses(services.logos, [item]).get(item["logo"], "")
    shown = result(item, cheapest, worth, {}, proved=proved, logo=logo)
    waiting = item["pending"]["summary"] or "" if "pending" in item else ""
    return Leads(item["id"], cut(item["name"], _NAME), render_card(shown), shown.badges, waiting)


def previews(services: AppServices, preview_json: dict[str, Any] | None) -> list[Markup]:
    """The result cards of a checked card file; none for prices alone."""
    if preview_json is None or preview_json["type"] == "prices":
        return []
    return [render_card(preview(one, services.exchange)) for one in preview_json.get("servers", [preview_json])[:10]]


def previews_of(services: AppServices, raw: bytes) -> list[Markup]:
    """The result cards of the inscriptions in a raw transaction; none for bytes that cannot be parsed."""
    bodies = [inscription.body for inscription in _inscriptions(raw) if is_json(inscription.content_type)]
    return [card for body in bodies[:MOST] for card in previews(services, check(body)["preview"])][:MOST]


def _inscriptions(raw: bytes) -> Iterator[Inscription]:
    """The inscriptions in outputs and witnesses: the bytes do not say which chain they are of."""
    for segwit in (False, True):
        with suppress(ParseError):
            transaction = tx.read_exactly(raw, segwit=segwit, max_items=MOST_PARTS)
            yield from (
                inscription for output in transaction.outputs if (inscription := read(output.script)) is not None
            )
            for spent in transaction.inputs:
                yield from read_witness(spent.witness)
            return
