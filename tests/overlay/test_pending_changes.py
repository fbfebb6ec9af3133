"""An update that waits to be mined is shown as what it changes, wherever somebody is about to pay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from overlay import cli
from parsers.cards import AgentCard, read
from parsers.cards.price_changes import changed_prices, price_text
from tests.chainkit import ChainKit, agent
from tests.fakes import MemoryChain
from tests.overlay.answer_models import fits
from tests.overlay.calls import get
from tests.serving import new_app, serving
from tests.waiting import until_told

ALICE, EVE = "1BoatSLRHtKNngkdXEeobR76b53LETtpyT", "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2"
URL = "https://paint.example/a2a"


def painter(*prices: dict[str, Any], **more: Any) -> dict[str, Any]:
    usual = {"currency": "USD", "amount": 1, "interval": "month", "address": ALICE, "skillIds": ["paint"]}
    offers = [usual | {"id": f"o{number}"} | price for number, price in enumerate(prices)]
    skills = [{"id": "paint", "name": "Paint", "description": "Paints.", "tags": []}]
    return agent("Painter", **{
        "description": "Paints pictures.", "url": URL, "skills": skills, "x-payment-config": offers, **more
    })  # fmt: skip


class Waiting:
    """A mined painter, and an update of it in the mempool."""

    def __init__(self, card: dict[str, Any]) -> None:
        self.kit = ChainKit()
        self.painter = self.kit.inscribe(painter({"amount": 1}))
        self.chain = MemoryChain(*self.kit.blocks, name="live")
        self.chain.arrive(self.kit.mine(self.painter))
        update = self.kit.update(self.painter, card)
        self.chain.unconfirmed[update.txid] = self.kit.raw(update)
        self.id = str(self.painter)


async def call(session: ClientSession, tool: str, **arguments: str) -> Any:
    """The answer of an MCP tool."""
    params = {"name": tool, "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"Accept": "application/json, text/event-stream"}
    async with session.post("/mcp", json=message, headers=headers) as answer:
        return (await answer.json())["result"]["structuredContent"]


async def test_a_dearer_price_and_another_address_are_shown_before_anybody_pays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting = Waiting(painter({"amount": 400, "address": EVE}, url="https://eve.example/a2a"))
    expected = [
        {"what": "address", "from": ALICE, "to": EVE},
        {"what": "url", "from": URL, "to": "https://eve.example/a2a"},
        {"what": "price", "from": "1 USD per P1M", "to": "400 USD per P1M"},
    ]
    sentence = (
        f"It changes the pay-to address from {ALICE} to {EVE}; changes the URL from {URL} to https://eve.example/a2a; "
        "changes the price from 1 USD per P1M to 400 USD per P1M."
    )
    async with serving(new_app(tmp_path, waiting.chain, limits="off")) as session:
        page = await until_told(session, "/v1/search", lambda page: "pending" in (page["items"] or [{}])[0])
        fits(page, "Page")
        [item] = page["items"]
        assert (item["pending"]["changes"], item["pending"]["summary"]) == (expected, sentence)
        listing = await get(session, f"/v1/listings/{waiting.id}")
        fits(listing, "Listing")
        assert listing["pending"] == item["pending"]
        quote = await get(session, f"/v1/quote?id={waiting.id}&currency=USD")
        fits(quote, "Quote")
        assert (quote["amount"], quote["pending"]) == ("1", item["pending"])
        assert (await call(session, "get", id=waiting.id))["pending"] == item["pending"]
        [result] = (await call(session, "search", q="painter"))["items"]
        assert result["pending"] == item["pending"]
        for path in (f"/listings/{waiting.id}", f"/publish?tx={waiting.id}"):
            async with session.get(path, headers={"Accept": "text/html"}) as answer:
                text = await answer.text()
            assert EVE in text, path
            assert "400 USD per month" in text, path
        async with session.get(f"/listings/{waiting.id}", headers={"Accept": "text/html"}) as answer:
            assert "Read it before you pay or run anything" in await answer.text()
    with pytest.raises(SystemExit, match="0"):
        cli.main(["show", waiting.id, "--data", str(tmp_path / "data")])
    shown = capsys.readouterr().out
    assert "an update waits to be mined; look before you pay" in shown
    assert f"address: {ALICE} -> {EVE}" in shown
    assert "price: 1 USD per month -> 400 USD per month" in shown


async def test_an_update_of_words_alone_is_no_warning(tmp_path: Path) -> None:
    waiting = Waiting(painter({"amount": 1}, description="Paints better pictures."))
    async with serving(new_app(tmp_path, waiting.chain)) as session:
        page = await until_told(session, "/v1/search", lambda page: "pending" in (page["items"] or [{}])[0])
        assert page["items"][0]["pending"]["changes"] == []
        assert "pending" not in await get(session, f"/v1/quote?id={waiting.id}&currency=USD")
        async with session.get(f"/listings/{waiting.id}", headers={"Accept": "text/html"}) as answer:
            text = await answer.text()
        assert "A newer revision waits to be mined. It changes no pay-to address" in text
        assert "Read it before you pay" not in text


async def test_many_harmless_changes_hide_none_that_takes_money(tmp_path: Path) -> None:
    many = [{"id": f"n{number}", "amount": number} for number in range(63)]
    waiting = Waiting(painter(*many, {"id": "o0", "address": EVE}))
    async with serving(new_app(tmp_path, waiting.chain)) as session:
        page = await until_told(session, "/v1/search", lambda page: "pending" in (page["items"] or [{}])[0])
        changes, summary = page["items"][0]["pending"]["changes"], page["items"][0]["pending"]["summary"]
        assert (changes[0]["what"], len(changes) <= 64) == ("address", True)
        assert "more changes" in summary
        assert "pay-to address" in summary
        fits(page, "Page")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([], [{"amount": 2}], [(None, "2 USD per P1M")]),
        ([{"amount": 2}], [], [("2 USD per P1M", None)]),
        ([{"id": "a"}], [{"id": "b"}], []),
        ([{"id": "a"}], [{"id": "b", "amount": 5}], [("1 USD per P1M", "5 USD per P1M")]),
        ([{"id": "a"}, {"id": "b", "amount": 7}], [{"id": "a"}], [("7 USD per P1M", None)]),
        ([{"id": "a"}], [{"id": "a"}, {"id": "b", "amount": 7}], [(None, "7 USD per P1M")]),
        (
            [{"acceptedCurrencies": ["USD"]}],
            [{"acceptedCurrencies": ["USD", "BSV"]}],
            [("1 USD per P1M", "1 USD per P1M, paid in USD, BSV")],
        ),
    ],
)
def test_prices_that_are_added_dropped_or_renamed(
    before: list[dict[str, Any]], after: list[dict[str, Any]], expected: list[tuple[str | None, str | None]]
) -> None:
    cards = [read(json.dumps(painter(*prices)).encode()) for prices in (before, after)]
    old, new = (card.offers for card in cards if isinstance(card, AgentCard))
    pairs = changed_prices(old, new)
    assert [tuple(price_text(offer) if offer else None for offer in pair) for pair in pairs] == expected
