"""Which ports are connected to, how many of a host within a day, and what is shown of one without a server."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from dataclasses import replace

import httpcore
import pytest
import trustme
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.fetcher.budgets import PortDays
from indexer.fetcher.http_fetcher import HttpFetcher
from indexer.fetcher.ports import BLOCKED, is_endpoint_port
from indexer.fetcher.reasons import FetchError
from indexer.settings import Settings
from overlay.app.fetching import build_fetcher
from tests.conftest import ROOT
from tests.hostile import PUBLIC, QUICK, Hostile, Net, authority, net, ok, redirect, server

CONNECT = 0.6
LIMITS = replace(QUICK, connect=CONNECT, total=5.0)
ENDPOINT = "https://agent.example:3200/mcp"
BROWSER = ROOT / "tests/overlay/protocols/mcp_tools/node_modules/undici/lib/web/fetch/constants.js"

__all__ = ["authority", "net", "server"]


async def post(fetcher: HttpFetcher, url: str = ENDPOINT, *, is_endpoint: bool = True) -> str:
    """The reason why an endpoint is not posted to; "" where it answers."""
    try:
        async with fetcher.visit(is_endpoint=is_endpoint) as visit:
            await visit.check_opt_out(url)
            await visit.post(url, b"{}", {})
    except FetchError as error:
        return error.refusal.code
    return ""


def test_blocked_are_the_high_ports_that_browsers_block() -> None:
    if not BROWSER.exists():
        pytest.skip("npm ci was not run there")
    [listed] = re.findall(r"const badPorts = .*?\[(.*?)\]", BROWSER.read_text(), re.DOTALL)
    ports = {int(port) for port in re.findall(r"'(\d+)'", listed)}
    assert {port for port in ports if port >= 1024} == BLOCKED
    assert not any(map(is_endpoint_port, ports))


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        (ENDPOINT, ""), ("https://agent.example:1024/", ""), ("https://agent.example:65535/", ""),
        ("https://agent.example/", ""), ("https://agent.example:80/", "fetch-port"),
        ("https://agent.example:1023/", "fetch-port"), ("https://agent.example:6667/", "fetch-port"),
        ("https://agent.example:65536/", "fetch-port"), ("http://agent.example:3200/", "fetch-scheme"),
        ("https://10.0.0.1:3200/", "fetch-address"), ("https://inside.example:3200/", "fetch-address"),
    ],
)  # fmt: skip
async def test_an_endpoint_is_reached_over_https_on_high_ports_of_public_addresses(
    server: Hostile, net: Net, url: str, reason: str
) -> None:
    net.names["inside.example"] = ["10.1.2.3"]
    fetcher = net.fetcher(LIMITS, endpoint_ports=True)
    assert await post(fetcher, url) == reason
    assert bool(net.dialled) == (not reason)


async def test_nothing_else_is_reached_there_nor_any_endpoint_where_the_operator_forbids_it(net: Net) -> None:
    assert await post(net.fetcher(LIMITS, endpoint_ports=True), is_endpoint=False) == "fetch-port"
    assert await post(net.fetcher(LIMITS)) == "fetch-port"
    with pytest.raises(FetchError, match="not connected to: 3200"):
        await net.fetcher(LIMITS, endpoint_ports=True).get(ENDPOINT)
    assert net.dialled == []


def test_the_setting_forbids_it() -> None:
    assert build_fetcher(Settings.load()).endpoint_ports
    assert not build_fetcher(Settings.load({"fetch_ports": "443"})).endpoint_ports


async def test_the_port_has_an_opt_out_of_its_own_and_redirects_lead_to_no_third_one(server: Hostile, net: Net) -> None:
    server.say("/robots.txt", redirect("https://agent.example:3201/robots.txt"))
    assert await post(net.fetcher(LIMITS, endpoint_ports=True)) == ""
    assert {port for _, port in net.dialled} == {3200}
    server.say("/robots.txt", ok(b"User-agent: a2b-registry\nDisallow: /mcp"))
    assert await post(net.fetcher(LIMITS, endpoint_ports=True)) == "fetch-opt-out"


class SilentNet(Net):
    """A net in which connections are never answered."""

    async def dial(self, address: str, port: int) -> httpcore.AsyncNetworkStream:
        self.dialled.append((address, port))
        await asyncio.sleep(3_600)
        raise AssertionError


async def test_refused_filtered_and_other_protocols_are_one_reason_after_one_time(authority: trustme.CA) -> None:
    async def other_protocol(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.6\r\n")
        writer.close()

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with Hostile(authority) as https, Hostile(authority, ["other.example"]) as wrong_name, Hostile(
        authority, tls=False, serve=other_protocol
    ) as ssh, Hostile(authority, tls=False, serve=mute) as unanswered:  # fmt: skip
        refusing = Net(https, authority)
        refusing.dead.add(PUBLIC)
        nets = [
            refusing,
            SilentNet(https, authority),
            *(Net(other, authority) for other in (wrong_name, ssh, unanswered)),
        ]
        assert await post(Net(https, authority).fetcher(LIMITS, endpoint_ports=True)) == ""
        for cut_off in nets:
            began = asyncio.get_running_loop().time()
            assert await post(cut_off.fetcher(LIMITS, endpoint_ports=True)) == "fetch-port-silent"
            assert asyncio.get_running_loop().time() - began >= CONNECT - 0.01  # as long as where nothing answers
            assert len(cut_off.dialled) == 1
        assert await post(refusing.fetcher(LIMITS), "https://agent.example/mcp") == "fetch-connect"


VISITS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from("xy"), st.integers(1024, 1034), st.integers(0, 50_000)),
    max_size=80,
)


@given(VISITS)
@settings(max_examples=300)
def test_two_ports_of_a_host_and_eight_of_an_address_are_visited_within_a_day(
    visits: list[tuple[str, str, int, int]],
) -> None:
    days, now = PortDays(), 0.0
    visited: dict[str, list[tuple[float, int]]] = defaultdict(list)  # each port that was visited, by name
    for host, address, port, pause in visits:
        now += pause
        of_day = {}
        for name in (host, address):
            began = None  # a day begins with the first visit after the end of the one before
            ports: set[int] = set()
            for time, other in visited[name]:
                if began is None or time >= began + 86_400:
                    began, ports = time, set()
                ports.add(other)
            of_day[name] = ports if began is not None and now < began + 86_400 else set()
        may = len(of_day[host] | {port}) <= 2 and len(of_day[address] | {port}) <= 8
        assert days.take(host, address, port, now) == may
        if may:
            for name in (host, address):
                visited[name].append((now, port))


def test_names_that_lead_to_one_address_do_not_scan_it_and_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PortDays, "MAX_NAMES", 100)
    days = PortDays()
    taken = [days.take(f"name{number}.example", PUBLIC, 3_000 + number, 0.0) for number in range(50)]
    assert sum(taken) == 8
    for number in range(200):
        days.take(f"name{number}.example", f"1.1.1.{number}", 3_000, 0.0)
    assert len(days.days) in (99, 100)  # a host and its address come together
    assert not days.take("more.example", "2.2.2.2", 3_000, 0.0)
    assert days.take("more.example", "2.2.2.2", 3_000, 86_400.0)
    assert len(days.days) == 2
