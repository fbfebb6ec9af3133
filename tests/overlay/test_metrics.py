"""Metrics for Prometheus: every number, of every process, and no label that a stranger can choose."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from typing import Any

import pytest
from aiohttp import ClientSession
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from indexer.model import EventKind
from indexer.setting_values import LIMITS, Quota
from indexer.store import StoreUnavailableError
from indexer.sync.progress import SyncProgress
from overlay.api.counters import BUCKETS, STATUSES, Counters
from overlay.api.counters import ROUTES as MOST_ROUTES
from overlay.api.routes import STREAM
from overlay.api.services import AppServices
from overlay.app.http_app import ROUTES
from overlay.app.logs import ERRORS, WARNINGS
from tests.overlay.conftest import Serve
from tests.overlay.fakes import changed, status

OPENMETRICS = "application/openmetrics-text; version=1.0.0"

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


async def scrape(client: ClientSession) -> Samples:
    """Every sample, by name and labels."""
    async with client.get("/metrics") as response:
        assert response.status == 200
        assert response.content_type == "text/plain"
        text = await response.text()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((name, tuple(sorted(labels.items()))))


async def test_scrapes_at_the_same_time_are_answered_one_after_the_other(serve: Serve, services: AppServices) -> None:
    under_way, most = 0, 0

    def answer() -> dict[str, Any]:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        time.sleep(0.02)
        under_way -= 1
        return status()

    client = await serve(changed(services, status=answer))
    results = await asyncio.gather(*(scrape(client) for _ in range(5)))
    assert len(results) == 5
    assert most == 1


async def test_chains_listings_and_the_index_are_measured(serve: Serve, services: AppServices) -> None:
    def answer() -> dict[str, Any]:
        status_now = status()
        row = status_now["chains"][0] | {"tip": 130, "lag": 5, "mempool": 12, "reorgs": 2, "sourcesDisagree": "a, b"}
        row["peers"] = {"connected": 8, "networks": 7}
        stored = {"name": "old", "chain": "bsv:testnet", "state": "stored", "height": 7, "hash": None, "reorgs": None}
        return status_now | {"chains": [row, stored], "index": {"engine": "fake", "seq": 7, "behind": 3}}

    client = await serve(changed(services, status=answer, refused=lambda: {"bsv-regtest": 1}))
    result = await scrape(client)
    for name, expected in (
        ("a2b_chain_height", 125), ("a2b_chain_tip_height", 130), ("a2b_chain_lag_blocks", 5),
        ("a2b_chain_mempool", 12), ("a2b_chain_reorgs_total", 2), ("a2b_chain_refused_blocks_total", 1),
        ("a2b_chain_sources_disagree", 1), ("a2b_chain_peers", 8), ("a2b_chain_peer_networks", 7),
    ):  # fmt: skip
        assert value(result, name, chain="bsv-regtest") == expected, name
    assert value(result, "a2b_chain_state", chain="bsv-regtest", state="following") == 1
    assert value(result, "a2b_chain_state", chain="bsv-regtest", state="stopped") == 0
    assert value(result, "a2b_chain_height", chain="old") == 7
    assert value(result, "a2b_chain_sources_disagree", chain="old") == 0
    for unknown in ("a2b_chain_tip_height", "a2b_chain_lag_blocks", "a2b_chain_mempool", "a2b_chain_reorgs_total"):
        assert value(result, unknown, chain="old") is None
    assert value(result, "a2b_listings", status="live") == 35
    assert value(result, "a2b_listings", status="rejected") == 13
    assert (value(result, "a2b_index_seq"), value(result, "a2b_index_behind_changes")) == (7, 3)
    assert value(result, "a2b_info", version="0.1.0") == 1


async def test_the_progress_of_a_rebuild_is_measured(serve: Serve, services: AppServices) -> None:
    index = {"engine": "fake", "seq": 7, "behind": 3}
    answers = {"index": index}
    client = await serve(changed(services, status=lambda: status() | answers))
    done, of = "a2b_index_renewal_registrations", "a2b_index_renewal_registrations_wanted"
    result = await scrape(client)
    assert (value(result, done), value(result, of)) == (None, None)
    answers["index"] = {**index, "rebuilding": {"done": 2_000, "of": 5_001}}
    result = await scrape(client)
    assert (value(result, done), value(result, of)) == (2_000, 5_001)
    async with client.get("/status") as response:
        assert "2,000 of 5,001 registrations" in await response.text()


async def test_while_the_database_is_unavailable_other_metrics_are_served(serve: Serve, services: AppServices) -> None:
    def away() -> dict[str, Any]:
        raise StoreUnavailableError("gone")

    counting = await serve(services)
    assert value(await scrape(counting), "a2b_database_up") == 1
    client = await serve(changed(services, status=away))
    await client.get("/v1/search?q=tower")
    result = await scrape(client)
    assert value(result, "a2b_database_up") == 0
    assert value(result, "a2b_http_request_seconds_count", route="/v1/search", status="200") == 1
    assert value(result, "a2b_log_lines_total", level="warning") is not None
    assert not [name for name, _ in result if name.startswith(("a2b_chain", "a2b_listings"))]


async def test_blocks_and_fetches_are_counted_by_outcome(serve: Serve, services: AppServices) -> None:
    progress = SyncProgress("bsv", blocks=7, bytes=900, event_counts=Counter(inscribed=3, rejected=2))
    reporting = changed(
        services, ingested=lambda: {"bsv": progress}, fetched=lambda: {"met": 5, "fetch-dns": 2},
        status=lambda: status() | {"pointers": {"met": 4, "waiting": 1}},
    )  # fmt: skip
    result = await scrape(await serve(reporting))
    assert value(result, "a2b_ingested_blocks_total", chain="bsv") == 7
    assert value(result, "a2b_ingested_bytes_total", chain="bsv") == 900
    outcomes = {
        kind.value: value(result, "a2b_ingested_events_total", chain="bsv", outcome=kind.value) for kind in EventKind
    }
    assert {kind: count for kind, count in outcomes.items() if count} == {"inscribed": 3, "rejected": 2}
    assert None not in outcomes.values(), "a series that begins at its first event misses it"
    assert value(result, "a2b_fetches_total", outcome="met") == 5
    assert value(result, "a2b_fetches_total", outcome="fetch-dns") == 2
    assert value(result, "a2b_locators", state="waiting") == 1


async def test_errors_that_are_logged_are_counted(client: ClientSession, services: AppServices) -> None:
    services.process.counters.add(WARNINGS, 2)
    services.process.counters.add(ERRORS, 1)
    result = await scrape(client)
    assert value(result, "a2b_log_lines_total", level="warning") == 2
    assert value(result, "a2b_log_lines_total", level="error") == 1


async def test_waiting_requests_are_measured(client: ClientSession) -> None:
    assert value(await scrape(client), "a2b_ingest_requests", state="waiting") == 0
    await client.post("/v1/ingest", json={"txid": "ab" * 32})
    assert value(await scrape(client), "a2b_ingest_requests", state="waiting") == 1


async def test_requests_are_counted_by_route_and_status(client: ClientSession) -> None:
    for path in ("/v1/search?q=tower", "/v1/search?q=other", "/v1/search?bad=1", "/v1/listings/a", "/v1/listings/b"):
        async with client.get(path):
            pass
    async with client.get("/secret/" + "x" * 500):
        pass
    async with client.post("/v1/search"):
        pass
    result = await scrape(client)
    count = "a2b_http_request_seconds_count"
    assert value(result, count, route="/v1/search", status="200") == 2
    assert value(result, count, route="/v1/search", status="400") == 1
    assert value(result, count, route="/v1/listings/{id}", status="404") == 2
    assert value(result, count, route="other", status="404") == 1
    assert value(result, count, route="other", status="405") == 1
    bucket = "a2b_http_request_seconds_bucket"
    assert value(result, bucket, route="/v1/search", status="200", le="+Inf") == 2
    assert (value(result, "a2b_http_request_seconds_sum", route="/v1/search", status="200") or 0) > 0


async def test_no_label_holds_what_a_stranger_wrote(client: ClientSession) -> None:
    for path in ("/v1/listings/evil", "/evil", "/v1/search?q=evil", "/v1/search?evil=1", "/v1/diagnose/evil"):
        async with client.get(path, headers={"X-Request-Id": "evil", "User-Agent": "evil"}):
            pass
    async with client.request("EVIL", "/v1/search"):
        pass
    assert "evil" not in repr(await scrape(client)).lower()


async def test_what_limits_refused_is_counted(serve: Serve, services: AppServices) -> None:
    client = await serve(changed(services, limits={**dict.fromkeys(LIMITS), "costly": Quota(1, 1_000)}))
    for _ in range(3):
        async with client.post("/v1/check", data=b"{}"):
            pass
    result = await scrape(client)
    assert value(result, "a2b_http_rate_limited_total", limit="costly") == 2
    assert value(result, "a2b_http_rate_limited_total", limit="read") == 0
    assert value(result, "a2b_http_request_seconds_count", route="/v1/check", status="429") == 2


async def test_streams_are_counted_while_they_are_open_and_not_timed(client: ClientSession) -> None:
    async with client.get("/v1/stream") as response:
        await response.content.readany()
        assert value(await scrape(client), "a2b_streams") == 1
    assert not any("/v1/stream" in repr(labels) for _, labels in await scrape(client))


async def test_openmetrics_is_served_where_it_is_accepted(client: ClientSession) -> None:
    async with client.get("/metrics", headers={"Accept": OPENMETRICS}) as response:
        assert response.content_type == "application/openmetrics-text"
        assert (await response.text()).endswith("# EOF\n")


async def test_no_sample_is_repeated_after_requests_to_every_route(client: ClientSession) -> None:
    for route in ROUTES:
        if STREAM not in route.media:
            async with client.request(route.method, route.path):
                pass
    for method in ("GET", "POST"):
        async with client.request(method, "/publish", data=b"") as response:
            assert response.status == (200 if method == "GET" else 400)  # a form without fields
    for accept, read in (("text/plain", text_string_to_metric_families), (OPENMETRICS, openmetrics_families)):
        async with client.get("/metrics", headers={"Accept": accept}) as response:
            answers = [sample for family in read(await response.text()) for sample in family.samples]
        samples = Counter((sample.name, tuple(sorted(sample.labels.items()))) for sample in answers)
        assert [item for item, times in samples.items() if times > 1] == [], accept
    count = "a2b_http_request_seconds_count"
    for code in ("200", "400"):
        assert value(await scrape(client), count, route="/publish", status=code) == 2, "what GET and POST came to"


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # Python 3.12 warns where other tests left threads
def test_each_process_reports_the_counts_of_all() -> None:
    counters = Counters(3)
    for number in range(1, 3):
        child = os.fork()
        if child == 0:
            counters.take(number)
            for _ in range(number * 10):
                counters.observe(5, 200, 0.002)
            counters.add(0, number)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    counters.observe(5, 200, 0.002)
    [latency] = counters.latencies()
    assert (latency.route, latency.status, sum(latency.counts), counters.gauge(0)) == (5, 200, 31, 3)
    assert latency.seconds == pytest.approx(0.062)


def test_routes_are_counted_whichever_process_served_them() -> None:
    counters = Counters(2)
    counters.observe(0, 200, 0.0)
    counters.take(1)
    counters.observe(MOST_ROUTES - 1, 404, 0.0)
    assert [(latency.route, latency.status) for latency in counters.latencies()] == [(0, 200), (MOST_ROUTES - 1, 404)]


def test_times_fall_into_the_buckets_that_prometheus_means() -> None:
    """A bucket holds what is less than or equal to its bound."""
    counters = Counters()
    times = [0.0, *BUCKETS, *(bound * 1.0001 for bound in BUCKETS), 60.0]
    for seconds in times:
        counters.observe(0, 418, seconds)
    [latency] = counters.latencies()
    bounds = [*BUCKETS, float("inf")]
    expected = [sum(low < time <= high for time in times) for low, high in zip([-1.0, *BUCKETS], bounds, strict=True)]
    assert list(latency.counts) == expected
    assert latency.status == 0, "a status that is not known by name"


def test_every_route_and_every_announced_status_has_its_cell() -> None:
    assert len(ROUTES) < MOST_ROUTES - 1
    announced = {status for route in ROUTES for status in (route.status, *route.errors)} | {429, 500}
    assert announced <= set(STATUSES)
