"""Rate limits: token buckets held against a slow judge, who a client is, and what the answers say."""

from __future__ import annotations

import os
import re
from fractions import Fraction
from math import ceil
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import ClientSession
from hypothesis import example, given
from hypothesis import strategies as st
from multidict import CIMultiDict

from indexer.client_networks import NOWHERE, SITE_FACTOR, client_of
from indexer.setting_values import LIMITS, Quota
from overlay.api.connection_limits import ClientAddresses
from overlay.api.counters import WAYS, Counters, SharedBuckets
from overlay.api.rate_limits import RateLimit, limits
from overlay.api.services import AppServices
from overlay.app.http_app import ROUTES
from tests.overlay.calls import problem
from tests.overlay.conftest import Serve
from tests.overlay.fakes import changed


class Bucket:
    """The slow judge: tokens counted exactly, dripping in all the time."""

    def __init__(self, quota: Quota) -> None:
        self.quota, self.tokens, self.position = quota, Fraction(quota.requests), Fraction(0)

    def take(self, now: Fraction) -> tuple[bool, int, int]:
        """Whether there was a token, whole tokens left, seconds to wait for one."""
        rate = Fraction(self.quota.requests, self.quota.seconds)
        self.tokens = min(Fraction(self.quota.requests), self.tokens + rate * (now - self.position))
        self.position = now
        if self.tokens < 1:
            return False, int(self.tokens), ceil((1 - self.tokens) / rate)
        self.tokens -= 1
        return True, int(self.tokens), 0


def remaining(headers: Any) -> tuple[int, int]:
    """The requests that are left, and the seconds until the bucket is full again."""
    match = re.fullmatch(r'"(\w+)";r=(\d+);t=(\d+)', headers["RateLimit"])
    assert match
    return int(match[2]), int(match[3])


@given(
    st.builds(Quota, st.sampled_from([1, 2, 3, 8, 64]), st.sampled_from([1, 2, 16, 64])),
    st.lists(st.sampled_from([0, 0, 0, 1, 2, 7, 64, 1_000]), max_size=120),
)
@example(Quota(3, 16), [1_000, 7, 7, 7, 64, 1, 2])
def test_a_limit_is_a_token_bucket(quota: Quota, pauses: list[int]) -> None:
    """Pauses are in eighths of a second, and quotas such that nothing is rounded but thirds."""
    now, judge = Fraction(0), Bucket(quota)
    limit = RateLimit("read", quota, SharedBuckets(), clock=lambda: float(now))
    for pause in pauses:
        now += Fraction(pause, 8)
        taken = limit.take("a")
        good, left, wait = judge.take(now)
        assert (taken.wait == 0) == good
        assert remaining(taken.headers)[0] == left
        assert taken.wait == wait
        assert ("Retry-After" in taken.headers) == (not good)


def test_waiting_for_retry_after_helps() -> None:
    now = 0.0
    limit = RateLimit("read", Quota(3, 10), SharedBuckets(), clock=lambda: now)
    for _ in range(3):
        assert limit.take("a").wait == 0
    refused = limit.take("a")
    assert refused.headers["Retry-After"] == str(refused.wait) == "4"
    assert refused.headers["RateLimit-Policy"] == '"read";q=3;w=10'
    assert refused.headers["RateLimit"] == '"read";r=0;t=10'
    now += refused.wait
    assert limit.take("a").wait == 0


def test_clients_do_not_share_a_bucket_and_the_least_used_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("overlay.api.counters.SETS", 1)
    limit = RateLimit("read", Quota(2, 100), SharedBuckets(), clock=lambda: 0.0)
    for number in range(WAYS):
        assert limit.take(f"client {number}").wait == 0
    for number in (*range(3), *range(4, WAYS)):
        assert limit.take(f"client {number}").wait == 0
    assert limit.take("another").wait == 0, "it takes the slot of client 3, who has a request left"
    assert [limit.take(f"client {item}").wait for item in (0, 1, 2, 4, 5, 6, 7)] == [50] * 7


@given(
    st.builds(Quota, st.sampled_from([1, 2, 8]), st.sampled_from([1, 2, 16])),
    st.lists(st.tuples(st.sampled_from([0, 0, 0, 1, 2, 7]), st.integers(0, 40)), max_size=200),
)
@example(Quota(1, 16), [(0, number) for number in range(18)])
def test_a_site_has_the_quota_of_sixteen_clients(quota: Quota, requests: list[tuple[int, int]]) -> None:
    """Requests of many /64 of one /48 against the judges of each, and of the /48; pauses in eighths of a second."""
    now, site = Fraction(0), Bucket(Quota(quota.requests * SITE_FACTOR, quota.seconds))
    judges = [Bucket(quota) for _ in range(41)]
    limit = RateLimit("read", quota, SharedBuckets(), clock=lambda: float(now))
    for pause, number in requests:
        now += Fraction(pause, 8)
        taken = limit.take(f"2001:db8:1:{number:x}::/64")
        buckets = (judges[number], site)
        answers = [bucket.take(now) for bucket in buckets]
        good = all(has_token for has_token, _, _ in answers)
        for bucket, (has_token, _, _) in zip(buckets, answers, strict=True):
            bucket.tokens += has_token and not good  # a refused request takes none
        assert (taken.wait == 0) == good
        assert taken.wait == max(wait for _, _, wait in answers)
        assert remaining(taken.headers)[0] == min(int(bucket.tokens) for bucket in buckets)


def test_a_customer_of_ipv6_has_the_quota_of_sixteen_clients_however_many_addresses_it_uses() -> None:
    now = 0.0
    limit = RateLimit("read", Quota(2, 100), SharedBuckets(), clock=lambda: now)
    for number in range(32):
        taken = limit.take(f"2001:db8:1:{number:x}::/64")
        assert taken.wait == 0
        assert remaining(taken.headers) == (min(1, 31 - number), max(50, ceil((number - 29) * 3.125)))
    refused = limit.take("2001:db8:1:ffff::/64")
    assert refused.wait == ceil(100 / 32)
    assert remaining(refused.headers) == (0, 7), "when a new /64 has its two requests, not when all have"
    assert limit.take("2001:db8:2:ffff::/64").wait == 0
    now += refused.wait
    assert limit.take("2001:db8:1:ffff::/64").wait == 0
    limit.credit("2001:db8:1:ffff::/64", 2)
    assert limit.take("2001:db8:1:ffff::/64").wait == 0, "what is paid for counts in no bucket"


def test_limits_of_different_kinds_are_apart() -> None:
    quotas = {"read": Quota(1, 100), "costly": Quota(1, 100), "off": None}
    results = limits(quotas, SharedBuckets())
    assert sorted(results) == ["costly", "read"]
    assert [results[name].take("a").wait for name in ("read", "costly")] == [0, 0]
    assert results["read"].take("a").wait == 100


def test_a_limit_holds_for_all_processes_together() -> None:
    counters = Counters(2)
    limit = limits({"read": Quota(3, 100)}, counters.buckets)["read"]
    assert limit.take("a").wait == 0
    child = os.fork()
    if child == 0:
        os._exit(sum(limit.take("a").wait == 0 for _ in range(3)))  # how many requests it answered
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    assert limit.take("a").wait > 0
    assert limit.take("b").wait == 0


@pytest.mark.parametrize(
    ("text", "who"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", NOWHERE),
        ("a.example", NOWHERE),
    ],
)
def test_the_client_of_a_request(text: str, who: str) -> None:
    assert client_of(text) == who


def asked_by(peer: str, *forwarded: str) -> Any:
    return SimpleNamespace(remote=peer, headers=CIMultiDict([("X-Forwarded-For", item) for item in forwarded]))


@pytest.mark.parametrize(
    ("peer", "forwarded", "who"),
    [
        ("198.51.100.1", ["192.0.2.7"], "198.51.100.1"),
        ("10.0.0.1", ["192.0.2.7"], "192.0.2.7"),
        ("10.0.0.1", ["203.0.113.9, 192.0.2.7, 10.0.0.2"], "192.0.2.7"),
        ("10.0.0.1", ["203.0.113.9", "192.0.2.7", "10.0.0.2"], "192.0.2.7"),
        ("10.0.0.1", ["192.0.2.7, nonsense"], "10.0.0.1"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.9, 192.0.2.7:5555"], "192.0.2.7"),
        ("10.0.0.1", ["192.0.2.7, 10.0.0.2:443"], "192.0.2.7"),
        ("10.0.0.1", ["[2001:db8::5]:443"], "2001:db8::/64"),
        ("10.0.0.1", ["[2001:db8::5]"], "2001:db8::/64"),
        ("10.0.0.1", ["192.0.2.7:"], "10.0.0.1"),
        ("10.0.0.1", ["192.0.2.7:123456"], "10.0.0.1"),
        ("10.0.0.1", ["[192.0.2.7:1"], "10.0.0.1"),
        ("10.0.0.1", ["10.0.0.3,10.0.0.2"], "10.0.0.3"),
        ("10.0.0.1", [", ".join(["10.0.0.9"] * 20 + ["10.0.0.2"] * 16)], "10.0.0.2"),
        ("::1", ["2001:db8::5"], "2001:db8::/64"),
    ],
)
def test_only_trusted_proxies_are_believed(peer: str, forwarded: list[str], who: str) -> None:
    assert ClientAddresses(("10.0.0.0/8", "::1/128")).of(asked_by(peer, *forwarded)) == who


def test_without_trusted_proxies_nobody_is_believed() -> None:
    assert ClientAddresses().of(asked_by("10.0.0.1", "192.0.2.7")) == "10.0.0.1"


@given(st.text(max_size=60))
@example("[]")
def test_any_text_is_some_client(text: str) -> None:
    assert client_of(text)
    assert ClientAddresses(("10.0.0.0/8",)).of(asked_by("10.0.0.1", text.encode("ascii", "replace").decode()))


async def test_answers_say_what_is_left_and_refusals_when_to_come_back(serve: Serve, services: AppServices) -> None:
    client = await serve(changed(services, limits={"read": Quota(2, 50)}))
    for path, left in (("/v1/search?q=tower", 1), ("/v1/search?nonsense=1", 0)):
        async with client.get(path) as response:
            assert response.headers["RateLimit-Policy"] == '"read";q=2;w=50'
            assert remaining(response.headers)[0] == left
            assert "Retry-After" not in response.headers
    async with client.get("/v1/suggest?q=a") as response:
        assert 0 < int(response.headers["Retry-After"]) <= 25
        assert remaining(response.headers) == (0, 50)
        problem_body = await problem(response, 429)
    assert re.fullmatch(r"too many requests from your address; try again in \d+ s", problem_body["detail"])
    assert services.process.counters.gauge(1) == 1


async def test_behind_a_proxy_each_client_has_a_bucket_and_nobody_can_choose_another(
    serve: Serve, services: AppServices
) -> None:
    limits = {"read": Quota(1, 1_000)}
    lagging = await serve(changed(services, limits=limits, trusted_proxies=("127.0.0.0/8",)))
    open_ = await serve(changed(services, limits=limits))

    async def status(client: ClientSession, forwarded: str) -> int:
        async with client.get("/v1/search", headers={"X-Forwarded-For": forwarded}) as response:
            return response.status

    assert await status(lagging, "192.0.2.7") == 200
    assert await status(lagging, "192.0.2.8") == 200
    assert await status(lagging, "192.0.2.7") == 429
    assert await status(lagging, "203.0.113.1, 192.0.2.7") == 429, "what stands before was made up"
    assert await status(lagging, "192.0.2.9, 127.0.0.9") == 200, "another proxy of ours"
    assert await status(open_, "192.0.2.7") == 200
    assert await status(open_, "192.0.2.8") == 429, "nobody is believed"


async def test_what_is_not_limited_goes_on(serve: Serve, services: AppServices) -> None:
    client = await serve(changed(services, limits=dict.fromkeys(LIMITS, Quota(1, 1_000))))
    for _ in range(2):
        for path in ("/healthz", "/readyz", "/openapi.json", "/docs", "/static/style.css"):
            async with client.get(path) as response:
                assert response.status == 200
                assert "RateLimit" not in response.headers
        async with client.options("/v1/search") as response:
            assert response.status == 204
        async with client.get("/nowhere") as response:
            assert response.status == 404


async def test_kinds_of_routes_have_buckets_of_their_own(serve: Serve, services: AppServices) -> None:
    client = await serve(changed(services, limits=dict.fromkeys(LIMITS, Quota(1, 1_000))))

    async def status(method: str, path: str, body: bytes | None = None) -> int:
        async with client.request(method, path, data=body) as response:
            return response.status

    for expected in (200, 429):
        assert await status("GET", "/v1/search") == expected
        assert await status("POST", "/v1/check", b"{}") == expected
        assert await status("POST", "/v1/ingest", b'{"txid":"' + b"ab" * 32 + b'"}') == (
            202 if expected == 200 else 429
        )
    assert await status("HEAD", "/v1/listings/nobody") == 429


async def test_what_is_switched_off_is_not_limited(client: ClientSession) -> None:
    for _ in range(20):
        async with client.get("/v1/search") as response:
            assert response.status == 200
            assert "RateLimit" not in response.headers


def test_every_route_that_costs_is_limited() -> None:
    assert {route.path for route in ROUTES if route.limit is None} == {
        "/healthz", "/readyz", "/openapi.json", "/docs", "/docs/api", "/docs/api/{tag}", "/docs/{page}",
        "/static/{name}", "/robots.txt",
    }  # fmt: skip
    assert {route.limit for route in ROUTES} - {None} == set(LIMITS)
