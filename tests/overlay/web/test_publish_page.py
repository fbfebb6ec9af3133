"""The publisher's page without a browser: forms, redirects, JSON by Accept; how large pages of hostile cards are."""

from __future__ import annotations

import json
from dataclasses import replace
from io import BytesIO
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from aiohttp import ClientSession

from overlay.api.services import AppServices
from tests.chainkit import ChainKit, agent
from tests.overlay.calls import TOWER, problem
from tests.overlay.conftest import Serve
from tests.overlay.fakes import FakeEngine, changed, with_listing
from tests.overlay.web.test_search_page import BROWSER, Page, page

FORM = "application/x-www-form-urlencoded"
TXID = "ab" * 32
CARD = {"name": "Tide tables", "skills": [{"id": "tides"}], "url": "https://tides.example"}


async def paste(client: ClientSession, text: str, **fields: str) -> Page:
    form = BytesIO(urlencode({"what": text, **fields}).encode())
    async with client.post("/publish", data=form, headers={**BROWSER, "Content-Type": FORM}) as answer:
        assert answer.status == 200
        return Page(await answer.text())


async def test_a_txid_is_traced_under_a_url_of_its_own(client: ClientSession) -> None:
    form = {"what": f" {TXID} "}
    async with client.post("/publish", data=form, headers=BROWSER, allow_redirects=False) as answer:
        assert answer.status == 303
        assert answer.headers["Location"] == f"/publish?tx={TXID}"
    html = await page(client, f"/publish?tx={TXID}")
    assert "Not seen yet" in html.text
    assert "nobody has seen it" in html.text
    assert "Fetch it" in html.text
    assert "Not seen yet" in (await page(client, f"/publish?tx=0x{TXID}")).text


async def test_a_requested_transaction_is_remembered(client: ClientSession, services: AppServices) -> None:
    await paste(client, TXID, fetch="1")
    assert list(services.process.requests.requests) == [bytes.fromhex(TXID)[::-1]]  # type: ignore[attr-defined]
    await paste(client, json.dumps(CARD), fetch="1")
    assert len(services.process.requests.requests) == 1  # type: ignore[attr-defined]


async def test_a_card_is_previewed_as_it_would_be_listed(client: ClientSession) -> None:
    html = await paste(client, json.dumps(CARD, indent=1))
    assert "It can be published." in html.text
    assert "Tide tables" in html.text
    assert "no price named" in html.text
    broken = await paste(client, '{"name": ""}')
    assert "It would not be listed." in broken.text
    html_page = await paste(client, json.dumps({"mcpServers": {"one": {"command": "a"}, "two": {"command": "b"}}}))
    assert html_page.text.count("no price named") == 2
    prices = await paste(client, json.dumps([{"amount": "3", "currency": "USD", "interval": "P1M"}]))
    assert "3 USD" in prices.text
    assert "per month" in prices.text


async def test_a_raw_transaction_is_traced(client: ClientSession) -> None:
    assert "Not seen yet" in (await paste(client, "01" + "00" * 80)).text
    async with client.post("/publish", data={"what": "ff" * 80}, headers=BROWSER) as answer:
        assert answer.status == 400
        assert "these bytes are not a transaction" in await answer.text()


def tracing(services: AppServices, **more: Any) -> AppServices:
    """Services by which a transaction is traced like this."""
    results = {"txid": TXID, "found": True, "where": "block", "source": "a", "steps": [], "records": [], "listed": []}
    return changed(services, diagnose=lambda _: {**results, **more})


async def test_a_transaction_that_is_listed_shows_its_listings_by_name_and_as_results(
    serve: Serve, services: AppServices
) -> None:
    client = await serve(tracing(services, listed=[TOWER]))
    html = await page(client, f"/publish?tx={TXID}")
    assert "Listed: Tower‑Guard (Minimal)" in html.text
    assert "How it looks in results" in html.text
    assert "from 0.00045 BSV per call" in html.text
    assert html.links().count(f"/listings/{TOWER}") == 2
    explained = {tag["id"] for tag in html.all("div") if tag.get("role") == "note"}
    assert {button["popovertarget"] for button in html.all("button") if button.get("popovertarget")} == explained


async def test_a_transaction_that_was_overtaken_leads_to_what_counts_now(serve: Serve, services: AppServices) -> None:
    record = {"outpoint": f"{TXID}_0", "kind": "update", "outcome": "reinscribed", "valid": True, "reasons": []}
    client = await serve(tracing(services, records=[{**record, "id": TOWER}]))
    html = await page(client, f"/publish?tx={TXID}")
    assert "In a block; current listing: Tower‑Guard (Minimal)" in html.text
    assert "The current listing" in html.text
    client = await serve(tracing(services, records=[{**record, "id": TOWER, "valid": False}]))
    assert "In a block, and not listed" in (await page(client, f"/publish?tx={TXID}")).text


async def test_a_registration_of_several_tools_shows_each(serve: Serve, services: AppServices) -> None:
    assert isinstance(services.engine, FakeEngine)
    ids = [document.id for document in services.engine.documents if "#" in document.id]
    client = await serve(tracing(services, listed=[ids[0].partition("#")[0]]))
    links = (await page(client, f"/publish?tx={TXID}")).links()
    assert all(links.count(f"/listings/{quote(id_, safe='')}") == 2 for id_ in ids)
    assert len(ids) == 2


async def test_a_listing_that_cannot_be_shown_yet_is_named_by_its_id(serve: Serve, services: AppServices) -> None:
    client = await serve(tracing(services, listed=["ef" * 32 + "_0"]))
    html = await page(client, f"/publish?tx={TXID}")
    assert f"Listed: {'ef' * 12}…" in html.text
    assert "among results" not in html.text


@pytest.mark.parametrize("coin", ["bsv", "btc"])
async def test_a_raw_transaction_is_previewed_as_it_would_be_listed(
    serve: Serve, services: AppServices, coin: str
) -> None:
    kit = ChainKit(coin)
    card = agent("Not sent yet", **{"x-payment-config": [{"currency": "BSV", "amount": "3"}]})
    created = kit.inscribe(card) if coin == "bsv" else kit.reveal(card)
    client = await serve(tracing(services, found=False, where="raw"))
    html = await paste(client, kit.raw(created).hex())
    assert "How it would look in results" in html.text
    assert "Not sent yet" in html.text
    assert "from 3 BSV per call" in html.text
    broken = kit.inscribe(b"{broken") if coin == "bsv" else kit.reveal(b"{broken")
    assert "among results" not in (await paste(client, kit.raw(broken).hex())).text


@pytest.mark.parametrize("tx", ["x", "ab", "g" * 64, "<b>", f"{TXID}_x", f"{TXID}_99999999999"])
async def test_a_text_that_is_not_a_transaction_is_refused(client: ClientSession, tx: str) -> None:
    async with client.get("/publish", params={"tx": tx}, headers=BROWSER) as answer:
        assert answer.status == 400
        assert "neither a txid" in await answer.text()
    async with client.get("/publish", params={"tx": tx}, headers={"Accept": "application/json"}) as answer:
        await problem(answer, 400)


async def test_the_same_urls_answer_json_where_it_is_preferred(client: ClientSession) -> None:
    headers = {"Accept": "application/json"}
    async with client.get(f"/publish?tx={TXID}", headers=headers) as ours, client.get(f"/v1/diagnose/{TXID}") as theirs:
        assert await ours.json() == await theirs.json()
    async with client.post("/publish", data={"what": json.dumps(CARD)}, headers=headers) as answer:
        assert (await answer.json())["preview"]["name"] == "Tide tables"
    async with client.get("/publish", headers=headers) as answer:
        assert "tx is needed" in (await problem(answer, 400))["detail"]
    async with client.get("/status", headers=headers) as ours, client.get("/v1/status") as theirs:
        assert await ours.json() == await theirs.json()


async def test_a_form_that_is_none_is_refused(client: ClientSession) -> None:
    for body in (b"what=%ff", b"&".join([b"a=1"] * 20)):
        async with client.post("/publish", data=body) as answer:
            await problem(answer, 400)
    async with client.post("/publish", data=BytesIO(b"what=" + b"x" * (5 << 20))) as answer:
        await problem(answer, 413)


LONG = "\"'<&>\U000e0041Ж" * 800


async def test_the_page_of_a_card_that_is_full_of_everything_stays_small(serve: Serve, services: AppServices) -> None:
    listing = services.store.listing(TOWER)
    assert listing is not None
    price = {"name": LONG, "description": LONG, "currency": "X" * 20, "amount": "1" * 90, "interval": LONG,
             "address": LONG, "skillIds": [LONG[:900]] * 9, "acceptedCurrencies": [LONG[:900]] * 9}  # fmt: skip
    card: dict[str, Any] = {
        "name": LONG, "description": LONG, "url": "https://a.example/" + "x" * 9_000, "version": LONG,
        "tags": [f"{number}{LONG[:900]}" for number in range(64)], "provider": {"organization": LONG, "url": LONG},
        "skills": [{"id": f"{n}{LONG}", "name": LONG, "description": LONG, "examples": [LONG]} for n in range(12)],
        "x-payment-config": [{"id": f"{n}{LONG[:500]}", **price} for n in range(6)],
    }  # fmt: skip
    body = json.dumps(card, ensure_ascii=False).encode()
    client = await serve(with_listing(services, replace(listing, card_body=body)))
    for path in (f"/listings/{TOWER}", "/"):
        assert "A2B registry" in (await page(client, path)).text
    checked = await paste(client, json.dumps({**CARD, "name": LONG, "description": LONG, "tags": [LONG[:900]] * 64}))
    assert "It can be published." in checked.text
