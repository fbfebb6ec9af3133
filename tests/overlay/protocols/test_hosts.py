"""Without a public URL, URLs in answers begin with the host that the request named: caches keep such answers apart."""

from __future__ import annotations

from itertools import chain
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from overlay.api.routes import STREAM, Route
from overlay.app.http_app import ROUTES, load_systems
from overlay.installation import NAMES
from overlay.web.register_page import WALLETS
from tests.overlay.calls import local_http
from tests.overlay.protocols.vectors import api_page

ONE, OTHER = "one.example", "other.example:8443"
GETS: dict[str, Route] = {
    route.path: route
    for route in chain(ROUTES, *(one.routes for one in load_systems(NAMES)))
    if route.method == "GET" and STREAM not in route.media
}
QUERIES = {
    "/v1/quote": "?id={id}",
    "/discovery/search": "?query=lightning",
    "/getDocumentationForTopicManager": "?manager=tm_agent_registry",
    "/getDocumentationForLookupServiceProvider": "?lookupService=ls_agent_registry",
}

ABSENT = dict.fromkeys(("digest", "sha256", "agent", "task", "subscription", "txid"), "x") | {"number": "1"}


@pytest.fixture(scope="module")
def members(overlay_url: str) -> dict[str, str]:
    """The values of the names in paths."""
    [agent] = api_page(overlay_url, type="agent", q="dex chart", limit=1)["items"]
    servers = local_http.get(f"{overlay_url}/v0.1/servers", params={"limit": 1}).json()["servers"]
    return {
        "id": agent["id"], "what": agent["txid"], "name": "style.css", "page": "search", "tag": "search",
        "server": quote(servers[0]["server"]["name"], safe=""), "version": "latest",
    }  # fmt: skip


def ask(url: str, path: str, host: str, **headers: str) -> httpx.Response:
    return local_http.get(url + path, headers={"Host": host, **headers})


def words(response: httpx.Response) -> str:
    """All in which a host could be."""
    return response.text + str([(name, value) for name, value in response.headers.items() if name != "x-request-id"])


@pytest.mark.parametrize("path", GETS)
@pytest.mark.parametrize("accept", ["application/json", "text/html"])
def test_an_answer_that_names_the_host_varies_by_it(
    overlay_url: str, members: dict[str, str], path: str, accept: str
) -> None:
    target = (path + QUERIES.get(path, "")).format_map(ABSENT | members)
    one, other = (ask(overlay_url, target, host, Accept=accept) for host in (ONE, OTHER))
    assert OTHER not in words(one), "nothing is kept of what another client asked"
    assert ONE not in words(other)
    varies = [name.strip() for name in one.headers["Vary"].split(",")]
    assert other.headers["Vary"] == one.headers["Vary"]
    if ONE in words(one) or OTHER in words(other):
        assert "Host" in varies
        assert "X-Forwarded-Host" in varies
    if tag := one.headers.get("ETag"):
        again = ask(overlay_url, target, OTHER, Accept=accept, **{"If-None-Match": tag})
        while again.status_code == 200 and again.content != other.content:  # a status changes within seconds
            one = other = again
            again = ask(overlay_url, target, OTHER, Accept=accept, **{"If-None-Match": one.headers["ETag"]})
        assert again.status_code == (304 if one.content == other.content else other.status_code)
        assert again.headers["Vary"] == one.headers["Vary"]


def test_routes_of_every_kind_name_the_host_and_others_do_not_vary(overlay_url: str, members: dict[str, str]) -> None:
    """So that the test above does not hold for want of anything to test."""
    naming = ("/.well-known/agent-card.json", "/agents", "/.well-known/ai-catalog.json", "/v1/feeds/search.atom",
              "/mrp/manifest", "/mrp/registry/query", "/discovery/resources", "/openapi.yaml",
              "/.well-known/motebit.json")  # fmt: skip
    for path in naming:
        assert ONE in ask(overlay_url, path, ONE).text, path
    for path in ("/v1/search", f"/v1/listings/{members['id']}", "/v1/changes", "/.well-known/jwks.json", "/"):
        response = ask(overlay_url, path, ONE)
        assert ONE not in words(response)
        assert "Host" not in response.headers["Vary"]


@pytest.mark.parametrize("path", GETS)
def test_behind_a_proxy_that_names_this_machine_answers_name_no_machine(
    overlay_url: str, members: dict[str, str], path: str
) -> None:
    target = (path + QUERIES.get(path, "")).format_map(ABSENT | members)
    direct = ask(overlay_url, target, "127.0.0.1:8080", Accept="application/json")
    proxied = ask(
        overlay_url, target, "127.0.0.1:8080", Accept="application/json", **{"X-Forwarded-For": "203.0.113.7"}
    )
    assert proxied.status_code == direct.status_code
    assert "127.0.0.1:8080" not in words(proxied)
    of_visitors = ("http://localhost:8080/api", *WALLETS)  # on the machine of the reader
    text = words(proxied)
    for url in of_visitors:
        text = text.replace(url, "")
    assert "//localhost" not in text


def test_a_client_cannot_have_another_scheme_named_by_a_header_that_no_proxy_sent(overlay_url: str) -> None:
    forged: dict[str, Any] = {"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https"}
    response = ask(overlay_url, "/.well-known/ai-catalog.json", ONE, **forged)
    assert "evil.example" not in words(response)
