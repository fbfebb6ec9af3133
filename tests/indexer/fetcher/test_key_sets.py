"""Signed cards: their key sets are fetched from the card's own host only, and decide what listings say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import rfc8785
from sqlalchemy import select

from indexer.fetcher.dns import TxtRecords
from indexer.fetcher.http_fetcher import HttpFetcher
from indexer.fetcher.key_sets import KeySetVerifier, key_set_url
from indexer.store import visits
from indexer.store.card_signatures import KEYS_CHECK
from indexer.store.checks import CHECK_INTERVAL, GRACE, HOUR
from indexer.store.requests import Rechecks
from indexer.store.schema import card_signatures
from overlay.projection.documents import DocumentReader
from tests.chainkit import agent
from tests.due_checks import due
from tests.hostile import Hostile, Net, authority, net, ok, redirect, server, silent
from tests.indexer.fetcher.checked_registry import CheckedRegistry
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


class KeySetRegistry(CheckedRegistry):
    """Agents with signed cards, and the loop that fetches their key sets."""

    def create_checks(self, fetcher: HttpFetcher, txt: TxtRecords) -> list[KeySetVerifier]:
        del txt
        return [KeySetVerifier(fetcher, self.store, self.indexing.writer)]

    async def inscribe(self, body: bytes) -> str:
        return await self.mine(self.kit.inscribe(body))

    def signed(self, id_: str) -> tuple[Any, list[str]]:
        """The member of an item about the card's signature, and its warnings about it."""
        item = self.item(id_)
        details = [warning["detail"] for warning in item["warnings"] if warning["code"] == "card-signature"]
        return item.get("signed"), details

    def announced(self) -> list[str]:
        return [change.id for change in self.store.outbox.after(0, 1_000) if change.reason == "signature-checked"]


@pytest.fixture
def registry(database_url: str, net: Net, names: NameServer, clock: Clock) -> Iterator[KeySetRegistry]:
    with KeySetRegistry.open(database_url, net, names, clock) as opened:
        yield opened


async def test_the_host_of_a_card_publishes_the_key_that_signed_it(server: Hostile, registry: KeySetRegistry) -> None:
    server.say(KEYS, ok(key_set(jwk("ES256"))))
    card = await registry.inscribe(inscribed(CARD))
    assert registry.signed(card) == (None, [])
    await registry.after()
    assert registry.signed(card) == ({"by": HOST, "coversPricing": True, "kid": "k1", "form": "all-jcs"}, [])
    assert registry.announced() == [card]
    [document] = DocumentReader(registry.store).documents([card])
    assert json.loads(document.item)["signed"] == registry.signed(card)[0]
    assert server.paths().count(KEYS) == 1
    await registry.after(CHECK_INTERVAL)
    assert server.paths().count(KEYS) == 2
    assert registry.announced() == [card]


async def test_a_copy_with_other_prices_says_that_they_are_not_signed(
    server: Hostile, registry: KeySetRegistry
) -> None:
    server.say(KEYS, ok(key_set(jwk("ES256"))))
    a2a = {name: value for name, value in CARD.items() if value and name not in ("x-payment-config", "protocolVersion")}
    card = signed(CARD, payload=rfc8785.dumps(a2a))
    dearer = card | {"x-payment-config": [PRICES[0] | {"address": "1thief"}]}
    copy = await registry.inscribe(json.dumps(dearer).encode())
    await registry.after()
    result, _ = registry.signed(copy)
    assert result == {"by": HOST, "coversPricing": False, "kid": "k1", "form": "a2a-jcs"}


async def test_a_key_set_elsewhere_is_never_fetched(server: Hostile, net: Net, registry: KeySetRegistry) -> None:
    card = await registry.inscribe(inscribed(CARD, jku=f"https://evil.example{KEYS}"))
    await registry.after()
    result, [detail] = registry.signed(card)
    assert result is None
    assert "jku" in detail
    assert "evil.example" not in net.looked_up
    assert KEYS not in server.paths()


async def test_a_redirect_to_another_host_is_not_followed(server: Hostile, net: Net, registry: KeySetRegistry) -> None:
    server.say(KEYS, redirect(f"https://evil.example{KEYS}"))
    card = await registry.inscribe(inscribed(CARD))
    await registry.after()
    result, [detail] = registry.signed(card)
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
    body: bytes, words: str, server: Hostile, registry: KeySetRegistry
) -> None:
    server.say(KEYS, ok(body))
    card = await registry.inscribe(inscribed(CARD))
    await registry.after()
    result, details = registry.signed(card)
    assert result is None
    assert words in "".join(details)


async def test_a_key_that_is_withdrawn_is_lost_at_once(server: Hostile, registry: KeySetRegistry) -> None:
    server.say(KEYS, ok(key_set(jwk("ES256"))))
    card = await registry.inscribe(inscribed(CARD))
    await registry.after()
    server.say(KEYS, ok(key_set()))
    await registry.after(CHECK_INTERVAL)
    assert registry.signed(card)[0] is None
    assert registry.announced() == [card, card]


async def test_a_host_that_is_silent_for_a_while_loses_nothing(server: Hostile, registry: KeySetRegistry) -> None:
    server.say(KEYS, ok(key_set(jwk("ES256"))))
    card = await registry.inscribe(inscribed(CARD))
    await registry.after()
    server.say(KEYS, silent)
    await registry.after(CHECK_INTERVAL)
    assert registry.signed(card)[0] is not None
    await registry.after(GRACE)
    assert registry.signed(card)[0] is None
    server.say(KEYS, ok(key_set(jwk("ES256"))))
    await registry.after(GRACE)
    assert registry.signed(card)[0] is not None


async def test_the_last_check_of_a_key_set_that_is_not_served_is_when_its_week_ends(
    server: Hostile, registry: KeySetRegistry
) -> None:
    server.say(KEYS, ok(key_set(jwk("ES256"))))
    card, now = await registry.inscribe(inscribed(CARD)), 0
    await registry.after()
    with registry.store.engine.connect() as connection:
        verified_at = connection.execute(select(card_signatures.c.verified_at)).scalar_one()
    while registry.signed(card)[0] is not None:
        ((now, url),) = due(registry.store.engine, KEYS_CHECK, 10**15)
        visits.fail_key_set(registry.indexing.writer, url, "fetch-connect", now)
    assert now == verified_at + GRACE


async def test_a_publisher_may_have_it_checked_again(server: Hostile, registry: KeySetRegistry) -> None:
    card = await registry.inscribe(inscribed(CARD))
    await registry.after()
    server.say(KEYS, ok(key_set(jwk("ES256"))))
    assert registry.signed(card)[0] is None
    Rechecks(registry.store.engine).request(card, registry.clock.now)
    await registry.after()
    assert registry.signed(card)[0] is not None


async def test_the_cards_of_pointers_are_checked(server: Hostile, registry: KeySetRegistry) -> None:
    body = inscribed(CARD)
    server.say("/.well-known/agent.json", ok(body))
    server.say(KEYS, ok(key_set(jwk("ES256"))))
    await registry.mine(registry.kit.point(HOST, digest(body)))
    await registry.after()
    await registry.after(HOUR)
    assert registry.signed(HOST)[0]["by"] == HOST
    assert registry.announced() == [HOST]
