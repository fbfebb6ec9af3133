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
    return next(each for each in listings if name in (each.card_body or b"").decode())


def test_every_registration_shows_where_it_stands(
    listings: list[Registration], oracle: dict[str, dict[str, Any]]
) -> None:
    for listing in listings:
        expected = oracle[listing.state.id]
        for found in shown(listing):
            assert found["origin"] == expected["id"]
            assert found["type"] == expected["type"]
            assert found["status"] == expected["status"]
            assert found["outpoint"] == expected["outpoint"]
            assert found["owner"] == expected["owner"]
            assert found["txid"] == expected["winner"][:64]
            assert found["app"] == expected["map"]["app"]
            assert found["updatedHeight"] == found["blockHeight"] == expected["updatedHeight"]
            assert found["createdHeight"] == expected["revisions"][0]["height"]
            assert (found["chain"], found["caip2"]) == (CHAIN, CAIP2)


def test_agents_show_what_their_cards_say(listings: list[Registration], oracle: dict[str, dict[str, Any]]) -> None:
    agents = [listing for listing in listings if oracle[listing.state.id]["type"] == "agent"]
    assert len(agents) > 10
    for listing in agents:
        card = oracle[listing.state.id]["card"]
        (found,) = shown(listing)
        assert found["name"] == found["serverName"] == card["name"]
        assert found["description"] == (card.get("description") or "")
        assert found["description"].startswith(found["summary"].rstrip("…")[:20])
        assert len(found["summary"]) <= 160
        assert [skill["id"] for skill in found["skills"]] == [skill["id"] for skill in card["skills"][:256]]
        assert (found["command"], found["args"], found["env"]) == ("", [], {})


def test_nothing_the_existing_client_reads_is_null_or_missing(listings: list[Registration]) -> None:
    for listing in listings:
        for found in shown(listing):
            assert all(isinstance(found[name], list) for name in ARRAYS)
            assert all(isinstance(found[name], str) for name in TEXTS)
            assert isinstance(found["env"], dict)
            assert isinstance(found["blockHeight"], int)
            assert found["timestamp"] == "2023-11-14T22:13:20Z"


def test_amounts_are_decimal_strings_as_the_card_says(listings: list[Registration]) -> None:
    (found,) = shown(named(listings, "Tower‑Guard (Minimal)"))
    (offer,) = found["offers"]
    assert offer["amount"] == "0.00045"
    assert offer["skillIds"] == ["watchChannels"]
    assert offer["acceptedCurrencies"] == ["BSV"]
    assert offer["interval"] is None


def test_a_tool_of_one_server_has_the_plain_id_and_the_clients_members(listings: list[Registration]) -> None:
    (found,) = shown(named(listings, '"clock"'))
    assert found["id"] == found["origin"]
    assert found["serverName"] == "clock"
    assert found["command"]
    assert found["type"] == "tool"


def test_a_tool_of_several_servers_lists_each_under_its_key(
    listings: list[Registration], oracle: dict[str, dict[str, Any]]
) -> None:
    listing = next(each for each in listings if len(oracle[each.state.id]["card"].get("mcpServers", {})) == 2)
    found = shown(listing)
    keys = list(oracle[listing.state.id]["card"]["mcpServers"])
    assert [each["serverName"] for each in found] == keys
    assert [each["id"] for each in found] == [f"{listing.state.id}#{key}" for key in keys]
    plain = registration_json(_subjects(listing))
    assert plain["servers"] == [each["id"] for each in found]
    assert plain["id"] == listing.state.id
    assert "command" not in plain


def test_an_unconfirmed_newcomer_is_pending_and_has_no_height(listings: list[Registration]) -> None:
    newcomer = replace(listings[0], created_time=None, updated_time=None)
    (found,) = shown(newcomer)
    assert found["status"] == "pending"
    assert "blockHeight" not in found
    assert (found["updatedHeight"], found["createdHeight"], found["timestamp"]) == (None, None, None)
    made = document(_subjects(newcomer)[0])
    assert (made.status, made.from_height, made.updated_height, made.created_height) == ("pending", None, None, None)


def test_an_undecided_listing_says_so_but_burned_is_for_ever(listings: list[Registration]) -> None:
    why = Reason("values-unknown", "00" * 32 + "_1")
    (found,) = shown(replace(listings[0], undecided=why))
    assert (found["status"], found["warnings"][-1]["code"]) == ("undecided", "values-unknown")
    burned = replace(listings[0], undecided=why, state=replace(listings[0].state, status=Status.BURNED))
    assert shown(burned)[0]["status"] == "burned"
    assert "values-unknown" not in {each["code"] for each in shown(burned)[0]["warnings"]}


def test_signer_and_pending_revision_are_shown_only_when_there_are_any(listings: list[Registration]) -> None:
    (without,) = shown(listings[0])
    assert not {"signer", "pending"} & without.keys()
    (found,) = shown(
        replace(listings[0], signer="1abc", pending=PendingRevision(outpoint="00" * 32 + "_0", summary="New."))
    )
    assert found["signer"] == "1abc"
    assert found["pending"] == {"outpoint": "00" * 32 + "_0", "summary": "New."}


def test_the_document_of_an_engine_agrees_with_the_item(listings: list[Registration]) -> None:
    for listing in listings:
        for subject in _subjects(listing):
            made = document(subject, until_height=500)
            found = json.loads(made.item)
            assert found == listing_json(subject)
            assert (made.id, made.kind, made.status) == (found["id"], found["type"], found["status"])
            assert (made.registration, made.owner) == (found["origin"], found["owner"] or "")
            assert (made.from_height, made.until_height) == (found["updatedHeight"], 500)
            assert made.domain == (found["domain"] or {"host": ""})["host"]
            assert not {"score", "cheapest", "highlights"} & found.keys()


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


def test_the_cheapest_offer_is_the_lowest_in_the_first_offers_currency() -> None:
    card = agent(
        '[{"id":"a","currency":"USD","amount":5},{"id":"b","currency":"BSV","amount":0.1},'
        '{"id":"c","currency":"USD","amount":2,"interval":"month"},{"id":"d","currency":"USD","amount":2}]'
    )
    price = {"offerId": "c", "amount": "2", "currency": "USD", "interval": "P1M", "perDay": "0.0657097681677"}
    assert cheapest_json(card.offers) == price
    assert cheapest_json(()) is None


def test_warnings_carry_code_pointer_and_sentence() -> None:
    card = agent('[{"currency":"USD","amount":"five"}]')
    (found,) = [each for each in item_json.card_fields(card)["warnings"] if each["code"] == "offer-amount"]
    assert found["pointer"] == "/x-payment-config/0/amount"
    assert found["detail"] == Reason("offer-amount", "five").sentence


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
    found = revision(replace(past, event=event, height=None, hash=None, time=None))
    assert found["reason"] == "the card has no name"
    assert [each["detail"] for each in found["reasons"]] == ["the card has no name", "the output holds two satoshis"]
    assert (found["height"], found["txIndex"], found["blockHash"], found["timestamp"]) == (None, None, None, None)


def test_revisions_have_the_oracles_words(sample: Path, oracle: dict[str, dict[str, Any]]) -> None:
    for id_, history in sample_histories(sample).items():
        for past, expected in zip(history, reversed(oracle[id_]["revisions"]), strict=True):
            found = revision(past)
            same = ("outpoint", "txid", "height", "txIndex", "kind", "cardSha256", "valid", "owner", "signer")
            assert {name: found[name] for name in same} == {name: expected[name] for name in same}
            if expected["kind"] == "burned":
                assert found["reasons"] == [{"code": "burned-fee", "detail": "to the fee"}]
                assert found["reason"] == "to the fee"
