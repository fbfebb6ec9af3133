"""Visits to the endpoints of listings: what is sent where, what is stored of it, and what items say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indexer.settings import Settings
from indexer.store.checks import CHECK_INTERVAL
from indexer.store.requests import Rechecks
from overlay.api.search_request import from_pairs
from overlay.api.services import AppServices
from overlay.app.storage import open_index
from overlay.listings.repository import ListingRepository
from overlay.projection.documents import DocumentReader
from overlay.projection.projector import IndexProjector
from overlay.systems.liveness import health_facts
from overlay.systems.liveness.liveness_checks import UNREACHED_HOSTS, LivenessChecks
from overlay.systems.liveness.store import FAILED_DAYS, PER_HOST, HealthQueries
from tests.chainkit import agent, tool
from tests.hostile import Hostile, Net, answer, authority, net, ok, raw, redirect, server, silent
from tests.names import NameServer
from tests.names import names as name_server
from tests.overlay.conftest import Serve
from tests.overlay.fakes import API_SYSTEMS, changed
from tests.overlay.liveness.probed_registry import (
    HOST,
    PUBLIC_URL,
    ProbedRegistry,
    a2a_server,
    mcp_server,
    names,
    speaks,
)
from tests.pointer_facts import DAY, Clock, clock

__all__ = ["authority", "clock", "name_server", "net", "server"]

URL = f"https://{HOST}/mcp"


@pytest.fixture
def registry(database_url: str, net: Net, name_server: NameServer, clock: Clock) -> Iterator[ProbedRegistry]:
    with ProbedRegistry.open(database_url, net, name_server, clock) as opened:
        yield opened


async def remote(registry: ProbedRegistry, url: str = URL, name: str = "clock", **more: Any) -> str:
    """A tool with this URL."""
    return await registry.mine(registry.kit.inscribe({"mcpServers": {name: {"url": url}}, **more}, type="a2b-mcp"))


def sent(server: Hostile, path: str) -> list[str]:
    return [request.method for request in server.requests if request.path == path]


# -- an MCP server


async def test_an_mcp_server_that_answers_is_visited_once_a_day(server: Hostile, registry: ProbedRegistry) -> None:
    server.say("/mcp", speaks(server, mcp_server("now")))
    id_ = await remote(registry)
    assert registry.health(id_) is None
    await registry.after()
    shown = registry.health(id_)
    assert shown["state"] == "answers"
    assert shown["checkedAt"] >= shown["since"]
    assert shown["latencyMs"] >= 0
    assert sent(server, "/mcp") == ["POST"] * 3
    agents = {request.headers["user-agent"] for request in server.requests if request.path == "/mcp"}
    assert agents == {f"a2b-registry/1 (+{PUBLIC_URL}/docs/probes)"}
    assert registry.announced() == [id_]
    await registry.after(CHECK_INTERVAL // 2)
    assert len(sent(server, "/mcp")) == 3
    await registry.after(CHECK_INTERVAL // 2)
    assert len(sent(server, "/mcp")) == 6
    assert registry.announced() == [id_], "nothing that an index holds has changed"
    assert registry.health(id_)["checkedAt"] > shown["checkedAt"]
    assert registry.health(id_)["since"] == shown["since"]


async def test_an_index_has_the_state_and_no_time_of_a_visit(server: Hostile, registry: ProbedRegistry) -> None:
    server.say("/mcp", speaks(server, mcp_server()))
    id_ = await remote(registry)
    await registry.after()
    *_, document = DocumentReader(registry.store).documents([id_])
    assert json.loads(document.item)["health"].keys() == {"state", "since"}


@pytest.mark.parametrize(
    ("behave", "expected"),
    [
        (raw(answer("401 Unauthorized")), ("needs-auth", None)), (raw(answer("403 Forbidden")), ("needs-auth", None)),
        (raw(answer("402 Payment Required")), ("needs-payment", None)),
        (raw(answer("404 Not Found")), ("fails", "fetch-missing")),
        (raw(answer("500 Internal Server Error")), ("fails", "fetch-server")), (ok(b"hello"), ("fails", "mcp-error")),
        (raw(answer("503 Service Unavailable")), ("fails", "fetch-busy")),
        (raw(answer("429 Too Many Requests")), None), (silent, ("fails", "fetch-first-byte")),
        (redirect("https://other.example/mcp"), ("not-checked", "fetch-redirect-host")),
        (ok(b"[" * 9_000), ("fails", "mcp-error")), (ok(b"x" * 40_000), ("fails", "mcp-error")),
    ],
)  # fmt: skip
async def test_other_answers_of_a_tool_have_a_state(
    server: Hostile, registry: ProbedRegistry, behave: Any, expected: Any
) -> None:
    server.say("/mcp", behave)
    id_ = await remote(registry)
    await registry.after()
    assert registry.state(id_) == expected


async def test_a_stream_of_events_is_the_transport_before(server: Hostile, registry: ProbedRegistry) -> None:
    server.say("/sse", ok(b"event: endpoint\n\n", "Content-Type: text/event-stream"))
    id_ = await remote(registry, f"https://{HOST}/sse")
    config = {"mcpServers": {"old": {"url": f"https://{HOST}/sse", "type": "sse"}}}
    other = await registry.mine(registry.kit.inscribe(config, type="a2b-mcp"))
    await registry.after()
    assert registry.state(other) == registry.state(id_)
    assert "health" in registry.item(other)


# -- what is not visited


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        (f"{URL}?key=1", "url-parts"), (f"{URL}#a", "url-parts"), ("https://me:pw@agent.example/mcp", "url-parts"),
        ("https://agent.example:8443/mcp", "fetch-port"), ("http://agent.example/mcp", "fetch-scheme"),
    ],
)  # fmt: skip
async def test_a_url_that_may_hold_a_secret_or_no_host_takes_is_not_visited(
    server: Hostile, net: Net, registry: ProbedRegistry, url: str, reason: str
) -> None:
    id_ = await remote(registry, url)
    await registry.after()
    assert registry.state(id_) == ("not-checked", reason)
    assert net.dialled == []


async def test_a_private_address_is_never_reached(net: Net, registry: ProbedRegistry) -> None:
    net.names[HOST] = ["10.0.0.1"]
    id_ = await remote(registry)
    local = await remote(registry, "http://localhost:3000/mcp")
    await registry.after()
    assert (registry.state(id_), registry.health(local)) == (("not-checked", "fetch-address"), None)
    assert net.dialled == []


async def test_a_host_opts_out_by_robots_txt_and_a_card_by_a_member(server: Hostile, registry: ProbedRegistry) -> None:
    server.say("/robots.txt", ok(b"User-agent: a2b-registry\nDisallow: /mcp"))
    by_host = await remote(registry)
    by_card = await remote(registry, f"https://{HOST}/other", **{"x-a2b-probe": "off"})
    await registry.after()
    assert registry.state(by_host) == ("not-checked", "fetch-opt-out")
    assert registry.state(by_card) == ("not-checked", "opt-out")
    assert server.paths() == []


async def test_of_strangers_urls_at_a_host_only_some_are_visited(registry: ProbedRegistry) -> None:
    servers = {f"s{number}": {"url": f"https://{HOST}/{number}"} for number in range(60)}
    for name in ("a", "b"):
        config = {"mcpServers": {f"{name}{key}": {"url": f"{entry['url']}/{name}"} for key, entry in servers.items()}}
        await registry.mine(registry.kit.inscribe(config, type="a2b-mcp"))
    registry.read_targets()
    assert len(registry.store.checks.due(registry.clock.now, 1_000)) == PER_HOST


# -- an A2A agent


async def test_a_task_is_requested_only_where_the_host_names_the_agent(
    server: Hostile, registry: ProbedRegistry
) -> None:
    card = agent("Echo", url=f"https://{HOST}/a2a", protocolVersion="0.3.0")
    server.say("/a2a", speaks(server, a2a_server))
    id_ = await registry.mine(registry.kit.inscribe(card))
    await registry.after()
    assert set(sent(server, "/a2a")) == {"HEAD", "GET"}
    assert registry.state(id_) == ("answers", None)
    names(server, id_)
    await registry.after(CHECK_INTERVAL)
    await registry.after(CHECK_INTERVAL)
    assert "POST" in sent(server, "/a2a")
    assert registry.state(id_) == ("answers", None)


async def test_an_answer_that_is_no_json_rpc_fails(server: Hostile, registry: ProbedRegistry) -> None:
    server.say("/a2a", speaks(server, lambda _: ("200 OK", {"hello": 1})))
    id_ = await registry.mine(registry.kit.inscribe(agent("Echo", url=f"https://{HOST}/a2a", protocolVersion="0.3.0")))
    names(server, id_)
    await registry.after()
    await registry.after(CHECK_INTERVAL)
    assert registry.state(id_) == ("fails", "a2a-error")


async def test_a_page_that_nothing_is_posted_to_may_be_missing(server: Hostile, registry: ProbedRegistry) -> None:
    id_ = await registry.mine(registry.kit.inscribe(agent("Echo", url=f"https://{HOST}/a2a")))
    await registry.after()
    assert registry.state(id_) == ("not-checked", "no-get")
    assert set(sent(server, "/a2a")) == {"HEAD", "GET"}


@pytest.mark.parametrize(("location", "state"), [("/b", ("answers", None)), ("/a2a", ("fails", "fetch-redirects"))])
async def test_a_redirect_on_the_host_is_followed(
    server: Hostile, registry: ProbedRegistry, location: str, state: Any
) -> None:
    server.say("/a2a", redirect(location))
    server.say("/b", raw(answer("204 No Content")))
    id_ = await registry.mine(registry.kit.inscribe(agent("Echo", url=f"https://{HOST}/a2a")))
    await registry.after()
    assert registry.state(id_) == state


# -- over days


async def test_one_visit_is_for_all_listings_of_a_url_and_only_a_change_is_announced(
    server: Hostile, registry: ProbedRegistry
) -> None:
    server.say("/mcp", speaks(server, mcp_server()))
    ids = [await remote(registry, name=name) for name in ("one", "two", "three")]
    await registry.after()
    assert sent(server, "/mcp") == ["POST"] * 3
    assert sorted(registry.announced()) == sorted(ids)
    server.say("/mcp", raw(answer("500 Internal Server Error"), close=True))
    await registry.after(CHECK_INTERVAL)
    assert sorted(registry.announced()) == sorted(ids * 2)
    assert [registry.state(id_) for id_ in ids] == [("fails", "fetch-server")] * 3


async def test_after_a_failure_there_are_two_visits_a_day_and_after_seven_failed_days_one(
    server: Hostile, registry: ProbedRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health_facts.time, "time", registry.clock)
    id_ = await remote(registry)
    for half_days in range(2 * FAILED_DAYS):
        await registry.after(CHECK_INTERVAL // 2)
        posts = sent(server, "/mcp").count("POST")
        assert posts <= half_days + 1
    assert posts >= 2 * FAILED_DAYS - 4
    [health] = HealthQueries(registry.store.engine).of_registrations([id_])[id_].values()
    assert (health.state, health.is_lost, health.days.failed_days >= FAILED_DAYS) == ("fails", True, True)
    assert registry.health(id_)["answered30d"] == {"checks": health.days.checked.bit_count(), "answered": 0}
    await registry.after(CHECK_INTERVAL // 2)
    assert sent(server, "/mcp").count("POST") == posts
    assert registry.announced() == [id_] * 2, "the failure, and that it is a long one"


async def test_a_state_that_is_not_checked_for_a_week_is_given_up(server: Hostile, registry: ProbedRegistry) -> None:
    server.say("/mcp", speaks(server, mcp_server()))
    id_ = await remote(registry)
    await registry.after()
    registry.clock.tick(8 * DAY)
    registry.read_targets()
    assert registry.state(id_) == ("not-checked", "stale")
    assert registry.announced() == [id_] * 2
    await registry.after()
    assert registry.state(id_) == ("answers", None)


async def test_a_new_url_and_a_burned_listing_leave_nothing_behind(server: Hostile, registry: ProbedRegistry) -> None:
    server.say("/mcp", speaks(server, mcp_server()))
    outpoint = registry.kit.inscribe({"mcpServers": {"clock": {"url": URL}}}, type="a2b-mcp")
    id_ = await registry.mine(outpoint)
    await registry.after()
    await registry.mine(registry.kit.update(outpoint, tool("clock")))
    await registry.after()
    assert registry.health(id_) is None
    assert registry.store.checks.due(registry.clock.now + 30 * DAY, 10) == []


async def test_a_recheck_has_the_url_visited_again(server: Hostile, registry: ProbedRegistry) -> None:
    server.say("/mcp", speaks(server, mcp_server()))
    id_ = await remote(registry)
    await registry.after()
    [recheck] = Rechecks(registry.store.engine).request(id_, registry.clock.now)
    assert (recheck.what, recheck.name, recheck.state, recheck.reason) == ("health", URL, "answers", "")
    await registry.after()
    assert len(sent(server, "/mcp")) == 6


async def test_a_new_database_of_facts_is_read_from_its_beginning(server: Hostile, registry: ProbedRegistry) -> None:
    server.say("/mcp", speaks(server, mcp_server()))
    id_ = await remote(registry)
    with registry.indexing.writer.transaction() as connection:
        connection.exec_driver_sql("DELETE FROM outbox_positions")
    await registry.after()
    assert registry.state(id_) == ("answers", None)


# -- the strip


async def test_the_strip_of_thirty_days_says_the_state_in_words_and_dated(
    server: Hostile, registry: ProbedRegistry, services: AppServices, serve: Serve
) -> None:
    server.say("/mcp", speaks(server, mcp_server()))
    id_ = await remote(registry)
    systems = (*API_SYSTEMS, "liveness")
    client = await serve(changed(services, store=ListingRepository(registry.store), systems=systems))
    async with client.get(f"/v1/listings/{id_}/health.svg") as response:
        assert response.status == 404
    await registry.after()
    async with client.get(f"/listings/{id_}", headers={"Accept": "text/html"}) as response:
        assert "<strong>It answers</strong> since" in await response.text()
    async with client.get(f"/v1/listings/{id_}/health.svg") as response:
        assert (response.status, response.content_type) == (200, "image/svg+xml")
        assert "It answers. From" in await response.text()


async def test_listings_are_filtered_and_counted_by_their_health(
    server: Hostile, registry: ProbedRegistry, tmp_path: Path
) -> None:
    server.say("/mcp", speaks(server, mcp_server()))
    server.say("/key", raw(answer("401 Unauthorized"), close=True))
    ids = {path: await remote(registry, f"https://{HOST}/{path}", name=path) for path in ("mcp", "key", "gone")}
    unseen = await registry.mine(registry.kit.inscribe(tool("local"), type="a2b-mcp"))
    await registry.after()
    await registry.after()
    index = open_index(Settings.load({"data": str(tmp_path)}), create=True)
    IndexProjector(registry.store, index).run()

    def ids_of(**values: str) -> set[str]:
        return {hit.id for hit in index.search(from_pairs(list(values.items()), {}).query).hits}

    assert ids_of(reachable="true") == {ids["mcp"], ids["key"]}
    assert ids_of(reachable="false") == {ids["gone"], unseen}
    assert ids_of(health="fails") == {ids["gone"]}
    assert ids_of(health="answers,needs-auth") == {ids["mcp"], ids["key"]}
    facets = index.search(from_pairs([("facets", "health"), ("health", "fails")], {}).query).facets or {}
    assert dict(facets["health"]) == {"answers": 1, "needs-auth": 1, "fails": 1}
    index.close()


async def test_where_no_host_can_be_reached_the_network_of_the_server_is_blamed(
    net: Net, registry: ProbedRegistry
) -> None:
    checks = LivenessChecks(net.fetcher(), registry.store, registry.indexing.writer, PUBLIC_URL)
    urls = [f"https://host{number}.example/mcp" for number in range(UNREACHED_HOSTS + 2)]
    ids = {url: await remote(registry, url, name=f"n{number}") for number, url in enumerate(urls)}
    registry.read_targets()
    for url in urls[:-1]:
        await checks.fail(url, "fetch-resolve", registry.clock.now)
    assert registry.state(ids[urls[UNREACHED_HOSTS - 1]]) == ("fails", "fetch-resolve")
    assert registry.health(ids[urls[UNREACHED_HOSTS]]) is None
    await checks.fail(urls[0], "fetch-tls", registry.clock.now)
    await checks.fail(urls[-1], "fetch-resolve", registry.clock.now)
    assert registry.state(ids[urls[-1]]) == ("fails", "fetch-resolve")


async def test_a_served_card_with_other_terms_is_a_warning_with_both_values(
    server: Hostile, registry: ProbedRegistry
) -> None:
    price = {"id": "p", "amount": "5", "currency": "USD", "interval": "month"}
    card = agent("Echo", url=f"https://{HOST}/a2a", protocolVersion="0.3.0", **{"x-payment-config": [price]})
    server.say("/a2a", speaks(server, a2a_server))
    id_ = await registry.mine(registry.kit.inscribe(card))
    served = {**card, "x-a2b-id": id_}
    server.say("/.well-known/agent.json", ok(json.dumps(served).encode()))
    await registry.after()
    await registry.after(CHECK_INTERVAL)
    assert differing(registry, id_) == []
    served |= {"url": "https://other.example/a2a", "x-payment-config": [{**price, "amount": "9"}]}
    server.say("/.well-known/agent.json", ok(json.dumps(served).encode()))
    await registry.after(CHECK_INTERVAL)
    sentence = "the card that the host serves now differs from the inscribed one: "
    assert [text.removeprefix(sentence) for text in differing(registry, id_)] == [
        f"URL: https://{HOST}/a2a inscribed, https://other.example/a2a served",
        "price: 5 USD per P1M inscribed, 9 USD per P1M served",
    ]
    announced = registry.announced()
    await registry.after(CHECK_INTERVAL)
    assert registry.announced() == announced
    of_another = {**served, "x-a2b-id": [id_, "the other agent of this host"]}
    server.say("/.well-known/agent.json", ok(json.dumps(of_another).encode()))
    await registry.after(CHECK_INTERVAL)
    assert differing(registry, id_) == [], "it may be the card of the other one"
    server.say("/.well-known/agent.json", ok(json.dumps(served).encode()))
    await registry.after(CHECK_INTERVAL)
    server.say("/.well-known/agent.json", raw(answer("500 Internal Server Error"), close=True))
    await registry.after(CHECK_INTERVAL)
    assert len(differing(registry, id_)) == 2, "nothing is known of what it serves"
    server.say("/.well-known/agent.json", raw(answer("404 Not Found"), close=True))
    await registry.after(CHECK_INTERVAL)
    assert differing(registry, id_) == []


async def test_a_402_that_names_another_address_is_a_warning_with_both(
    server: Hostile, registry: ProbedRegistry
) -> None:
    price = {"id": "p", "amount": "0.0005", "currency": "BSV", "address": "1BitcoinEaterAddressDontSendf59kuE"}
    card = agent("Echo", url=f"https://{HOST}/a2a", protocolVersion="0.3.0", **{"x-payment-config": [price]})
    id_ = await registry.mine(registry.kit.inscribe(card))
    server.say("/.well-known/agent.json", ok(json.dumps({**card, "x-a2b-id": id_}).encode()))
    for payees, expected in (
        ([price["address"]], []),
        (["1Other"], [f"address: {price['address']} inscribed, 1Other in its 402"]),
        ([{"x": 1}, None], []),
    ):
        ways = [{"payTo": payee, "asset": "BSV"} for payee in payees]
        demand = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32030, "message": "pay", "data": {"accepts": ways}}}
        server.say("/a2a", raw(answer("402 Payment Required", json.dumps(demand).encode())))
        await registry.after(CHECK_INTERVAL)
        await registry.after(CHECK_INTERVAL)
        assert [text.partition(" one: ")[2] for text in differing(registry, id_)] == expected


def differing(registry: ProbedRegistry, id_: str) -> list[str]:
    """The differences that a listing names."""
    warnings = registry.item(id_)["warnings"]
    return [warning["detail"] for warning in warnings if warning["code"] == "card-differs"]
