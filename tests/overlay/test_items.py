"""Items: what a listing shows, against the sample chain's oracle and against the shape the existing client reads."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from indexer.model import Status
from overlay.listings import item_json
from overlay.listings.item_json import cheapest_json, listing_json, registration_json
from overlay.listings.listing import Listing, listings_of
from overlay.listings.lookup import revision
from overlay.listings.records import PendingRevision, Registration
from overlay.projection.documents import document
from overlay.text.timestamps import timestamp
from parsers import cards
from parsers.cards import AgentCard
from parsers.pointers.locator import url_host
from parsers.reasons import Reason
from tests.overlay.fakes import CAIP2, CHAIN, sample_histories, sample_listings

ARRAYS = ("skills", "tags", "offers", "warnings", "anchors", "args", "keywords", "tools", "prompts", "resources")
TEXTS = ("name", "description", "summary", "logo", "version", "url", "app", "serverName", "command", "id", "txid")


@pytest.fixture(scope="module")
def oracle(sample: Path) -> dict[str, dict[str, Any]]:
    entries = json.loads((sample / "expected.json").read_text())["registrations"]
    return {entry["id"]: entry for entry in entries}


@pytest.fixture(scope="module")
def listings(sample: Path) -> list[Registration]:
    return sample_listings(sample)


def shown(listing: Registration) -> list[dict[str, Any]]:
    return [listing_json(subject) for subject in _subjects(listing)]


def _subjects(listing: Registration) -> tuple[Listing, ...]:
    assert listing.card_body is not None
    return listings_of(listing, cards.read(listing.card_body, listing.state.kind))


def named(listings: list[Registration], name: str) -> Registration:
    return next(listing for listing in listings if name in (listing.card_body or b"").decode())


def test_every_registration_shows_its_state(listings: list[Registration], oracle: dict[str, dict[str, Any]]) -> None:
    for listing in listings:
        expected = oracle[listing.state.id]
        for result in shown(listing):
            assert result["origin"] == expected["id"]
            assert result["type"] == expected["type"]
            assert result["status"] == expected["status"]
            assert result["outpoint"] == expected["outpoint"]
            assert result["owner"] == expected["owner"]
            assert result["txid"] == expected["winner"][:64]
            assert result["app"] == expected["map"]["app"]
            assert result["updatedHeight"] == result["blockHeight"] == expected["updatedHeight"]
            assert result["createdHeight"] == expected["revisions"][0]["height"]
            assert (result["chain"], result["caip2"]) == (CHAIN, CAIP2)


def test_agents_show_what_their_cards_say(listings: list[Registration], oracle: dict[str, dict[str, Any]]) -> None:
    agents = [listing for listing in listings if oracle[listing.state.id]["type"] == "agent"]
    assert len(agents) > 10
    for listing in agents:
        card = oracle[listing.state.id]["card"]
        (result,) = shown(listing)
        assert result["name"] == result["serverName"] == card["name"]
        assert result["description"] == (card.get("description") or "")
        assert result["description"].startswith(result["summary"].rstrip("…")[:20])
        assert len(result["summary"]) <= 160
        assert [skill["id"] for skill in result["skills"]] == [skill["id"] for skill in card["skills"][:256]]
        assert (result["command"], result["args"], result["env"]) == ("", [], {})


def test_nothing_the_existing_client_reads_is_null_or_missing(listings: list[Registration]) -> None:
    for listing in listings:
        for result in shown(listing):
            assert all(isinstance(result[name], list) for name in ARRAYS)
            assert all(isinstance(result[name], str) for name in TEXTS)
            assert isinstance(result["env"], dict)
            assert isinstance(result["blockHeight"], int)
            assert result["timestamp"] == "2023-11-14T22:13:20Z"


def test_amounts_are_decimal_strings_as_the_card_says(listings: list[Registration]) -> None:
    (result,) = shown(named(listings, "Tower‑Guard (Minimal)"))
    (offer,) = result["offers"]
    assert offer["amount"] == "0.00045"
    assert offer["skillIds"] == ["watchChannels"]
    assert offer["acceptedCurrencies"] == ["BSV"]
    assert offer["interval"] is None


def test_a_tool_of_one_server_has_the_plain_id_and_the_clients_members(listings: list[Registration]) -> None:
    (result,) = shown(named(listings, '"clock"'))
    assert result["id"] == result["origin"]
    assert result["serverName"] == "clock"
    assert result["command"]
    assert result["type"] == "tool"


def test_a_tool_of_several_servers_lists_each_under_its_key(
    listings: list[Registration], oracle: dict[str, dict[str, Any]]
) -> None:
    listing = next(item for item in listings if len(oracle[item.state.id]["card"].get("mcpServers", {})) == 2)
    result = shown(listing)
    keys = list(oracle[listing.state.id]["card"]["mcpServers"])
    assert [item["serverName"] for item in result] == keys
    assert [item["id"] for item in result] == [f"{listing.state.id}#{key}" for key in keys]
    plain = registration_json(_subjects(listing))
    assert plain["servers"] == [item["id"] for item in result]
    assert plain["id"] == listing.state.id
    assert "command" not in plain


def test_an_unconfirmed_newcomer_is_pending_and_has_no_height(listings: list[Registration]) -> None:
    newcomer = replace(listings[0], created_time=None, updated_time=None)
    (result,) = shown(newcomer)
    assert result["status"] == "pending"
    assert "blockHeight" not in result
    assert (result["updatedHeight"], result["createdHeight"], result["timestamp"]) == (None, None, None)
    created = document(_subjects(newcomer)[0])
    assert (created.status, created.from_height, created.updated_height, created.created_height) == (
        "pending",
        None,
        None,
        None,
    )


def test_an_undecided_listing_says_so_but_burned_is_for_ever(listings: list[Registration]) -> None:
    why = Reason("values-unknown", "00" * 32 + "_1")
    (result,) = shown(replace(listings[0], undecided=why))
    assert (result["status"], result["warnings"][-1]["code"]) == ("undecided", "values-unknown")
    burned = replace(listings[0], undecided=why, state=replace(listings[0].state, status=Status.BURNED))
    assert shown(burned)[0]["status"] == "burned"
    assert "values-unknown" not in {warning["code"] for warning in shown(burned)[0]["warnings"]}


def test_signer_and_pending_revision_are_shown_only_when_there_are_any(listings: list[Registration]) -> None:
    (without,) = shown(listings[0])
    assert not {"signer", "pending"} & without.keys()
    (result,) = shown(
        replace(listings[0], signer="1abc", pending=PendingRevision(outpoint="00" * 32 + "_0", owner="1new"))
    )
    assert result["signer"] == "1abc"
    before = listings[0].state.owner
    assert result["pending"] == {
        "outpoint": "00" * 32 + "_0",
        "changes": [{"what": "owner", "from": before, "to": "1new"}],
        "summary": f"It changes the owner from {before} to 1new.",
    }


def test_the_document_of_an_engine_agrees_with_the_item(listings: list[Registration]) -> None:
    for listing in listings:
        for subject in _subjects(listing):
            created = document(subject, until_height=500)
            body = json.loads(created.item)
            assert body == listing_json(subject)
            assert (created.id, created.kind, created.status) == (body["id"], body["type"], body["status"])
            assert (created.registration, created.owner) == (body["origin"], body["owner"] or "")
            assert (created.from_height, created.until_height) == (body["updatedHeight"], 500)
            assert created.domain == (body["domain"] or {"host": ""})["host"]
            assert not {"score", "cheapest", "highlights"} & body.keys()


def test_the_domain_is_the_host_of_the_url_as_it_compares() -> None:
    assert url_host("https://Bücher.Example:8443/a?b") == "xn--bcher-kva.example"
    for nothing in (
        "",
        "ftp://a.example",
        "https://",
        "https://[::1",
        "https://127.0.0.1/",
        "mailto:a@b.example",
        "https://a b/",
    ):
        assert url_host(nothing) == ""


def test_the_cheapest_offer_is_one_per_call_in_the_currency_of_most() -> None:
    card = agent(
        '[{"id":"a","currency":"USD","amount":5},{"id":"b","currency":"BSV","amount":0.1},'
        '{"id":"c","currency":"USD","amount":2,"interval":"month"},{"id":"d","currency":"USD","amount":2}]'
    )
    price = {
        "offerId": "d", "amount": "2", "currency": "USD", "interval": "none", "perDay": None, "others": ["BSV"],
    }  # fmt: skip
    assert cheapest_json(card.offers) == price
    assert cheapest_json(()) is None


def test_warnings_carry_code_pointer_and_sentence() -> None:
    card = agent('[{"currency":"USD","amount":"five"}]')
    (warning,) = [item for item in item_json.card_fields(card)["warnings"] if item["code"] == "offer-amount"]
    assert warning["pointer"] == "/x-payment-config/0/amount"
    assert warning["detail"] == Reason("offer-amount", "five").sentence


def agent(prices: str) -> AgentCard:
    body = f'{{"name":"A","url":"https://a.example","skills":[{{"id":"s"}}],"x-payment-config":{prices}}}'
    card = cards.read(body.encode())
    assert isinstance(card, AgentCard)
    return card


def test_times_are_iso_8601_in_utc() -> None:
    assert timestamp(0) == "1970-01-01T00:00:00Z"
    assert timestamp(1_745_164_800) == "2025-04-20T16:00:00Z"
    assert timestamp(None) is None


def test_the_reason_of_a_revision_is_the_most_important_of_its_reasons(sample: Path) -> None:
    past = next(iter(sample_histories(sample).values()))[0]
    event = replace(past.event, reasons=(Reason("card-name"), Reason("satoshis", "two satoshis")))
    result = revision(replace(past, event=event, height=None, hash=None, time=None))
    assert result["reason"] == "the card has no name"
    assert [reason["detail"] for reason in result["reasons"]] == [
        "the card has no name",
        "the output holds two satoshis",
    ]
    assert (result["height"], result["txIndex"], result["blockHash"], result["timestamp"]) == (None, None, None, None)


def test_revisions_have_the_oracles_words(sample: Path, oracle: dict[str, dict[str, Any]]) -> None:
    for id_, history in sample_histories(sample).items():
        for past, expected in zip(history, reversed(oracle[id_]["revisions"]), strict=True):
            result = revision(past)
            same = ("outpoint", "txid", "height", "txIndex", "kind", "cardSha256", "valid", "owner", "signer")
            assert {name: result[name] for name in same} == {name: expected[name] for name in same}
            if expected["kind"] == "burned":
                assert result["reasons"] == [{"code": "burned-fee", "detail": "to the fee"}]
                assert result["reason"] == "to the fee"
