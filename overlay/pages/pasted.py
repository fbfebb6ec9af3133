"""What a publisher's page shows beside a trace: the listings that a transaction leads to, or would, as result cards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from markupsafe import Markup

from indexer.diagnosis import MOST_PARTS
from overlay.aging import aged
from overlay.api import listing_api
from overlay.api.problems import NotFoundError
from overlay.check import check
from overlay.pages.amounts import FAMILIAR, about
from overlay.pages.badges import Badge
from overlay.pages.cards import cut, drawn, preview, result
from overlay.pages.logo import addresses
from overlay.ports import Services
from parsers import tx
from parsers.envelope import Inscription, is_json, read, read_witness
from parsers.errors import ParseError

MOST = 8
"""Listings that are shown of a transaction."""

_NAME = 60


class Leads(NamedTuple):
    """A listing that a transaction leads to: its id, its name, its card among results, the badges on that, and the
    summary of an update that waits to be mined; "" for none."""

    id: str
    name: str
    card: Markup
    badges: tuple[Badge, ...]
    waiting: str


def leads(services: Services, ids: Sequence[str]) -> list[Leads]:
    """The listings with these ids, and for those of several servers each; without those that cannot be shown yet."""
    return [_lead(services, item) for item in _items(services, ids)][:MOST]


def _items(services: Services, ids: Sequence[str]) -> Iterator[dict[str, Any]]:
    for id_ in ids[:MOST]:
        with suppress(NotFoundError):
            found = listing_api.shown(services, id_)
            several = found["servers"][:MOST] if "servers" in found else ()
            yield from (listing_api.shown(services, each) for each in several) if several else (found,)


def _lead(services: Services, item: dict[str, Any]) -> Leads:
    item = aged(item, services.heights(), services.change_blocks)
    cheapest = item["cheapest"]
    worth = about(cheapest["amount"], cheapest["currency"], FAMILIAR, services.exchange) if cheapest else None
    proved = item["txid"] in services.store.proved([item["txid"]])
    logo = addresses(services.logos, [item]).get(item["logo"], "")
    shown = result(item, cheapest, worth, {}, proved=proved, logo=logo)
    waiting = item["pending"]["summary"] or "" if "pending" in item else ""
    return Leads(item["id"], cut(item["name"], _NAME), drawn(shown), shown.badges, waiting)


def previews(services: Services, found: dict[str, Any] | None) -> list[Markup]:
    """The cards that a checked text would be listed with; none for prices alone."""
    if found is None or found["type"] == "prices":
        return []
    return [drawn(preview(one, services.exchange)) for one in found.get("servers", [found])[:10]]


def previews_of(services: Services, raw: bytes) -> list[Markup]:
    """The cards that the inscriptions of a raw transaction would be listed with, whether or not it was seen; none for
    bytes that cannot be read."""
    bodies = [each.body for each in _inscriptions(raw) if is_json(each.content_type)]
    return [card for body in bodies[:MOST] for card in previews(services, check(body)["preview"])][:MOST]


def _inscriptions(raw: bytes) -> Iterator[Inscription]:
    """Envelopes in outputs and in witnesses: of which chain it is, the bytes do not say."""
    for segwit in (False, True):
        with suppress(ParseError):
            found = tx.read_exactly(raw, segwit=segwit, most=MOST_PARTS)
            yield from (each for output in found.outputs if (each := read(output.script)) is not None)
            for spent in found.inputs:
                yield from read_witness(spent.witness)
            return
