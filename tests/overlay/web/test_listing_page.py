"""A listing's page: what a reader should know before paying stands first, and what it names can be followed."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
from aiohttp import ClientSession

from overlay.api.services import AppServices
from overlay.listings import lookup
from overlay.web.badges import WarningText, warning_text
from overlay.web.timeline import MOST_VALUES, READ_BYTES
from tests.overlay.conftest import Serve
from tests.overlay.fakes import FakeEngine, FakeStore, changed, with_listing
from tests.overlay.web.test_search_page import TOWER, page


async def shown(serve: Serve, services: AppServices, **card: Any) -> str:
    """The text of the page of a listing with such a card."""
    listing = services.store.listing(TOWER)
    assert listing is not None
    full = {"name": "A", "url": "https://a.example", "skills": [{"id": "s"}], **card}
    client = await serve(with_listing(services, replace(listing, card_body=json.dumps(full).encode())))
    return (await page(client, f"/listings/{TOWER}")).text


async def test_a_domain_that_was_never_visited_is_not_shown_as_disowning_it(client: ClientSession) -> None:
    text = (await page(client, f"/listings/{TOWER}")).text
    assert "not checked yet" in text
    assert "does not name this listing" not in text


async def test_a_page_takes_one_of_the_few_threads_that_read_histories(
    client: ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []
    history = lookup.history

    def noted(*args: Any) -> Any:
        names.append(threading.current_thread().name)
        return history(*args)

    monkeypatch.setattr(lookup, "history", noted)
    await page(client, f"/listings/{TOWER}")
    assert names[0].startswith("history or proof")


async def test_the_cheapest_of_several_for_a_skill_says_of_how_many(serve: Serve, services: AppServices) -> None:
    price = {"amount": "5", "currency": "USD", "interval": "month"}
    text = await shown(serve, services, skills=[{"id": "s"}], **{"x-payment-config": [price]})
    assert "cheapest of" not in text, "nobody else has a price"
    listing = services.store.listing(TOWER)
    assert listing is not None
    card = {"name": "A", "url": "https://a.example", "skills": [{"id": "S"}], "x-payment-config": [price]}
    alone = with_listing(services, replace(listing, card_body=json.dumps(card).encode()))
    engine = alone.engine
    assert isinstance(engine, FakeEngine)
    engine.documents += [replace(engine.documents[0], id=f"{TOWER}{number}") for number in range(2)]
    text = (await page(await serve(alone), f"/listings/{TOWER}")).text
    assert "S cheapest of 3 per month in USD" in text
    query = engine.requests[-1]
    assert (query.skills, query.intervals, query.price_currency, query.sort) == (("s",), ("P1M",), "USD", "price")


async def test_a_page_computes_what_a_use_costs_a_month(serve: Serve, services: AppServices) -> None:
    listing = services.store.listing(TOWER)
    assert listing is not None
    prices = [{"amount": "0.1", "currency": "USD"}, {"amount": "7", "currency": "USD", "interval": "once"}]
    card = {"name": "A", "url": "https://a.example", "skills": [{"id": "s"}], "x-payment-config": prices}
    client = await serve(with_listing(services, replace(listing, card_body=json.dumps(card).encode())))
    text = (await page(client, f"/listings/{TOWER}?calls=120/year")).text
    assert "1 USD" in text
    assert "for no time" in text
    assert "a month" not in (await page(client, f"/listings/{TOWER}?calls=many")).text


async def test_a_burned_listing_says_so_in_words(client: ClientSession, services: AppServices) -> None:
    assert isinstance(services.store, FakeStore)
    burned = next(listing.state.id for listing in services.store.listings.values() if listing.state.status == "burned")
    assert "the listing is gone for good. Below is its last card" in (await page(client, f"/listings/{burned}")).text
    assert "is gone for good. Below" not in (await page(client, f"/listings/{TOWER}")).text


async def test_a_deprecated_listing_shows_its_successor_and_leads_nowhere_by_itself(
    serve: Serve, services: AppServices
) -> None:
    notice = {"successor": "https://evil.example/?a=<b>", "message": "Use <i>this</i>."}
    text = await shown(serve, services, **{"x-a2b-deprecated": notice})
    assert "Deprecated by its owner on " in text
    assert "Named to be used instead: https://evil.example/?a=<b>" in text
    assert "Use <i>this</i>." in text
    listing = services.store.listing(TOWER)
    assert listing is not None
    card = {"name": "A", "url": "https://a.example", "skills": [{"id": "s"}], "x-a2b-deprecated": notice}
    client = await serve(with_listing(services, replace(listing, card_body=json.dumps(card).encode())))
    async with client.get(f"/listings/{TOWER}", headers={"Accept": "text/html"}, allow_redirects=False) as answer:
        assert (answer.status, 'href="https://evil.example' in await answer.text()) == (200, False)


async def test_a_page_does_not_unroll_all_skills(serve: Serve, services: AppServices) -> None:
    skills = [{"id": f"skill{number}", "name": f"Skill number {number}"} for number in range(20)]
    text = await shown(serve, services, skills=skills, **{"x-payment-config": [{"currency": "BSV", "amount": "x"}]})
    assert "Skill number 7 skill7 12 more Skill number 8" in text
    assert text.index("What it does") < text.index("What to beware of")


async def test_a_name_that_is_its_id_is_shown_once(serve: Serve, services: AppServices) -> None:
    text = await shown(serve, services, skills=[{"id": "only_id"}, {"id": "same", "name": "same"}])
    assert "What it does only_id same " in text


async def test_without_rates_there_is_no_column_for_converted_prices(client: ClientSession) -> None:
    html = await page(client, f"/listings/{TOWER}")
    assert "in USD" not in html.text
    assert "Nothing is converted: there are no exchange rates" in html.text


async def test_the_owner_of_a_listing_links_to_all_listings_of_the_owner(
    client: ClientSession, services: AppServices
) -> None:
    listing = services.store.listing(TOWER)
    assert listing is not None
    links = (await page(client, f"/listings/{TOWER}")).links()
    assert f"/?owner={listing.state.owner}" in links
    assert "/?domain=watchtower.example" in links


@pytest.mark.parametrize(
    ("code", "detail", "expected"),
    [
        (
            "same-url", "another listing had this URL before: a_0",
            WarningText("another listing had this URL before: ", "a_0"),
        ),
        (
            "same-name", "another listing had this name before: a_0, of the same owner; in your name?",
            WarningText("another listing had this name before: ", "a_0", ", of the same owner; in your name?"),
        ),
        ("same-name", "no id here", WarningText("no id here", "")),
        ("odd", "something: a_0", WarningText("something: a_0", "")),
        (
            "price-changed", "1 BSV per P1M is 2 BSV per P18M, 1 X per PT1H is 1 X per whenever",
            WarningText("1 BSV per month is 2 BSV per 18 months, 1 X per hour is 1 X per whenever", ""),
        ),
        ("price-changed", "1 X per P1Mx is 2 X per P", WarningText("1 X per P1Mx is 2 X per P", "")),
    ],
)  # fmt: skip
def test_a_warning_is_a_sentence_with_a_link_to_the_listing_it_names(
    code: str, detail: str, expected: WarningText
) -> None:
    assert warning_text({"code": code, "detail": detail, "pointer": ""}) == expected


async def test_a_warning_about_another_listing_links_to_it(serve: Serve, services: AppServices) -> None:
    assert isinstance(services.engine, FakeEngine)
    other = services.engine.documents[0].id
    marks = [{"code": "same-name", "pointer": "/name", "detail": f"another listing had this name before: {other}"}]
    documents = [
        replace(document, item=json.dumps({**json.loads(document.item), "warnings": marks}).encode())
        for document in services.engine.documents
    ]
    client = await serve(changed(services, engine=FakeEngine(documents)))
    html = await page(client, f"/listings/{TOWER}")
    assert f"/listings/{other}" in html.links()


class Revised(FakeStore):
    """Tower's registration, which had these cards, one after the other; of a None the body is not here."""

    def __init__(self, store: FakeStore, *bodies: bytes | None) -> None:
        last = store.histories[TOWER][-1]
        events = [replace(last.event, card=sha256(body or b"").digest()) for body in bodies]
        super().__init__(store.listings.values(), {TOWER: [replace(last, event=event) for event in reversed(events)]})
        self.bodies = {event.card: body for event, body in zip(events, bodies, strict=True)}

    def card(self, sha: bytes, /) -> bytes | None:
        return self.bodies.get(sha)


@pytest.mark.parametrize(
    ("bodies", "message"),
    [
        ((b'{"a": 1}', json.dumps(list(range(MOST_VALUES + 1))).encode()), True),
        ((b'{"a": 1}', b'{"a": "%s"}' % (b"x" * READ_BYTES)), True),
        ((b'{"a": 1}', b'{"a": 2}'), False),
        ((b'{"a": 1}', b'{"a": 1}'), False),
        ((None, b'{"a": 1}'), False),
    ],
    ids=["values", "bytes", "small", "same", "unknown"],
)
async def test_cards_too_large_to_be_compared_are_shown_as_different(
    serve: Serve, services: AppServices, bodies: tuple[bytes | None, ...], message: bool
) -> None:
    assert isinstance(services.store, FakeStore)
    client = await serve(changed(services, store=Revised(services.store, *bodies)))
    text = (await page(client, f"/listings/{TOWER}")).text
    assert ("The card is another one than before; the two are too large to be compared here." in text) is message
    assert ("1 change of the card" in text) is (bodies[-1] == b'{"a": 2}')
