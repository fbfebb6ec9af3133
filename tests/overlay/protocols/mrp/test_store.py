"""Stored MRP challenges and providers, in both databases: bounds, pages, and what a manifest that is gone comes to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from sqlalchemy import Engine

from indexer.store import connect
from indexer.store.checks import CHECK_INTERVAL, GRACE
from overlay.systems.mrp import store as module
from overlay.systems.mrp.store import PROVIDER_CHECK, MrpChallenge, MrpProvider, MrpProviders, TooManyProvidersError
from parsers.claims.mrp.provider_manifest import read_manifest
from tests.due_checks import due

NOW = 1_800_000_000_000
MANIFEST = read_manifest(
    json.dumps(
        {"capability": "sum", "constraints": {"policy": ['no_"pii', "eu"]}, "endpoints": {"execute": "/x"}}
    ).encode(),
    "https://a.example/m",
)


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = connect(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def stored(engine: Engine) -> MrpProviders:
    return MrpProviders(engine)


def challenge(token: str, client: str = "c", url: str = "https://a.example/m") -> MrpChallenge:
    return MrpChallenge(token, client, url, "expected", NOW + 1_000)


def provider(host: str = "a.example", path: str = "m", position: int = NOW) -> MrpProvider:
    return MrpProvider(f"https://{host}/{path}", host, MANIFEST, position)


def add(stored: MrpProviders, new: MrpProvider, token: str = "") -> None:
    stored.add(new, ".".join(new.host.split(".")[-2:]), token)


def urls(stored: MrpProviders, now: int = NOW, after: str = "", **filters: str) -> list[str]:
    return [one.manifest_url for one in stored.page(now, 10, after, **filters)]


def test_a_challenge_is_void_after_a_new_one_of_the_same_client_and_after_its_time(stored: MrpProviders) -> None:
    stored.open_challenge(challenge("1"), NOW)
    stored.open_challenge(challenge("2", client="stranger"), NOW)
    stored.open_challenge(challenge("3"), NOW)
    assert [stored.challenge(token, NOW) is not None for token in "123"] == [False, True, True]
    assert stored.challenge("3", NOW + 1_000) is None
    add(stored, provider(), "3")
    assert stored.challenge("3", NOW) is None


def test_challenges_are_bounded(stored: MrpProviders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OPEN_PER_CLIENT", 2)
    monkeypatch.setattr(module, "OPEN_IN_ALL", 3)
    for token in "12":
        stored.open_challenge(challenge(token, url=f"https://a.example/{token}"), NOW)
    with pytest.raises(TooManyProvidersError, match="2 challenges of this client"):
        stored.open_challenge(challenge("3"), NOW)
    stored.open_challenge(challenge("3", client="d"), NOW)
    with pytest.raises(TooManyProvidersError, match="3 challenges are open"):
        stored.open_challenge(challenge("4", client="e"), NOW)
    stored.open_challenge(challenge("4", client="e"), NOW + 1_000)


def test_a_customer_of_ipv6_has_the_challenges_of_sixteen_clients_however_many_addresses_it_uses(
    stored: MrpProviders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "OPEN_PER_CLIENT", 1)
    for number in range(1, 17):
        stored.open_challenge(challenge(f"{number}", client=f"2001:db8:1:{number:x}::/64"), NOW)
    with pytest.raises(TooManyProvidersError, match="16 challenges of the network 2001:db8:1::/48"):
        stored.open_challenge(challenge("17", client="2001:db8:1::/64"), NOW)
    stored.open_challenge(challenge("17", client="2001:db8:2::/64"), NOW)


def test_providers_are_bounded(stored: MrpProviders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PER_DOMAIN", 2)
    monkeypatch.setattr(module, "IN_ALL", 3)
    for path in "ab":
        add(stored, provider(path=path))
    with pytest.raises(TooManyProvidersError, match="2 manifests of"):
        add(stored, provider(path="c"))
    with pytest.raises(TooManyProvidersError, match=r"2 manifests of a\.example"):
        add(stored, provider("below.a.example"))
    add(stored, provider(path="a"))
    add(stored, provider("not-a.example"))
    with pytest.raises(TooManyProvidersError, match="3 providers"):
        add(stored, provider("c.example"))
    add(stored, provider("c.example", position=NOW + GRACE))


def test_pages_are_by_url_and_filtered(stored: MrpProviders) -> None:
    for host in ("b.example", "a.example", "c.example"):
        add(stored, provider(host))
    add(stored, provider("d.example")._replace(manifest=replace(MANIFEST, capability="other", policies=())))
    assert urls(stored, after="https://a.example/m") == [f"https://{host}.example/m" for host in "bcd"]
    assert urls(stored, capability="other") == ["https://d.example/m"]
    for policy, number in (('no_"pii', 3), ("eu", 3), ("e", 0), ("%", 0), ("_u", 0)):
        assert len(urls(stored, policy=policy)) == number
    [first, *_] = stored.page(NOW, 1)
    assert first == provider("a.example")


def test_a_manifest_that_is_gone_is_listed_no_more(stored: MrpProviders, engine: Engine) -> None:
    add(stored, provider())
    url = "https://a.example/m"
    assert due(engine, PROVIDER_CHECK, NOW + CHECK_INTERVAL) == [(NOW + CHECK_INTERVAL, url)]
    stored.fail(url, "fetch-missing", NOW + CHECK_INTERVAL)
    assert urls(stored, NOW + CHECK_INTERVAL) == [url]
    stored.confirm(url, replace(MANIFEST, capability="new"), NOW + 2 * CHECK_INTERVAL)
    assert urls(stored, NOW + GRACE, capability="new") == [url]
    gone = NOW + 2 * CHECK_INTERVAL + GRACE
    assert urls(stored, gone) == []
    stored.fail(url, "fetch-missing", gone)
    assert due(engine, PROVIDER_CHECK, gone + GRACE) == []


def test_the_last_check_of_a_manifest_that_is_gone_is_when_its_week_ends(stored: MrpProviders, engine: Engine) -> None:
    add(stored, provider())
    url, now = "https://a.example/m", NOW
    while checks := due(engine, PROVIDER_CHECK, NOW + 3 * GRACE):
        ((now, _),) = checks
        stored.fail(url, "fetch-connect", now)
    assert now == NOW + GRACE
