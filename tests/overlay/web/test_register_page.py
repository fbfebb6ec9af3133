"""The page Register without a browser: what it prepares, the file for a wallet, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from io import BytesIO
from typing import Any
from urllib.parse import urlencode

import pytest
import segno
from aiohttp import ClientResponse, ClientSession

from indexer.fetcher.reasons import FetchError
from overlay.api.services import AppServices
from overlay.publish.keys import PublisherKey
from overlay.publish.transactions import sign
from overlay.publish.wallet_file import read_draft
from overlay.web.register_page import MAX_QR_BYTES, qr_code
from parsers.bitcoin import signatures
from parsers.inscriptions import output_record
from tests.chainkit import agent
from tests.overlay.calls import TOWER, problem
from tests.overlay.conftest import Serve
from tests.overlay.fakes import changed
from tests.overlay.web.test_publish_page import FORM
from tests.overlay.web.test_search_page import BROWSER, Page, page

KEY = PublisherKey(sha256(b"a visitor's key").digest(), "mainnet")
CARD = json.dumps(agent("Tide tables"))
COINS = f"{'11' * 32}_0 9000\r\n\r\n {'22' * 32}:7   3000 "
WHOLE = {"what": CARD, "app": "tides", "owner": KEY.address, "coins": COINS}
JSON = {"Accept": "application/json"}


async def post(client: ClientSession, fields: dict[str, str], headers: dict[str, str] = BROWSER) -> ClientResponse:
    data = BytesIO(urlencode(fields).encode())
    return await client.post("/register", data=data, headers={**headers, "Content-Type": FORM})


async def shown(client: ClientSession, fields: dict[str, str], status: int = 200) -> Page:
    async with await post(client, fields) as answer:
        assert answer.status == status
        return Page(await answer.text())


async def test_the_way_begins_with_a_card(client: ClientSession) -> None:
    assert "Paste the card" in (await page(client, "/register")).text
    checked = await shown(client, {"what": CARD})
    assert "Tide tables" in checked.text
    assert "name your program and an address" in checked.text
    assert "It would not be listed" in (await shown(client, {"what": "{}"})).text


def pasted(shown_page: Page) -> dict[str, Any]:
    """The card in the field of a page."""
    text = shown_page.text
    return dict(json.JSONDecoder().raw_decode(text, text.index("{"))[0])


async def test_only_this_page_may_call_a_wallet(client: ClientSession) -> None:
    wallets = " http://localhost:3321 https://localhost:2121;"
    for path, ends in (("/register", f"connect-src 'self'{wallets}"), ("/publish", "connect-src 'self';")):
        async with client.get(path, headers=BROWSER) as answer:
            assert ends in answer.headers["Content-Security-Policy"]
    async with await post(client, WHOLE) as answer:
        assert wallets in answer.headers["Content-Security-Policy"]


async def test_what_a_wallet_registers_belongs_to_its_key(client: ClientSession) -> None:
    public = signatures.public_key(KEY.private).hex()
    async with await post(client, {**WHOLE, "owner": "", "key": public}, JSON) as answer:
        file = json.loads(await answer.read())
    assert file.keys() == {"fee", "createAction"}, "the wallet chooses the coins"
    [output] = file["createAction"]["outputs"]
    assert output["lockingScript"].startswith(KEY.script.hex())
    for key in ("00", "zz", f"04{public[2:]}"):
        async with await post(client, {**WHOLE, "key": key}, JSON) as answer:
            assert "is not a compressed public key in hex" in (await problem(answer, 400))["detail"]
    async with await post(client, {**WHOLE, "key": public, "tx": "00"}, JSON) as answer:
        assert "cannot be read" in (await problem(answer, 400))["detail"]


async def test_a_card_begins_with_an_example_or_a_form(client: ClientSession) -> None:
    example = await shown(client, {"as": "example"})
    assert pasted(example)["name"] == "Tide tables"
    assert "name your program and an address" in example.text
    fields = {"card_name": "Buoys", "card_url": "https://buoys.example/", "card_skill": "Count buoys", "as": "fields"}
    card = pasted(await shown(client, fields))
    assert (card["name"], card["skills"][0]["id"]) == ("Buoys", "count-buoys")
    fault = await shown(client, {**fields, "card_amount": "much"}, 400)
    assert "is not a number" in fault.text
    inputs = {attributes.get("name"): attributes.get("value") for tag, attributes in fault.tags if tag == "input"}
    assert (inputs["card_name"], inputs["card_amount"]) == ("Buoys", "much"), "nothing is typed twice"


async def test_an_update_begins_with_the_present_card(client: ClientSession) -> None:
    async with client.get(f"/v1/listings/{TOWER}/card") as answer:
        card = json.loads(await answer.read())
    assert pasted(await page(client, f"/register?action=update&id={TOWER}")) == card
    # the transaction of the sample is not stored here, so nothing is prepared
    assert pasted(await shown(client, {"action": "update", "id": TOWER, "as": "present"}, 400)) == card
    nobody = f"{64 * 'a'}_0"
    assert "Name the listing" in (await page(client, f"/register?action=update&id={nobody}")).text
    assert (
        "no listing has the id" in (await shown(client, {"action": "update", "id": nobody, "as": "present"}, 400)).text
    )


async def test_a_card_begins_with_what_a_host_serves(serve: Serve, services: AppServices) -> None:
    bodies = {"https://buoys.example/.well-known/agent.json": CARD.encode(), "https://buoys.example/a": b"<html>"}
    urls: list[str] = []

    async def fetch(url: str) -> bytes:
        urls.append(url)
        if url not in bodies:
            raise FetchError("fetch-missing", "404")
        return bodies[url]

    client = await serve(changed(services, publishing=replace(services.publishing, fetch=fetch)))
    assert pasted(await shown(client, {"as": "fetched", "from": "https://buoys.example/"})) == json.loads(CARD)
    assert urls == [f"https://buoys.example/.well-known/{name}.json" for name in ("agent-card", "agent")]
    for url, fault in (("https://buoys.example/a", "it serves no card"), ("https://other.example/x", "could not be")):
        assert fault in (await shown(client, {"as": "fetched", "from": url}, 400)).text
    client = await serve(services)
    assert "sends no requests" in (await shown(client, {"as": "fetched", "from": "https://a.example"}, 400)).text


async def test_the_file_is_signed_by_its_owner_and_nobody_else(client: ClientSession) -> None:
    prepared = await shown(client, WHOLE)
    assert "Ready to be signed" in prepared.text
    async with await post(client, {**WHOLE, "as": "file"}) as answer:
        assert answer.content_type == "application/json"
        assert answer.headers["Content-Disposition"] == 'attachment; filename="a2b-registration.json"'
        file: dict[str, Any] = json.loads(await answer.read())
    draft = read_draft(file)
    assert f"{file['fee'] + 1} satoshis" in prepared.text
    purpose = f"The transaction registers the agent “Tide tables” for {KEY.address}, for {file['fee'] + 1} satoshis."
    assert purpose in prepared.text
    assert {coin.satoshis for coin in draft.coins} <= {9000, 3000}
    assert [output.script for output in draft.tx.outputs[1:]] == [KEY.script]
    record = output_record.read(sign(draft, KEY).tx, 0)
    assert record.inscription is not None
    assert record.inscription.body == CARD.encode()
    assert (record.satoshis, record.fields) == (1, {"app": "tides", "type": "a2b-agent"})


async def test_without_coins_the_wallet_chooses_them(client: ClientSession) -> None:
    without = {name: value for name, value in WHOLE.items() if name != "coins"}
    assert "the wallet chooses the coins" in (await shown(client, without)).text
    async with await post(client, without, JSON) as answer:
        assert json.loads(await answer.read()).keys() == {"fee", "createAction"}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"owner": "nobody"}, "'nobody' is not a P2PKH address of Bitcoin SV"),
        ({"app": ""}, "app is empty: name the program that publishes"),
        ({"coins": "x y"}, "coin 1 is not <txid>_<output> and its satoshis: 'x y'"),
        ({"coins": f"{'11' * 32}_0 3"}, "do not suffice"),
        ({"coins": f"{'11' * 32}_0 9000\n" * 2}, "a coin is named twice"),
        ({"coins": "x 1\n" * 101}, "there are 101 coins"),
        ({"rate": "0"}, "the fee rate is '0'"),
        ({"rate": "10001"}, "from 1 to 10,000 satoshis"),
        ({"rate": "x" * 50}, "the fee rate is 'xxx"),
        ({"rate": "0000000019999999"}, "the fee rate is '0000000019999999'"),
        ({"what": '[{"currency": "BSV", "amount": 1}]'}, "This is a price list"),
    ],
)
async def test_what_cannot_be_prepared_is_named(client: ClientSession, fields: dict[str, str], why: str) -> None:
    result = await shown(client, {**WHOLE, **fields}, 400)
    assert why in result.text
    assert "Ready to be signed" not in result.text
    async with await post(client, {**WHOLE, **fields}, JSON) as answer:
        assert why in (await problem(answer, 400))["detail"]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"action": "sell"}, "'sell' is not an action: register, update, deprecate, undo, transfer, delist"),
        ({"action": "update", "id": "x"}, "no listing has the id 'x'"),
        ({"action": "transfer", "id": "0" * 64 + "_0"}, "no listing has the id"),
        ({"action": "delist"}, "id is needed"),
        ({"action": "deprecate"}, "id is needed"),
        ({"action": "update", "id": "", "what": ""}, "id and what (a card) are needed"),
    ],
)
async def test_a_change_that_cannot_be_prepared_is_named(
    client: ClientSession, fields: dict[str, str], why: str
) -> None:
    async with await post(client, {**WHOLE, **fields}, JSON) as answer:
        problem_body = await problem(answer, 400)
    assert why in json.dumps(problem_body)


async def test_a_broken_card_is_refused_with_its_errors(client: ClientSession) -> None:
    async with await post(client, {**WHOLE, "what": '{"name": 1}'}, JSON) as answer:
        problem_body = await problem(answer, 400)
    assert all(error["code"] for error in problem_body["errors"])
    async with await post(client, {}, JSON) as answer:
        assert (await problem(answer, 400))["errors"][0]["code"] == "missing"


async def test_strangers_texts_are_texts(client: ClientSession) -> None:
    attack = "</textarea><script>alert(1)</script>"
    for name in ("what", "app", "owner", "coins", "rate", "currency", "successor", "message"):
        async with await post(client, {**WHOLE, name: attack}) as answer:
            assert "<script>alert" not in await answer.text()


async def test_a_large_card_is_prepared_on_a_small_page(client: ClientSession) -> None:
    card = json.dumps(agent("Large", description="x" * 500_000))
    async with await post(client, {**WHOLE, "what": card, "coins": f"{'11' * 32}_0 90000000"}) as answer:
        body = await answer.read()
    assert len(body) < 65_500
    assert b"too large for a QR code" in body


def test_a_qr_code_holds_the_bytes_as_upper_case_hex() -> None:
    data = bytes(range(256)) * 2
    code = qr_code(data)
    assert code is not None
    bits = f"{int(code.bits, 16):0{len(code.bits) * 4}b}"[: code.size**2]
    expected = segno.make_qr(data.hex().upper(), error="l")
    assert bits == "".join(str(module) for row in expected.matrix for module in row)
    assert expected.mode == "alphanumeric"
    assert qr_code(bytes(MAX_QR_BYTES)) is not None
    assert qr_code(bytes(MAX_QR_BYTES + 1)) is None
