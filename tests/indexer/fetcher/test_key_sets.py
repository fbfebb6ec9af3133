"""Signed cards: their key sets are fetched from the card's own host only, and decide what listings say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import rfc8785
from sqlalchemy import select

from indexer.fetcher.card_fetcher import CardFetcher
from indexer.fetcher.dns import TxtRecords
from indexer.fetcher.domain_badges import DomainVerifier
from indexer.fetcher.fetch_loop import FetchLoop
from indexer.fetcher.key_sets import KeySetVerifier, key_set_url
from indexer.store import visits
from indexer.store.checks import CHECK_INTERVAL, GRACE, HOUR, CheckKind
from indexer.store.requests import Rechecks
from indexer.store.schema import card_signatures
from overlay.listings.item_json import listing_json
from overlay.listings.listing import listings_of
from overlay.listings.repository import ListingRepository
from overlay.projection.documents import DocumentReader
from parsers import cards
from parsers.bitcoin.tx import Outpoint
from tests.chainkit import ChainKit, agent
from tests.due_checks import due
from tests.fakes import MemoryChain
from tests.hostile import QUICK, Hostile, Net, authority, net, ok, redirect, server, silent
from tests.indexing import Indexing
from tests.names import NameServer, names
from tests.parsers.claims.signing import jwk, signed
from tests.pointer_facts import Clock, clock, digest

KEYS = "/.well-known/jwks.json"
HOST = "agent.example"
PRICES = [{"id": "p", "currency": "USD", "amount": "5", "address": "1abc"}]
CARD = agent("Echo", url=f"https://{HOST}/a2a", protocolVersion="0.3.0") | {"x-payment-config": PRICES}

__all__ = ["authority", "clock", "names", "net", "server"]


def key_set(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


def inscribed(card: dict[str, Any], **header: Any) -> bytes:
    return json.dumps(signed(card, **header)).encode()


@pytest.mark.parametrize(
    ("jku", "host", "url"),
    [
        ("", "a.example", f"https://a.example{KEYS}"),
        ("https://a.example/keys?v=1", "a.example", "https://a.example/keys?v=1"),
        ("https://a.example/keys", "api.eu.a.example", "https://a.example/keys"),
        ("https://api.a.example/keys", "a.example", ""),
        ("https://b.a.example/keys", "c.a.example", ""),
        ("https://evil.example/keys", "a.example", ""),
        ("https://aa.example/keys", "a.example", ""),
        ("https://github.io/keys", "me.github.io", ""),
        ("https://a.example@evil.example/keys", "a.example", ""),
        ("http://a.example/keys", "a.example", ""),
        ("https://a.example/ü", "a.example", ""),
        ("https://a.example/" + "x" * 2_048, "a.example", ""),
        ("", "", ""),
    ],
)
def test_key_sets_are_those_of_the_host_or_of_a_domain_above_it(jku: str, host: str, url: str) -> None:
    assert key_set_url(jku, host) == url


class Village:
    """A chain of signed agents and the loop that fetches their key sets."""

    def __init__(
        self, indexing: Indexing, chain: MemoryChain, kit: ChainKit, net: Net, names: NameServer, clock: Clock
    ) -> None:
        self.indexing, self.store, self.clock = indexing, indexing.store, clock
        self.chain, self.kit = chain, kit
        fetcher = net.fetcher(replace(QUICK, first_byte=4.0, total=20.0), clock=clock)
        self.loop = FetchLoop(
            self.store, indexing.writer, CardFetcher(fetcher, clock=clock),
            DomainVerifier(fetcher, TxtRecords([names.place])),
            checks=[KeySetVerifier(fetcher, self.store, indexing.writer)], clock=clock, ticking=clock,
        )  # fmt: skip

    async def mine(self, what: Outpoint) -> str:
        self.chain.arrive(self.kit.mine(what))
        await self.indexing.catch_up()
        return str(what)

    async def inscribe(self, body: bytes) -> str:
        return await self.mine(self.kit.inscribe(body))

    async def after(self, milliseconds: int = 0) -> None:
        """That much time passes, and what can be fetched then, or as soon as budgets allow, is."""
        self.clock.tick(milliseconds)
        for _ in range(4):
            await self.loop.look()
            self.loop.start()
            await self.loop.settle()
            self.clock.tick(60_000)

    def item(self, id_: str) -> dict[str, Any]:
        registration = ListingRepository(self.store).listing(id_)
        assert registration is not None
        assert registration.card_body is not None
        card = cards.read_of(id_, registration.card_body, registration.state.kind)
        return listing_json(listings_of(registration, card)[0])

    def signed(self, id_: str) -> tuple[Any, list[str]]:
        """What an item says of the card's signature, and its warnings about it."""
        item = self.item(id_)
        details = [warning["detail"] for warning in item["warnings"] if warning["code"] == "card-signature"]
        return item.get("signed"), details

    def announced(self) -> list[str]:
        return [change.id for change in self.store.outbox.after(0, 1_000) if change.reason == "signature-checked"]


@pytest.fixture
def village(database_url: str, net: Net, names: NameServer, clock: Clock) -> Iterator[Village]:
    kit = ChainKit()
    chain = MemoryChain(*kit.blocks)
    with Indexing(database_url, chain) as indexing:
        yield Village(indexing, chain, kit, net, names, clock)


async def test_the_host_of_a_card_publishes_the_key_that_signed_it(server: Hostile, village: Village) -> None:
    server.say(KEYS, ok(key_set(jwk("ES256"))))
    card = await village.inscribe(inscribed(CARD))
    assert village.signed(card) == (None, [])
    await village.after()
    assert village.signed(card) == ({"by": HOST, "coversPricing": True, "kid": "k1", "form": "all-jcs"}, [])
    assert village.announced() == [card]
    [document] = DocumentReader(village.store).documents([card])
    assert json.loads(document.item)["signed"] == village.signed(card)[0]
    assert server.paths().count(KEYS) == 1
    await village.after(CHECK_INTERVAL)
    assert server.paths().count(KEYS) == 2
    assert village.announced() == [card]


async def test_a_copy_with_other_prices_says_that_they_are_not_signed(server: Hostile, village: Village) -> None:
    server.say(KEYS, ok(key_set(jwk("ES256"))))
    a2a = {name: value for name, value in CARD.items() if value and name not in ("x-payment-config", "protocolVersion")}
    card = signed(CARD, payload=rfc8785.dumps(a2a))
    dearer = card | {"x-payment-config": [PRICES[0] | {"address": "1thief"}]}
    copy = await village.inscribe(json.dumps(dearer).encode())
    await village.after()
    result, _ = village.signed(copy)
    assert result == {"by": HOST, "coversPricing": False, "kid": "k1", "form": "a2a-jcs"}


async def test_a_key_set_elsewhere_is_never_fetched(server: Hostile, net: Net, village: Village) -> None:
    card = await village.inscribe(inscribed(CARD, jku=f"https://evil.example{KEYS}"))
    await village.after()
    result, [detail] = village.signed(card)
    assert result is None
    assert "jku" in detail
    assert "evil.example" not in net.looked_up
    assert KEYS not in server.paths()


async def test_a_redirect_to_another_host_is_not_followed(server: Hostile, net: Net, village: Village) -> None:
    server.say(KEYS, redirect(f"https://evil.example{KEYS}"))
    card = await village.inscribe(inscribed(CARD))
    await village.after()
    result, [detail] = village.signed(card)
    assert result is None
    assert "fetch-redirect-host" in detail
    assert "evil.example" not in net.looked_up


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (key_set(jwk("ES256", kid="k2")), "does not have the key"),
        (key_set(jwk("EdDSA")), "not of this card"),
        (key_set(jwk("ES256") | {"x": jwk("ES256")["y"]}), "not of this card"),
        (b"<html>", "fetch-not-json"),
        (b'{"keys": "' + b"x" * 300_000 + b'"}', "fetch-size"),
    ],
)
async def test_what_does_not_verify_is_a_warning_that_says_why(
    body: bytes, words: str, server: Hostile, village: Village
) -> None:
    server.say(KEYS, ok(body))
    card = await village.inscribe(inscribed(CARD))
    await village.after()
    result, details = village.signed(card)
    assert result is None
    assert words in "".join(details)


async def test_a_key_that_is_withdrawn_is_lost_at_once(server: Hostile, village: Village) -> None:
    server.say(KEYS, ok(key_set(jwk("ES256"))))
    card = await village.inscribe(inscribed(CARD))
    await village.after()
    server.say(KEYS, ok(key_set()))
    await village.after(CHECK_INTERVAL)
    assert village.signed(card)[0] is None
    assert village.announced() == [card, card]


async def test_a_host_that_is_silent_for_a_while_loses_nothing(server: Hostile, village: Village) -> None:
    server.say(KEYS, ok(key_set(jwk("ES256"))))
    card = await village.inscribe(inscribed(CARD))
    await village.after()
    server.say(KEYS, silent)
    await village.after(CHECK_INTERVAL)
    assert village.signed(card)[0] is not None
    await village.after(GRACE)
    assert village.signed(card)[0] is None
    server.say(KEYS, ok(key_set(jwk("ES256"))))
    await village.after(GRACE)
    assert village.signed(card)[0] is not None


async def test_the_last_check_of_a_key_set_that_is_not_served_is_when_its_week_ends(
    server: Hostile, village: Village
) -> None:
    server.say(KEYS, ok(key_set(jwk("ES256"))))
    card, now = await village.inscribe(inscribed(CARD)), 0
    await village.after()
    with village.store.engine.connect() as connection:
        verified_at = connection.execute(select(card_signatures.c.verified_at)).scalar_one()
    while village.signed(card)[0] is not None:
        ((now, url),) = due(village.store.engine, CheckKind.KEYS, 10**15)
        visits.fail_key_set(village.indexing.writer, url, "fetch-connect", now)
    assert now == verified_at + GRACE


async def test_a_publisher_may_have_it_checked_again(server: Hostile, village: Village) -> None:
    card = await village.inscribe(inscribed(CARD))
    await village.after()
    server.say(KEYS, ok(key_set(jwk("ES256"))))
    assert village.signed(card)[0] is None
    Rechecks(village.store.engine).request(card, village.clock.now)
    await village.after()
    assert village.signed(card)[0] is not None


async def test_the_cards_of_pointers_are_checked(server: Hostile, village: Village) -> None:
    body = inscribed(CARD)
    server.say("/.well-known/agent.json", ok(body))
    server.say(KEYS, ok(key_set(jwk("ES256"))))
    await village.mine(village.kit.point(HOST, digest(body)))
    await village.after()
    await village.after(HOUR)
    assert village.signed(HOST)[0]["by"] == HOST
    assert village.announced() == [HOST]
