"""The keys of issuers of MRP messages stay cached, whatever strangers have the issuer asked."""

from __future__ import annotations

import json

import pytest

from indexer.fetcher.on_demand import OnDemandFetcher
from overlay.systems.mrp.issuer_keys import CACHE_SECONDS, RETRY_SECONDS, WELL_KNOWN_KEYS, IssuerKeys
from parsers.claims.canonical_json import DocumentError
from tests.hostile import QUICK, Hostile, Net, answer, authority, net, ok, raw, server
from tests.pointer_facts import Clock, clock

__all__ = ["authority", "clock", "net", "server"]

ISSUER = "https://agent.example"
KEYS = json.dumps({"keys": [{"key_id": "k1", "alg": "EdDSA", "public_key": "A" * 43}]}).encode()


async def test_another_key_id_does_not_void_the_keys_that_were_published(
    server: Hostile, net: Net, clock: Clock
) -> None:
    keys = IssuerKeys(OnDemandFetcher(lambda _: net.fetcher(QUICK, clock=clock), clock))
    server.say(WELL_KNOWN_KEYS, ok(KEYS))
    assert list((await keys.get(ISSUER, "k1"))[1]) == ["k1"]
    server.say(WELL_KNOWN_KEYS, raw(answer("503 Service Unavailable")))
    clock.tick(1_000 * int(RETRY_SECONDS))
    for _ in range(3):
        assert list((await keys.get(ISSUER, "unknown"))[1]) == ["k1"]
    assert server.paths() == [WELL_KNOWN_KEYS] * 2
    clock.tick(1_000 * int(CACHE_SECONDS))
    with pytest.raises(DocumentError, match="503"):
        await keys.get(ISSUER, "k1")
