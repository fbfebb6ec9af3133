"""The price lines of a listing: of prices that changed only, exact in words, few and small whatever cards say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.api.services import AppServices
from overlay.text.timestamps import timestamp
from overlay.web.line_chart import Drawing
from overlay.web.price_lines import MAX_CHANGES, MAX_LINES, price_lines
from overlay.web.rendering import LISTING_BYTES
from tests.overlay.conftest import Serve
from tests.overlay.fakes import FakeStore, changed
from tests.overlay.web.test_line_chart import parsed
from tests.overlay.web.test_listing_page import Revised
from tests.overlay.web.test_search_page import TOWER, page

NOON = 1_788_264_000
"""2026-09-01 12:00 UTC, in seconds since 1970."""

DAY = 86_400


def price(amount: Any, **more: Any) -> dict[str, Any]:
    return {"id": "call", "name": "A call", "currency": "BSV", "amount": amount, **more}


def card(*prices: dict[str, Any]) -> bytes:
    agent = {"name": "A", "url": "https://a.example", "skills": [{"id": "s"}], "x-payment-config": list(prices)}
    return json.dumps(agent).encode()


def lines(
    *cards: bytes, kind: str = "agent", server: str = "", unread: int | None = None, **last: Any
) -> list[Drawing]:
    """The lines of a listing with these cards, one a day; `last` are members of the last revision."""
    revisions = [
        {"cardSha256": str(number), "valid": True, "timestamp": timestamp(NOON + number * DAY)}
        for number in range(len(cards))
    ]
    revisions[-1] |= last
    bodies = {str(number): body for number, body in enumerate(cards) if number != unread}
    item = {"type": kind, "serverName": server}
    return price_lines(item, revisions[::-1], bodies, NOON + 10 * DAY)


def path(drawing: Drawing) -> str:
    return parsed(drawing.svg)[-1].attrib["d"]


def words(drawing: Drawing) -> str:
    return parsed(drawing.svg)[1].text or ""


def test_a_price_that_changed_is_a_step_line_from_zero_until_today() -> None:
    (line,) = lines(card(price("0.002")), card(price("0.002")), card(price("0.005")))
    assert line.caption == "A call, in BSV per call"
    assert (line.high, line.low, line.since, line.until) == ("0.005", "0", "2026-09-01 12:00 UTC", "today")
    assert words(line) == "0.002 BSV from 2026-09-01 12:00 UTC; 0.005 BSV from 2026-09-03 12:00 UTC."
    assert path(line) == "M0 59H34V4H160"


def test_prices_that_stay_are_not_drawn() -> None:
    assert lines(card(price(1)), card(price("1.0"))) == []
    assert lines(card(price(1))) == []
    assert lines(card(), card(price(1))) == []
    assert lines(card(price(1)), card()) == []


def test_amounts_are_compared_in_one_currency_and_interval() -> None:
    assert lines(card(price(1)), card(price(2, currency="USD"))) == []
    assert lines(card(price(1)), card(price(2, interval="P1M"))) == []


def test_a_price_that_was_dropped_for_a_time_has_a_gap() -> None:
    (line,) = lines(card(price(1)), card(), card(price(2)))
    assert "no price from 2026-09-02 12:00 UTC; 2.00 BSV from 2026-09-03" in words(line)
    assert path(line).count("M") == 2


def test_a_line_begins_after_a_card_that_was_not_read() -> None:
    """The page reads the newest cards up to a number of bytes: an older one may be among them, since it returned."""
    (line,) = lines(card(price("1")), card(price("2")), card(price("3")), card(price("4")), unread=1)
    assert words(line) == "3.00 BSV from 2026-09-03 12:00 UTC; 4.00 BSV from 2026-09-04 12:00 UTC."


def test_only_valid_mined_revisions_count() -> None:
    for last in ({"valid": False}, {"timestamp": None}):
        assert lines(card(price(1)), card(price(2)), **last) == []
        (line,) = lines(card(price(1)), card(price(2)), card(price(3)), **last)
        assert line.high == "2.00"


def test_a_server_of_a_config_has_the_prices_of_its_own() -> None:
    configs = [
        json.dumps({"mcpServers": {
            "clock": {"command": "c", "x-payment": [price(1)]}, "map": {"command": "m", "x-payment": [price(amount)]},
        }}).encode()
        for amount in (1, 2)
    ]  # fmt: skip
    assert lines(*configs, kind="tool", server="clock") == []
    assert len(lines(*configs, kind="tool", server="map")) == 1


def test_many_changes_are_counted_and_many_prices_left_out() -> None:
    cards = [card(*(price(amount, id=f"p{number}") for number in range(60))) for amount in range(1, 31)]
    drawn = lines(*cards)
    assert len(drawn) == MAX_LINES
    assert words(drawn[0]).startswith(f"{30 - MAX_CHANGES} earlier changes; 25.0 BSV from 2026-09-25 12:00 UTC; ")


@given(
    st.lists(
        st.lists(st.text(max_size=5) | st.integers(0) | st.sampled_from(["1e400", "1e-400", "9" * 90])), max_size=9
    )
)
def test_whatever_amounts_are_the_lines_are_well_formed(histories: list[list[Any]]) -> None:
    hostile = "\"'<&>\U000e0041\x00" * 40
    cards = [
        card(
            *(
                price(amount, id=f"{hostile}{number}", name=hostile, currency="X" * 60)
                for number, amount in enumerate(row)
            )
        )
        for row in histories or [[]]
    ]
    drawn = lines(*cards)
    assert len(drawn) <= MAX_LINES
    assert sum(len(line.svg) + len(line.caption) for line in drawn) < 24_000
    for line in drawn:
        assert parsed(line.svg).attrib["role"] == "img"


async def test_the_page_draws_the_line_below_the_prices(serve: Serve, services: AppServices) -> None:
    assert isinstance(services.store, FakeStore)
    client = await serve(changed(services, store=Revised(services.store, card(price(1)), card(price(2)))))
    html = await page(client, f"/listings/{TOWER}")
    assert "Prices over time" in html.text
    assert "1.00 BSV from" in html.text
    assert [svg.get("role") for svg in html.all("svg")].count("img") == 1


@pytest.mark.parametrize("scale", [1, 30])
async def test_the_page_stays_small_with_lines(serve: Serve, services: AppServices, scale: int) -> None:
    assert isinstance(services.store, FakeStore)
    long = "\"'<&>\U000e0041Ж" * 20 * scale
    cards = [
        card(*(price(amount, id=f"{number}{long}", name=long, currency="X" * 60) for number in range(40)))
        for amount in range(1, 31)
    ]
    client = await serve(changed(services, store=Revised(services.store, *cards)))
    html = await page(client, f"/listings/{TOWER}")
    assert html.size <= LISTING_BYTES
